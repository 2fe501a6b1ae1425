# SPDX-License-Identifier: Apache-2.0
"""Objectives on poses of frames: position, orientation, axes and contacts."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.optimiser.kinematics import Slices
from multipanda_py.planning.optimiser.scene import (
    WORLD_FRAME,
    Scene,
    left_jacobian_inverse,
    log3,
    skew,
)
from multipanda_py.planning.optimiser.term import Objective
from multipanda_py.pose import Pose
from multipanda_py.state import Matrix, Vector


def relative_point(slices: Slices, frame: str, base: str) -> tuple[Matrix, Matrix]:
    r"""Return the position of a frame in another frame, (s, 3), and its Jacobian, (s, 3, d).

    .. math:: p = R_b^T (p_f - p_b), \qquad
        \dot p = R_b^T (v_f - v_b - \omega_b \times (p_f - p_b)).

    Positions p, rotations R, velocities v and angular velocities :math:`\omega` of the frame f and
    the base b are those in the world.

    Args:
        slices: Poses and Jacobians of all frames at s time steps.
        frame: Name of the frame f.
        base: Name of the frame b.
    """
    f, b = slices.frames[frame], slices.frames[base]
    away = f.position - b.position
    into = b.rotation.transpose(0, 2, 1)
    moved = f.jacobian[:, :3] - b.jacobian[:, :3] + skew(away) @ b.jacobian[:, 3:]
    return (into @ away[..., None])[..., 0], into @ moved


def relative_rotation(
    slices: Slices, frame: str, base: str, rotation: Matrix
) -> tuple[Matrix, Matrix]:
    r"""Return the rotation error of a frame in another frame, (s, 3), and its Jacobian.

    .. math:: e = \log (R^{*T} R_b^T R_f), \qquad
        \dot e = J_l^{-1}(e) R^{*T} R_b^T (\omega_f - \omega_b).

    :math:`R^*` is the desired rotation of the frame f in the base b, and :math:`J_l` the left
    Jacobian of the rotation vector e. The rotations R and angular velocities :math:`\omega` are
    those in the world.

    Args:
        slices: Poses and Jacobians of all frames at s time steps.
        frame: Name of the frame f.
        base: Name of the frame b.
        rotation: Desired rotation :math:`R^*`, (3, 3).
    """
    f, b = slices.frames[frame], slices.frames[base]
    into = (b.rotation @ rotation).transpose(0, 2, 1)
    error = log3(into @ f.rotation)
    turned = f.jacobian[:, 3:] - b.jacobian[:, 3:]
    return error, left_jacobian_inverse(error) @ into @ turned


class PoseGoal(Objective):
    """Goal for the pose of a frame in another frame.

    The six components are the errors of position [m] and rotation vector [rad].

    Args:
        frame: Name of the frame.
        pose: Desired pose in ``base``.
        base: ``world``, or a moving frame, for example the gripper that holds an object.
    """

    def __init__(self, frame: str, pose: Pose, base: str = WORLD_FRAME) -> None:
        self.pose, self.frames = pose, (frame, base)

    def units(self, scene: Scene) -> tuple[str, ...]:
        return ("m",) * 3 + ("rad",) * 3

    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        """Return the pose error, (s, 6), and its Jacobian, (s, 6, d)."""
        point, moved = relative_point(slices, *self.frames)
        rotation, turned = relative_rotation(
            slices, self.frames[0], self.frames[1], self.pose.rotation
        )
        numbers = np.concatenate([point - self.pose.position, rotation], 1)
        return numbers, np.concatenate([moved, turned], 1)


class Position(Objective):
    """Goal for the position of a frame in another frame, three components [m].

    Args:
        frame: Name of the frame.
        position: Desired position in ``base``, (3,) [m].
        base: ``world``, or a moving frame.
    """

    def __init__(self, frame: str, position: ArrayLike, base: str = WORLD_FRAME) -> None:
        self.position, self.frames = _triple("position", position), (frame, base)

    def units(self, scene: Scene) -> tuple[str, ...]:
        return ("m",) * 3

    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        """Return the position error, (s, 3), and its Jacobian, (s, 3, d)."""
        point, moved = relative_point(slices, *self.frames)
        return point - self.position, moved


class Orientation(Objective):
    """Goal for the orientation of a frame in another frame, as a rotation vector [rad].

    Args:
        frame: Name of the frame.
        pose: Desired pose in ``base``. Its position has no effect.
        base: ``world``, or a moving frame.
    """

    def __init__(self, frame: str, pose: Pose, base: str = WORLD_FRAME) -> None:
        self.rotation, self.frames = pose.rotation, (frame, base)

    def units(self, scene: Scene) -> tuple[str, ...]:
        return ("rad",) * 3

    def off(self, rotation: Matrix) -> float:
        """Return the angle between a rotation matrix in the base and the goal [rad]."""
        return float(np.linalg.norm(log3((self.rotation.T @ rotation)[None])))

    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        """Return the rotation error, (s, 3), and its Jacobian, (s, 3, d)."""
        return relative_rotation(slices, self.frames[0], self.frames[1], self.rotation)


class Axis(Objective):
    r"""Goal for the direction of an axis of a frame in another frame, two components [rad].

    .. math:: e = \frac{\theta}{\sin \theta} [u, v]^T a, \qquad
        \theta = \operatorname{atan2}(|a \times d|, a \cdot d).

    Here a is the axis, d its desired direction, :math:`\theta` the angle between them, and u, v
    are perpendicular to d.

    Args:
        frame: Name of the frame.
        axis: Axis in the frame, (3,), of any length.
        direction: Desired direction in ``base``, (3,).
        base: ``world``, or a moving frame.
    """

    def __init__(
        self, frame: str, axis: ArrayLike, direction: ArrayLike, base: str = WORLD_FRAME
    ) -> None:
        self.frames = (frame, base)
        self._axis, self._direction = _unit("axis", axis), _unit("direction", direction)
        other = np.eye(3)[np.abs(self._direction).argmin()]
        u = np.cross(self._direction, other)
        u /= np.linalg.norm(u)
        self._across: Matrix = np.stack([u, np.cross(self._direction, u)])

    def units(self, scene: Scene) -> tuple[str, ...]:
        return ("rad",) * 2

    def off(self, rotation: Matrix) -> float:
        """Return the angle between the axis and its goal [rad].

        Args:
            rotation: Rotation matrix of the frame in the base, (3, 3).
        """
        axis: Vector = rotation @ self._axis
        sine = float(np.linalg.norm(np.cross(axis, self._direction)))
        return math.atan2(sine, float(np.dot(axis, self._direction)))

    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        """Return the error about two axes perpendicular to the direction, and its Jacobian."""
        f, b = (slices.frames[name] for name in self.frames)
        into = b.rotation.transpose(0, 2, 1)
        axis = (into @ f.rotation) @ self._axis
        # Jacobian of the axis in the base, which moves by omega x axis.
        moved = -skew(axis) @ (into @ (f.jacobian[:, 3:] - b.jacobian[:, 3:]))
        side, along = axis @ self._across.T, axis @ self._direction
        sine = np.sqrt((side * side).sum(1))
        # If the axis points opposite to its goal, all rotation axes are equivalent, so one is
        # chosen.
        opposite = (sine < 1e-6) & (along < 0.0)
        side = np.where(opposite[:, None], [1e-6, 0.0], side)
        sine = np.where(opposite, 1e-6, sine)
        angle = np.arctan2(sine, along)
        small = (sine < 1e-6) & ~opposite
        safe = np.where(small, 1.0, sine)
        ratio = np.where(small, 1.0, angle / safe)  # The ratio tends to 1 for small angles.
        # The ratio has the derivative d(ratio) = (d(angle) sine - angle d(sine)) / sine^2, with
        # d(angle) = along d(sine) - sine d(along).
        d_side, d_along = self._across @ moved, (self._direction @ moved)
        d_sine = np.einsum("si,sij->sj", side, d_side) / safe[:, None]
        d_angle = along[:, None] * d_sine - sine[:, None] * d_along
        d_ratio = (d_angle - ratio[:, None] * d_sine) / safe[:, None]
        d_ratio[small] = 0.0
        value = ratio[:, None] * side
        return value, ratio[:, None, None] * d_side + side[..., None] * d_ratio[:, None]


class RelativePose(PoseGoal):
    """Rigid connection of two frames: their relative pose is constant, whatever its value.

    The six components are the rates of the relative pose [m/s, rad/s].

    Args:
        frame: Name of the held frame.
        base: Name of the holding frame.
        pose: Estimate of the relative pose; the identity by default. Its orientation must be
            within 180 degrees of the actual relative orientation.
    """

    order = 1

    def __init__(self, frame: str, base: str, pose: Pose | None = None) -> None:
        super().__init__(frame, pose or Pose.identity(), base)


def _triple(description: str, values: ArrayLike) -> Vector:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise PlanRejected(f"{description}: got {values!r:.60}, allowed three numbers") from None
    if array.shape != (3,) or not np.isfinite(array).all():
        raise PlanRejected(f"{description}: got {values!r:.60}, allowed three finite numbers")
    return array


def _unit(description: str, values: ArrayLike) -> Vector:
    array = _triple(description, values)
    length = np.linalg.norm(array)
    if length < 1e-9:
        raise PlanRejected(f"{description}: got {array.tolist()}, allowed a non-zero vector")
    unit: Vector = array / length
    return unit


class Touches(Position):
    """Coincidence of the origins of two frames, with free rotation, like a ball joint.

    The three components are the position of the origin of ``frame`` in ``base`` [m].

    Args:
        frame: Name of a frame at a point of the first body.
        base: Name of a frame at a point of the second body.
    """

    def __init__(self, frame: str, base: str) -> None:
        super().__init__(frame, np.zeros(3), base)


class Stays(Objective):
    """Zero velocity of a contact point in another frame, three components [m/s].

    Args:
        frame: Name of a frame at the contact point of the first body.
        base: Name of a frame of the touched body.
    """

    order = 1

    def __init__(self, frame: str, base: str) -> None:
        self.frames = (frame, base)

    def units(self, scene: Scene) -> tuple[str, ...]:
        return ("m",) * 3

    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        """Return the position of the point in ``base``, (s, 3) [m], and its Jacobian.

        The problem derives the velocity from positions at successive time steps.
        """
        return relative_point(slices, *self.frames)


class Slides(Objective):
    """Constraint of a point to the x-y plane of another frame.

    Its single component is the z coordinate of the point in that frame [m].

    Args:
        frame: Name of a frame at the point.
        base: Name of a frame in the plane, with z perpendicular to it.
    """

    def __init__(self, frame: str, base: str = WORLD_FRAME) -> None:
        self.frames = (frame, base)

    def units(self, scene: Scene) -> tuple[str, ...]:
        return ("m",)

    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        """Return the height of the point above the plane, (s, 1), and its Jacobian."""
        point, moved = relative_point(slices, *self.frames)
        return point[:, 2:], moved[:, 2:]
