# SPDX-License-Identifier: Apache-2.0
"""The leader of a teleoperation gets no more energy than it gave, but for what may be lent."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.teleoperation import PassivityObserver

pytestmark = pytest.mark.inline

PERIOD, STIFF, MASS, DAMPING = 1e-3, 400.0, 3.0, 4.0


def reflect(wall, seconds, speed=0.0, hand=0.0):
    """Let a mass with a damper meet a reflected force; return its path, speeds, and the shares."""
    observer = PassivityObserver()
    observer.set_stiffness(STIFF, 20.0)
    x, v, path = 0.0, speed, []
    wrench, twist = np.zeros(6), np.zeros(6)
    for cycle in range(round(seconds / PERIOD)):
        wrench[0], twist[0] = wall(x, v, cycle * PERIOD), v
        share = observer.update(abs(wrench[0]), 0.0, wrench, twist, DAMPING * v * v, PERIOD)
        v += PERIOD / MASS * (share * wrench[0] - DAMPING * v + hand)
        x += PERIOD * v
        path.append((x, v, share, observer.energy))
    return np.array(path)


@pytest.mark.parametrize("force", [1.0, 10.0, 30.0])
def test_force_that_nobody_pressed_up_moves_the_leader_little_farther_than_a_spring(force):
    """A spring of that stiffness would give way by F / k, and swing; this creeps to an end."""
    x, v, share, _ = reflect(lambda *_: force, 5.0).T
    assert abs(v[-1]) < 0.01
    assert share[-1] < 0.05
    assert force / STIFF / 2 < x[-1] < 8.0 * force / STIFF


@pytest.mark.parametrize("stiffness", [100.0, 200.0, 400.0])
def test_spring_is_felt_in_full(stiffness):
    """Pressed in and let out, slowly or fast, by who gives and gets the same."""
    _, _, share, energy = reflect(lambda x, *_: -stiffness * max(x, 0.0), 3.0, speed=0.3).T
    assert share.min() > 0.97
    assert abs(energy).max() < MASS * 0.3**2
    assert energy[-1] <= 0.0  # nothing is left that could be given later


def test_late_force_does_not_swing_the_leader_for_ever():
    """A hand presses against a spring that is 60 ms late: by itself it swings at 10 m/s."""

    def late():
        past = [0.0] * 60

        def wall(x, v, time):
            past.append(-STIFF * max(x, 0.0))
            return past.pop(0)

        return wall

    _, v, _, _ = reflect(late(), 12.0, hand=5.0).T
    assert np.abs(v[-2000:]).max() < 0.3


def test_leader_gains_nothing_over_time():
    """Whatever the force does: what the leader got, less what it gave, is bounded."""
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
            share = observer.update(force, torque, wrench, twist, 0.0, PERIOD)
            got += share * float(wrench @ twist) * PERIOD
        # SOFTEST of what is stored may be given back at once, on top of what is lent
        assert got < (1.0 + PassivityObserver.MAX_CREDIT) * maximum


def test_a_leader_that_had_yielded_far_pressed_against_half_of_the_force_for_a_metre():
    """The debt is at most the energy of the wall at 10 N, which 12.5 mm of pressing repay."""
    observer, wrench = PassivityObserver(), np.array([10.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    observer.set_stiffness(STIFF, 20.0)
    for speed, cycles in ((0.5, 2000), (-0.5, 27)):
        twist = np.array([speed, 0.0, 0.0, 0.0, 0.0, 0.0])
        for _ in range(cycles):
            scale = observer.update(10.0, 0.0, wrench, twist, 0.0, PERIOD)
    assert scale == pytest.approx(1.0)
