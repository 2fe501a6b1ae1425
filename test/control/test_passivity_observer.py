# SPDX-License-Identifier: Apache-2.0
"""The leader of a teleoperation gains at most its own energy and a credit."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.teleoperation import PassivityObserver

pytestmark = pytest.mark.inline

PERIOD, STIFF, MASS, DAMPING = 1e-3, 400.0, 3.0, 4.0


def reflect(wall, seconds, speed=0.0, hand=0.0):
    """Return position, speed, scale and energy of a damped mass with a reflected force."""
    observer = PassivityObserver()
    observer.set_stiffness(STIFF, 20.0)
    x, v, path = 0.0, speed, []
    wrench, twist = np.zeros(6), np.zeros(6)
    for cycle in range(round(seconds / PERIOD)):
        wrench[0], twist[0] = wall(x, v, cycle * PERIOD), v
        scaling = observer.update(abs(wrench[0]), 0.0, wrench, twist, DAMPING * v * v, PERIOD)
        v += PERIOD / MASS * (scaling * wrench[0] - DAMPING * v + hand)
        x += PERIOD * v
        path.append((x, v, scaling, observer.energy))
    return np.array(path)


@pytest.mark.parametrize("force", [1.0, 10.0, 30.0])
def test_force_without_stored_energy_moves_leader_little_beyond_spring(force):
    """A spring of this stiffness yields by F / k and oscillates; this motion creeps to a stop."""
    x, v, scaling, _ = reflect(lambda *_: force, 5.0).T
    assert abs(v[-1]) < 0.01
    assert scaling[-1] < 0.05
    assert force / STIFF / 2 < x[-1] < 8.0 * force / STIFF


@pytest.mark.parametrize("stiffness", [100.0, 200.0, 400.0])
def test_spring_is_reflected_in_full(stiffness):
    """The spring is compressed and released at any speed without net energy."""
    _, _, scaling, energy = reflect(lambda x, *_: -stiffness * max(x, 0.0), 3.0, speed=0.3).T
    assert scaling.min() > 0.97
    assert abs(energy).max() < MASS * 0.3**2
    assert energy[-1] <= 0.0  # no energy remains for later


def test_delayed_force_does_not_oscillate_leader_forever():
    """A hand presses against a spring with 60 ms delay; unobserved, it oscillates at 10 m/s."""

    def late():
        past = [0.0] * 60

        def wall(x, v, time):
            past.append(-STIFF * max(x, 0.0))
            return past.pop(0)

        return wall

    _, v, _, _ = reflect(late(), 12.0, hand=5.0).T
    assert np.abs(v[-2000:]).max() < 0.3


def test_leader_gains_no_energy_over_time():
    """For any force, the net energy of the leader is bounded."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        observer = PassivityObserver()
        observer.set_stiffness(STIFF, 20.0)
        frequency, phase = rng.uniform(1, 60, (2, 6)), rng.uniform(0, 6, (2, 6))
        got, maximum = 0.0, 0.0
        for cycle in range(4000):
            time = cycle * PERIOD
            wrench, twist = np.sin(frequency * time + phase) * [[5.0], [0.3]]
            force, torque = np.linalg.norm(wrench[:3]), np.linalg.norm(wrench[3:])
            maximum = max(maximum, force**2 / STIFF / 2 + torque**2 / 40.0)
            scaling = observer.update(force, torque, wrench, twist, 0.0, PERIOD)
            got += scaling * float(wrench @ twist) * PERIOD
        # MAX_CREDIT times the stored energy may be returned at once, in addition to E_F.
        assert got < (1.0 + PassivityObserver.MAX_CREDIT) * maximum


def test_far_yielded_leader_felt_half_force_for_a_metre():
    """The debt is at most the energy of the wall at 10 N, repaid by 12.5 mm of compression."""
    observer, wrench = PassivityObserver(), np.array([10.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    observer.set_stiffness(STIFF, 20.0)
    for speed, cycles in ((0.5, 2000), (-0.5, 27)):
        twist = np.array([speed, 0.0, 0.0, 0.0, 0.0, 0.0])
        for _ in range(cycles):
            scale = observer.update(10.0, 0.0, wrench, twist, 0.0, PERIOD)
    assert scale == pytest.approx(1.0)
