# SPDX-License-Identifier: Apache-2.0
"""Pose, velocity and internal force of an object held by several end effectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from struct import Struct

import numpy as np
import pinocchio as pin
from numpy import add, dot, negative

from multipanda_py.context import Context
from multipanda_py.control.grasp_map import GraspMap
from multipanda_py.control.impedance.limit_scaling import NO_CHECK_BELOW, TorqueSaturation
from multipanda_py.control.impedance.modal_damping import ModalDamping
from multipanda_py.robots.dynamics.task_inertia import TaskInertia
from multipanda_py.state import ArmState, Matrix, Vector

_log3, _exp3 = pin.log3, pin.exp3
_pack_3 = Struct("3d").pack_into

MIN_MOBILITY = TaskInertia.MIN_MANIPULABILITY
"""Minimum eigenvalue of the inverse inertia of an end effector [1/kg]. Near a singularity, the
damped inertia of ``TaskInertia`` would approach zero in a direction in which the arm can hardly
move."""


class BaseFrame:
    """Transformation of quantities of one arm from its base frame to the world, and back.

    Args:
        position: Position of the base in the world, (3,) [m].
        rotation: Rotation of the base in the world, (3, 3).
    """

    def __init__(self, position: Vector, rotation: Matrix) -> None:
        self._position, self._rotation = position.tolist(), rotation
        self._turn6 = np.kron(np.eye(2), rotation)
        self._aligned = bool(np.abs(rotation - np.eye(3)).max() < 1e-12)
        self._product = np.zeros((6, 6))

    def rotation_to_world(self, rotation: Matrix, out: Matrix) -> Matrix:
        """Transform a rotation from the base to the world, and return it, (3, 3).

        Args:
            rotation: Rotation in the base, (3, 3).
            out: Buffer for the result, (3, 3). If base and world are aligned, it remains unused
                and ``rotation`` itself is returned.
        """
        return rotation if self._aligned else self._rotation.dot(rotation, out)

    def point_to_world(self, position: Vector, out: memoryview) -> None:
        """Transform a point from the base to the world, and write it into a buffer.

        Args:
            position: Point in the base, (3,) [m].
            out: Buffer for the point in the world, of three numbers.
        """
        x, y, z = (position if self._aligned else self._rotation.dot(position)).tolist()
        bx, by, bz = self._position
        _pack_3(out, 0, x + bx, y + by, z + bz)

    def six_to_world(self, six: Vector) -> Vector:
        """Rotate a twist or wrench (6,) from the base axes to the world axes, and return it."""
        return six if self._aligned else self._turn6.dot(six)

    def six_to_base(self, six: Vector) -> Vector:
        """Rotate a wrench (6,) from the world axes to the base axes, and return it."""
        return six if self._aligned else six.dot(self._turn6)

    def matrix_to_world(self, matrix: Matrix, out: Matrix) -> Matrix:
        """Rotate an inertia or inverse inertia to the world axes, and return it, (6, 6).

        Args:
            matrix: Inertia or inverse inertia along the axes of the base, (6, 6).
            out: Buffer for the result, (6, 6). If base and world are aligned, it remains unused
                and ``matrix`` itself is returned.
        """
        if self._aligned:
            return matrix
        return self._turn6.dot(matrix, self._product).dot(self._turn6.T, out)


class GraspedObject:
    """Estimator of pose and velocity of an object from the end effectors that hold it.

    The pose is the mean of the estimates from all end effectors::

        p_o = 1/N sum_i (p_i - R_o r_i)
        R_i' = R_i G_i^T
        R_o = exp(1/N sum_i log(R_i' R_1'^T)) R_1'

    - p_o, R_o: Position [m] and rotation of the object in the world.
    - R_i': Rotation of the object that end effector i implies.
    - p_i, R_i: Position [m] and rotation of end effector i in the world.
    - r_i, G_i: Position [m] and rotation of end effector i in the object frame at the grasp.
    - N: Number of end effectors.

    If the estimates differ, the grasp map ``sharing`` gives end effectors of higher inertia a
    higher weight. All quantities are in the world frame.

    Attributes:
        position: Position of the object, (3,) [m].
        rotation: Rotation of the object, (3, 3).
        levers: Vectors from the object origin to the end effectors, (N, 3) [m]. Only ``update``
            with ``refresh=True`` changes them.
        inward: Unit directions from the end effectors to the origin, minus their mean, (N, 3).
        sharing: Grasp map of the object.
        errors: Displacements from the end effectors to their grasp poses, (N, 6) [m, rad].
        rates: Negative slip of the end effectors, ``GraspMap.rates``, (N, 6) [m/s, rad/s].
        end_effector_positions: Positions of the end effectors, (N, 3) [m].

    Thread: control.
    """

    def __init__(self, context: Context) -> None:
        n = context.n_arms
        base_poses = zip(context.positions_base_in_world, context.rotations_base_in_world)
        self.bases = [BaseFrame(position, rotation) for position, rotation in base_poses]
        known, placed = np.vstack([np.eye(3), np.zeros((n, 3))]), np.zeros((n + 1, 3))
        self._rotation_back, self.end_effector_positions, self.rotation = (
            known[:3],
            known[3:],
            known[:3].T,
        )
        self._errors_and_pose = np.zeros((n + 1, n + 3))
        self._errors_and_pose[:, 3:] = 1.0 / n - np.eye(n + 1, n)
        self._grasps = self._errors_and_pose[:n, :3]
        self._known, self._placed, self._away = known, placed, placed[:n]
        self.position, self.levers = placed[n], np.zeros((n, 3))
        self.sharing = sharing = GraspMap(n)
        paths, rates = sharing.grasp_errors.reshape(2, n, 6)
        self.errors, self.rates = sharing.errors.reshape(n, 6), sharing.rates.reshape(n, 6)
        self.inward = sharing.inward
        self._states: Sequence[ArmState] = ()
        self._inertias, self._inverses = ([np.eye(6) for _ in range(n)] for _ in range(2))
        self._rotations, self._grasp_rotations = ([np.eye(3) for _ in range(n)] for _ in range(2))
        self._grasp_backs = [np.eye(3) for _ in range(n)]
        self._implied_rotations = [np.eye(3) for _ in range(n)]
        self._product = np.zeros((3, 3))
        self._position_errors, self._rotation_errors = paths[:, :3], [error[3:] for error in paths]
        self._rotation_error_views = [turned.data for turned in self._rotation_errors]
        self._hand_views, self._rate_views = (
            [hand.data for hand in self.end_effector_positions],
            list(rates),
        )

    def grasp(self, states: Sequence[ArmState]) -> None:
        """Set the grasp poses to the current end-effector poses, and the origin to their mean."""
        self._sense(states)
        self.position[:] = self.end_effector_positions.mean(axis=0)
        self.rotation[:] = np.eye(3)
        self._grasps[:] = self.end_effector_positions - self.position
        for back, rotation in zip(self._grasp_backs, self._rotations):
            back[:] = rotation.T
        self.update(states)

    def update(self, states: Sequence[ArmState], refresh: bool = True) -> None:
        """Estimate pose and velocity of the object, and the grasp error of each end effector.

        Args:
            states: States of the arms.
            refresh: True to recompute levers and inertias, which is expensive.
        """
        self._sense(states)
        self._average_rotation()
        self._errors_and_pose.dot(self._known, self._placed)
        self._position_errors[:] = self._away
        if refresh:
            levers = self._grasps.dot(self._rotation_back, self.levers)
            self.sharing.refresh(levers, [self._inertia(i) for i in range(len(states))])
        self.sharing.measure()

    def inertia_inv(self, hand: int) -> Matrix:
        """Return the inverse inertia of one end effector, bounded near singularities, (6, 6)."""
        space = self._states[hand].operational_space()
        inverse = space.inertia_inv
        if space.damping > 0.0:
            w, v = space.eigen()
            inverse = dot(v * np.maximum(w, MIN_MOBILITY), v.T)
        return self.bases[hand].matrix_to_world(inverse, self._inverses[hand])

    def _inertia(self, hand: int) -> Matrix:
        space = self._states[hand].operational_space()
        inertia = space.inertia
        if space.damping > 0.0:
            w, v = space.eigen()
            inertia = dot(v / np.maximum(w, MIN_MOBILITY), v.T)
        return self.bases[hand].matrix_to_world(inertia, self._inertias[hand])

    def _sense(self, states: Sequence[ArmState]) -> None:
        self._states = states
        for i, (base, state) in enumerate(zip(self.bases, states)):
            base.point_to_world(state.position_ee_in_base, self._hand_views[i])
            self._rotations[i] = base.rotation_to_world(
                state.rotation_ee_in_base, self._grasp_rotations[i]
            )
            negative(base.six_to_world(state.twist_ee_in_base), self._rate_views[i])

    def _average_rotation(self) -> None:
        implied = self._implied_rotations
        for rotation, back, rotation_of_object in zip(self._rotations, self._grasp_backs, implied):
            rotation.dot(back, rotation_of_object)
        first, second, *others = implied
        x, y, z = _log3(second.dot(first.T, self._product)).tolist()
        # With two end effectors, each rotation error is half of the difference of their rotations.
        if not others:
            x, y, z = 0.5 * x, 0.5 * y, 0.5 * z
            mean, other = self._rotation_error_views
            _pack_3(mean, 0, x, y, z)
            _pack_3(other, 0, -x, -y, -z)
            first.T.dot(_exp3(self._rotation_errors[0]).T, self._rotation_back)
            return
        total = np.array([x, y, z])
        for rotation_of_object in others:
            add(total, _log3(rotation_of_object.dot(first.T)), total)
        first.T.dot(_exp3(total / len(implied)).T, self._rotation_back)
        for error, rotation_of_object in zip(self._rotation_errors, implied):
            error[:] = _log3(self.rotation.dot(rotation_of_object.T))


class InternalForceEstimator:
    """Estimator of the internal force from the external wrenches of the end effectors.

    Equation::

        F_s = -(n^T F_ext) / (n^T n)

    - F_s: Internal force, positive in compression [N].
    - n: Forces from the end effectors to the object origin, (6 N,).
    - F_ext: Estimated external wrenches of the end effectors, (6 N,) [N, Nm].

    Args:
        held: Grasped object.

    Thread: control.
    """

    def __init__(self, held: GraspedObject) -> None:
        self._bases, self._sharing = held.bases, held.sharing

    def estimate(self, states: Sequence[ArmState]) -> float:
        """Return the measured internal force of the end effectors on the object [N]."""
        total, sharing = 0.0, self._sharing
        for base, state, (x, y, z) in zip(self._bases, states, sharing.presses):
            fx, fy, fz, _, _, _ = base.six_to_world(state.wrench_ext_in_base).tolist()
            total -= fx * x + fy * y + fz * z
        return total / sharing.size


class InternalForceLimiter:
    """Limiter of an internal force by the torque limits of all arms.

    All end effectors use the same scale.

    Args:
        held: Grasped object.
        context: Context of the controllet.

    Thread: control.
    """

    def __init__(self, held: GraspedObject, context: Context) -> None:
        fractions = [TorqueSaturation(arm) for arm in context.arms]
        self._hands = list(zip(held.bases, held.inward, fractions))
        self._wrench = np.zeros(6)

    def limit(self, internal_force: float, states: Sequence[ArmState]) -> float:
        """Return the internal force, reduced if the torque limits require it [N].

        Args:
            internal_force: Desired internal force [N].
            states: States of the arms.
        """
        return (
            internal_force
            if internal_force < NO_CHECK_BELOW
            else internal_force * self._min(internal_force, states)[0]
        )

    def overload(self, internal_force: float, states: Sequence[ArmState]) -> str:
        """Return a warning if the torque limits reduce an internal force; "" if they do not.

        Args:
            internal_force: Desired internal force [N].
            states: States of the arms.
        """
        scale, name = self._min(internal_force, states)
        if scale == 1.0:
            return ""
        return (
            f"{name}: torque limits reduce the internal force to {scale * internal_force:.1f} of "
            f"{internal_force:.1f} N on all arms. Change the configuration or lower the force."
        )

    def _min(self, internal_force: float, states: Sequence[ArmState]) -> tuple[float, str]:
        min_value, name, wrench = 1.0, "", self._wrench
        for (base, inward, limit), state in zip(self._hands, states):
            np.multiply(inward, internal_force, wrench[:3])
            scale = limit.scale(base.six_to_base(wrench), state)
            if scale < min_value:
                min_value, name = scale, state.name
        return min_value, name


def buckling_warning(
    internal_force: float, dampers: Sequence[ModalDamping], stiffness: Vector, held: GraspedObject
) -> str:
    """Return a warning if the lateral stiffness is too low for an internal force; "" if not.

    Two end effectors at distance L that press with a force F each need a lateral stiffness above 2
    F / L.

    Args:
        internal_force: Desired internal force [N].
        dampers: Modal dampers of the end effectors, whose bandwidth limits may reduce stiffness.
        stiffness: Stiffness of the end effectors, (6,) [N/m, Nm/rad].
        held: Grasped object.
    """
    across = min_stiffness_across(dampers, stiffness, held)
    width = 2.0 * float(np.linalg.norm(held.levers, axis=1).mean())
    if not 2.0 * internal_force > across * width:
        return ""
    return (
        f"an internal force of {internal_force:.1f} N over {width:.2f} m needs a lateral "
        f"stiffness of {2.0 * internal_force / width:.0f} N/m, but relative_stiffness provides "
        f"{across:.0f} N/m. The grasp may buckle. Lower the force below "
        f"{0.5 * across * width:.1f} N or raise relative_stiffness."
    )


def min_stiffness_across(
    dampers: Sequence[ModalDamping], stiffness: Vector, held: GraspedObject
) -> float:
    """Return the lowest stiffness of any end effector perpendicular to the internal force [N/m].

    Args:
        dampers: Modal dampers of the end effectors, whose bandwidth limits may reduce stiffness.
        stiffness: Desired stiffness of each end effector, (6,) [N/m, Nm/rad].
        held: Object with the directions of the internal force.
    """
    min_value = math.inf
    for damper, inward in zip(dampers, held.inward):
        stiffness_left = (
            np.diag(stiffness[:3]) if damper.stiffness_scale == 1.0 else damper.stiffness[:3, :3]
        )
        size = float(np.linalg.norm(inward))
        if size > 0.0:
            plane = np.linalg.svd(inward[None] / size)[2][1:]
            min_value = min(
                min_value, float(np.linalg.eigvalsh(plane @ stiffness_left @ plane.T)[0])
            )
    return min_value
