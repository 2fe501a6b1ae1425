# SPDX-License-Identifier: Apache-2.0
"""Tare of a real arm over a switch and a recovery."""

from __future__ import annotations

import uuid

import numpy as np
import pytest
from processes import wait_until
from robots import unused_address

from multipanda_py.exceptions import TareRejected
from multipanda_py.simulation.fci import FciSim
from multipanda_py.testing import simple_cell

pytestmark = [pytest.mark.usefixtures("needs_pylibfranka"), pytest.mark.slow]

LAWS = {"joint": {"type": "joint_impedance"}}
WEIGHT = [0.0, -1.5, 0.0, 1.0, 0.0, 0.4, 0.0]


def estimated(cell, cycles=100):
    """Return the mean external torque of the next cycles, (7,)."""
    first = cell.records()[0]
    wait_until(lambda: cell.records()[0] > first + cycles, 10.0, lambda: "cycles")
    return cell.records(first)[1]["arms"]["tau_ext"][:, 0].mean(axis=0)


def test_tare_persists_over_switch_and_recovery():
    ip = unused_address()
    arm = {"backend": "franka", "robot_ip": ip, "gripper": False,
           "franka": {"answer_budget": 0.4, "priority": 0, "model_check": "off"}}  # fmt: skip
    with (
        FciSim([ip], lockstep=True) as sim,
        simple_cell(
            {"left": arm}, LAWS, placement="process", name=f"tare_{uuid.uuid4().hex[:10]}",
            realtime={"priority": 0, "cpu": -2}, heartbeat_timeout=5.0,
        ) as cell,
    ):  # fmt: skip
        wait_until(lambda: sim.admin(ip, "stats")["mode"] == "move", 15.0, lambda: "torque")
        sim.admin(ip, "push", tau=WEIGHT)
        estimated(cell, 1500)
        np.testing.assert_allclose(estimated(cell), WEIGHT, atol=0.05)
        np.testing.assert_allclose(cell.tare("left", timeout=10.0), WEIGHT, atol=0.05)
        np.testing.assert_allclose(estimated(cell), 0.0, atol=0.05)
        cell.switch(["left/joint"])
        with pytest.raises(TareRejected, match="left follows left/joint"):
            cell.tare("left", timeout=10.0)
        sim.admin(ip, "push", tau=[a + b for a, b in zip(WEIGHT, [0.0, 2.0] + [0.0] * 5)])
        estimated(cell, 1000)
        np.testing.assert_allclose(estimated(cell), [0.0, 2.0] + [0.0] * 5, atol=0.1)
        sim.admin(ip, "push", tau=WEIGHT)
        sim.admin(ip, "reflex")
        wait_until(lambda: cell.state("left").fault != "", 10.0, lambda: "the fault")
        cell.recover()
        estimated(cell, 1000)
        np.testing.assert_allclose(estimated(cell), 0.0, atol=0.1)
