# SPDX-License-Identifier: Apache-2.0
"""Feedback wrench of a leader: scaling, limits, fading, and loss of the connection."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin
import pytest
from distant_leader import Rig

from multipanda_py.apps.cli import main
from multipanda_py.apps.teleoperation import Clutch, ExternalWrench
from multipanda_py.apps.teleoperation.ros_sources import (
    FADE_IN,
    FADE_OUT,
    MAX_FORCE_AND_TORQUE,
    WrenchFeedback,
)
from multipanda_py.apps.teleoperation.teleoperator import GuidedArm
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.pose import Pose
from multipanda_py.realtime.events import Event
from multipanda_py.testing import simple_cell

PUSH = np.array([0.0, 6.0, 8.0, 0.0, 0.0, 2.0])


def last_of(feedback, wrench, seconds, is_following=True, scale=1.0):
    touch = ExternalWrench(wrench, is_following, scale, 1 / 30)
    return [feedback.compute(touch) for _ in range(round(seconds * 30))][-1]


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_feedback_scales_with_motion_and_subtracts_deadband(scale):
    found = last_of(WrenchFeedback(0.4), PUSH, 2.0, scale=scale)
    assert np.allclose(found[:3], 0.4 * min(1.0, scale) * 0.8 * PUSH[:3], rtol=1e-6)
    assert np.allclose(found[3:], 0.4 * 0.8 * PUSH[3:], rtol=1e-6)
    assert not last_of(WrenchFeedback(1.0), 0.09 * PUSH, 2.0, scale=scale).any()


@pytest.mark.parametrize("rate", [20, 30, 100])
def test_rate_changes_neither_filter_nor_fading(rate):
    feedback, touch = WrenchFeedback(0.4), ExternalWrench(PUSH, True, 1.0, 1 / rate)
    found = [feedback.compute(touch)[2] for _ in range(2 * rate)]
    assert found[round(0.3 * rate) - 1] == pytest.approx(0.6 * found[-1], rel=0.05)
    assert found[round(0.5 * rate) - 1] == pytest.approx(found[-1], rel=1e-3)


def test_feedback_is_limited_for_every_gain():
    for gain in (0.2, 1.0):
        found = last_of(WrenchFeedback(gain), 100.0 * PUSH, 2.0)
        assert np.linalg.norm(found[:3]) == pytest.approx(MAX_FORCE_AND_TORQUE[0], rel=1e-6)
        assert np.linalg.norm(found[3:]) == pytest.approx(MAX_FORCE_AND_TORQUE[1], rel=1e-6)


def test_feedback_fades_with_clutch_and_invalid_wrench_gives_zero():
    feedback = WrenchFeedback(0.5)
    full = last_of(WrenchFeedback(0.5), PUSH, 2.0)
    assert not last_of(feedback, PUSH, 1.0, is_following=False).any()
    half = last_of(feedback, PUSH, FADE_IN / 2 + 1 / 60)
    assert np.allclose(half, half[2] / full[2] * full)
    assert 0.4 < half[2] / full[2] < 0.6
    last_of(feedback, PUSH, FADE_IN)
    assert last_of(feedback, PUSH, FADE_OUT / 2, is_following=False)[2] < 0.6 * full[2]
    assert not last_of(feedback, PUSH, FADE_OUT, is_following=False).any()
    last_of(feedback, PUSH, 1.0)
    assert not feedback.compute(ExternalWrench(np.full(6, math.nan), True, 1.0, 1 / 30)).any()
    with pytest.raises(ConfigurationError, match=r"feedback: .*\b1\.5\b.*\[0, 1\]"):
        WrenchFeedback(1.5)


def test_feedback_uses_axes_of_commanded_motion():
    """The power F . v is equal on the follower and on the device."""
    arms = {"left": {"position": [0.0, 0.3, 0.0], "rpy": [0.0, 0.3, 0.7]}}
    cell = simple_cell(arms, active=["left/cartesian_impedance_controller"])
    cell.start()
    try:
        cell.step(5)
        body = cell.simulation.model.body("left_fr3_hand").id
        cell.simulation.data.xfrc_applied[body, :3] = [3.0, -9.0, 5.0]
        cell.step(20)
        clutch = Clutch()
        clutch.close(Pose.identity())
        clutch.follow(Pose.identity(), 0.02, cell.frames.base_from("world", "left").rotation)
        moved = clutch.follow(Pose([0.01, 0.02, 0.03], pin.exp3(np.zeros(3))), 0.02, np.eye(3))
        touch = GuidedArm(cell, "left", clutch, print).external_wrench(1 / 30)
        wrench = cell.state("left").wrench_ext_in_base
        assert touch.wrench[:3] @ [0.01, 0.02, 0.03] == pytest.approx(
            wrench[:3] @ moved.position, rel=1e-9
        )
        assert np.abs(wrench[:3]).max() > 1.0
    finally:
        cell.close()


@pytest.mark.sim
def test_short_dropout_is_bridged_long_dropout_holds_without_feedback():
    rig = Rig(feedback=0.5)
    try:
        rig.play(0.9, 0.06)
        assert rig.estimated.wrench[2] > 3.0
        rig.cut = True
        rig.play(0.2, 0.06)
        rig.cut = False
        rig.play(0.1, 0.06)
        assert rig.reported == rig.cell.events() == []
        rig.cut = True
        estimated = rig.play(0.65, 0.06)[:, 3]
        assert estimated[-60:].max() == 0.0
        assert rig.reported == [
            "follower holds: no message from the leader; open and close the clutch to continue"
        ]
        assert [event.text for event in rig.cell.events()] == [
            "leader: no feedback wrench for 0.25 s, so the displayed one fades out"
        ]
        assert rig.feedback.fade == 0.0
        # The connection returns, the clutch closes again, and the follower gets a fault.
        rig.cut, rig.is_engaged = False, False
        rig.play(0.1, 0.06)
        rig.is_engaged = True
        rig.play(0.2, 0.06)
        assert rig.feedback.fade > 0.2
        owners = rig.cell.loop.owners
        follow = next(one for one in owners.active if one.spec.name == "follow")
        owners.fail(follow, Event.CONTROLLET_ERROR, "of a test", 0)
        rig.play(0.3, 0.06)
        assert rig.feedback.fade == 0.0
        assert len(rig.reported) == 2
        assert rig.reported[1].startswith("follower holds: ")
    finally:
        rig.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--source", "leader"], "--leader: got none, allowed one for each of the arms left"),
        (["--feedback", "0.3"], "--leader, --feedback: not allowed with --source "),
        (["--source", "leader", "--leader", "/a b"], "allowed a namespace and an arm"),
        (["--source", "leader", "--leader", "/a/b", "--feedback", "2"], "feedback: got 2"),
    ],
)
def test_teleop_command_reports_inconsistent_options(options, words, capsys):
    if "/a/b" in options:
        pytest.importorskip("rclpy")
    assert main(["teleop", "config/dual_sim.yaml", "--arm", "left", *options]) != 0
    assert words in capsys.readouterr().err
