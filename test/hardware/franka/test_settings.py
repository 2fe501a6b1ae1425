# SPDX-License-Identifier: Apache-2.0
"""Changes of the settings of one robot while the other moves, in a complete cell."""

from __future__ import annotations

import time
import uuid

import numpy as np
import pinocchio as pin
import pytest
from cell_names import CARTESIAN
from processes import recovers, wait_until
from robots import within_bounds

from multipanda_py.exceptions import SettingsRejected
from multipanda_py.pose import Pose
from multipanda_py.simulation.fci import FciSim
from multipanda_py.testing import simple_cell

pytestmark = [pytest.mark.usefixtures("needs_pylibfranka"), pytest.mark.slow, pytest.mark.clock]

LAWS = {
    CARTESIAN: {"type": "cartesian_impedance"},
    "pair": {"type": "coupled_impedance", "arms": ["left", "right"]},
}
TOOL = {"mass": 0.4, "com": [0.01, 0.0, 0.05], "position": [0.0, 0.0, 0.2],
        "inertia": [1e-3, 2e-3, 2e-3, 0.0, 0.0, 0.0]}  # fmt: skip
LOAD = {"load_mass": 0.8, "load_com": [0.0, 0.03, 0.1],
        "load_inertia": [2e-3, 3e-3, 4e-3, 0.0, 1e-4, 0.0]}  # fmt: skip


class Rig:
    """Two simulated robots and their cell: left holds, right has a controllet."""

    def __init__(self, addresses):
        self.ip = dict(zip(("left", "right"), addresses))
        self.sim = FciSim(addresses, together=True)
        arms = {
            name: {"backend": "franka", "robot_ip": ip, "gripper": False, "tool": TOOL,
                   "franka": {"answer_budget": 0.4, "priority": 0, "model_check": "off"},
                   "position": [0.0, y, 0.0]}
            for (name, ip), y in zip(self.ip.items(), (0.3, -0.3))
        }  # fmt: skip
        self.cell = simple_cell(
            arms, LAWS, placement="process", name=f"rig_{uuid.uuid4().hex[:10]}",
            realtime={"priority": 0, "cpu": -2}, heartbeat_timeout=1.0,
        )  # fmt: skip

    def stats(self, arm):
        return self.sim.admin(self.ip[arm], "stats")

    def reported(self, arm):
        return self.sim.admin(self.ip[arm], "settings")

    def until(self, condition, what, timeout=15.0):
        wait_until(condition, timeout, lambda: f"{what}; {self.cell.events()}")

    def moves(self, arm):
        return self.stats(arm)["mode"] == "move"


@pytest.fixture(scope="module")
def shared(needs_pylibfranka):
    from robots import unused_address

    rig = Rig([unused_address(), unused_address()])
    with rig.sim, rig.cell:
        yield rig


@pytest.fixture
def rig(shared):
    """Return the rig with left in hold, right with a controllet, and counters at zero."""
    cell = shared.cell
    shared.until(lambda: recovers(cell), "recovery from the test before")
    cell.hold()
    cell.switch([f"right/{CARTESIAN}"])
    shared.until(lambda: shared.moves("left") and shared.moves("right"), "torque")
    for ip in shared.ip.values():
        shared.sim.admin(ip, "push")
        shared.sim.admin(ip, "reset_stats")
    cell.events()
    return shared


def kinds(cell):
    return [(event.event.name, event.arm) for event in cell.events()]


def test_arm_in_hold_receives_load_while_other_moves(rig):
    cell = rig.cell
    here, pose_right = cell.pose("left").position, cell.pose("right")
    goal = pose_right.position + [0.0, 0.0, 0.06]
    cell.set_target("right", Pose(goal, pose_right.rotation))
    first = cell.records()[0]
    cell.set_robot_settings("left", **LOAD)
    rows = cell.records(first)[1]["arms"]
    assert rig.moves("left")
    assert cell.state("left").owner == "left/hold"
    assert kinds(cell) == [("SETTINGS_APPLIED", "left")]
    assert cell.robot_settings("left").load_mass == 0.8
    assert cell.robot_settings("right").load_mass == 0.0
    # The robot has tool and load as one body; pinocchio computes their sum.
    xx, yy, zz, xy, xz, yz = LOAD["load_inertia"]
    load = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    body = pin.Inertia(0.8, np.array(LOAD["load_com"]), load) + pin.Inertia(
        0.4, np.array(TOOL["com"]), np.diag(TOOL["inertia"][:3])
    )
    reported = rig.reported("left")
    assert reported["load_mass"] == pytest.approx(1.2)
    np.testing.assert_allclose(reported["load_com"], body.lever, atol=1e-12)
    np.testing.assert_allclose(reported["load_inertia"], body.inertia, atol=1e-12)
    assert rig.reported("right")["load_mass"] == pytest.approx(0.4)
    # Left stays, its torque starts at zero, and right is not affected.
    assert np.linalg.norm(cell.pose("left").position - here) < 1e-3
    assert np.abs(np.diff(rows["tau"][:, 0], axis=0)).max() <= 1.0 + 1e-9
    rig.until(lambda: np.linalg.norm(cell.pose("right").position - goal) < 0.005, "right moves")
    assert rig.stats("right")["lost"] == 0
    for arm in cell.arms:
        within_bounds(rig.stats(arm))
        assert rig.stats(arm)["errors"] == []
    cell.switch([f"left/{CARTESIAN}"])
    assert cell.state("left").fault == ""


