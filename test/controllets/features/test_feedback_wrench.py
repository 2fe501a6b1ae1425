# SPDX-License-Identifier: Apache-2.0
"""A remote wrench: displayed, faded out on timeout, and never a source of energy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from configurations import READY
from distant_leader import WALL, Line
from long_form import LONG

from multipanda_py.apps.teleoperation import ExternalWrench
from multipanda_py.apps.teleoperation.ros_sources import WrenchFeedback
from multipanda_py.controllets.features.feedback_wrench import FeedbackWrench, FeedbackWrenchParams
from multipanda_py.controllets.gravity_compensation import GravityCompensation
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

RATE = 30.0


class FeedbackArm:
    """The feature on one arm in one configuration, with an arbitrary end-effector twist."""

    def __init__(self, **params):
        maker = StateMaker()
        self.context = maker.context
        self.feature = FeedbackWrench(maker.context, FeedbackWrenchParams(**params))
        self.target = GravityCompensation.Target(1, ("feedback_wrench",))
        self.states = maker.states_at([READY])
        self.back = np.linalg.pinv(self.states[0].jacobian.T)
        self.feature.on_activate(self.states, self.target)

    def request(self, *wrench):
        self.target.data["feedback_wrench"][0][:] = wrench
        self.feature.on_target("feedback_wrench", 0, self.target)

    def step(self, *twist):
        """Return the wrench that the feature exerts in a cycle, (6,)."""
        self.states[0].twist_ee_in_base[:] = twist or (0.0,) * 6
        tau = [np.zeros(7)]
        self.feature.add(self.states, self.target, tau, PERIOD)
        return self.back @ tau[0]

    def steps(self, seconds):
        return [self.step() for _ in range(round(seconds / PERIOD))][-1]


def test_received_wrench_is_filtered_bounded_and_fades_in():
    arm = FeedbackArm(
        time_constant=0.05, fade_time=0.2, max_force=10.0, max_torque=1.0, timeout=2.0
    )
    arm.request(30.0, 0.0, -40.0, 0.0, 0.5, 0.0)
    for cycle in range(1, 300):
        fraction = min(1.0, cycle * PERIOD / 0.2) * (1 - math.exp(-cycle * PERIOD / 0.05))
        expected = fraction * np.array([6.0, 0.0, -8.0, 0.0, 0.5, 0.0])
        assert np.allclose(arm.step(), expected, atol=1e-9)


def test_stopped_stream_fades_out_on_timeout_and_is_reported_once():
    arm = FeedbackArm(timeout=0.2, fade_time=0.3)
    for _ in range(30):
        arm.request(0.0, 0.0, 10.0, 0.0, 0.0, 0.0)
        last = arm.steps(1 / RATE)
    assert last[2] == pytest.approx(10.0, abs=0.01)
    assert arm.steps(0.2 - 1 / RATE - 2 * PERIOD)[2] == pytest.approx(10.0, abs=0.01)
    assert arm.context.notices == []
    assert arm.steps(0.15)[2] == pytest.approx(5.0, abs=0.2)
    assert not arm.steps(0.16).any()
    assert arm.context.notices == [
        "arm0: no feedback wrench for 0.2 s, so the displayed one fades out"
    ]
    assert not arm.steps(1.0).any()
    arm.request(0.0, 0.0, 10.0, 0.0, 0.0, 0.0)  # the wrench fades in again as slowly
    assert 0.0 < arm.steps(0.06)[2] < 2.5
    arm.steps(1.0)
    assert len(arm.context.notices) == 2


def test_activation_clears_wrench_and_imperceptible_timeout_is_not_reported():
    arm = FeedbackArm()
    arm.request(0.0, 0.0, 10.0, 0.0, 0.0, 0.0)
    arm.steps(0.3)
    arm.feature.on_activate(arm.states, arm.target)
    assert not arm.steps(0.3).any()
    arm.context.notices.clear()
    arm.request(0.0, 0.0, 0.2, 0.0, 0.0, 0.0)
    arm.steps(1.0)
    assert arm.context.notices == []


@pytest.mark.parametrize("seed", range(20 if LONG else 2))
def test_no_stream_makes_feature_source_of_energy(seed):
    """A mass with little friction under random wrenches gains no more energy than the bound."""
    rng = np.random.default_rng(seed)
    arm = FeedbackArm(translational_damping=0.0, rotational_damping=0.0)
    p, speed, given, maximum = arm.feature.params, 0.0, 0.0, 0.0
    pull = rng.uniform(2, 40)
    for cycle in range(4000):
        if cycle % 33 == 0 and rng.random() > 0.3:
            worst = math.copysign(15.0, speed) if rng.random() < 0.7 else rng.uniform(-15, 15)
            arm.request(0.0, 0.0, worst, 0.0, 0.0, 0.0)
        force = arm.step(0.0, 0.0, speed, 0.0, 0.0, 0.0)[2]
        given += force * speed * PERIOD
        maximum = max(maximum, given)
        hand = 5.0 * math.sin(pull * cycle * PERIOD) - 4.0 * speed
        speed += PERIOD / 3.0 * (force + hand)
    assert 0.01 < maximum < 5.0 * p.max_force**2 / p.translational_stiffness / 2


def contact(arm, feedback, delay=(0.0, 0.0), loss=0.0, observes_passivity=True, seconds=6.0):
    """Press a mass that leads another one to a wall; return path and force of the wall."""
    line, back = (Line(np.random.default_rng(k), delay, loss) for k in (1, 2))
    arm, feed = FeedbackArm(**arm), WrenchFeedback(feedback)
    if not observes_passivity:
        arm.feature.arms[0].observer.update = lambda *_: 1.0
        arm.feature.arms[0].damping[:] = 0.0
    x = y = v = u = goal = requested = 0.0
    rows = []
    for cycle in range(round(seconds / PERIOD)):
        now, wall = cycle * PERIOD, 0.0
        if y < -0.02:
            wall = max(0.0, WALL * (-0.02 - y) - 100.0 * u)
        if cycle % 33 == 0:
            line.send(now, x)
            requested = [requested, *line.received(now)][-1]
            sensed = np.array([0.0, 0.0, wall, 0.0, 0.0, 0.0])
            back.send(now, feed.compute(ExternalWrench(sensed, True, 1.0, 1 / RATE)))
        for wrench in back.received(now):
            arm.request(*wrench)
        goal += (requested - goal) * PERIOD / 0.03
        u += PERIOD / 3.0 * (400.0 * (goal - y) - 70.0 * u + wall)
        y += PERIOD * u
        force = arm.step(0.0, 0.0, v, 0.0, 0.0, 0.0)[2]
        hand = 100.0 * (-0.06 * min(1.0, now / 0.4) - x) - 8.0 * v
        v += PERIOD / 3.0 * (force + hand)
        x += PERIOD * v
        rows.append((x, v, wall))
    return np.array(rows).T


@pytest.mark.parametrize(
    ("delay", "loss"),
    [((0.1, 0.05), 0.5), ((0.3, 0.0), 0.0), ((0.0, 0.0), 0.5), ((0.1, 0.05), 0.1)][
        : 4 if LONG else 2
    ],
)
def test_wall_of_10_kn_per_m_is_displayed_without_oscillation(delay, loss):
    x, v, wall = contact({}, 0.5, delay, loss)
    assert np.abs(v[-1000:]).max() < 0.02
    assert np.ptp(x[-1000:]) < 3e-3
    assert wall[-1000:].min() > 5.0


def test_contact_oscillates_without_passivity_observer_and_dampers():
    """Control experiment: without them this contact is not stable."""
    _, v, _ = contact({}, 0.5, (0.3, 0.0), observes_passivity=False)
    assert np.abs(v[-1000:]).max() > 0.1
