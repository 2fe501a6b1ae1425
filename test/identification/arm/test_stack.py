# SPDX-License-Identifier: Apache-2.0
"""Checks of logs before identification."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from measured_arm import some_motion

from multipanda_py.exceptions import IdentificationRejected
from multipanda_py.identification.arm.identify import identify
from multipanda_py.identification.arm.regressor import ArmRegressor
from multipanda_py.identification.arm.stack import MAX_SAMPLES, check_motion
from multipanda_py.realtime.recording import measured_motion as mistaken_columns
from multipanda_py.realtime.recording.arm_log import ArmLog, motion_of
from multipanda_py.realtime.recording.measured_motion import MeasuredMotion
from multipanda_py.robots import ArmDescription

pytestmark = pytest.mark.inline

ARM = ArmDescription("arm", "fr3")
REGRESSOR = ArmRegressor(ARM)


def good():
    motion = some_motion(ARM, 0)
    time = motion.times(100.0)
    q, dq, ddq = motion.sample(time)
    rows = REGRESSOR.rows(q, dq, ddq)
    tau = rows @ REGRESSOR.prior + rows[..., -10:] @ REGRESSOR.carried
    return MeasuredMotion(
        "log", time, q, tau, dq, joints=tuple(f"fr3_joint{i}" for i in range(1, 8))
    )


GOOD = good()


def swapped(table, one=0, other=3):
    found = table.copy()
    found[:, [one, other]] = table[:, [other, one]]
    return found


def still(log):
    q, dq = log.q.copy(), log.dq.copy()
    q[:, 2], dq[:, 2] = 0.1, 0.0
    return replace(log, q=q, dq=dq)


def with_nan(log):
    tau = log.tau.copy()
    tau[7, 2] = np.nan
    return replace(log, tau=tau)


def saturated(log):
    tau = log.tau.copy()
    tau[100:200, 1] = ARM.limits.torque[1]
    return replace(log, tau=tau)


def cut_off(log):
    """Clip a torque at a sensor range below the torque limit of the arm."""
    tau = log.tau.copy()
    tau[:, 1] = np.clip(tau[:, 1], -30.0, 30.0)
    return replace(log, tau=tau)


def set_back(log):
    time = log.time.copy()
    time[500:] -= 3.0
    return replace(log, time=time)


def in_pieces(log):
    """Return a log with gaps, in which no run is as long as 1 s."""
    keep = np.arange(len(log.time)) % 100 < 60
    return MeasuredMotion("log", log.time[keep], log.q[keep], log.tau[keep], log.dq[keep])


BAD = {
    "degrees": (lambda log: replace(log, q=np.rad2deg(log.q)), "are positions in degrees"),
    "velocities in degrees": (
        lambda log: replace(log, dq=np.rad2deg(log.dq)), "velocities in degrees"
    ),
    "mNm": (lambda log: replace(log, tau=1e3 * log.tau), "is it in mNm"),
    "swapped velocities": (lambda log: replace(log, dq=swapped(log.dq)), "columns swapped"),
    "swapped torques": (lambda log: replace(log, tau=swapped(log.tau, 1, 3)), "columns swapped"),
    "upside down": (lambda log: replace(log, tau=-log.tau), "opposite"),
    "constant joint": (still, "joint3: does not move"),
    "saturated": (saturated, "at its limit"),
    "cut off": (cut_off, "joint2: the torque is clipped at "),
    "nan": (with_nan, "not finite in 1 of"),
    "clock": (set_back, "time has to increase"),
    "names": (
        lambda log: replace(log, joints=tuple(f"panda_finger{i}" for i in range(7))),
        "got joints panda_finger0",
    ),
    "another robot": (
        lambda log: MeasuredMotion("log", log.time, log.q[:, :6], log.tau[:, :6]),
        "got 6 joints, allowed 7",
    ),
    "too short": (lambda log: log.part(slice(0, 300)), "too short"),
    "gaps": (in_pieces, "too short.*gaps"),
}  # fmt: skip


def test_valid_log_is_accepted():
    check_motion(GOOD, REGRESSOR)


@pytest.mark.parametrize("name", BAD)
def test_mistaken_log_is_rejected_in_one_line(name):
    spoil, words = BAD[name]
    with pytest.raises(IdentificationRejected, match=words) as refusal:
        check_motion(spoil(GOOD), REGRESSOR)
    assert "\n" not in str(refusal.value)


def test_rounding_error_was_taken_for_clipped_torque():
    """A standing arm had a torque *clipped at 2.747e-17 Nm*."""
    torque = np.where(np.arange(1000) % 2, 2.747e-17, -2.747e-17)[:, None]
    assert mistaken_columns.clipped_torques(torque, ["joint7"]) == []


@pytest.mark.long
def test_log_with_gap_is_identified():
    keep = (GOOD.time < 9.0) | (GOOD.time > 9.4)
    log = MeasuredMotion("log", GOOD.time[keep], GOOD.q[keep], GOOD.tau[keep], GOOD.dq[keep])
    assert len(log.runs()) == 2
    found = identify([log], ARM)
    assert (found.held_out["consistent"] < 0.1).all()


def with_rest(log, before, after):
    """Return a log with noisy rest before and after the motion, as of a late stop."""
    count, period = (round(before * 100), round(after * 100)), 0.01
    time = np.arange(len(log.time) + sum(count)) * period
    noise = 1e-4 * np.random.default_rng(0).normal(size=(len(time), 7))
    q, dq, tau = (np.pad(x, (count, (0, 0)), "edge") for x in (log.q, log.dq, log.tau))
    return MeasuredMotion("log", time, q + noise, tau, dq, joints=log.joints)


@pytest.mark.long
def test_held_out_part_was_rest_after_motion():
    log, reported = with_rest(GOOD, 3.0, 30.0), []
    part = log.without_rest()
    assert part.time[0] == pytest.approx(2.5, abs=0.3)
    assert part.time[-1] == pytest.approx(3.0 + GOOD.time[-1] + 0.5, abs=0.3)
    assert GOOD.part(slice(0, 1)).without_rest().time.size == 1
    found = identify([log], ARM, progress=reported.append)
    assert any(text.startswith("log: 32.") for text in reported)
    assert np.ptp(found.measured, axis=0)[1] > 5.0


@pytest.mark.parametrize("rate", [30.0, 1000.0])
def test_two_lost_samples_were_gap_in_log_only(rate):
    """Log and identification have the same gaps, except those that filters bridge."""
    time = np.delete(np.arange(400) / rate, np.r_[50, 100:102, 200:250])
    zeros = np.zeros((len(time), 7))
    joints = tuple(joint.name for joint in ARM.robot.joints)
    log = ArmLog("arm", "fr3", joints, time, zeros, tau=zeros)
    runs, segments = motion_of(log, "log").runs(), log.segments()
    assert len(segments) == 3
    assert runs == (segments if rate == 30.0 else [slice(0, 197), slice(197, len(time))])


def test_log_above_maximum_size_filled_memory():
    """Its regressors took 6 GB, after minutes without output."""
    motion = MeasuredMotion(
        "long", 1e-3 * np.arange(MAX_SAMPLES + 1), *np.zeros((2, MAX_SAMPLES + 1, 7))
    )
    with pytest.raises(IdentificationRejected, match=r"^long: .*\b300001\b"):
        check_motion(motion, REGRESSOR)
