# SPDX-License-Identifier: Apache-2.0
"""Target channels of the tool and of objects: pose, twist, wrench, internal force, stiffness."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.control.impedance.gains import MAX_STIFFNESS
from multipanda_py.exceptions import ReportMissing, TargetRejected, in_decimals
from multipanda_py.pose import Pose
from multipanda_py.state import (
    MAX_TORQUE_FRACTION,
    ArmLimits,
    ArmSnapshot,
    GateLimits,
    Matrix,
    Vector,
)
from multipanda_py.targets import (
    IDENTITY_POSE,
    ArmTargetRequest,
    Channel,
    Check,
    Report,
    Stream,
    TargetRequest,
    finite_numbers,
)


def check_pose(
    pose_ee_in_base: Pose, state: ArmSnapshot, gate: GateLimits, stream: Stream | None = None
) -> Vector:
    """Check a target pose, and return position [m] and row-major rotation matrix, (12,).

    Args:
        pose_ee_in_base: Target pose.
        state: State of the arm.
        gate: Maximum distance of a target from the measured pose.
        stream: Stream of earlier targets; None for a single target. A far target that continues
            the stream is clipped to the gate.

    Raises:
        TargetRejected: If the target is outside the gate and does not continue a stream.
    """
    distance, angle = pose_ee_in_base.distance_from(
        state.position_ee_in_base, state.rotation_ee_in_base
    )
    is_far = distance > gate.position or angle > gate.rotation
    if is_far and stream and stream.continues(partial(_is_near, pose_ee_in_base, gate)):
        stream.accept(pose_ee_in_base)
        pose_ee_in_base = pose_ee_in_base.clipped(
            state.position_ee_in_base, state.rotation_ee_in_base, gate.position, gate.rotation
        )
        return pose_ee_in_base.record
    if distance > gate.position:
        raise TargetRejected(
            f"{state.name}: target is {in_decimals(distance, 3)} m from the measured pose, "
            f"allowed {gate.position:g} m (gate.position)"
        )
    if angle > gate.rotation:
        raise TargetRejected(
            f"{state.name}: target is rotated {angle:.3f} rad from the measured pose, allowed "
            f"{gate.rotation:g} rad (gate.rotation)"
        )
    if stream:
        stream.accept(pose_ee_in_base)
    return pose_ee_in_base.record


def _is_near(pose: Pose, gate: GateLimits, other: Pose) -> bool:
    distance, angle = pose.distance(other)
    return distance <= gate.position and angle <= gate.rotation


def _pose_record(pose: Pose, request: ArmTargetRequest) -> Vector:
    if not isinstance(pose, Pose):
        raise TargetRejected(f"{request.state.name}: pose: got {pose!r:.60}, allowed a ``Pose``")
    placed = pose if request.frame is IDENTITY_POSE else request.frame @ pose
    return check_pose(placed, request.state, request.gate, request.stream("pose"))


POSE = Channel(
    "pose",
    12,
    "pose of the tool in the arm's base, or in the given frame",
    check=_pose_record,
    modified_by_features=True,
    message="geometry_msgs/msg/PoseStamped",
    method="set_target(arm, pose, frame=...)",
)
"""Record: position (3) [m] and row-major rotation matrix (9) of the tool in the arm's base."""


OBJECT_POSITION = tuple(
    Report(f"object_{axis}", "m", f"{axis} of the object in the world") for axis in "xyz"
)
"""Required reports of a controllet with channel ``object``: position of the object."""


def check_object(pose_in_world: Pose, request: TargetRequest) -> Vector:
    """Check a target pose of an object, and return position [m] and row-major rotation, (12,).

    Args:
        pose_in_world: Target pose of the object in the world.
        request: Request with the gate and the reports of the controllet.

    Raises:
        TargetRejected: If the target is outside the gate, or the object position is not reported.
    """
    try:
        reports = request.reports()
        here = np.array([reports.value(report) for report in OBJECT_POSITION])
    except ReportMissing as error:
        raise TargetRejected(
            f"{request.owner}: the distance of the target from the object is unknown: {error}"
        ) from error
    distance = float(np.linalg.norm(here - pose_in_world.position))
    if distance > request.gate.position:
        raise TargetRejected(
            f"{request.owner}: target is {in_decimals(distance, 3)} m from the object, allowed "
            f"{request.gate.position:g} m (gate.position)"
        )
    return np.concatenate([pose_in_world.position, pose_in_world.rotation.reshape(-1)])


