# SPDX-License-Identifier: Apache-2.0
"""Names of the errors and modes of Franka robots, and explanations for users."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

ERRORS = (
    "joint_position_limits_violation",
    "cartesian_position_limits_violation",
    "self_collision_avoidance_violation",
    "joint_velocity_violation",
    "cartesian_velocity_violation",
    "force_control_safety_violation",
    "joint_reflex",
    "cartesian_reflex",
    "max_goal_pose_deviation_violation",
    "max_path_pose_deviation_violation",
    "cartesian_velocity_profile_safety_violation",
    "joint_position_motion_generator_start_pose_invalid",
    "joint_motion_generator_position_limits_violation",
    "joint_motion_generator_velocity_limits_violation",
    "joint_motion_generator_velocity_discontinuity",
    "joint_motion_generator_acceleration_discontinuity",
    "cartesian_position_motion_generator_start_pose_invalid",
    "cartesian_motion_generator_elbow_limit_violation",
    "cartesian_motion_generator_velocity_limits_violation",
    "cartesian_motion_generator_velocity_discontinuity",
    "cartesian_motion_generator_acceleration_discontinuity",
    "cartesian_motion_generator_elbow_sign_inconsistent",
    "cartesian_motion_generator_start_elbow_invalid",
    "force_controller_desired_force_tolerance_violation",
    "start_elbow_sign_inconsistent",
    "communication_constraints_violation",
    "power_limit_violation",
    "cartesian_motion_generator_joint_position_limits_violation",
    "cartesian_motion_generator_joint_velocity_limits_violation",
    "cartesian_motion_generator_joint_velocity_discontinuity",
    "cartesian_motion_generator_joint_acceleration_discontinuity",
    "cartesian_position_motion_generator_invalid_frame",
    "controller_torque_discontinuity",
    "joint_p2p_insufficient_torque_for_planning",
    "tau_j_range_violation",
    "instability_detected",
    "joint_move_in_wrong_direction",
    "cartesian_spline_motion_generator_violation",
    "joint_via_motion_generator_planning_joint_limit_violation",
    "base_acceleration_initialization_timeout",
    "base_acceleration_invalid_reading",
)
"""Names of libfranka's errors, in the order of the bits of :func:`bits_of`."""
COMMUNICATION_ERROR = "communication_constraints_violation"

_HINTS = {
    COMMUNICATION_ERROR: "20 consecutive commands did not arrive in time; check the network and "
    "the priorities",
    "joint_reflex": "an external joint torque was above upper_torque_thresholds",
    "cartesian_reflex": "an external wrench was above upper_force_thresholds",
    "controller_torque_discontinuity": "a torque changed by more than 1 Nm in a cycle",
    "tau_j_range_violation": "a torque was larger than the joint allows",
    "joint_position_limits_violation": "a joint is at its limit; guide it back by hand, or "
    "unlock the joints in Desk",
    "joint_velocity_violation": "a joint was too fast",
    "self_collision_avoidance_violation": "the arm came too close to itself",
}
_RECOVERY_HINT = "recover it to continue"
_MODES = {
    "UserStopped": ("user_stop", "the user stop is pressed; release it, then recover"),
    "Guiding": ("guiding", "the arm is guided by hand; release the button, then recover"),
    "Reflex": ("reflex", _RECOVERY_HINT),
    "AutomaticErrorRecovery": ("recovering", "the robot is recovering"),
    "Other": ("not_ready", "the robot executes no commands; check Desk (locked joints, task)"),
}


def names_of(errors: Any) -> tuple[str, ...]:
    """Return the names of all active errors, in alphabetical order.

    Args:
        errors: ``current_errors`` or ``last_motion_errors`` of a libfranka state.
    """
    if not errors:
        return ()
    return tuple(name for name in dir(errors) if name[0] != "_" and getattr(errors, name) is True)


def bits_of(errors: Any) -> int:
    """Return the active errors as bits, in the order of :data:`ERRORS`.

    Args:
        errors: ``current_errors`` or ``last_motion_errors`` of a libfranka state.
    """
    active = names_of(errors)
    return sum(1 << bit for bit, name in enumerate(ERRORS) if name in active)


def names_in(bits: int) -> tuple[str, ...]:
    """Return the names of the errors whose bits are set; the inverse of :func:`bits_of`."""
    return tuple(name for bit, name in enumerate(ERRORS) if bits >> bit & 1)


def words_of(names: Iterable[str]) -> str:
    """Return error names with their usual causes, as a text for users."""
    words = list(names)
    hints = [_HINTS[name] for name in words if name in _HINTS]
    return ", ".join(words) + (f" ({'; '.join(hints)})" if hints else "")


def fault_of_mode(mode: str, names: Iterable[str]) -> tuple[str, str]:
    """Return kind and text of the fault for a robot mode.

    Args:
        mode: Name of libfranka's ``RobotMode``, neither ``Idle`` nor ``Move``.
        names: Names of the robot's errors, used in the text for mode ``Reflex``.
    """
    kind, text = _MODES.get(mode, ("not_ready", f"the robot is in mode {mode}; check Desk"))
    if kind == "reflex":
        result = list(names)
        text = f"{words_of(result) or 'no error is named'}; {_RECOVERY_HINT}"
    return kind, text
