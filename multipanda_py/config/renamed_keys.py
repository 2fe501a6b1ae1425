# SPDX-License-Identifier: Apache-2.0
"""Former names of keys and parameters; a file with a former name is rejected.

The message contains the new name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from multipanda_py.parameters import Spec, check_values

KEYS = {
    "arms.*.hand": "gripper",
    "arms.*.joints": "transmission",
    "arms.*.noise.dq_step": "dq_resolution",
    "arms.*.noise.q_step": "q_resolution",
    "arms.*.noise.tau_step": "tau_resolution",
    "arms.*.noise.torque_step": "torque_resolution",
    "arms.*.perturbation.delay": "state_delay",
    "arms.*.actuators.*.motor.high": "max_position",
    "arms.*.actuators.*.motor.low": "min_position",
    "arms.*.actuators.*.motor_2.high": "max_position",
    "arms.*.actuators.*.motor_2.low": "min_position",
    "collisions.touching": "allowed_contacts",
    "controllets.*.params_of": "arm_params",
    "gate.speed": "linear_speed",
    "gate.turn": "angular_speed",
    "realtime.keep_awake": "disable_cpu_idle",
    "recorder.after": "seconds_after",
    "recorder.before": "seconds_before",
    "recorder.keep": "max_recordings",
    # Keys of task files
    "law": "controllet",
    "contacts.*.at": "offset",
    "contacts.*.thing": "object",
    "subtasks.*.distance": "approach_distance",
    "subtasks.*.force_band": "force_tolerance",
    "subtasks.*.goals.*.by": "offset",
    "subtasks.*.goals.*.points": "z_axis",
    "subtasks.*.moved": "replan_distance",
    "subtasks.*.on_failure.then": "fallback",
    "subtasks.*.settle": "settling_time",
    "subtasks.*.slices": "time_steps",
    "subtasks.*.tolerance": "position_tolerance",
    "subtasks.*.touching": "allowed_contacts",
    "subtasks.*.turn_tolerance": "orientation_tolerance",
}
"""New name of each key, by its former path in a cell file or task file; ``*`` is any name."""

PARAMETERS: dict[str, tuple[str, ...]] = {
    "acceleration": ("acceleration_scaling",),
    "integral_share": ("integral_torque_scale",),
    "leash": ("max_reference_lead",),
    "max_speed": ("max_linear_speed", "max_joint_speed"),
    "max_turn": ("max_angular_speed",),
    "posture_rate": ("nullspace_rate",),
    "posture_stiffness": ("nullspace_stiffness",),
    "speed": ("velocity_scaling",),
    "squeeze_time": ("internal_force_time",),
    "touch_force": ("contact_threshold",),
    "turn_speed": ("angular_speed",),
    "collision_avoidance.itself": ("collision_avoidance.self_collision",),
    "felt_wrench.damping": ("feedback_wrench.translational_damping",),
    "felt_wrench.enabled": ("feedback_wrench.enabled",),
    "felt_wrench.fade_time": ("feedback_wrench.fade_time",),
    "felt_wrench.max_force": ("feedback_wrench.max_force",),
    "felt_wrench.max_torque": ("feedback_wrench.max_torque",),
    "felt_wrench.patience": ("feedback_wrench.timeout",),
    "felt_wrench.stiffness": ("feedback_wrench.translational_stiffness",),
    "felt_wrench.time_constant": ("feedback_wrench.time_constant",),
    "felt_wrench.turn_damping": ("feedback_wrench.rotational_damping",),
    "felt_wrench.turn_stiffness": ("feedback_wrench.rotational_stiffness",),
    "friction.share": ("friction.scale",),
    "governor.acceleration": ("governor.linear_acceleration",),
    "governor.contact_speed": ("governor.contact_linear_speed",),
    "governor.contact_turn_speed": ("governor.contact_angular_speed",),
    "governor.joint_acceleration": ("governor.joint_acceleration_scaling",),
    "governor.joint_speed": ("governor.joint_velocity_scaling",),
    "governor.share": ("governor.limit_scale",),
    "governor.speed": ("governor.linear_speed",),
    "governor.turn_acceleration": ("governor.angular_acceleration",),
    "governor.turn_speed": ("governor.angular_speed",),
    "residual.bound": ("residual.max_torque",),
    "residual.share": ("residual.scale",),
    "workspace.speed": ("workspace.linear_speed",),
    "workspace.turn_rate": ("workspace.angular_speed",),
}
"""New names of parameters of controllets and features. The first one that a controllet has
counts, since controllets used one name for different quantities."""

FEATURES = {"felt_wrench": "feedback_wrench"}
"""New names of features."""

ACTUATOR_PARAMETERS = {("awas2", "spring"): "spring_stiffness"}
"""New names of parameters of actuators, by type and former name."""


def renamed_key(path: Sequence[int | str]) -> str:
    """Return the new name of a key of a cell file; empty if the key has not been renamed.

    Args:
        path: Keys from the top level of the file to this key.
    """
    names = [str(part) for part in path]
    for old, new in KEYS.items():
        parts = old.split(".")
        if len(parts) == len(names) and all(a in ("*", b) for a, b in zip(parts, names)):
            return new
    return ""


def renamed_parameter(name: str, known: Collection[str]) -> str:
    """Return the new name of a parameter; empty if the parameter has not been renamed.

    Args:
        name: Name in a file.
        known: Names of the controllet's parameters, ending with the arm if there is one value per
            arm, such as ``residual.max_torque.left``.
    """
    if name in known:
        return ""
    result = (
        own
        for new in PARAMETERS.get(name, ())
        for own in known
        if own == new or own.startswith(f"{new}.")
    )
    return next(result, "")


def check_parameters(
    specs: Sequence[Spec], values: Mapping[str, object], path: str
) -> tuple[dict[str, Any], list[str]]:
    """Check parameter values; messages on former names contain the new name.

    Args:
        specs: Specifications of the controllet's parameters.
        values: Parameter values by name.
        path: Path of the controllet, for messages.

    Returns:
        Accepted values by name, and one error message per rejected value.
    """
    known = [spec.name for spec in specs]
    new = {name: result for name in values if (result := renamed_parameter(name, known))}
    current = {name: value for name, value in values.items() if name not in new}
    accepted, faults = check_values(specs, current, path)
    return accepted, [*(f"{path}: {old}: renamed to {own}" for old, own in new.items()), *faults]


def with_current_keys(data: Any, path: tuple[str, ...] = ()) -> Any:
    """Return the data of the cell file in a recording, with former names of keys replaced.

    Use this for recordings only: in cell files of users, former names are rejected. Former names
    of parameters stay.

    Args:
        data: Data of the cell file, or of one of its keys.
        path: Keys from the top level of the file to ``data``.
    """
    if not isinstance(data, Mapping):
        return data
    return {
        renamed_key((*path, key)) or key: with_current_keys(value, (*path, str(key)))
        for key, value in data.items()
    }