def test_pushed_arm_holds_current_position_after_settings(rig):
    """The target restarts at the current position: the push displaces the arm again."""
    cell = rig.cell
    free = cell.pose("left").position[2]
    rig.sim.admin(rig.ip["left"], "push", wrench=[0.0, 0.0, -12.0, 0.0, 0.0, 0.0])
    rig.until(lambda: cell.state("left").wrench_ext_in_base[2] < -11.0, "push")
    rig.until(lambda: np.abs(cell.state("left").dq).max() < 1e-4, "rest")
    before = cell.pose("left").position[2]
    assert free - before > 2e-3
    cell.set_robot_settings("left", upper_torque_thresholds=[60.0] * 7)
    rig.until(lambda: before - cell.pose("left").position[2] > 0.8 * (free - before), "way")
    assert rig.moves("left")
    assert cell.state("left").fault == ""
    assert rig.reported("left")["upper_torque_thresholds"] == [60.0] * 7
    # A constant push results in a constant torque.
    within_bounds(rig.stats("left"), longest_run=10**6)


@pytest.mark.parametrize("owner", [f"left/{CARTESIAN}", "pair"])
def test_arm_with_controllet_refuses_settings(rig, owner):
    cell = rig.cell
    cell.switch([owner], strictness="force_auto")
    cell.events()  # the switch may report a contact force
    before = rig.reported("left")
    with pytest.raises(SettingsRejected, match=f"left .*{owner}"):
        cell.set_robot_settings("left", load_mass=0.3)
    assert rig.reported("left") == before
    assert owner in cell.active
    assert kinds(cell) == [("SETTINGS_REFUSED", "left")]


def test_settings_refused_by_robot_change_nothing(rig):
    cell = rig.cell
    before, reported = cell.robot_settings("left"), rig.reported("left")
    with pytest.raises(SettingsRejected, match=r"^left:.*\bcartesian_impedance: got \[1\.0"):
        cell.set_robot_settings("left", load_mass=0.1, cartesian_impedance=[1.0] * 6)
    assert rig.reported("left") == reported
    assert cell.robot_settings("left") == before
    assert rig.moves("left")
    assert cell.state("left").fault == ""
    assert cell.rejected["left settings"] > 0


@pytest.mark.parametrize(
    ("values", "pattern"),
    [
        ({"load_mass": -1.0}, r"left: load_mass: .*-1\.0.* 0\b"),
        ({"load_mass": 0.3, "load_com": [0.0, 0.0]}, "left: load_com: got"),
        ({"load_inertia": [1.0, 0.1, 0.1, 0.0, 0.0, 0.0]}, r"moments.*0\.1, 0\.1, 1\.0"),
        ({"load_mass": 0.3, "priority": 5}, r"arms\.left\.franka\.priority"),
        ({"nonsense": 1.0}, "'nonsense'.*load_mass"),
    ],
)
def test_invalid_settings_do_not_reach_loop(rig, values, pattern):
    before = rig.cell.robot_settings("left")
    with pytest.raises(SettingsRejected, match=pattern):
        rig.cell.set_robot_settings("left", **values)
    assert rig.cell.robot_settings("left") == before
    assert not [event for event in rig.cell.events() if event.event.is_fault]
    assert rig.moves("left")


@pytest.mark.long
def test_robot_in_reflex_accepts_settings_and_stays_stopped(rig):
    cell = rig.cell
    rig.sim.admin(rig.ip["left"], "fault", errors=["joint_reflex"])
    rig.until(lambda: cell.state("left").fault, "fault")
    cell.set_robot_settings("left", upper_torque_thresholds=[50.0] * 7)
    assert cell.state("left").fault == "arm_stopped"
    assert not rig.moves("left")
    assert rig.reported("left")["upper_torque_thresholds"] == [50.0] * 7
    rig.until(lambda: recovers(cell, ["left"]), "recovery")
    rig.until(lambda: rig.moves("left"), "torque")


@pytest.mark.long
def test_heartbeat_continues_while_settings_of_silent_robot_are_pending(rig):
    """The wait exceeds the heartbeat timeout of the loop."""
    cell = rig.cell
    rig.sim.admin(rig.ip["left"], "kill_udp")
    began = time.monotonic()
    with pytest.raises(SettingsRejected, match="left: robot"):
        cell.set_robot_settings("left", load_mass=0.3)
    assert time.monotonic() - began > cell.config.cell.heartbeat_timeout
    assert "CLIENT_SILENT" not in [name for name, _ in kinds(cell)]
    assert f"right/{CARTESIAN}" in cell.active
    assert cell.robot_settings("left").load_mass != 0.3
    rig.sim.admin(rig.ip["left"], "heal")
    rig.until(lambda: recovers(cell, ["left"]) and rig.moves("left"), "recovery")


@pytest.mark.long
def test_ended_driver_was_reported_as_endless_motion(rig):
    """The refusal came after 1 s, but its reason named 3 s."""
    cell = rig.cell
    rig.sim.admin(rig.ip["left"], "kill_udp")
    with pytest.raises(SettingsRejected, match=r"left: robot .*\bdriver\b"):
        cell.set_robot_settings("left", load_mass=0.3)
    rig.sim.admin(rig.ip["left"], "heal")
    rig.until(lambda: recovers(cell, ["left"]) and rig.moves("left"), "recovery")
