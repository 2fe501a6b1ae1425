# SPDX-License-Identifier: Apache-2.0
"""Target channels for commands to springs and motors, one per command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import TargetRejected
from multipanda_py.robots.actuated_joints import (
    COMMAND_ALIASES,
    COMMANDS,
    LARGEST_COMMAND,
    ActuatedJoints,
    OperationMode,
)
from multipanda_py.state import Vector
from multipanda_py.targets import AskedOfArm, Channel, finite_numbers

CONFIGURED_MODE = "configured"
"""Value that selects the operation mode of each joint in the cell file instead of a mode name."""
EXTERNAL_TORQUE = "external_torque"
_MEANING = {
    "torque_command": ("Nm", "torque on each link"),
    "link_command": ("rad", "target position of each link for its PID controller"),
    "reference_1": ("rad", "target positions of the first motors"),
    "reference_2": ("rad, m", "target positions of the second motors"),
    "equilibrium_position": ("rad", "equilibrium positions of the springs"),
    "stiffness_preset": ("rad, m", "presets of the spring stiffness"),
    "motor_1_command": ("Nm", "torques of the first motors"),
    "motor_2_command": ("Nm", "torques of the second motors"),
    EXTERNAL_TORQUE: ("Nm", "external torques on the links, in every mode"),
}


def modes_of(joints: ActuatedJoints, mode: str) -> tuple[OperationMode, ...]:
    """Return the operation modes of m joints.

    Args:
        joints: Actuated joints of an arm.
        mode: Name of the mode of all joints, or ``CONFIGURED_MODE``.
    """
    names = joints.modes if mode == CONFIGURED_MODE else (mode,) * len(joints.names)
    return tuple(map(OperationMode.from_value, names))


def _check(name: str, values: object, context: AskedOfArm) -> Vector:
    """Return the record of a command: a value per joint, followed by flags of valid values."""
    path, joints = f"{context.who}: {name}", context.actuated
    if joints is None:
        raise TargetRejected(
            f"{path}: the command needs compliant actuators, which the arm does not have"
        )
    at, numbers = _parts(path, values, joints)
    modes = modes_of(joints, context.parameters().get("mode", CONFIGURED_MODE))
    for index, number in zip(at.tolist(), numbers.tolist()):
        _refuse(f"{path}: {joints.names[index]}", name, number, index, modes[index], context)
    last, n = context.given(name), context.limits.n_joints
    record: Vector = np.zeros((2, n)) if last is None else last.reshape(2, n).copy()
    record[:, joints.joint_indices[at]] = numbers, np.ones(len(at))
    return record.reshape(-1)


def _parts(path: str, values: Any, joints: ActuatedJoints) -> tuple[NDArray[np.intp], Vector]:
    """Return the indices of the commanded joints, and their values.

    Raises:
        TargetRejected: If a value is not finite, or a joint is unknown.
    """
    names = joints.names
    if isinstance(values, Mapping):
        unknown = [name for name in values if name not in names]
        if unknown or not values:
            got = f"{unknown[0]!r:.60}" if unknown else "nothing"
            raise TargetRejected(f"{path}: got {got}, allowed joints {', '.join(names)}")
        at = np.array([names.index(name) for name in values])
        return at, finite_numbers(path, list(values.values()), len(at))
    if isinstance(values, Sequence) or np.ndim(values):
        return np.arange(len(names)), finite_numbers(path, values, len(names))
    return np.arange(len(names)), finite_numbers(path, [values] * len(names), len(names))


def _refuse(
    path: str, name: str, number: float, index: int, mode: OperationMode, context: AskedOfArm
) -> None:
    """Reject a command that is unsupported in the mode of a joint, or out of range.

    A command for a second motor has no effect on joints without one, because arrays contain all
    joints.
    """
    joints, low, high = context.actuated, -LARGEST_COMMAND, LARGEST_COMMAND
    unit = _MEANING[name][0].split(",")[0]
    if joints is None:
        return
    if name != EXTERNAL_TORQUE and name not in mode.commands:
        raise TargetRejected(
            f"{path} is in mode {mode:d} ({mode.name.lower()}), which accepts only "
            f"{' and '.join(mode.commands)}"
        )
    has_second = bool(joints.have_second[index])
    is_pivot = has_second and not joints.are_antagonistic[index]
    if (name == "stiffness_preset" and has_second) or (name == "reference_2" and is_pivot):
        low, high = float(joints.preset_low[index]), float(joints.preset_high[index])
        unit = joints.preset_units[index]
    elif name in ("torque_command", EXTERNAL_TORQUE):
        high = float(context.limits.torque[joints.joint_indices[index]])
        low = -high
    if not low <= number <= high:
        raise TargetRejected(f"{path}: got {number:g}, allowed {low:g} to {high:g} {unit}")
    if name == "equilibrium_position":
        _refuse_jump(path, number, index, joints, context)


def _refuse_jump(
    path: str, number: float, index: int, joints: ActuatedJoints, context: AskedOfArm
) -> None:
    """Reject an equilibrium far from the joint and from its present and last equilibrium.

    One of the three must be near, because a spring that carries a link has an equilibrium away
    from the link.
    """
    gate, n, joint = context.gate.joint, context.limits.n_joints, int(joints.joint_indices[index])
    near = [float(context.state.q[joint]), float(context.at_rest()[index])]
    last = context.given("equilibrium_position")
    if last is not None and last[n + joint]:
        near.append(float(last[joint]))
    step = min(abs(number - one) for one in near)
    if not step <= gate:
        raise TargetRejected(
            f"{path}: {number:g} is {step:.3g} {context.limits.unit(joint)} from the joint and "
            f"from its equilibrium, allowed {gate:g} (gate.joint)"
        )


def _channel(name: str) -> Channel:
    unit, doc = _MEANING[name]
    aliases = [alias for alias, command in COMMAND_ALIASES.items() if command == name]
    return Channel(
        name, 0, doc, unit, check=partial(_check, name), topic=name, per_joint=2,
        method=f"command_actuators(arm, {name}=...)", joint_topics=(name, *aliases),
    )  # fmt: skip


COMMAND_CHANNELS = tuple(_channel(name) for name in COMMANDS)
"""Channels of the commands of all operation modes."""
PUSH_CHANNEL = _channel(EXTERNAL_TORQUE)
"""Channel of external torques, which are not a command of a mode."""
