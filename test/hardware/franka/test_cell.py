# SPDX-License-Identifier: Apache-2.0
"""Complete cell on two simulated robots: effects of faults of one arm on the other.

Each fault affects ``left`` while ``right`` moves. The robots run in lockstep if the fault
permits it, so that the load of the machine has no effect.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import numpy as np
import pytest
from cell_names import CARTESIAN
from long_form import long_form
from processes import children, is_running, recovers, wait_until
from robots import within_bounds

from multipanda_py.exceptions import LoopError, RecoveryFailed, SwitchRejected
from multipanda_py.pose import Pose
from multipanda_py.simulation.fci import FciSim
from multipanda_py.testing import simple_cell

pytestmark = [pytest.mark.usefixtures("needs_pylibfranka"), pytest.mark.slow]

LONG_BUDGET = {"answer_budget": 0.4, "priority": 0}
LAWS = {
    CARTESIAN: {"type": "cartesian_impedance"},
    "joint_impedance_controller": {"type": "joint_impedance"},
    "odd": {"type": "misbehaving"},
    "pair": {"type": "coupled_impedance", "arms": ["left", "right"]},
}


class Rig:
    """Two simulated robots, their cell, and checks of both."""

    def __init__(self, addresses, options=LONG_BUDGET, *, stopped=(), **sim):
        """Describe the rig; the user stop of ``stopped`` arms is pressed at the start."""
        self.left, self.right = addresses
        self.options, self.stopped = options, stopped
        self.sim = FciSim(addresses, **sim)

    def __enter__(self):
        self.sim.start()
        for arm in self.stopped:
            self.sim.admin(getattr(self, arm), "user_stop")
        arms = {
            name: {"backend": "franka", "robot_ip": ip, "gripper": False,
                   "position": [0.0, y, 0.0], "franka": self.options}
            for name, ip, y in (("left", self.left, 0.3), ("right", self.right, -0.3))
        }  # fmt: skip
        self.cell = simple_cell(
            arms, LAWS, [f"left/{CARTESIAN}", f"right/{CARTESIAN}"], placement="process",
            name=f"rig_{uuid.uuid4().hex[:10]}", realtime={"priority": 0, "cpu": -2},
            heartbeat_timeout=5.0,
        )  # fmt: skip
        self.cell.start()
        self.loop = self.cell.loop_pid
        self.drivers = children(self.loop)
        ready = [arm for arm in self.cell.arms if arm not in self.stopped]
        self.cell.wait(lambda: all(self.moves(arm) for arm in ready), 20.0, "torque")
        for ip in (self.left, self.right):
            self.sim.admin(ip, "reset_stats")
        return self

    def __exit__(self, *error):
        try:
            self.cell.close()
            self.until(lambda: not any(map(is_running, self.drivers)), "end of the drivers")
        finally:
            self.sim.close()

    def moves(self, arm):
        return self.stats(arm)["mode"] == "move"

    def stats(self, arm):
        return self.sim.admin(getattr(self, arm), "stats")

    def until(self, condition, what, timeout=15.0):
        wait_until(condition, timeout, lambda: f"{what}; {self.cell.events()}")

    def lift(self, arm, height=0.06):
        pose = self.cell.pose(arm)
        goal = pose.position + [0.0, 0.0, height]
        self.cell.set_target(arm, Pose(goal, pose.rotation))
        return goal

    def reaches(self, arm, goal, tolerance=0.005):
        self.until(
            lambda: np.linalg.norm(self.cell.pose(arm).position - goal) < tolerance,
            f"{arm} at {goal}",
        )

    def fault_of(self, arm):
        return self.cell.state(arm).fault

    def recovers(self, arm):
        # A stopped driver may report the fault of its robot only after a first recovery.
        self.until(lambda: recovers(self.cell, [arm]) and self.moves(arm), "recovery")
        assert self.cell.state(arm).owner == f"{arm}/hold"


@pytest.fixture
def rig(new_address):
    with Rig([new_address(), new_address()], together=True) as rig:
        yield rig


@pytest.mark.slow
def test_cell_starts_with_ready_arms(new_address):
    """The other arm is recovered later without a restart."""
    with Rig([new_address(), new_address()], stopped=["left"], together=True) as rig:
        assert rig.fault_of("left") == "arm_stopped"
        assert any("user stop is pressed" in str(event) for event in rig.cell.events())
        rig.reaches("right", rig.lift("right"))
        with pytest.raises(SwitchRejected, match="left/error_recovery"):
            rig.cell.switch([f"left/{CARTESIAN}"], strictness="force_auto")
        rig.sim.admin(rig.left, "release")
        rig.recovers("left")
        rig.drivers = children(rig.loop)
        rig.cell.switch([f"left/{CARTESIAN}"], strictness="force_auto")
        rig.reaches("left", rig.lift("left"))


@pytest.mark.clock
def test_coupled_and_single_controllets_move_real_arms(rig):
    goal = rig.lift("left")
    rig.reaches("left", goal)
    rig.cell.switch(["pair"], strictness="force_auto")
    report = rig.cell.report("pair")
    start = np.array([report[f"object_{axis} [m]"] for axis in "xyz"])
    before = {arm: rig.cell.pose(arm).position for arm in rig.cell.arms}
    rig.cell.set_object_target("pair", Pose(start + [0.0, 0.05, 0.0], np.eye(3)))
    for arm in rig.cell.arms:
        rig.reaches(arm, before[arm] + [0.0, 0.05, 0.0])
    for arm in rig.cell.arms:
        stats = rig.stats(arm)
        assert stats["lost"] == 0
        within_bounds(stats)
    assert not [event for event in rig.cell.events() if event.event.is_fault]


@pytest.mark.clock
def test_switch_under_load_keeps_torque_rate(rig):
    rig.sim.admin(rig.left, "push", wrench=[0.0, 0.0, -10.0, 0.0, 0.0, 0.0])
    rig.until(lambda: abs(rig.cell.state("left").wrench_ext_in_base[2] + 10.0) < 1.0, "load")
    rig.cell.switch(["left/joint_impedance_controller"], [f"left/{CARTESIAN}"])
    here = rig.cell.pose("left").position
    cycles = rig.cell.records()[0]
    rig.until(lambda: rig.cell.records()[0] > cycles + 500, "more cycles")
    assert np.linalg.norm(rig.cell.pose("left").position - here) < 0.03
    within_bounds(rig.stats("left"))


FAULTS = {
    "reflex": (lambda r: r.sim.admin(r.left, "fault", errors=["joint_reflex"]), "joint_reflex"),
    "communication": (
        lambda r: r.sim.admin(r.left, "fault", errors=["communication_constraints_violation"]),
        "communication_constraints_violation",
    ),
    "user_stop": (lambda r: r.sim.admin(r.left, "user_stop", pressed=True), "user stop"),
    "dead_tcp": (lambda r: r.sim.admin(r.left, "kill_tcp"), ""),
    "dead_udp": (lambda r: r.sim.admin(r.left, "kill_udp"), ""),
    "driver_killed": (lambda r: os.kill(r.drivers[0], signal.SIGKILL), "killed by SIGKILL"),
    "driver_stopped": (lambda r: stop_the_driver(r), ""),
    "nan": (lambda r: misbehave(r, "nan"), "finite"),
    "exception": (lambda r: misbehave(r, "raise"), "this law broke"),
}


def stop_the_driver(rig):
    """Stop the driver in motion until the robot reports a reflex."""
    rig.until(lambda: rig.stats("left")["active_cycles"] > 0, "first commands")
    os.kill(rig.drivers[0], signal.SIGSTOP)
    try:
        rig.until(lambda: rig.stats("left")["mode"] == "reflex", "reflex of the robot")
    finally:
        os.kill(rig.drivers[0], signal.SIGCONT)


def misbehave(rig, fault_kind):
    rig.cell.switch(["left/odd"], strictness="force_auto")
    rig.cell.set_parameters("left/odd", {"fault": fault_kind})


@pytest.mark.clock
@pytest.mark.parametrize("name", long_form(FAULTS, keep=("reflex", "driver_killed", "nan")))
def test_fault_of_one_arm_does_not_affect_other(rig, name):
    cause, expected = FAULTS[name]
    goal = rig.lift("right")
    cause(rig)
    rig.until(lambda: rig.fault_of("left") != "", "fault")
    report = next(e for e in rig.cell.events() if e.arm == "left" and e.event.is_fault)
    assert expected.replace("_", " ") in report.text.replace("_", " ")
    assert rig.cell.state("left").owner == "left/hold"
    with pytest.raises(SwitchRejected, match="left/error_recovery"):
        rig.cell.switch([f"left/{CARTESIAN}"], strictness="force_auto")
    rig.reaches("right", goal)
    assert rig.fault_of("right") == ""
    right = rig.stats("right")
    assert right["mode"] == "move"
    within_bounds(right)
    within_bounds(rig.stats("left"), longest_run=20)  # the length at which a robot stops
    if name == "user_stop":
        with pytest.raises(RecoveryFailed, match="left: arm_stopped: user_stop"):
            rig.cell.recover(["left"])
        rig.sim.admin(rig.left, "user_stop", pressed=False)
    if name.startswith("dead"):
        rig.sim.admin(rig.left, "heal")
    rig.recovers("left")
    rig.drivers = sorted({*rig.drivers, *children(rig.loop)})
    rig.cell.switch([f"left/{CARTESIAN}"], strictness="force_auto")
    rig.reaches("left", rig.lift("left", 0.03))


@pytest.mark.clock
def test_partner_of_coupled_controllet_holds_after_robot_stop(rig):
    rig.cell.switch(["pair"], strictness="force_auto")
    rig.sim.admin(rig.left, "fault", errors=["cartesian_reflex"])
    rig.until(lambda: rig.fault_of("left") != "", "fault")
    assert rig.cell.active == ("left/hold", "right/hold")
    assert rig.fault_of("right") == ""
    assert rig.moves("right")


@pytest.mark.clock
def test_killed_loop_leaves_no_driver_and_no_torque_(rig):
    os.kill(rig.loop, signal.SIGKILL)
    rig.until(lambda: not any(map(is_running, rig.drivers)), "end of the drivers")
    for arm in ("left", "right"):
        rig.until(lambda arm=arm: not rig.moves(arm), f"{arm} at rest")
    with pytest.raises(LoopError, match="SIGKILL"):
        rig.cell.check()


def test_stopped_loop_ends_motions_and_both_arms_recover(new_address):
    """After SIGSTOP to the loop, the drivers ramp the torque to zero and end the motions."""
    quick = {"answer_budget": 0.01, "priority": 0}
    with Rig([new_address(), new_address()], options=quick, together=True) as rig:
        os.kill(rig.loop, signal.SIGSTOP)
        try:
            rig.until(
                lambda: not any(rig.moves(arm) for arm in rig.cell.arms), "end of the motions"
            )
        finally:
            os.kill(rig.loop, signal.SIGCONT)
        rig.until(lambda: all(rig.fault_of(arm) for arm in rig.cell.arms), "faults")
        for arm in rig.cell.arms:
            stats = rig.stats(arm)
            within_bounds(stats)
            assert stats["errors"] == []
        for arm in rig.cell.arms:
            rig.recovers(arm)


OWNER = """
import sys, time
sys.path.append(sys.argv[3])
from multipanda_py.testing import simple_cell
options = {"answer_budget": 0.4, "priority": 0}
arms = {name: {"backend": "franka", "robot_ip": ip, "gripper": False, "franka": options}
        for name, ip in (("left", sys.argv[1]), ("right", sys.argv[2]))}
cell = simple_cell(arms, {"cart": {"type": "cartesian_impedance"}}, ["left/cart", "right/cart"],
                   placement="process", name=sys.argv[4], realtime={"priority": 0, "cpu": -2})
cell.start()
sys.stdout.write(f"{cell.loop_pid}\\n"); sys.stdout.flush()
sys.stdin.read()
"""


@pytest.mark.slow
def test_killed_owner_ends_all_processes_and_arms_rest(new_address):
    addresses = [new_address(), new_address()]
    with FciSim(addresses, together=True) as sim:
        owner = subprocess.Popen(
            [sys.executable, "-c", OWNER, *addresses,
             str(Path(__file__).parent), f"rig_{uuid.uuid4().hex[:10]}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        loop = int(owner.stdout.readline())
        drivers = children(loop)
        wait_until(lambda: all(sim.admin(ip, "stats")["mode"] == "move" for ip in addresses))
        owner.kill()
        _, reported = owner.communicate(timeout=60)
        wait_until(lambda: not any(map(is_running, [loop, *drivers])))
        assert "its owner has ended" in reported
        for ip in addresses:
            stats = sim.admin(ip, "stats")
            assert stats["mode"] == "idle"
            assert stats["errors"] == []
