# SPDX-License-Identifier: Apache-2.0
"""Paths of subtasks, against pinocchio's kinematics of the arms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.cell import Cell
from multipanda_py.dynamics.arm_model import build_pinocchio
from multipanda_py.tasks.planner import Planner
from multipanda_py.tasks.seen import look
from multipanda_py.tasks.task_file import TaskFile

CELL = Path(__file__).parents[2] / "config" / "box_task_sim.yaml"
BOTH = ["left", "right"]


@pytest.mark.sim
@pytest.mark.parametrize("pivots", [False, True])
def test_hands_stay_on_the_thing_that_they_carry_in_every_slice(pivots):
    """Rigidly, or by their tips alone, which then turn, as little as can be."""
    sides = {"thing": "box", "arms": BOTH, "side": "+y", "pivots": pivots}
    carry = {
        "name": "carry", "contacts": ["sides"], "force": 20.0,
        "goals": [{"frame": "box", "by": [0.05, 0.06, 0.12]}],
    }  # fmt: skip
    task = TaskFile.from_dict(
        {"name": "t", "law": "augmented", "contacts": {"sides": sides}, "subtasks": [carry]}
    )
    with Cell.from_yaml(CELL, placement="inline") as cell:
        cell.step(1)
        start = look(cell, BOTH)
        plan = Planner(cell, task).ask(task.subtasks[0], "hybrid", start).result()
        arms = cell.descriptions
    box = plan.things["box"]
    moved = box[-1].position - start.things["box"].position
    assert moved == pytest.approx([0.05, 0.06, 0.12], abs=2e-4)
    assert box[-1].rotation == pytest.approx(start.things["box"].rotation, abs=4e-4)
    for arm in BOTH:
        model = build_pinocchio(arms[arm], base_in_world=True)
        data, frame = model.createData(), model.getFrameId(arms[arm].ee_frame)
        held = start.things["box"].inverse() @ start.tools[arm]
        turns = []
        for pose, q in zip(box, plan.postures[arm]):
            pin.framesForwardKinematics(model, data, q)
            placed = data.oMf[frame]
            tip = pose.rotation.T @ (placed.translation - pose.position)
            assert tip == pytest.approx(held.position, abs=4e-4)
            turn = held.rotation.T @ pose.rotation.T @ placed.rotation
            turns.append(np.linalg.norm(pin.log3(turn)))
        assert (0.002 < max(turns) < 0.03) if pivots else max(turns) < 4e-4