def _object_record(pose: Pose, request: TargetRequest) -> Vector:
    return check_object(request.frame @ pose, request)


OBJECT = Channel(
    "object",
    12,
    "pose of the object that several arms hold, in the world or in the given frame",
    shared=True,
    check=_object_record,
    modified_by_features=True,
    message="geometry_msgs/msg/PoseStamped",
    topic="target_pose",
    method="set_object_target(name, pose)",
)
"""Record like that of ``pose``, but of the object that several arms hold, in the world."""


def check_internal_force(force: float, name: str, gate: GateLimits) -> Vector:
    """Check an internal force, and return it as an array, (1,) [N].

    Args:
        force: Internal force [N].
        name: Name of the controllet, for messages.
        gate: Limits of targets.

    Raises:
        TargetRejected: If the force is negative, not finite or too large.
    """
    if not (np.isfinite(force) and 0.0 <= force <= gate.force):
        raise TargetRejected(
            f"{name}: internal_force: got {force} N, allowed [0, {gate.force:g}] N (gate.force)"
        )
    return np.array([float(force)])


def _internal_force_record(force: float, request: TargetRequest) -> Vector:
    return check_internal_force(force, request.owner, request.gate)


INTERNAL_FORCE = Channel(
    "internal_force",
    1,
    "internal force between the arms that hold an object",
    unit="N",
    shared=True,
    check=_internal_force_record,
    message="std_msgs/msg/Float64",
    method="set_object_target(name, internal_force=...)",
)
"""Record: internal force between the arms that hold an object [N]."""


