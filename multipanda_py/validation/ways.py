# SPDX-License-Identifier: Apache-2.0
"""Ways of real arms into a task and out of it, by ``joint_trajectory``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import LoopError
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.state import Vector
from multipanda_py.validation.posture import posture_at, tool_in_world

TO_START = "to_start"
"""The law that goes these ways."""
AWAY = 0.08
"""From where arms come to a thing, against the force that they are to exert [m]."""
THERE, NEAR = 5e-3, 0.05
"""How near an arm has to come to an end of its way, and to a point on it [rad, m]."""
SLOW = 0.02
"""How fast it may be where a task begins [rad/s, m/s]."""
LONGEST = 60.0
"""For each part of a way [s]."""


def go_to_start(cell: Cell, config: CellConfig, exerts: Mapping[str, Vector]) -> None:
    """Bring arms to where a task begins, to things from the side on which they will press.

    Args:
        cell: On real arms.
        config: Of the task's scene, with postures.
        exerts: Forces on things by arm, (3,) [N, in the world].

    Raises:
        MultipandaError: If an arm does not get there.
    """
    starts = {name: np.array(arm.q_start) for name, arm in config.arms.items()}
    before = {}
    for name, force in exerts.items():
        arm, q = describe_arm(name, config.arms[name]), starts[name]
        tool = tool_in_world(arm, q)
        place = tool.position - AWAY / np.linalg.norm(force) * force
        before[name] = posture_at(arm, Pose(place, tool.rotation), q, f"the way of {name}")
    cell.switch([f"{name}/{TO_START}" for name in starts], strictness="force_auto")
    if before:
        _go(cell, {**starts, **before}, NEAR, "the way to the start")
    _go(cell, starts, THERE, "the start posture", SLOW)


def retreat(
    cell: Cell, arms: Mapping[str, ArmDescription], steps: Mapping[str, Vector], what: str
) -> None:
    """Move the tools of arms by a step each, away from what they touch.

    Args:
        cell: On real arms.
        arms: Which, as they are described.
        steps: Of each by name, (3,) [m, in the world].
        what: For messages.

    Raises:
        MultipandaError: If an arm cannot go there, or does not.
    """
    goals: dict[str, Vector] = {}
    for name, arm in arms.items():
        here, turn = cell.pose(name), arm.rotation_base_in_world
        place = arm.position_base_in_world + turn @ here.position + steps[name]
        q = cell.state(name).q.copy()
        goals[name] = posture_at(arm, Pose(place, turn @ here.rotation), q, what)
    cell.switch([f"{name}/{TO_START}" for name in arms], strictness="force_auto")
    _go(cell, goals, 2.0 * THERE, f"{what}: the way back")


def _go(
    cell: Cell, goals: Mapping[str, Vector], near: float, what: str, slow: float = np.inf
) -> None:
    for name, q in goals.items():
        cell.set_target(name, q=q)

    def is_over() -> bool:
        states = {name: cell.state(name) for name in goals}
        there = all(
            np.abs(states[name].q - q).max() < near and np.abs(states[name].dq).max() < slow
            for name, q in goals.items()
        )
        return there or any(state.fault for state in states.values())

    cell.wait(is_over, LONGEST, what)
    if fault := fault_of(cell):
        raise LoopError(f"{what}: {fault}")


def fault_of(cell: Cell) -> str:
    """Return what is wrong with an arm that has a fault, or an empty string."""
    faults = cell.row()["arms"]["fault"]
    if not faults.any():
        return ""
    events = [event for event in cell.events() if event.event.is_fault]
    words = [" ".join(str(event).split()) for event in events]
    return words[0] if words else f"fault {int(faults.max())} of an arm"
