# SPDX-License-Identifier: Apache-2.0
"""How hard hands press what they hold, and how hard they may."""

from __future__ import annotations

import math
from collections.abc import Sequence
from struct import Struct

import numpy as np
import pinocchio as pin

from multipanda_py.context import Context
from multipanda_py.control.grasp_map import GraspMap
from multipanda_py.control.impedance.limit_scaling import SURE, BearableShare
from multipanda_py.control.impedance.modal_damping import ModalDamping
from multipanda_py.robots.dynamics.task_inertia import TaskInertia
from multipanda_py.state import ArmState, Matrix, Vector

_dot, _add, _multiply = np.dot, np.add, np.multiply
_log3, _exp3 = pin.log3, pin.exp3
_negative, _three = np.negative, Struct("3d").pack_into

LIGHTEST = TaskInertia.THRESHOLD
"""Least inverse inertia that a hand counts with. A hand that cannot move in some direction would
else be braked there relative to the others as if they were as heavy [1/kg]."""


class Base:
    """Turns what one arm knows into the axes of the world, and wrenches back.

    Arms whose base is not rotated, the usual case, cost nothing to turn.
    """

    def __init__(self, position: Vector, rotation: Matrix) -> None:
        self._place, self._turn = position.tolist(), rotation
        self._turn6 = np.kron(np.eye(2), rotation)
        self._aligned = bool(np.abs(rotation - np.eye(3)).max() < 1e-12)
        self._product = np.zeros((6, 6))

    def rotation_to_world(self, rotation: Matrix, out: Matrix) -> Matrix:
        """Turn a rotation (3, 3); ``out`` may be left unused."""
        return rotation if self._aligned else self._turn.dot(rotation, out)

    def point_to_world(self, position: Vector, out: memoryview) -> None:
        """Turn and move a point (3,) [m]."""
        x, y, z = (position if self._aligned else self._turn.dot(position)).tolist()
        bx, by, bz = self._place
        _three(out, 0, x + bx, y + by, z + bz)

    def six_to_world(self, six: Vector) -> Vector:
        """Turn a twist or wrench (6,)."""
        return six if self._aligned else self._turn6.dot(six)

    def six_to_base(self, six: Vector) -> Vector:
        """Turn a wrench (6,) along the axes of the base."""
        return six if self._aligned else six.dot(self._turn6)

    def matrix_to_world(self, matrix: Matrix, out: Matrix) -> Matrix:
        """Turn a matrix (6, 6) that maps twists or wrenches; ``out`` may be left unused."""
        if self._aligned:
            return matrix
        return self._turn6.dot(matrix, self._product).dot(self._turn6.T, out)


