# SPDX-License-Identifier: Apache-2.0
"""Start of two real arms with controllets: transient and persistent faults."""

from __future__ import annotations

import os
import uuid

import pytest
from processes import wait_until
from robots import unused_address

from multipanda_py.hardware.driver.driven_backend import MAX_START_ATTEMPTS
from multipanda_py.simulation.fci import FciSim
from multipanda_py.testing import simple_cell

pytestmark = [pytest.mark.usefixtures("needs_pylibfranka"), pytest.mark.clock]

LAWS = {"law": {"type": "cartesian_impedance"}}
LOST = "communication_constraints_violation"


@pytest.fixture
def start():
    """Return a function that starts a cell; faults of ``left`` are pairs of cycle and error."""
    made = []

    def start(placement="process", priority=0, **faults):
        ips = [unused_address(), unused_address()]
        sim = FciSim(ips, lockstep=True)
        made.append(sim)
        sim.start()
        for at, error in faults.get("left", ()):
            sim.admin(ips[0], "fault", errors=[error], at=at)
        arms = {
            name: {"backend": "franka", "robot_ip": ip, "gripper": False,
                   "position": [0.0, y, 0.0],
                   "franka": {"answer_budget": 0.4, "priority": 0, "model_check": "off"}}
            for name, ip, y in zip(("left", "right"), ips, (0.3, -0.3))
        }  # fmt: skip
        cell = simple_cell(
            arms, LAWS, ["left/law", "right/law"], placement=placement,
            name=f"start_{uuid.uuid4().hex[:10]}", realtime={"priority": priority, "cpu": -2},
            heartbeat_timeout=5.0,
        )  # fmt: skip
        made.append(cell)
        cell.start()
        return sim, ips, cell

    yield start
    while made:
        made.pop().close()


def test_lost_command_during_start_prevented_controllet(start):
    """The robot aborted its first motion; the arm stayed in hold until a recovery."""
    _, _, cell = start(left=[(5, LOST), (40, LOST)])
    assert [cell.state(arm).fault for arm in cell.arms] == ["", ""]
    assert [cell.state(arm).owner for arm in cell.arms] == ["left/law", "right/law"]
    tried = [event.text for event in cell.events() if LOST in event.text]
    assert all(f"left: start, attempt {k} of" in tried[k - 1] for k in (1, 2))
    wait_until(lambda: abs(cell.state("left").tau).max() > 0.0, 5.0, cell.events)


@pytest.mark.slow
def test_lost_command_in_first_second_was_fault(start):
    _, _, cell = start(left=[(600, LOST)])
    assert [cell.state(arm).fault for arm in cell.arms] == ["", ""]
    assert [cell.state(arm).owner for arm in cell.arms] == ["left/law", "right/law"]
    assert any("left: start, attempt 1 of" in event.text for event in cell.events())


@pytest.mark.slow
def test_loop_in_thread_started_before_its_arms(start):
    _, _, cell = start(placement="thread", left=[(40, LOST)])
    assert any("left: start, attempt 1 of" in event.text for event in cell.events())
    assert [cell.state(arm).owner for arm in cell.arms] == ["left/law", "right/law"]


@pytest.mark.slow
def test_restarted_drivers_inherited_niceness_of_fast_start(start):
    _, _, cell = start(priority=1)
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, cell.loop_pid) == niceness


@pytest.mark.slow
def test_repeatedly_failing_start_is_aborted(start):
    _, _, cell = start(left=[(cycle, LOST) for cycle in range(5, 300, 5)])
    assert cell.state("left").fault == "arm_stopped"
    assert cell.state("right").fault == ""
    assert cell.state("right").owner == "right/law"
    text = next(event.text for event in cell.events() if event.event.is_fault)
    assert LOST in text
    assert f"{MAX_START_ATTEMPTS} attempts" in text


def test_collision_during_start_is_not_retried(start):
    _, _, cell = start(left=[(20, "joint_reflex")])
    assert cell.state("left").fault == "arm_stopped"
    assert not any("trying again" in event.text for event in cell.events())
