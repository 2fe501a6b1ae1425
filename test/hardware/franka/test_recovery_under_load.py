# SPDX-License-Identifier: Apache-2.0
"""Recovery of a real arm with an undeclared payload after a reflex."""

from __future__ import annotations

import uuid

import numpy as np
import pytest
from processes import wait_until
from robots import unused_address, within_bounds

from multipanda_py.simulation.fci import FciSim
from multipanda_py.testing import simple_cell

pytestmark = [pytest.mark.usefixtures("needs_pylibfranka"), pytest.mark.slow]

LAWS = {
    "stiff": {"type": "cartesian_impedance", "params": {"stiffness": [2000.0] * 3 + [100.0] * 3}}
}
WEIGHT = [0.0, 0.0, -29.4, 0.0, 0.0, 0.0]


def run(cell, cycles):
    """Return the rows of the next cycles."""
    first = cell.records()[0]
    wait_until(lambda: cell.records()[0] > first + cycles, 10.0, lambda: "cycles")
    return cell.records(first)[1]["arms"][:, 0]


@pytest.mark.slow
def test_recovered_robot_dropped_undeclared_payload():
    """Hold restarted without torque: 22 mm at 0.23 rad/s; with the previous torque 1.2 mm."""
    ip = unused_address()
    franka = {
        "answer_budget": 0.4, "priority": 0, "model_check": "off",
        "upper_torque_thresholds": [60.0] * 7, "upper_force_thresholds": [60.0] * 6,
    }  # fmt: skip
    arm = {"backend": "franka", "robot_ip": ip, "gripper": False, "franka": franka}
    with (
        FciSim([ip], lockstep=True) as sim,
        simple_cell(
            {"left": arm}, LAWS, ["left/stiff"], placement="process",
            name=f"load_{uuid.uuid4().hex[:10]}", realtime={"priority": 0, "cpu": -2},
            heartbeat_timeout=5.0,
        ) as cell,
    ):  # fmt: skip
        wait_until(lambda: sim.admin(ip, "stats")["mode"] == "move", 15.0, lambda: "torque")
        sim.admin(ip, "push", wrench=WEIGHT)
        carried = run(cell, 1500)[-1]
        assert np.abs(carried["dq"]).max() < 1e-2
        sim.admin(ip, "reflex")
        wait_until(lambda: cell.state("left").fault == "arm_stopped", 10.0, cell.events)
        run(cell, 500)  # the stiffness of the robot itself is finite, too
        before = cell.pose("left").position
        first = cell.records()[0]
        cell.recover()
        run(cell, 1000)
        arm = cell.records(first)[1]["arms"][:, 0]
        away = np.linalg.norm(arm["position_ee_in_base"] - before, axis=1)
        assert away.max() < 2e-3
        assert np.abs(arm["dq"]).max() < 0.1  # until the torque is restored
        np.testing.assert_allclose(arm["wrench_ext_in_base"][-1, 2], WEIGHT[2], atol=1.0)
        within_bounds(sim.admin(ip, "stats"))
