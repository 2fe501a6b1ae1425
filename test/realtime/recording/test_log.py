# SPDX-License-Identifier: Apache-2.0
"""Checks of logs: one sentence for each defect, none for a sound log."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.realtime.recording.arm_log import ArmLog, arm_facts
from multipanda_py.realtime.recording.log import check_columns, check_log
from multipanda_py.robots import MODELS

pytestmark = pytest.mark.inline
FR3 = MODELS["fr3"]
JOINTS = tuple(joint.name for joint in FR3.joints)


def good(rate=100.0, seconds=10.0) -> ArmLog:
    """Return a log of sinusoids with consistent velocities and noise."""
    time = np.arange(round(rate * seconds)) / rate
    w = 2.0 * np.pi * np.linspace(0.1, 0.4, 7)
    q = FR3.ready + 0.3 * np.sin(w * time[:, None])
    dq = 0.3 * w * np.cos(w * time[:, None])
    noise = np.random.default_rng(2).normal(size=(2, *q.shape))
    tau = 8.0 * np.sin(1.3 * w * time[:, None]) + 0.05 * noise[1]
    return ArmLog("arm", "fr3", JOINTS, time, q, dq + 0.003 * noise[0], tau)


def changed(log, name, column, value):
    values = getattr(log, name).copy()
    values[:, column] = value(values[:, column])
    return replace(log, **{name: values})


@pytest.mark.parametrize("rate", [30.0, 100.0, 1000.0])
def test_sound_log_has_no_warnings(rate):
    assert check_log(good(rate)) == []


def test_few_lost_samples_cause_no_warning():
    mask = np.ones(1000, bool)
    mask[[100, 400, 401]] = False
    log = good()
    assert check_log(log.with_columns({name: log[name][mask] for name in log.names})) == []


CASES = {
    "not a number": (lambda log: changed(log, "tau", 2, lambda x: np.where(x > 7, np.nan, x)),
                     "tau of joint3 is nan"),
    "a constant joint": (lambda log: changed(replace(log, dq=None), "q", 3, lambda x: x * 0 - 2.0),
                         "joint4: does not move"),
    "degrees": (lambda log: replace(log, q=np.degrees(log.q)), "in degrees"),
    "degrees a second": (lambda log: replace(log, dq=np.degrees(log.dq)), "in degrees"),
    "mNm": (lambda log: replace(log, tau=1e3 * log.tau), "is it in mNm"),
    "swapped columns": (lambda log: replace(log, q=log.q[:, [0, 2, 1, 3, 4, 5, 6]]),
                        "are columns swapped"),
    "saturated torque": (lambda log: changed(log, "tau", 1, lambda x: np.clip(x, -5, 5)),
                         "joint2: the torque is clipped at 5, in "),
    "too short": (lambda log: log.between(0.0, 2.0), ", allowed >= 5 s"),
    "gaps": (lambda log: log.with_columns({n: np.delete(log[n], np.s_[200:500], 0)
                                           for n in log.names}), "3.01 of 9.99 s lie in 1 gaps"),
    "another robot": (lambda log: replace(log, joints=("shoulder", *JOINTS[1:])),
                      "got joints shoulder, "),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_defective_log_is_reported(case):
    change, message = CASES[case]
    found = check_log(change(good()), shortest=5.0)
    assert any(message in sentence for sentence in found), found


def test_logs_of_other_robots_are_reported():
    assert re.search(r"\bfr3\b.*\bfer\b", check_log(good(), robot="fer")[0])
    assert "7 joints, allowed 6" in check_log(good(), robot="ur5e")[0]


def test_log_of_unknown_model_is_checked_without_limits():
    log = replace(good(), robot="rail")
    assert check_log(log) == []
    assert "columns swapped" in check_columns(replace(log, dq=log.dq[:, ::-1]))[0]


def test_resting_joint_was_reported_where_rest_is_allowed():
    log = good()
    at_rest = changed(changed(log, "q", 3, lambda x: x * 0 - 2.0), "dq", 3, lambda x: x * 0)
    assert any("joint4: does not move" in sentence for sentence in check_log(at_rest))
    assert check_log(at_rest, moves=False) == []


def test_torques_of_elastic_joints_counted_as_including_rotors():
    arms = {"rigid": {}, "elastic": {"position": [0.0, 1.0, 0.0]}}
    arms["elastic"]["transmission"] = {"stiffness": [9000.0] * 7}
    facts = arm_facts(CellConfig.from_dict({"arms": arms}))
    assert [one.rotors_in_tau for one in facts] == [True, False]
