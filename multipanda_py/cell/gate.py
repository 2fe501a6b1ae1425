# SPDX-License-Identifier: Apache-2.0
"""Check targets before they reach the loop: finite, in a known frame, near enough."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import bases_in_world
from multipanda_py.config.sections import GateConfig
from multipanda_py.control.cartesian_gains import MAX_STIFFNESS
from multipanda_py.exceptions import TargetRejected
from multipanda_py.limits import JointLimits
from multipanda_py.pose import Pose
from multipanda_py.state import JOINTS, ArmSnapshot, Matrix, Vector

HERE = Pose.identity()
"""Pose of a frame in itself: one object, so that a transform by it can be left out."""


class Frames:
    """The frames that targets may be given in, by the cell's own geometry.

    Known are ``world`` and every arm's base, by the name of its first link
    (``left_fr3_link0``). An empty name is the base of the arm that is spoken to.
    """

    def __init__(self, config: CellConfig) -> None:
        bases = bases_in_world(config)
        self._base_frame = {name: f"{name}_{arm.model}_link0" for name, arm in config.arms.items()}
        self._pose_in_world: Mapping[str, Pose] = {
            "world": Pose.identity(),
            **{self._base_frame[name]: pose for name, pose in bases.items()},
        }

    def base_of(self, arm: str) -> str:
        """Return the name of an arm's base frame."""
        return self._base_frame[arm]

    def base_from(self, frame: str, arm: str) -> Pose:
        """Return the pose of ``frame`` in the base of ``arm``.

        Raises:
            TargetRejected: If the frame is unknown; lists the known ones.
        """
        base = self._base_frame[arm]
        if frame in ("", base):
            return HERE
        if frame not in self._pose_in_world:
            known = ", ".join(self._pose_in_world)
            raise TargetRejected(f"{arm}: frame {frame!r} is unknown; known: {known}")
        return self._pose_in_world[base].inverse() @ self._pose_in_world[frame]

    def world_from(self, frame: str) -> Pose:
        """Return the pose of ``frame`` in the world; an empty name is the world.

        Raises:
            TargetRejected: If the frame is unknown; lists the known ones.
        """
        if frame == "":
            return Pose.identity()
        if frame not in self._pose_in_world:
            known = ", ".join(self._pose_in_world)
            raise TargetRejected(f"frame {frame!r} is unknown; known: {known}")
        return self._pose_in_world[frame]


def check_pose(pose_ee_in_base: Pose, state: ArmSnapshot, gate: GateConfig) -> Vector:
    """Return the record of channel ``pose`` for a target near the measured pose.

    Raises:
        TargetRejected: If the step from the measured pose is larger than the gate.
    """
    distance, angle = pose_ee_in_base.distance_from(
        state.position_ee_in_base, state.rotation_ee_in_base
    )
    if distance > gate.position:
        raise TargetRejected(
            f"{state.name}: target is {distance:.3f} m from the measured pose, allowed "
            f"{gate.position:g} m (gate.position)"
        )
    if angle > gate.rotation:
        raise TargetRejected(
            f"{state.name}: target is turned {angle:.3f} rad from the measured pose, allowed "
            f"{gate.rotation:g} rad (gate.rotation)"
        )
    return np.concatenate([pose_ee_in_base.position, pose_ee_in_base.rotation.reshape(-1)])


def check_joint(
    q: ArrayLike,
    dq: ArrayLike | None,
    state: ArmSnapshot,
    limits: JointLimits,
    gate: GateConfig,
    far: bool = False,
) -> Vector:
    """Return the record of channel ``joint`` for a target within limits and the gate.

    Args:
        q: Positions, (7,) [rad].
        dq: Velocities, (7,) [rad/s]; None is zero.
        state: Of the arm.
        limits: Of its joints.
        gate: How far a target may be.
        far: Whether it may be anywhere within the limits.

    Raises:
        TargetRejected: If a number is not finite, out of limits or too far away.
    """
    target = _joints(f"{state.name}: q", q)
    rate = np.zeros(JOINTS) if dq is None else _joints(f"{state.name}: dq", dq)
    for joint in range(JOINTS):
        where = f"joint {joint + 1} of {state.name}"
        low, high = limits.lower[joint], limits.upper[joint]
        if not low <= target[joint] <= high:
            raise TargetRejected(
                f"{where}: target {target[joint]:.4f} rad is outside [{low:g}, {high:g}]"
            )
        step = abs(target[joint] - state.q[joint])
        if step > gate.joint and not far:
            raise TargetRejected(
                f"{where}: target is {step:.3f} rad from the measured position, allowed "
                f"{gate.joint:g} rad (gate.joint)"
            )
        if abs(rate[joint]) > limits.velocity[joint]:
            raise TargetRejected(
                f"{where}: target velocity {rate[joint]:.3f} rad/s is outside "
                f"+-{limits.velocity[joint]:g}"
            )
    return np.concatenate([target, rate])


