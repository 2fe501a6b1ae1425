# SPDX-License-Identifier: Apache-2.0
"""Force reflection to the leader: rotation, filter, deadband, bound and gain."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.control.teleoperation import ForceReflection

pytestmark = pytest.mark.inline

OPEN = (0.0, np.inf, 1.0)


def made(force=OPEN, torque=OPEN, time_constant=0.0):
    reflection = ForceReflection()
    reflection.set_filter(time_constant, 1e-3)
    reflection.set_shape(force, torque)
    return reflection


def without_deadband(size, deadband):
    """Return a size after a deadband whose slope rises from 0 to 1 between half and 3/2."""
    at = np.linspace(0.0, size, 20001)
    slope = np.clip((at - 0.5 * deadband) / deadband, 0.0, 1.0)
    return float(np.sum((slope[1:] + slope[:-1]) / 2.0) * (at[1] - at[0]))


def test_deadband_bound_and_gain():
    reflection = made((2.0, 30.0, 0.5), (0.3, 4.0, 0.8))
    rng = np.random.default_rng(1)
    for _ in range(50):
        rotation = pin.exp3(rng.normal(size=3))
        wrench = rng.normal(size=6) * rng.choice([0.1, 1.0, 30.0])
        estimated = reflection.filter(wrench, rotation)
        for part, (deadband, bound, gain) in (
            (slice(0, 3), (2.0, 30.0, 0.5)),
            (slice(3, 6), (0.3, 4.0, 0.8)),
        ):
            size = np.linalg.norm(wrench[part])
            kept = without_deadband(size, deadband)
            direction = rotation.T @ wrench[part] / size
            assert np.allclose(estimated[part], gain * min(kept, bound) * direction, atol=1e-7)
        assert reflection.force == pytest.approx(np.linalg.norm(estimated[:3]))


def test_deadband_slope_is_at_most_one():
    reflection = made((2.0, np.inf, 1.0))
    forces = np.linspace(0.0, 20.0, 4001)
    estimated = [reflection.filter(np.array([f, 0, 0, 0, 0, 0]), np.eye(3))[0] for f in forces]
    slope = np.diff(estimated) / np.diff(forces)
    assert slope.max() == pytest.approx(1.0, abs=1e-3)
    assert slope.min() >= 0.0
    assert not np.any(np.array(estimated)[forces < 1.0])


def test_filter_has_its_time_constant_at_any_period():
    for period in (1e-3, 5e-3):
        reflection = ForceReflection()
        reflection.set_shape(OPEN, OPEN)
        reflection.set_filter(0.05, period)
        for _ in range(round(0.05 / period)):
            estimated = reflection.filter(np.array([10.0, 0, 0, 0, 0, 0]), np.eye(3))
        assert estimated[0] == pytest.approx(10.0 * (1 - np.exp(-1)))
        reflection.reset()
        assert np.abs(reflection.filter(np.zeros(6), np.eye(3))).max() == 0.0


@pytest.mark.parametrize("frequency", [0.5, 5.0, 40.0])
def test_delay_injects_at_most_energy_of_damping_condition(frequency):
    """Sinusoidal leader motion against a spring: work on the operator over one period."""
    period, time_constant, stiffness, amplitude, gain = 1e-4, 2e-3, 800.0, 0.02, 0.5
    reflection = ForceReflection()
    reflection.set_filter(time_constant, period)
    reflection.set_shape((1.0, 30.0, gain), OPEN)
    cycle = round(1.0 / frequency / period)
    omega = 2.0 * np.pi / (cycle * period)
    x = amplitude * np.sin(omega * period * np.arange(3 * cycle + 1))
    force = [
        reflection.filter(np.array([-stiffness * at, 0, 0, 0, 0, 0]), np.eye(3))[0] for at in x
    ]
    work = float(np.dot(force[2 * cycle : -1], np.diff(x)[2 * cycle :]))
    delay = time_constant + 0.5 * period
    counted = np.pi * gain * stiffness * amplitude**2 * omega * delay
    assert 0.0 < work <= counted
