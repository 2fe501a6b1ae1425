# SPDX-License-Identifier: Apache-2.0
"""Contact: what touches stays, slides or pivots."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.optimiser.kinematics import Slices
from multipanda_py.planning.optimiser.scene import WORLD, Scene, left_jacobian_inverse, log3, skew
from multipanda_py.planning.optimiser.term import Objective
from multipanda_py.pose import Pose
from multipanda_py.state import Matrix, Vector


def relative_point(slices: Slices, frame: str, base: str) -> tuple[Matrix, Matrix]:
    r"""Return where a frame's origin is in another frame, (s, 3), and the derivative, (s, 3, d).

    .. math:: p = R_b^T (p_f - p_b), \qquad
        \dot p = R_b^T (v_f - v_b - \omega_b \times (p_f - p_b))
    """
    f, b = slices.frames[frame], slices.frames[base]
    away = f.position - b.position
    into = b.rotation.transpose(0, 2, 1)
    moved = f.jacobian[:, :3] - b.jacobian[:, :3] + skew(away) @ b.jacobian[:, 3:]
    return (into @ away[..., None])[..., 0], into @ moved


def relative_turn(
    slices: Slices, frame: str, base: str, rotation: Matrix
) -> tuple[Matrix, Matrix]:
    r"""Return by what a frame is turned from a rotation in another, (s, 3), and the derivative.

    .. math:: e = \log (R^{*T} R_b^T R_f), \qquad
        \dot e = J_l^{-1}(e) R^{*T} R_b^T (\omega_f - \omega_b)
    """
    f, b = slices.frames[frame], slices.frames[base]
    into = (b.rotation @ rotation).transpose(0, 2, 1)
    error = log3(into @ f.rotation)
    turned = f.jacobian[:, 3:] - b.jacobian[:, 3:]
    return error, left_jacobian_inverse(error) @ into @ turned


class PoseGoal(Objective):
    """Where a frame is in another, position [m] and rotation vector [rad], six numbers.

    Args:
        frame: What is placed.
        pose: Where, in ``base``.
        base: The world, or a frame that moves: held by both, a thing stays in a hand.
    """

    def __init__(self, frame: str, pose: Pose, base: str = WORLD) -> None:
        self.pose, self.frames = pose, (frame, base)

    def units(self, scene: Scene) -> tuple[str, ...]:
        """Return metres, then radians."""
        return ("m",) * 3 + ("rad",) * 3

    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        """Return what is left to the pose."""
        point, moved = relative_point(slices, *self.frames)
        turn, turned = relative_turn(slices, self.frames[0], self.frames[1], self.pose.rotation)
        numbers = np.concatenate([point - self.pose.position, turn], 1)
        return numbers, np.concatenate([moved, turned], 1)


class Position(Objective):
    """Where a frame's origin is in another frame, three numbers [m].

    Args:
        frame: What is placed.
        position: Where, in ``base``, (3,) [m].
        base: The world, or a frame that moves.
    """

    def __init__(self, frame: str, position: ArrayLike, base: str = WORLD) -> None:
        self.position, self.frames = _triple("position", position), (frame, base)

    def units(self, scene: Scene) -> tuple[str, ...]:
        """Return metres."""
        return ("m",) * 3

    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        """Return what is left to the position."""
        point, moved = relative_point(slices, *self.frames)
        return point - self.position, moved


class Orientation(Objective):
    """How a frame is turned in another, as a rotation vector from the goal, three numbers [rad].

    Args:
        frame: What is turned.
        pose: The goal, in ``base``; its position does not count.
        base: The world, or a frame that moves.
    """

    def __init__(self, frame: str, pose: Pose, base: str = WORLD) -> None:
        self.rotation, self.frames = pose.rotation, (frame, base)

    def units(self, scene: Scene) -> tuple[str, ...]:
        """Return radians."""
        return ("rad",) * 3

    def off(self, rotation: Matrix) -> float:
        """Return how far a frame that is turned so in the base is from it [rad]."""
        return float(np.linalg.norm(log3((self.rotation.T @ rotation)[None])))

    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        """Return what is left to the orientation."""
        return relative_turn(slices, self.frames[0], self.frames[1], self.rotation)


class Axis(Objective):
    r"""How an axis of a frame leans from a direction in another, two numbers [rad].

    .. math:: e = \frac{\theta}{\sin \theta} [u, v]^T a, \qquad
        \theta = \operatorname{atan2}(|a \times d|, a \cdot d)

    with u, v across the direction d. It is the angle, not the sine: an axis that points the
    wrong way is as far from its goal as can be, where a dot or cross product would call it there.

    Args:
        frame: Of the axis.
        axis: In the frame, (3,); of any length.
        direction: Where it is to point in ``base``, (3,).
        base: The world, or a frame that moves.
    """

    def __init__(
        self, frame: str, axis: ArrayLike, direction: ArrayLike, base: str = WORLD
    ) -> None:
        self.frames = (frame, base)
        self._axis, self._direction = _unit("axis", axis), _unit("direction", direction)
        other = np.eye(3)[np.abs(self._direction).argmin()]
        u = np.cross(self._direction, other)
        u /= np.linalg.norm(u)
        self._across: Matrix = np.stack([u, np.cross(self._direction, u)])

    def units(self, scene: Scene) -> tuple[str, ...]:
        """Return radians."""
        return ("rad",) * 2

    def off(self, rotation: Matrix) -> float:
        """Return how far the axis of a frame that is turned so in the base leans [rad]."""
        axis: Vector = rotation @ self._axis
        sine = float(np.linalg.norm(np.cross(axis, self._direction)))
        return math.atan2(sine, float(np.dot(axis, self._direction)))

    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        """Return how it leans about two axes across the direction."""
        f, b = (slices.frames[name] for name in self.frames)
        into = b.rotation.transpose(0, 2, 1)
        axis = (into @ f.rotation) @ self._axis
        # The axis in the base moves by omega x axis.
        moved = -skew(axis) @ (into @ (f.jacobian[:, 3:] - b.jacobian[:, 3:]))
        side, along = axis @ self._across.T, axis @ self._direction
        sine = np.sqrt((side * side).sum(1))
        opposite = (sine < 1e-6) & (along < 0.0)  # every way there is as good: take one
        side = np.where(opposite[:, None], [1e-6, 0.0], side)
        sine = np.where(opposite, 1e-6, sine)
        angle = np.arctan2(sine, along)
        small = (sine < 1e-6) & ~opposite
        safe = np.where(small, 1.0, sine)
        ratio = np.where(small, 1.0, angle / safe)  # angle by sine
        # d(ratio) = (d(angle) sine - angle d(sine)) / sine^2, with
        # d(angle) = along d(sine) - sine d(along)
        d_side, d_along = self._across @ moved, (self._direction @ moved)
        d_sine = np.einsum("si,sij->sj", side, d_side) / safe[:, None]
        d_angle = along[:, None] * d_sine - sine[:, None] * d_along
        d_ratio = (d_angle - ratio[:, None] * d_sine) / safe[:, None]
        d_ratio[small] = 0.0
        value = ratio[:, None] * side
        return value, ratio[:, None, None] * d_side + side[..., None] * d_ratio[:, None]


class RelativePose(PoseGoal):
    """Hold one frame in another rigidly, however it is grasped: as in the slice before.

    Six numbers per slice [m/s, rad/s]; with a ``pose`` of what is about held, turns from it are
    below half a turn.

    Args:
        frame: What is held.
        base: What holds it.
        pose: About where it is held in ``base``; by default the identity.
    """

    order = 1

    def __init__(self, frame: str, base: str, pose: Pose | None = None) -> None:
        super().__init__(frame, pose or Pose.identity(), base)


def _triple(what: str, values: ArrayLike) -> Vector:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise PlanRejected(f"{what}: got {values!r:.60}, allowed three numbers") from None
    if array.shape != (3,) or not np.isfinite(array).all():
        raise PlanRejected(f"{what}: got {values!r:.60}, allowed three finite numbers")
    return array


def _unit(what: str, values: ArrayLike) -> Vector:
    array = _triple(what, values)
    length = np.linalg.norm(array)
    if length < 1e-9:
        raise PlanRejected(f"{what}: got {array.tolist()}, allowed a direction")
    unit: Vector = array / length
    return unit


class Touches(Position):
    """Let the origins of two frames be one point, three numbers [m]; they may turn about it.

    This is a pivot: a ball on a face that neither rolls nor slides.

    Args:
        frame: A point of one body.
        base: The point of the other.
    """

    def __init__(self, frame: str, base: str) -> None:
        super().__init__(frame, np.zeros(3), base)


class Stays(Objective):
    """Keep the point of contact where it was in the other frame, three numbers [m/s].

    Args:
        frame: A point of one body.
        base: What it touches.
    """

    order = 1

    def __init__(self, frame: str, base: str) -> None:
        self.frames = (frame, base)

    def units(self, scene: Scene) -> tuple[str, ...]:
        """Return metres."""
        return ("m",) * 3

    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        """Return where the point is."""
        return relative_point(slices, *self.frames)


class Slides(Objective):
    """Keep a point in the plane x-y of the other frame, one number, its z [m].

    Args:
        frame: The point.
        base: A frame in the plane, z across it.
    """

    def __init__(self, frame: str, base: str = WORLD) -> None:
        self.frames = (frame, base)

    def units(self, scene: Scene) -> tuple[str, ...]:
        """Return metres."""
        return ("m",)

    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        """Return how far above the plane it is."""
        point, moved = relative_point(slices, *self.frames)
        return point[:, 2:], moved[:, 2:]
