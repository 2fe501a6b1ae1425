# SPDX-License-Identifier: Apache-2.0
"""Devices move arms through the usual gates; arms hold on every device fault."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from cell_names import CARTESIAN
from long_form import every_nth

from multipanda_py.apps.teleoperation import DeviceCommand, Teleoperator
from multipanda_py.exceptions import ConfigurationError, SourceLost, UnknownName
from multipanda_py.pose import Pose
from multipanda_py.testing import simple_cell

pytestmark = pytest.mark.inline

UP = [0.0, 0.0, 0.1, 0.0, 0.0, 0.0]


class Script:
    """Device with messages set by the test."""

    name = "script"

    def __init__(self, *arms):
        self.arms, self.message = arms, {}

    def read(self):
        if isinstance(self.message, Exception):
            raise self.message
        return self.message

    def close(self):
        pass


class Rig:
    """Cell in lockstep, a device for its left arm, and the reports."""

    def __init__(self, **options):
        self.cell = simple_cell(active=[f"{arm}/{CARTESIAN}" for arm in ("left", "right")])
        self.cell.start()
        self.cell.step(5)
        self.source, self.reported = Script("left"), []
        self.teleoperator = Teleoperator(
            self.cell, [self.source], report=self.reported.append, **options
        )

    def play(self, message, ticks=1):
        self.source.message = message
        for _ in range(ticks):
            self.teleoperator.tick()
            self.cell.step(20)

    def left(self, ticks=1, **command):
        self.play({"left": DeviceCommand(**command)}, ticks)

    def z(self, arm="left"):
        return float(self.cell.pose(arm).position[2])


@pytest.fixture
def rig():
    made = []

    def make(**options):
        made.append(Rig(**options))
        return made[-1]

    yield make
    for one in made:
        one.cell.close()


def test_twist_moves_only_its_arm_while_clutch_is_closed(rig):
    rig = rig(scale=0.5)
    before, other = rig.z(), rig.z("right")
    rig.left(20, twist=UP)
    assert rig.z() == pytest.approx(before, abs=2e-4)
    rig.left(50, twist=UP, is_engaged=True)  # 1 s at 0.1 m/s, scaled by 0.5.
    rig.left(30)
    assert rig.z() == pytest.approx(before + 0.05, abs=0.004)
    assert rig.z("right") == pytest.approx(other, abs=1e-3)
    assert rig.reported == []


@pytest.mark.parametrize("rate", [20.0, 100.0])
def test_minimum_and_maximum_rate_give_equal_motion(rig, rate):
    rig = rig(rate=rate)
    before, cycles = rig.z(), round(1000 / rate)
    for _ in range(round(rate)):  # 1 s
        rig.source.message = {"left": DeviceCommand(True, UP)}
        rig.teleoperator.tick()
        rig.cell.step(cycles)
    rig.left(30)
    assert rig.z() == pytest.approx(before + 0.1, abs=0.005)
    assert rig.reported == []


def test_device_repositions_with_open_clutch_without_arm_motion(rig):
    rig = rig()
    before = rig.z()
    lift = [Pose([5.0, 0.0, z], np.eye(3)) for z in np.linspace(0.0, 0.04, 20)]
    for _ in range(2):
        for pose in lift:
            rig.left(pose=pose, is_engaged=True)
        rig.left(10, pose=lift[0])
    rig.left(30)
    assert rig.z() == pytest.approx(before + 0.08, abs=0.005)


@pytest.mark.parametrize(
    ("wrong", "why"),
    every_nth(
        4,
        [
            ({"left": DeviceCommand(True, [math.nan] * 6)}, "allowed 6 finite numbers"),
            ({"left": DeviceCommand(True, [0.0] * 5)}, "allowed 6 finite numbers"),
            ({"left": DeviceCommand(True, [50.0, 0, 0, 0, 0, 0])}, r"got 50\.00 m/s"),
            ({"left": DeviceCommand(True, UP, frame="moon")}, "frame 'moon' is unknown"),
            ({"left": DeviceCommand(True, problem="nothing heard for 0.3 s")}, "nothing heard"),
            ({"left": DeviceCommand(True, [10**400] * 6)}, "allowed 6 finite numbers"),
            ({"left": DeviceCommand(math.nan, UP)}, "is_engaged: got nan, allowed True or False"),
            ({"left": DeviceCommand(1, UP)}, "is_engaged: got 1, allowed True or False"),
            ({"left": DeviceCommand(True)}, "closed, but there is neither a twist nor a pose"),
            ({"left": DeviceCommand(True, pose=UP)}, "allowed a Pose or None"),
            ({"left": DeviceCommand(True, UP, gripper="shut")}, "gripper: got 'shut', allowed ''"),
            ({"left": None}, "got None, allowed a DeviceCommand"),
            (
                {"middle": DeviceCommand(True, UP)},
                "script: got a command for 'middle', allowed left",
            ),
            (None, "script: got None, allowed commands by arm"),
            (SourceLost("the gamepad is unplugged"), "script: the gamepad is unplugged"),
            (ZeroDivisionError(), "script: ZeroDivisionError"),
        ],
    ),
)
def test_device_fault_is_reported_once_and_holds_until_clutch_reopens(rig, wrong, why):
    rig = rig()
    rig.left(10, twist=UP, is_engaged=True)
    rig.play(wrong, 20)
    held = rig.z()
    rig.left(10, twist=UP, is_engaged=True)  # The device continues without opening the clutch.
    assert rig.z() == pytest.approx(held, abs=2e-3)
    (reported,) = rig.reported
    assert reported.startswith("left holds: ")
    assert reported.endswith("; open and close the clutch to continue")
    assert re.search(why, reported)
    rig.left(1)
    rig.left(25, twist=UP, is_engaged=True)
    assert rig.z() > held + 0.03
    assert len(rig.reported) == 1


def test_device_jump_is_not_followed(rig):
    rig = rig()
    before = rig.z()
    rig.left(5, pose=Pose.identity(), is_engaged=True)
    rig.left(20, pose=Pose([0.0, 0.0, 0.5], np.eye(3)), is_engaged=True)
    assert rig.z() == pytest.approx(before, abs=1e-3)
    assert "0.50 m" in rig.reported[0]


def test_slow_source_is_treated_as_lost(rig):
    times = iter(np.arange(0.0, 100.0, 0.3))
    rig = rig(clock=lambda: float(next(times)))
    rig.left(2, twist=UP, is_engaged=True)
    assert rig.reported == [
        "left holds: script: reading took 0.30 s; open and close the clutch to continue"
    ]


@pytest.mark.long
def test_target_does_not_run_away_from_blocked_arm(rig):
    """Pulled down with 60 N, the arm lags; the target waits for it and is never rejected."""
    rig = rig()
    body = rig.cell.simulation.model.body("left_fr3_hand").id
    rig.cell.simulation.data.xfrc_applied[body, 2] = -60.0
    rig.left(150, twist=[0.0, 0.0, 0.3, 0.0, 0.0, 0.0], is_engaged=True)
    assert rig.reported == []
    target = rig.teleoperator.arms["left"].clutch.target
    assert target.position[2] - rig.z() < 0.11


def test_controllet_without_pose_target_is_reported(rig):
    rig = rig()
    rig.cell.switch(["left/joint_impedance_controller"], [f"left/{CARTESIAN}"])
    rig.left(3, twist=UP, is_engaged=True)
    assert len(rig.reported) == 1
    assert "pose" in rig.reported[0]


def test_gripper_opens_and_closes(rig):
    rig = rig()
    rig.left(gripper="close")
    rig.left(50)
    narrow = rig.cell.gripper("left").state().width
    rig.left(gripper="open")
    rig.left(60)
    assert narrow < 0.01
    assert rig.cell.gripper("left").state().width > 0.07


def test_invalid_settings_are_rejected(rig):
    cell = rig().cell
    with pytest.raises(ConfigurationError, match=r"^rate: .*\b500\b.*\[20, 100\] Hz"):
        Teleoperator(cell, [], 500.0)
    with pytest.raises(ConfigurationError, match=r"^scale: .*\b0\b.*\(0, 10\]"):
        Teleoperator(cell, [], scale=0.0)
    with pytest.raises(ConfigurationError, match=r"^sources: "):
        Teleoperator(cell, [])
    with pytest.raises(UnknownName, match="middle"):
        Teleoperator(cell, [Script("middle")])
    with pytest.raises(ConfigurationError, match=r"\bleft\b"):
        Teleoperator(cell, [Script("left"), Script("left", "right")])


def test_arms_on_hold_after_pause_could_not_move_again(rig):
    laws = [f"{arm}/{CARTESIAN}" for arm in ("left", "right")]
    one = rig(controllets=laws)
    one.left(5, is_engaged=True, twist=UP)
    one.cell.hold()  # The loop does this when heartbeats stop.
    before = one.z()
    one.left(10, is_engaged=True, twist=UP)
    assert set(one.cell.active).isdisjoint(laws), "no switch while the clutch is closed"
    assert abs(one.z() - before) < 5e-3
    one.left(3)
    assert set(laws) <= set(one.cell.active)
    assert one.reported[-1].startswith(f"{', '.join(laws)} ")
    one.cell.hold()
    one.left(1)
    assert one.reported[-2:] == [one.reported[-1]] * 2, "the second switch is reported as well"
    rest = one.z()
    one.left(10)
    assert abs(one.z() - rest) < 2e-3
    one.left(30, is_engaged=True, twist=UP)
    assert one.z() > rest + 0.02


def test_cell_stopped_by_another_client_stays_stopped(rig):
    one = rig()
    one.left(5, is_engaged=True, twist=UP)
    one.cell.hold()
    one.left(5)
    one.left(5, is_engaged=True, twist=UP)
    assert one.cell.active == ("left/hold", "right/hold")
    assert "accepts no targets" in one.reported[-1]


def test_controllets_are_not_reactivated_on_faulted_arm(rig):
    laws = [f"{arm}/{CARTESIAN}" for arm in ("left", "right")]
    one = rig(controllets=laws)
    one.left(5, is_engaged=True, twist=UP)
    one.cell.simulation.apply_wrench("right_fr3_link5", [0.0, 900.0, 900.0])
    one.left(10)
    assert one.cell.state("right").fault
    assert f"right/{CARTESIAN}" not in one.cell.active