class HeldObject:
    r"""Estimate an object's pose and velocity from the hands that hold it.

    Its origin is the mean of where each hand says that it is, its rotation the mean of theirs
    (the exponential of the mean logarithm about the first),

    .. math::
        p_o = \tfrac1N \sum_i (p_i - R_o\, {}^{o}p_i), \qquad R_i' = R_i\, {}^{o}R_i^T, \qquad
        R_o = \exp\left( \tfrac1N \sum_i \log (R_i' R_1'^T) \right) R_1'

    The grasps' own mean is zero, so all places come from one product, of :math:`R_o^T` on top of
    the hands' positions.
    Where the hands do not agree, heavy ones count for more: :attr:`sharing` says by how much that
    pose is off, and how the object moves. All in the world.

    Attributes:
        position: Of the object, (3,) [m].
        rotation: (3, 3).
        levers: From the origin to each hand, as sharing knows them, (N, 3) [m].
        inward: From each hand to the origin, of about length 1; they add up to nothing, (N, 3).
        sharing: What of the hands' motion is the object's, and how they share its wrench.
        errors: From each hand to where its grasp says that it is, (N, 6) [m, rad].
        rates: How fast that changes, (N, 6) [m/s, rad/s].
        hands: Position of each hand, (N, 3) [m].

    Thread: control.
    """

    def __init__(self, context: Context) -> None:
        n = context.n_arms
        places = zip(context.positions_base_in_world, context.rotations_base_in_world)
        self.bases = [Base(position, rotation) for position, rotation in places]
        known, placed = np.vstack([np.eye(3), np.zeros((n, 3))]), np.zeros((n + 1, 3))
        self._rotation_back, self.hands, self.rotation = known[:3], known[3:], known[:3].T
        self._ways_and_place = np.zeros((n + 1, n + 3))
        self._ways_and_place[:, 3:] = 1.0 / n - np.eye(n + 1, n)
        self._grasps = self._ways_and_place[:n, :3]
        self._known, self._placed, self._away = known, placed, placed[:n]
        self.position, self.levers = placed[n], np.zeros((n, 3))
        self.sharing = sharing = GraspMap(n)
        ways, rates = sharing.ways.reshape(2, n, 6)
        self.errors, self.rates = sharing.errors.reshape(n, 6), sharing.rates.reshape(n, 6)
        self.inward = sharing.inward
        self._states: Sequence[ArmState] = ()
        self._inertias, self._inverses = ([np.eye(6) for _ in range(n)] for _ in range(2))
        self._rotations, self._turns = ([np.eye(3) for _ in range(n)] for _ in range(2))
        self._grasp_backs = [np.eye(3) for _ in range(n)]
        self._said = [np.eye(3) for _ in range(n)]
        self._product = np.zeros((3, 3))
        self._apart, self._turned = ways[:, :3], [way[3:] for way in ways]
        self._turned_views = [turned.data for turned in self._turned]
        self._hand_views, self._rate_views = [hand.data for hand in self.hands], list(rates)

    def grasp(self, states: Sequence[ArmState]) -> None:
        """Take the hands where they are for the grasp, and their centre for the object."""
        self._sense(states)
        self.position[:] = self.hands.mean(axis=0)
        self.rotation[:] = np.eye(3)
        self._grasps[:] = self.hands - self.position
        for back, rotation in zip(self._grasp_backs, self._rotations):
            back[:] = rotation.T
        self.update(states)

    def update(self, states: Sequence[ArmState], refresh: bool = True) -> None:
        """Estimate pose and velocity, and every hand's deviation from its grasp.

        Args:
            states: Of the arms.
            refresh: Whether levers and inertia of now are to count, which costs the most.
        """
        self._sense(states)
        self._average_rotation()
        self._ways_and_place.dot(self._known, self._placed)
        self._apart[:] = self._away
        if refresh:
            levers = self._grasps.dot(self._rotation_back, self.levers)
            self.sharing.refresh(levers, [self._inertia(i) for i in range(len(states))])
        self.sharing.measure()

    def inertia_inv(self, hand: int) -> Matrix:
        """Return the inverse inertia at a hand, bounded near singularities, (6, 6) [1/kg]."""
        space = self._states[hand].operational_space()
        inverse = space.inertia_inv
        if space.damping > 0.0:
            w, v = space.eigen()
            inverse = _dot(v * np.maximum(w, LIGHTEST), v.T)
        return self.bases[hand].matrix_to_world(inverse, self._inverses[hand])

    def _inertia(self, hand: int) -> Matrix:
        """Return the inverse of :meth:`inertia_inv`, (6, 6) [kg]."""
        space = self._states[hand].operational_space()
        inertia = space.inertia
        if space.damping > 0.0:
            w, v = space.eigen()
            inertia = _dot(v / np.maximum(w, LIGHTEST), v.T)
        return self.bases[hand].matrix_to_world(inertia, self._inertias[hand])

    def _sense(self, states: Sequence[ArmState]) -> None:
        self._states = states
        for i, (base, state) in enumerate(zip(self.bases, states)):
            base.point_to_world(state.position_ee_in_base, self._hand_views[i])
            self._rotations[i] = base.rotation_to_world(state.rotation_ee_in_base, self._turns[i])
            _negative(base.six_to_world(state.twist_ee_in_base), self._rate_views[i])

    def _average_rotation(self) -> None:
        """Average what the hands say, and take each hand's rotational error from it."""
        said = self._said
        for rotation, back, opinion in zip(self._rotations, self._grasp_backs, said):
            rotation.dot(back, opinion)
        first, second, *others = said
        x, y, z = _log3(second.dot(first.T, self._product)).tolist()
        if not others:  # the mean is half way between them
            x, y, z = 0.5 * x, 0.5 * y, 0.5 * z
            mean, other = self._turned_views
            _three(mean, 0, x, y, z)
            _three(other, 0, -x, -y, -z)
            first.T.dot(_exp3(self._turned[0]).T, self._rotation_back)
            return
        total = np.array([x, y, z])
        for opinion in others:
            _add(total, _log3(opinion.dot(first.T)), total)
        first.T.dot(_exp3(total / len(said)).T, self._rotation_back)
        for error, opinion in zip(self._turned, said):
            error[:] = _log3(self.rotation.dot(opinion.T))


