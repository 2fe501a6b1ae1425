# SPDX-License-Identifier: Apache-2.0
"""Removal of a spring along a force, and its return."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from configurations import READY

from multipanda_py.control.force.force_impedance import ForceSubspace
from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

SPEED = 0.01


class Bench:
    """Tool at rest, with a target 5 cm and 0.2 rad away."""

    def __init__(self, seed=0):
        (self.state,) = StateMaker().states_at([READY])
        rng = np.random.default_rng(seed)
        self.position = self.state.position_ee_in_base + rng.normal(size=3) * 0.03
        self.rotation = pin.exp3(rng.normal(size=3) * 0.1) @ self.state.rotation_ee_in_base
        self.subspace = ForceSubspace(PERIOD)

    def error(self, cycles=1):
        """Return the error of the spring after the cycles, (6,)."""
        state = self.state
        for _ in range(cycles):
            position, rotation = self.subspace.target(state, self.position, self.rotation, SPEED)
        return apart(state, position, rotation)

    @property
    def whole(self):
        return apart(self.state, self.position, self.rotation)


def apart(state, position, rotation):
    rotation_error = pin.log3(rotation @ state.rotation_ee_in_base.T)
    return np.concatenate([position - state.position_ee_in_base, rotation_error])


def unit(*parts):
    vector = np.array(parts, dtype=float)
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize(
    "u", [unit(0, 0, -1, 0, 0, 0), unit(1, 2, 3, 0, 0, 0), unit(0, 0, 0, 1, 1, 0),
          unit(1, 0, 2, 0, 3, 1)],
)  # fmt: skip
def test_spring_is_zero_along_force_and_unchanged_across(u):
    bench = Bench()
    bench.subspace.set_direction(u)
    observed = bench.error(200)
    assert u @ observed == pytest.approx(0.0, abs=1e-9)
    across = np.eye(6) - np.outer(u, u)
    assert np.allclose(observed, across @ bench.whole, atol=1e-9)
    wrench = np.arange(1.0, 7.0)
    assert np.allclose(bench.subspace.project(wrench.copy()), across @ wrench)


def test_gains_in_tool_frame_lose_same_direction():
    bench = Bench()
    u = unit(1, 2, 3, 0, 0, 0)
    bench.subspace.set_direction(u)
    bench.error(200)
    spring = CartesianSpring()
    spring.set_shape(np.ones(6), np.ones(6), in_tool=True)
    spring.set_stiffness(np.array([900.0, 400.0, 100.0, 30.0, 20.0, 10.0]))
    spring.measure(bench.state, bench.position, bench.rotation)
    wrench = spring.spring_wrench().copy()
    assert abs(u @ wrench) > 0.1
    relieved = bench.subspace.project(spring.spring_wrench())
    assert np.allclose(relieved, (np.eye(6) - np.outer(u, u)) @ wrench)


@pytest.mark.parametrize("seed", range(5))
def test_error_changes_smoothly_for_any_request(seed):
    """Forces start, rotate by any angle and end; the effective error stays smooth."""
    rng = np.random.default_rng(seed)
    bench = Bench(seed)
    last, worst = bench.error(), 0.0
    for _ in range(40):
        if rng.random() < 0.3:
            bench.subspace.release()
        else:
            change = rng.normal(size=6) * rng.choice([0.05, 1.0])
            bench.subspace.set_direction(unit(*(bench.subspace.direction + change)))
        for _ in range(int(rng.integers(1, 150))):
            observed = bench.error()
            worst = max(worst, float(np.linalg.norm(observed - last)))
            last = observed
    # In 1 ms, a hundredth of the error fades, and a rotation within 0.2 rad has its part.
    assert worst < 0.06 * np.linalg.norm(bench.whole)


def test_spring_returns_relaxed_with_bounded_speed():
    bench = Bench()
    u = unit(0, 0, 1, 0, 0, 0)
    bench.subspace.set_direction(u)
    observed = bench.error(500)
    bench.subspace.release()
    back = bench.error()
    assert np.allclose(back, observed, atol=SPEED * PERIOD * 1.01)
    path = [bench.error() for _ in range(round(abs(bench.whole[2]) / SPEED / PERIOD) + 10)]
    speeds = np.linalg.norm(np.diff(path, axis=0)[:, :3], axis=1) / PERIOD
    assert speeds.max() <= SPEED * 1.001
    assert np.allclose(path[-1], bench.whole, atol=1e-9)
    assert bench.subspace.is_idle


def test_slowly_rotating_direction_stays_free_of_spring():
    """The force follows a curved surface; the spring stays small along it."""
    bench = Bench()
    for k in range(300):
        angle = 0.01 * k
        u = unit(np.sin(angle), 0, -np.cos(angle), 0, 0, 0)
        bench.subspace.set_direction(u)
        observed = bench.error(10)
        if k > 30:
            assert abs(u @ observed) < 0.1 * np.linalg.norm(bench.whole)
