# SPDX-License-Identifier: Apache-2.0
"""Arms that are so late that even hold may not stop them are named."""

from __future__ import annotations

import re

import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.checks import check_latency

pytestmark = pytest.mark.inline


def sentences(**perturbation):
    return check_latency(CellConfig.from_dict({"arms": {"left": {"perturbation": perturbation}}}))


@pytest.mark.parametrize(
    "late",
    [
        {"state_delay": 0.012},
        {"state_delay": 0.004, "command_delay": 0.004, "torque_lag": 0.004},
        {"command_delay": 0.012},
    ],
)
def test_a_delay_with_which_nothing_stops_an_arm_passed_without_a_word(late):
    (sentence,) = sentences(**late)
    assert re.match(r"arms\.left\.perturbation: .*\b12 ms\b.*\b7 ms\b", sentence)


def test_what_hold_is_known_to_stand_is_no_news():
    assert not sentences()
    assert not sentences(state_delay=0.005, torque_lag=0.002)
    assert not sentences(state_delay=0.003, command_delay=0.002, torque_lag=0.002)


def test_slow_motors_behind_springs_are_late_too():
    motor = {"inertia": 0.05, "damping": 0.0, "d": 10.0}  # 5 ms
    springs = {"all": {"type": "sea", "mode": "motor_pid", "motor": motor}}
    for delay, count in ((0.001, 0), (0.003, 1)):
        arm = {"actuators": springs, "perturbation": {"state_delay": delay}}
        assert len(check_latency(CellConfig.from_dict({"arms": {"left": arm}}))) == count