class SqueezeMeasurement:
    r"""Find how hard the hands press the object, from their estimated wrenches.

    .. math:: F_s = -\frac{n^T F_{ext}}{n^T n}

    with n from the hands to the object's origin. What the hands do to carry it has no part in
    it: that is orthogonal to n.

    Args:
        held: The object.

    Thread: control.
    """

    def __init__(self, held: HeldObject) -> None:
        self._bases, self._sharing = held.bases, held.sharing

    def take(self, states: Sequence[ArmState]) -> float:
        """Return the squeeze [N] of the measured states."""
        total, sharing = 0.0, self._sharing
        for base, state, (x, y, z) in zip(self._bases, states, sharing.presses):
            fx, fy, fz, _, _, _ = base.six_to_world(state.wrench_ext_in_base).tolist()
            total -= fx * x + fy * y + fz * z
        return total / sharing.size


class BearableSqueeze:
    """Find how much of a squeeze the joints of all hands can press with.

    Shared by all, so that what is held is still pressed from all sides alike.

    Args:
        held: The object.
        context: Of the law.

    Thread: control.
    """

    def __init__(self, held: HeldObject, context: Context) -> None:
        shares = [BearableShare(arm) for arm in context.arms]
        self._hands = list(zip(held.bases, held.inward, shares))
        self._wrench = np.zeros(6)

    def of(self, squeeze: float, states: Sequence[ArmState]) -> float:
        """Return what of a squeeze the joints bear in this posture [N]."""
        return squeeze if squeeze < SURE else squeeze * self._least(squeeze, states)[0]

    def overload(self, squeeze: float, states: Sequence[ArmState]) -> str:
        """Say what is left of a squeeze [N] that joints do not bear; return nothing where all."""
        share, name = self._least(squeeze, states)
        if share == 1.0:
            return ""
        return (
            f"{name}: joints bear {share * squeeze:.1f} of {squeeze:.1f} N of squeeze in this "
            "posture, with which all hands press now"
        )

    def _least(self, squeeze: float, states: Sequence[ArmState]) -> tuple[float, str]:
        least, name, wrench = 1.0, "", self._wrench
        for (base, inward, bearable), state in zip(self._hands, states):
            np.multiply(inward, squeeze, wrench[:3])
            share = bearable.of(base.six_to_base(wrench), state)
            if share < least:
                least, name = share, state.name
        return least, name


def buckling(
    squeeze: float, dampers: Sequence[ModalDamping], stiffness: Vector, held: HeldObject
) -> str:
    r"""Say so where the springs across are too soft for a squeeze; return nothing where not.

    Two hands a width L apart that press with F lose what they hold sideways unless each is
    held by more than :math:`k = 2 F / L`: a turn of the thing by :math:`\theta` moves either
    hand by :math:`\theta L / 2`, and turns the force by F :math:`\theta`.

    Args:
        squeeze: Force that is asked for [N].
        dampers: Of the hands, which know what is left of their stiffness.
        stiffness: Of the hands, (6,) [N/m, Nm/rad].
        held: The object.
    """
    across = softest_across(dampers, stiffness, held)
    width = 2.0 * float(np.linalg.norm(held.levers, axis=1).mean())
    if not 2.0 * squeeze > across * width:
        return ""
    return (
        f"a squeeze of {squeeze:.1f} N on {width:.2f} m needs {2.0 * squeeze / width:.0f} "
        f"N/m of relative_stiffness across it, and has {across:.0f}: what is held may "
        f"buckle out of the hands; squeeze by less than {0.5 * across * width:.1f} N or "
        "raise relative_stiffness"
    )


def softest_across(dampers: Sequence[ModalDamping], stiffness: Vector, held: HeldObject) -> float:
    """Return the least stiffness of a hand across the way it presses [N/m]."""
    least = math.inf
    for damper, inward in zip(dampers, held.inward):
        kept = np.diag(stiffness[:3]) if damper.kept == 1.0 else damper.stiffness[:3, :3]
        size = float(np.linalg.norm(inward))
        if size > 0.0:
            plane = np.linalg.svd(inward[None] / size)[2][1:]
            least = min(least, float(np.linalg.eigvalsh(plane @ kept @ plane.T)[0]))
    return least
