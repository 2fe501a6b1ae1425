# SPDX-License-Identifier: Apache-2.0
"""A real and a simulated arm in one cell and one coupled controllet."""

from __future__ import annotations

import uuid

import numpy as np
import pytest
from processes import recovers

from multipanda_py.pose import Pose
from multipanda_py.simulation.fci import FciSim
from multipanda_py.testing import simple_cell

pytestmark = [pytest.mark.usefixtures("needs_pylibfranka"), pytest.mark.slow]


def test_real_and_simulated_arm_move_as_a_pair(new_address):
    ip = new_address()
    arms = {
        "real": {"backend": "franka", "robot_ip": ip, "gripper": False,
                 "position": [0.0, 0.3, 0.0],
                 "franka": {"answer_budget": 0.4, "priority": 0}},
        "simulated": {"gripper": False, "position": [0.0, -0.3, 0.0]},
    }  # fmt: skip
    laws = {"pair": {"type": "coupled_impedance", "arms": ["real", "simulated"]}}
    with FciSim([ip], lockstep=True) as sim:
        cell = simple_cell(
            arms, laws, ["pair"], placement="process", name=f"mixed_{uuid.uuid4().hex[:10]}",
            realtime={"priority": 0, "cpu": -2}, heartbeat_timeout=5.0,
        )  # fmt: skip
        with cell:
            cell.wait(lambda: sim.admin(ip, "stats")["mode"] == "move", 20.0, "torque")
            cell.wait(lambda: cell.report("pair")["object_z [m]"] != 0.0, 10.0, "first cycle")
            report = cell.report("pair")
            start = np.array([report[f"object_{axis} [m]"] for axis in "xyz"])
            before = {arm: cell.pose(arm).position for arm in cell.arms}
            cell.set_object_target("pair", Pose(start + [0.0, 0.0, 0.05], np.eye(3)))

            def raised():
                return all(
                    abs(cell.pose(arm).position[2] - before[arm][2] - 0.05) < 5e-3
                    for arm in cell.arms
                )

            cell.wait(raised, 20.0, "both arms 5 cm up")
            sim.admin(ip, "fault", errors=["joint_reflex"])
            cell.wait(lambda: cell.state("real").fault != "", 10.0, "fault")
            assert cell.active == ("real/hold", "simulated/hold")
            assert cell.state("simulated").fault == ""
            cycles = cell.state("simulated").time
            cell.wait(
                lambda: cell.records()[1]["time"][-1] > cycles + 0.1, 10.0, "the world goes on"
            )

            # In lockstep the robot is silent first and reports the reason later.
            cell.wait(lambda: recovers(cell, ["real"]), 15.0, "recovery")
            cell.switch(["pair"], strictness="force_auto")
            assert cell.active == ("pair",)