def check_stiffness(stiffness: ArrayLike, state: ArmSnapshot) -> Vector:
    """Check a stiffness, and return it as a row-major 6 x 6 matrix, (36,) [N/m, Nm/rad].

    Args:
        stiffness: Six diagonal elements or a matrix, (6,), (6, 6) or (36,) [N/m, Nm/rad].
        state: Newest state of the arm.

    Raises:
        TargetRejected: If the stiffness is not symmetric, not positive semidefinite, or too high.
    """
    try:
        matrix = np.array(stiffness, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TargetRejected(
            f"{state.name}: stiffness: got {stiffness!r:.60}, allowed 6 or 6 x 6 numbers"
        ) from None
    if matrix.shape == (6,):
        matrix = np.diag(matrix)
    elif matrix.shape == (36,):
        matrix = matrix.reshape(6, 6)
    path = f"{state.name}: stiffness"
    if matrix.shape != (6, 6):
        raise TargetRejected(f"{path}: got shape {matrix.shape}, allowed 6 or 6 x 6 numbers")
    if not np.isfinite(matrix).all():
        wrong = matrix[~np.isfinite(matrix)][0]
        raise TargetRejected(f"{path}: got the element {wrong}, allowed finite numbers")
    if np.abs(matrix - matrix.T).max() > 1e-9 * max(1.0, np.abs(matrix).max()):
        raise TargetRejected(f"{path}: the matrix is not symmetric. Send a symmetric matrix.")
    moments = np.linalg.eigvalsh(matrix)
    if moments[0] < -1e-9 * max(1.0, moments[-1]):
        raise TargetRejected(
            f"{path}: got smallest eigenvalue {moments[0]:.4g}, allowed 0 or more "
            "(positive semidefinite)"
        )
    # Check only the translational and the rotational block. In a positive semidefinite matrix,
    # their bounds also limit the coupling between them.
    for part_name, bound, unit in (("translational", 0, "N/m"), ("rotational", 3, "Nm/rad")):
        block = matrix[bound : bound + 3, bound : bound + 3]
        stiffest, max_value = float(np.linalg.eigvalsh(block)[-1]), MAX_STIFFNESS[bound]
        if stiffest > max_value * (1.0 + 1e-9):
            raise TargetRejected(
                f"{path}: got {stiffest:.4g} {unit} in the stiffest {part_name} direction, "
                f"allowed up to {max_value:g}"
            )
    return matrix.reshape(-1)


def _stiffness_record(stiffness: ArrayLike, request: ArmTargetRequest) -> Vector:
    return check_stiffness(stiffness, request.state)


STIFFNESS = Channel(
    "stiffness",
    36,
    "six diagonal elements or a symmetric 6 x 6 matrix, along the axes of the gains",
    check=_stiffness_record,
    method="set_target(arm, stiffness=...)",
)
"""Record: row-major 6 x 6 stiffness along the axes of the controllet's gains [N/m, Nm/rad]."""


ROUNDING_FACTOR = 1.0 + 1e-9
"""Factor on a bound that compensates rounding errors of a rotated vector."""


def two_vectors(description: str, first: str, second: str) -> Check:
    """Return the check of a channel whose targets are two vectors, such as force and torque.

    Args:
        description: Name of the channel, for messages.
        first: Key in section ``gate`` of the cell file with the maximum norm of the first vector.
        second: Key in section ``gate`` with the maximum norm of the second vector.

    Returns:
        Function that returns both vectors along the base axes, (6,), or raises TargetRejected.
    """

    def check(values: ArrayLike, request: ArmTargetRequest) -> Vector:
        path, rotation = f"{request.state.name}: {description}", request.frame.rotation
        array = finite_numbers(path, values, 6)
        for part, key in ((array[:3], first), (array[3:], second)):
            size, bound = math.sqrt(part.dot(part)), getattr(request.gate, key)
            if size > bound * ROUNDING_FACTOR:
                raise TargetRejected(
                    f"{path}: got a norm of {in_decimals(size, 3)}, allowed {bound:g} (gate.{key})"
                )
        return np.concatenate([rotation @ array[:3], rotation @ array[3:]])

    return check


TWIST = Channel(
    "twist",
    6,
    "velocity of the tool along the axes of the arm's base, or of the given frame",
    check=two_vectors("twist", "linear_speed", "angular_speed"),
    message="geometry_msgs/msg/TwistStamped",
    method="set_target(arm, twist=...)",
)
"""Record: linear (3) [m/s] and angular velocity (3) [rad/s] of the tool along the base axes."""


_within_gate = two_vectors("wrench", "force", "torque")


def check_exertable(
    wrench_in_base: Vector, jacobian: Matrix, limits: ArmLimits, name: str
) -> None:
    """Reject a wrench w whose joint torques J^T w exceed 0.9 of the torque limits.

    Args:
        wrench_in_base: Force and torque w at the tool, (6,) [N, Nm].
        jacobian: Jacobian J in the current configuration, along the base axes, (6, n).
        limits: Joint limits of the arm.
        name: Name of the arm.

    Raises:
        TargetRejected: If the wrench needs a higher torque.
    """
    torque = np.abs(wrench_in_base @ jacobian)
    joint = int((torque / limits.torque).argmax())
    allowed = MAX_TORQUE_FRACTION * limits.torque[joint]
    if torque[joint] > allowed:
        raise TargetRejected(
            f"joint {joint + 1} of {name}: wrench needs {in_decimals(torque[joint], 2)} Nm in "
            f"this configuration, "
            f"allowed {in_decimals(allowed, 2)} Nm ({MAX_TORQUE_FRACTION:g} of its limit). Reduce "
            f"the wrench {np.round(wrench_in_base, 2).tolist()} N, Nm (in the base)."
        )


def _wrench_record(values: ArrayLike, request: ArmTargetRequest) -> Vector:
    wrench = _within_gate(values, request)
    check_exertable(wrench, request.jacobian(), request.limits, request.owner)
    return wrench


WRENCH = Channel(
    "wrench",
    6,
    "force and torque exerted by the tool, along the axes of the arm's base or of the given frame",
    check=_wrench_record,
    message="geometry_msgs/msg/WrenchStamped",
    method="set_target(arm, wrench=...)",
)
"""Record: force (3) [N] and torque (3) [Nm] exerted by the tool, along the base axes."""


FEEDBACK_WRENCH = replace(
    WRENCH,
    name="feedback_wrench",
    doc="external wrench of a follower, displayed on a hand-guided leader; fades without stream",
    topic="",
    method="",
)
"""Record: force (3) [N] and torque (3) [Nm] along the base axes.

The channel is separate from ``wrench``. A target of ``wrench`` remains until the next one, and its
work is not limited. A delayed wrench from a network must not be applied like this.
"""
