# SPDX-License-Identifier: Apache-2.0
"""Where the object is that several hands hold, and how the hands deviate from their grasp."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pinocchio as pin

from multipanda_py.context import Context
from multipanda_py.state import ArmState, Matrix, Vector

_dot, _add, _subtract = np.dot, np.add, np.subtract
_log3, _exp3 = pin.log3, pin.exp3


class Base:
    """Turns what one arm knows into the axes of the world, and wrenches back.

    Arms whose base is not rotated, the usual case, cost nothing to turn.
    """

    def __init__(self, position: Vector, rotation: Matrix) -> None:
        self.position, self._turn = position, rotation
        self._turn6 = np.kron(np.eye(2), rotation)
        self._aligned = bool(np.abs(rotation - np.eye(3)).max() < 1e-12)
        self._product = np.zeros((6, 6))

    def rotation_to_world(self, rotation: Matrix, out: Matrix) -> None:
        """Turn a rotation (3, 3)."""
        if self._aligned:
            out[:] = rotation
        else:
            _dot(self._turn, rotation, out)

    def point_to_world(self, position: Vector, out: Vector) -> None:
        """Turn and move a point (3,) [m]."""
        _add(position if self._aligned else _dot(self._turn, position), self.position, out)

    def six_to_world(self, six: Vector) -> Vector:
        """Turn a twist or wrench (6,)."""
        return six if self._aligned else _dot(self._turn6, six)

    def six_to_base(self, six: Vector) -> Vector:
        """Turn a wrench (6,) along the axes of the base."""
        return six if self._aligned else _dot(six, self._turn6)

    def matrix_to_world(self, matrix: Matrix, out: Matrix) -> Matrix:
        """Turn a matrix (6, 6) that maps twists or wrenches; ``out`` may be left unused."""
        if self._aligned:
            return matrix
        return _dot(_dot(self._turn6, matrix, self._product), self._turn6.T, out)


class HeldObject:
    r"""Estimate an object's pose and velocity from the hands that hold it.

    Its origin is the mean of where each hand says that it is, its rotation the mean of theirs
    (the exponential of the mean logarithm about the first),

    .. math:: p_o = \tfrac1N \sum_i (p_i - R_o\, {}^{o}p_i), \qquad R_i' = R_i\, {}^{o}R_i^T

    and its velocity the mean of what the hands' velocities say. All in the world.

    Attributes:
        position: Of the object, (3,) [m].
        rotation: (3, 3).
        twist: (6,) [m/s, rad/s].
        levers: From the origin to each hand, (N, 3) [m].
        errors: From each hand to where its grasp says that it is, (N, 6) [m, rad].
        slips: Velocity of each hand relative to the object as a rigid body, (N, 6).
        shifts: Maps from the object's twist to that of each hand, N of (6, 6).
        shift_stack: The same one below the other, (6 N, 6).
        inertias: Damped inertia at each hand, N of (6, 6).
        inertia_invs: Inverse inertia at each hand, N of (6, 6).
        hands: Position of each hand, (N, 3) [m].

    Thread: control.
    """

    def __init__(self, context: Context) -> None:
        n = context.n_arms
        places = zip(context.positions_base_in_world, context.rotations_base_in_world)
        self.bases = [Base(position, rotation) for position, rotation in places]
        self.position, self.rotation, self.twist = np.zeros(3), np.eye(3), np.zeros(6)
        self.hands, self.levers, self._grasps = (np.zeros((n, 3)) for _ in range(3))
        self.errors, self.slips, self._twists = (np.zeros((n, 6)) for _ in range(3))
        self.shift_stack: Matrix = np.vstack([np.eye(6)] * n)
        self.shifts = [self.shift_stack[6 * i : 6 * i + 6] for i in range(n)]
        self.inertias: list[Matrix] = [np.eye(6) for _ in range(n)]
        self.inertia_invs: list[Matrix] = [np.eye(6) for _ in range(n)]
        self._inertias, self._inverses = ([np.eye(6) for _ in range(n)] for _ in range(2))
        self._rotations = [np.eye(3) for _ in range(n)]
        self._grasp_backs = [np.eye(3) for _ in range(n)]
        self._said = [np.eye(3) for _ in range(n)]
        self._share = np.full(n, 1.0 / n)
        self._point, self._lean, self._mean = (np.zeros(3) for _ in range(3))
        self._cross = np.zeros((3, 3))
        self._rotation_back, self._linear = self.rotation.T, self.twist[:3]
        self._apart, self._slip_linear = self.errors[:, :3], self.slips[:, :3]
        self._turned = [error[3:] for error in self.errors]
        self._hand_views, self._twist_views = list(self.hands), list(self._twists)

    def grasp(self, states: Sequence[ArmState]) -> None:
        """Take the hands where they are for the grasp, and their centre for the object."""
        self._sense(states)
        self.position[:] = self.hands.mean(axis=0)
        self.rotation[:] = np.eye(3)
        self._grasps[:] = self.hands - self.position
        for back, rotation in zip(self._grasp_backs, self._rotations):
            back[:] = rotation.T
        self.update(states)

    def update(self, states: Sequence[ArmState]) -> None:
        """Estimate pose and velocity, and every hand's deviation from its grasp."""
        self._sense(states)
        self._average_rotation()
        levers, share, lean = self.levers, self._share, self._lean
        _dot(self._grasps, self._rotation_back, levers)
        _dot(share, levers, lean)
        _subtract(_dot(share, self.hands, self.position), lean, self.position)
        _add(levers, self.position, self._apart)
        _subtract(self._apart, self.hands, self._apart)
        twist, cross = self.twist, self._cross
        _dot(share, self._twists, twist)
        skew(twist[3:].tolist(), cross)
        _subtract(self._linear, _dot(cross, lean, self._point), self._linear)
        _subtract(self._twists, twist, self.slips)
        _add(self._slip_linear, _dot(levers, cross), self._slip_linear)
        for shift, (x, y, z) in zip(self.shifts, levers.tolist()):
            # v_i = v_o + w x r: minus the skew matrix of the lever
            shift[0, 4], shift[0, 5], shift[1, 5] = z, -y, x
            shift[1, 3], shift[2, 3], shift[2, 4] = -z, y, -x

    def _sense(self, states: Sequence[ArmState]) -> None:
        for i, (base, state) in enumerate(zip(self.bases, states)):
            base.point_to_world(state.position_ee_in_base, self._hand_views[i])
            base.rotation_to_world(state.rotation_ee_in_base, self._rotations[i])
            self._twist_views[i][:] = base.six_to_world(state.twist_ee_in_base)
            space = state.operational_space()
            self.inertias[i] = base.matrix_to_world(space.inertia, self._inertias[i])
            self.inertia_invs[i] = base.matrix_to_world(space.inertia_inv, self._inverses[i])

    def _average_rotation(self) -> None:
        """Average what the hands say, and take each hand's rotational error from it."""
        said, mean = self._said, self._mean
        for rotation, back, opinion in zip(self._rotations, self._grasp_backs, said):
            _dot(rotation, back, opinion)
        first = said[0]
        mean[:] = 0.0
        for opinion in said[1:]:
            _add(mean, _log3(_dot(first.T, opinion)), mean)
        _dot(first, _exp3(mean * self._share[0]), self.rotation)
        for error, opinion in zip(self._turned, said):
            error[:] = _log3(_dot(self.rotation, opinion.T))


def skew(vector: Sequence[float], out: Matrix) -> None:
    """Write the matrix of the cross product with a vector, (3, 3)."""
    x, y, z = vector
    out[0, 1], out[0, 2], out[1, 2] = -z, y, -x
    out[1, 0], out[2, 0], out[2, 1] = z, -y, x