def _joints(what: str, values: ArrayLike) -> Vector:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TargetRejected(f"{what}: got {values!r:.60}, allowed {JOINTS} numbers") from None
    if array.shape != (JOINTS,) or not np.isfinite(array).all():
        raise TargetRejected(f"{what}: got {array.tolist()}, allowed {JOINTS} finite numbers")
    return array


def check_twist(twist: ArrayLike, turn: Matrix, state: ArmSnapshot, gate: GateConfig) -> Vector:
    """Return the record of channel ``twist``, turned into the base by ``turn``.

    Raises:
        TargetRejected: If it is not finite or too fast.
    """
    return _two_vectors(
        "twist", twist, turn, state, (gate.speed, "gate.speed"), (gate.turn, "gate.turn")
    )


def check_wrench(wrench: ArrayLike, turn: Matrix, state: ArmSnapshot, gate: GateConfig) -> Vector:
    """Return the record of channel ``wrench``, turned into the base by ``turn``.

    Raises:
        TargetRejected: If it is not finite or too large.
    """
    return _two_vectors(
        "wrench", wrench, turn, state, (gate.force, "gate.force"), (gate.torque, "gate.torque")
    )


def check_squeeze(force: float, name: str, gate: GateConfig) -> Vector:
    """Return the record of channel ``squeeze``.

    Raises:
        TargetRejected: If it is negative, not finite or too large.
    """
    if not (np.isfinite(force) and 0.0 <= force <= gate.force):
        raise TargetRejected(f"{name}: squeeze: got {force} N, allowed [0, {gate.force:g}] N")
    return np.array([float(force)])


def check_stiffness(stiffness: ArrayLike, state: ArmSnapshot) -> Vector:
    """Return the record of channel ``stiffness`` for six diagonal elements or a 6 x 6 matrix.

    Raises:
        TargetRejected: If it is not symmetric and positive semidefinite, or too stiff.
    """
    try:
        matrix = np.array(stiffness, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TargetRejected(f"{state.name}: stiffness: got {stiffness!r:.60}") from None
    if matrix.shape == (6,):
        matrix = np.diag(matrix)
    elif matrix.shape == (36,):
        matrix = matrix.reshape(6, 6)
    where = f"{state.name}: stiffness"
    if matrix.shape != (6, 6):
        raise TargetRejected(f"{where}: got shape {matrix.shape}, allowed 6 or 6 x 6 numbers")
    if not np.isfinite(matrix).all():
        wrong = matrix[~np.isfinite(matrix)][0]
        raise TargetRejected(f"{where}: got {wrong}, allowed finite numbers")
    if np.abs(matrix - matrix.T).max() > 1e-9 * max(1.0, np.abs(matrix).max()):
        raise TargetRejected(f"{where}: got a matrix that is not symmetric")
    moments = np.linalg.eigvalsh(matrix)
    if moments[0] < -1e-9 * max(1.0, moments[-1]):
        raise TargetRejected(
            f"{where}: got smallest eigenvalue {moments[0]:.4g}, allowed 0 or more "
            "(positive semidefinite)"
        )
    # With both blocks bounded and the whole positive semidefinite, what couples them is too.
    for what, bound, unit in (("translational", 0, "N/m"), ("rotational", 3, "Nm/rad")):
        block = matrix[bound : bound + 3, bound : bound + 3]
        stiffest, most = float(np.linalg.eigvalsh(block)[-1]), MAX_STIFFNESS[bound]
        if stiffest > most * (1.0 + 1e-9):
            raise TargetRejected(
                f"{where}: got {stiffest:.4g} {unit} in the stiffest {what} direction, "
                f"allowed up to {most:g}"
            )
    return matrix.reshape(-1)


def _two_vectors(
    what: str,
    values: ArrayLike,
    turn: Matrix,
    state: ArmSnapshot,
    first: tuple[float, str],
    second: tuple[float, str],
) -> Vector:
    """Check six numbers as two vectors with a bound each, and turn both into the base."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TargetRejected(f"{state.name}: {what}: got {values!r:.60}") from None
    if array.shape != (6,) or not np.isfinite(array).all():
        raise TargetRejected(
            f"{state.name}: {what}: got {array.tolist()}, allowed 6 finite numbers"
        )
    for part, (bound, name) in ((array[:3], first), (array[3:], second)):
        size = float(np.linalg.norm(part))
        if size > bound:
            raise TargetRejected(
                f"{state.name}: {what}: got {size:.3f}, allowed {bound:g} ({name})"
            )
    return np.concatenate([turn @ array[:3], turn @ array[3:]])
