# SPDX-License-Identifier: Apache-2.0
"""Devices move arms by the gates of everybody; whatever they do wrong, their arms hold."""

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
    """A device that says what a test has it say."""

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
    """A cell stepped by hand, a device for its left arm, and what was said."""

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


def test_a_twist_moves_its_arm_alone_while_the_clutch_is_closed(rig):
    rig = rig(scale=0.5)
    before, other = rig.z(), rig.z("right")
    rig.left(20, twist=UP)
    assert rig.z() == pytest.approx(before, abs=2e-4)
    rig.left(50, twist=UP, is_engaged=True)  # 1 s at 0.1 m/s, halved
    rig.left(30)
    assert rig.z() == pytest.approx(before + 0.05, abs=0.004)
    assert rig.z("right") == pytest.approx(other, abs=1e-3)
    assert rig.reported == []


@pytest.mark.parametrize("rate", [20.0, 100.0])
def test_slowest_and_fastest_rate_move_it_as_far(rig, rate):
    rig = rig(rate=rate)
    before, cycles = rig.z(), round(1000 / rate)
    for _ in range(round(rate)):  # 1 s
        rig.source.message = {"left": DeviceCommand(True, UP)}
        rig.teleoperator.tick()
        rig.cell.step(cycles)
    rig.left(30)
    assert rig.z() == pytest.approx(before + 0.1, abs=0.005)
    assert rig.reported == []


def test_a_pose_repositions_without_moving_the_arm(rig):
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
def test_what_goes_wrong_is_said_once_and_the_arm_holds_until_the_clutch_is_closed_anew(
    rig, wrong, why
):
    rig = rig()
    rig.left(10, twist=UP, is_engaged=True)
    rig.play(wrong, 20)
    held = rig.z()
    rig.left(10, twist=UP, is_engaged=True)  # as if nothing had happened
    assert rig.z() == pytest.approx(held, abs=2e-3)
    (reported,) = rig.reported
    assert reported.startswith("left holds: ")
    assert reported.endswith("; open and close the clutch to continue")
    assert re.search(why, reported)
    rig.left(1)
    rig.left(25, twist=UP, is_engaged=True)
    assert rig.z() > held + 0.03
    assert len(rig.reported) == 1


def test_a_jump_of_the_device_is_not_followed(rig):
    rig = rig()
    before = rig.z()
    rig.left(5, pose=Pose.identity(), is_engaged=True)
    rig.left(20, pose=Pose([0.0, 0.0, 0.5], np.eye(3)), is_engaged=True)
    assert rig.z() == pytest.approx(before, abs=1e-3)
    assert "0.50 m" in rig.reported[0]


def test_a_source_that_takes_long_counts_as_lost(rig):
    times = iter(np.arange(0.0, 100.0, 0.3))
    rig = rig(clock=lambda: float(next(times)))
    rig.left(2, twist=UP, is_engaged=True)
    assert rig.reported == [
        "left holds: script: reading took 0.30 s; open and close the clutch to continue"
    ]


@pytest.mark.long
def test_a_target_does_not_run_away_from_an_arm_that_is_held_back(rig):
    """Pulled down with 60 N, the arm lags; the target waits for it and is never refused."""
    rig = rig()
    body = rig.cell.simulation.model.body("left_fr3_hand").id
    rig.cell.simulation.data.xfrc_applied[body, 2] = -60.0
    rig.left(150, twist=[0.0, 0.0, 0.3, 0.0, 0.0, 0.0], is_engaged=True)
    assert rig.reported == []
    target = rig.teleoperator.arms["left"].clutch.target
    assert target.position[2] - rig.z() < 0.11


def test_a_law_that_takes_no_poses_is_said(rig):
    rig = rig()
    rig.cell.switch(["left/joint_impedance_controller"], [f"left/{CARTESIAN}"])
    rig.left(3, twist=UP, is_engaged=True)
    assert len(rig.reported) == 1
    assert "pose" in rig.reported[0]


def test_the_hand_opens_and_closes(rig):
    rig = rig()
    rig.left(gripper="close")
    rig.left(50)
    narrow = rig.cell.gripper("left").state().width
    rig.left(gripper="open")
    rig.left(60)
    assert narrow < 0.01
    assert rig.cell.gripper("left").state().width > 0.07


def test_wrong_settings_are_refused(rig):
    cell = rig().cell
    with pytest.raises(ConfigurationError, match=r"^rate: .*\b500\b.*\[20, 100\] Hz"):
        Teleoperator(cell, [], 500.0)
    with pytest.raises(ConfigurationError, match=r"^scale: .*\b0\b.*\(0, 10\]"):
        Teleoperator(cell, [], scale=0.0)
    with pytest.raises(ConfigurationError, match=r"^sources: "):
        Teleoperator(cell, [])
    with pytest.raises(UnknownName, match="middle"):
        Teleoperator(cell, [Script("middle")])
    with pytest.raises(ConfigurationError, match="left: "):
        Teleoperator(cell, [Script("left"), Script("left", "right")])


def test_arms_that_hold_since_the_program_stood_still_could_never_be_moved_again(rig):
    laws = [f"{arm}/{CARTESIAN}" for arm in ("left", "right")]
    one = rig(controllets=laws)
    one.left(5, is_engaged=True, twist=UP)
    one.cell.hold()  # as the loop does when nobody beats
    before = one.z()
    one.left(10, is_engaged=True, twist=UP)
    assert set(one.cell.active).isdisjoint(laws), "not while the clutch is closed"
    assert abs(one.z() - before) < 5e-3
    one.left(3)
    assert set(laws) <= set(one.cell.active)
    assert one.reported[-1].startswith(f"{', '.join(laws)} ")
    one.cell.hold()
    one.left(1)
    assert one.reported[-2:] == [one.reported[-1]] * 2, "the second time was not said"
    rest = one.z()
    one.left(10)
    assert abs(one.z() - rest) < 2e-3
    one.left(30, is_engaged=True, twist=UP)
    assert one.z() > rest + 0.02


def test_a_cell_that_somebody_else_may_have_stopped_stays_so(rig):
    one = rig()
    one.left(5, is_engaged=True, twist=UP)
    one.cell.hold()
    one.left(5)
    one.left(5, is_engaged=True, twist=UP)
    assert one.cell.active == ("left/hold", "right/hold")
    assert "accepts no targets" in one.reported[-1]


def test_laws_are_not_taken_again_by_an_arm_with_a_fault(rig):
    laws = [f"{arm}/{CARTESIAN}" for arm in ("left", "right")]
    one = rig(controllets=laws)
    one.left(5, is_engaged=True, twist=UP)
    one.cell.simulation.apply_wrench("right_fr3_link5", [0.0, 900.0, 900.0])
    one.left(10)
    assert one.cell.state("right").fault
    assert f"right/{CARTESIAN}" not in one.cell.active
