# SPDX-License-Identifier: Apache-2.0
"""Ways of real arms into a task and out of it, by ``joint_trajectory``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pinocchio as pin

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.control.reference.governor_commanded_pose import PositionIK
from multipanda_py.exceptions import LoopError, ValidationRefused
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_model import build_pinocchio
from multipanda_py.state import Matrix, Vector

_GAIN, _PERIOD, _STEPS, _TRIES = 20.0, 0.01, 300, 20
_CLOSE = np.array((1e-4, 1e-4, 1e-4, 1e-3, 1e-3, 1e-3))
MARGIN = 0.05
"""That stays to the limits of joints [rad, m]."""


def tool_in_world(arm: ArmDescription, q: Vector) -> Pose:
    """Return where the tool of an arm is at a posture, (n,) [rad]."""
    model = build_pinocchio(arm, base_in_world=True)
    data = model.createData()
    pin.framesForwardKinematics(model, data, q)
    place = data.oMf[model.getFrameId(arm.ee_frame)]
    return Pose(place.translation.copy(), place.rotation.copy())


def pointing(rotation: Matrix, direction: Vector) -> Matrix:
    """Return an orientation turned as little as possible so that z points along a direction."""
    turn = pin.Quaternion.FromTwoVectors(rotation[:, 2], np.asarray(direction, float))
    turned: Matrix = turn.toRotationMatrix() @ rotation
    return turned


def posture_at(arm: ArmDescription, pose_in_world: Pose, q: Vector, what: str) -> Vector:
    """Return the posture near another one that has the tool at a pose, (n,) [rad].

    Args:
        arm: What it is.
        pose_in_world: Of the tool.
        q: To start from and to stay near, (n,) [rad].
        what: For the message.

    Raises:
        ValidationRefused: If none is found.
    """
    base = arm.rotation_base_in_world
    position = base.T @ (pose_in_world.position - arm.position_base_in_world)
    rotation = base.T @ pose_in_world.rotation
    search = PositionIK(arm)
    lower, upper = (np.where(arm.limits.endless, np.inf * sign, side)
                    for sign, side in zip((-1.0, 1.0), arm.limits.span))  # fmt: skip
    rng, begin = np.random.default_rng(0), np.array(q, dtype=np.float64)
    for _ in range(_TRIES):
        found = begin.copy()
        for number in range(_STEPS):
            low, high = (lower + MARGIN - found) / _PERIOD, (upper - MARGIN - found) / _PERIOD
            step = search.rate(
                found, position, rotation, np.zeros(6), _GAIN, begin,
                1.0 if number < _STEPS // 2 else 0.0,
                (np.minimum(np.maximum(low, -5.0), 0.0), np.maximum(np.minimum(high, 5.0), 0.0)),
            )  # fmt: skip
            if (np.abs(search.error) < _CLOSE).all():
                return found
            found = found + _PERIOD * step
        begin = np.clip(q + rng.uniform(-1.0, 1.0, len(q)), lower + MARGIN, upper - MARGIN)
    raise ValidationRefused(
        f"{what}: arm {arm.name} does not reach {np.round(pose_in_world.position, 3).tolist()} m "
        "in the world with its tool as the task wants it"
    )


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
