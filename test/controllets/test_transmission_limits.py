# SPDX-License-Identifier: Apache-2.0
"""Link limits under commands of elastic elements."""

from __future__ import annotations

import numpy as np
import pytest
from long_form import every_nth
from springs_of_fr3 import springs

from multipanda_py.exceptions import TargetRejected

pytestmark = [pytest.mark.sim, pytest.mark.inline]
LAW = "commands"
AWAY = np.array([6.0, -8.0, 9.0, -5.0, 7.0, -9.0, 10.0])


def commanded(make_cell, mode, **cell):
    arm = {"actuators": springs("equilibrium_pid"), "gripper": False}
    laws = {LAW: {"type": "actuator_commands", "arms": ["left"], "params": {"mode": mode}}}
    return make_cell({"left": arm}, laws, [LAW], **cell)


def simulate(cell, cycles):
    """Return the largest ratio of torque to the link limits, and of speed."""
    arm, data = cell.descriptions["left"], cell.simulation.data
    beyond, speed = -np.inf, 0.0
    for _ in range(cycles):
        cell.step(1)
        weight = data.qfrc_bias[:7]
        torque = np.abs(cell.actuators("left").torque - weight)
        beyond = max(beyond, (torque / arm.limits.torque).max())
        speed = max(speed, (np.abs(data.qvel[:7]) / arm.limits.velocity).max())
    return beyond, speed


@pytest.mark.parametrize("mode", ["equilibrium", "equilibrium_pid"])
def test_equilibrium_step_beyond_gate_is_refused_without_effect(make_cell, mode):
    cell = commanded(make_cell, mode)
    cell.step(20)
    q, before = cell.state("left").q.copy(), cell.actuators("left").equilibrium
    for step in (0.45, -0.45, 10.0):
        with pytest.raises(TargetRejected, match=r"joint1:.*0.4 \(gate.joint\)"):
            cell.command_actuators("left", equilibrium_position={"joint1": q[0] + step})
    cell.step(20)
    np.testing.assert_allclose(cell.state("left").q, q, atol=1e-4)
    if mode == "equilibrium":
        np.testing.assert_allclose(cell.actuators("left").equilibrium, before, atol=1e-4)


def test_stream_of_small_steps_covers_large_distance(make_cell):
    cell = commanded(make_cell, "equilibrium_pid")
    cell.step(20)
    start = cell.actuators("left").equilibrium[6]
    for step in range(1, 9):
        cell.command_actuators("left", equilibrium_position={"joint7": start + 0.1 * step})
        cell.step(120)
    cell.step(300)
    assert cell.state("left").q[6] == pytest.approx(start + 0.8, abs=0.02)
    assert not cell.state("left").fault


@pytest.mark.parametrize("mode", every_nth(3, ["equilibrium", "spring_references", "motor_pid",
                                  "equilibrium_pid", "motor_torque"]))  # fmt: skip
def test_distant_command_put_427_nm_on_joints_with_limit_87(make_cell, mode):
    """Springs wound up, and the following hold released them at 20 rad/s."""
    cell = commanded(make_cell, mode, gate={"joint": 7.0})
    cell.step(20)
    q = cell.state("left").q
    low, high = cell.descriptions["left"].limits.lower, cell.descriptions["left"].limits.upper
    if mode == "motor_torque":
        cell.command_actuators("left", motor_1_command=150.0, motor_2_command=150.0)
    elif "equilibrium" in mode:
        cell.command_actuators("left", equilibrium_position=np.clip(q + AWAY, low, high))
    else:
        cell.command_actuators("left", reference_1=q + AWAY)
        cell.command_actuators("left", reference_2=q + AWAY)
    beyond, speed = simulate(cell, 300)
    assert cell.state("left").fault or mode.startswith("motor") or mode.endswith("pid")
    assert beyond < 1.2
    assert speed < 1.3
    cell.hold()
    cell.step(500)
    _, speed = simulate(cell, 100)
    assert speed < 0.05


@pytest.mark.parametrize("seed", every_nth(2, range(4)))
def test_antagonistic_springs_released_link_unevenly(make_cell, seed):
    """The next hold released them by motors: 5 times the joint torque limits, 40 rad/s."""
    rng = np.random.default_rng(seed)
    cell = commanded(make_cell, "spring_references", gate={"joint": 7.0})
    cell.step(20)
    for reach in (0.03, 0.2, 0.5, 10.0):
        if cell.state("left").fault:
            break
        q = cell.state("left").q
        cell.command_actuators("left", reference_1=q + rng.uniform(-reach, reach, 7))
        cell.command_actuators("left", reference_2=q + rng.uniform(-reach, reach, 7))
        beyond, speed = simulate(cell, int(rng.integers(1, 100)))
        assert beyond < 1.2
        assert speed < 2.0
    assert cell.state("left").fault
    beyond, speed = simulate(cell, 400)
    assert beyond < 1.2
    assert speed < 2.0
