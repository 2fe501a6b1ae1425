# SPDX-License-Identifier: Apache-2.0
"""Leader and follower of different models: pose following and force reflection."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from models import pairs
from reach import live_arm

from multipanda_py.robots import MODELS

pytestmark = [pytest.mark.sim, pytest.mark.inline]


def running(make_cell, pair, objects=None, **params):
    """Return a cell in which the left arm leads the right one, and the bodies to push."""
    arms = {
        name: {"model": model, "position": [0.0, y, 0.0], "gripper": False}
        for name, y, model in zip(("left", "right"), (0.4, -0.4), pair)
    }
    law = {"type": "teleoperation", "arms": ["left", "right"], "params": params}
    cell = make_cell(arms, {"tele": law}, ["tele"], **({"objects": objects} if objects else {}))
    cell.step(150)  # tare of the follower's wrench
    flange = {name: f"{name}_{m}_{MODELS[m].flange.name}" for name, m in zip(arms, pair)}
    return cell, flange


def moved(cell, arm, start):
    """Return translation and rotation of an end effector, along the axes of the world."""
    now = cell.pose(arm)
    return now.position - start.position, pin.log3(now.rotation @ start.rotation.T)


@pytest.mark.parametrize("pair", pairs())
def test_follower_of_different_model_follows_leader(make_cell, pair):
    cell, flange = running(make_cell, pair)
    start = {arm: cell.pose(arm) for arm in flange}
    damping = cell.parameters("tele")["leader_damping"]
    assert damping.shape == (MODELS[pair[0]].n_joints,)
    cell.simulation.apply_wrench(flange["left"], [3.0, 2.0, 2.0])
    cell.step(500)
    cell.simulation.apply_wrench(flange["left"])
    cell.set_parameters("tele", {"leader_damping": 2.0 * damping})
    cell.step(2000)
    (step_l, turn_l), (step_f, turn_f) = (moved(cell, arm, start[arm]) for arm in flange)
    assert np.linalg.norm(step_l) > 0.03
    assert np.abs(step_f - step_l).max() < 2e-3
    assert np.abs(turn_f - turn_l).max() < 1e-2
    assert cell.events() == []


@pytest.mark.slow
@pytest.mark.parametrize("pair", pairs())
def test_leader_reflects_contact_force_of_different_follower(make_cell, pair):
    """The reflected force equals the operator's, and both arms come to rest."""
    state, model = live_arm({"model": pair[1], "gripper": False})
    state.q[:] = model.arm.robot.ready
    model.update(state)
    x, y, z = state.position_ee_in_base
    table = {"shape": "box", "size": [0.2, 0.2, 0.02], "position": [x, y - 0.4, z - 0.08]}
    cell, flange = running(make_cell, pair, {"table": table}, feedback=0.5)
    cell.simulation.apply_wrench(flange["left"], [0.0, 0.0, -6.0])
    start, _ = cell.records()
    cell.step(3000)
    _, rows = cell.records(start)
    assert cell.report("tele")["reflected force [N]"] == pytest.approx(6.0, rel=0.05)
    pressed = cell.simulation.contact_force("table")[2]
    assert pressed == pytest.approx(-(6.0 / 0.5 + 2.0), rel=0.05)  # beyond the deadband
    speeds = np.abs(rows["arms"]["twist_ee_in_base"][:, :, :3]).max(axis=(1, 2))
    assert speeds[-300:].max() < 5e-3
    assert cell.events() == []
