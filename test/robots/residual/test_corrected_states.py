# SPDX-License-Identifier: Apache-2.0
"""Correction of states at other rates than the network's, with gaps, and joint names."""

from __future__ import annotations

import numpy as np
import pytest
from residual_weights import write_residual

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.residual.runtime import CorrectedStates, LiveResidual, indices_of
from multipanda_py.robots.residual.weights import load_residual

pytestmark = pytest.mark.inline

ROBOT = ArmDescription("arm").robot
NAMES = [f"joint{number}" for number in range(1, 8)]


@pytest.fixture
def trained(tmp_path):
    write_residual(tmp_path / "residual.npz", ROBOT)
    return load_residual(tmp_path / "residual.npz")


def state_at(time):
    q = np.array(ROBOT.ready) + 0.1 * np.sin(time + np.arange(7))
    return np.concatenate([q, 0.1 * np.cos(time + np.arange(7)), np.full(7, np.sin(time))])


def test_network_runs_at_100_of_1000_states_per_second(trained):
    states, rng, trust = CorrectedStates(trained), np.random.default_rng(0), []
    for number in range(1000):
        states.correct(number / 1000 + rng.uniform(-1e-4, 1e-4), state_at(number / 1000))
        trust.append(states.confidence)
    steps = np.flatnonzero(np.diff(trust))  # confidence rises stepwise in the second half second
    assert set(np.diff(steps)) <= {9, 10, 11}
    assert len(steps) in (49, 50)
    assert states.gaps == 0


@pytest.mark.parametrize("rate", [100, 200])
def test_network_keeps_its_rate_for_any_input_rate(trained, rate):
    states, rng = CorrectedStates(trained), np.random.default_rng(0)
    live = LiveResidual(trained, 0.01, trained.robot, trained.joints)
    for number in range(3 * rate):
        jitter = rng.uniform(-0.1, 0.1) / max(rate, 100)
        time = number / rate
        found = states.correct(100.0 + time + jitter, state_at(time))
        if number % (rate // 100) == 0:
            live.step(*np.split(state_at(time), 3))
        assert found == pytest.approx(state_at(time) + live.residual, abs=1e-3)
    assert states.gaps == 0
    assert states.confidence == 1.0
    assert np.abs(live.residual).max() > 0.01


@pytest.mark.parametrize("jump", [0.1, -0.5])
def test_gap_restarts_warm_up(trained, jump):
    states = CorrectedStates(trained)
    for number in range(200):
        states.correct(number / 100, state_at(number / 100))
    assert states.confidence == 1.0
    assert np.array_equal(states.correct(2.0 + jump, state_at(2.0)), state_at(2.0))
    assert (states.confidence, states.gaps) == (0.0, 1)


def test_states_at_too_low_rate_pass_unchanged(trained):
    states = CorrectedStates(trained)
    for number in range(60):
        state = state_at(number / 30)
        assert np.array_equal(states.correct(number / 30, state), state)
    assert states.gaps == 59


def test_joints_are_found_by_name():
    names = ["left_fr3_finger_joint1", *(f"left_fr3_{name}" for name in reversed(NAMES))]
    assert indices_of(NAMES[1:], names) == [6, 5, 4, 3, 2, 1]
    both = [f"{arm}_fr3_{name}" for arm in ("left", "right") for name in NAMES]
    assert indices_of(NAMES, both, "right_") == list(range(7, 14))
    for prefix, names, count in (("", both, 2), ("", NAMES[:6], 0), ("up", both, 0), ("", [], 0),
                                 ("", NAMES * 2, 2)):  # fmt: skip
        with pytest.raises(ConfigurationError, match=rf"joint1.*joint7.*\b{count}\b"):
            indices_of(NAMES, names, prefix)


def test_fingers_were_mistaken_for_joints_of_arm():
    names = ["fr3_finger_joint1", "fr3_finger_joint2", *(f"fr3_{name}" for name in NAMES)]
    assert indices_of(NAMES, names) == list(range(2, 9))
