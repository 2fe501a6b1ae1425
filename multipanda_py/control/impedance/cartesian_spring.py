# SPDX-License-Identifier: Apache-2.0
"""A spring and an inertia-aware damper between a tool and its target pose."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.context import bounded_error, share_of
from multipanda_py.control.impedance.free_motion import FreeMotion, is_soft
from multipanda_py.control.impedance.gains import Ramp
from multipanda_py.control.impedance.modal_damping import ModalDamping
from multipanda_py.control.impedance.pose_error import PoseError
from multipanda_py.state import ArmState, Matrix, Vector

_SMALL = 1e-3
_ZERO = 1e-6
"""Stiffness of a direction over the largest one, below which it is zero."""


class ConservativeSpring:
    r"""Correct the wrench of a spring that leaves directions free.

    .. math::
        \mu' = \mu \mp \tfrac12\, \phi \times \mu + c\, \phi \times (\phi \times \mu)
        \;(+\, p \times f), \qquad
        c = \frac{1}{\theta^2} - \frac{1 + \cos\theta}{2\, \theta \sin\theta}, \qquad
        \theta = \|\phi\|

    with force f and torque :math:`\mu` of :math:`K e`, and the unclipped errors p and
    :math:`\phi`. The upper sign belongs to gains along the axes of the base, the lower sign and
    the last term to gains along the axes of the tool. :math:`K e` itself is a gradient only for
    small errors. A tool that the spring holds stays near its target. A free one moves far along
    its free directions, and on a closed path :math:`K e` then does work.

    The error is projected onto the range of K before it is clipped: clipped axis by axis,
    a large free error has a part along other directions.

    Thread: control.
    """

    def __init__(self) -> None:
        self._range = np.eye(6)
        self._far = np.zeros(6)

    def set_stiffness(self, stiffness: Matrix) -> None:
        """Set K, (6, 6)."""
        w, v = np.linalg.eigh(stiffness)
        held = v[:, w > _ZERO * max(float(w[-1]), _ZERO)]
        self._range = held @ held.T

    def project(self, error: Vector, share: float) -> None:
        """Store an unclipped error (6,) and subtract ``share`` of its free part, in place."""
        self._far[:] = error
        error += share * (self._range.dot(error) - error)

    def correct(self, wrench: Vector, share: float, in_tool: bool) -> None:
        """Add ``share`` of the correction to a wrench along the axes of the gains, in place.

        Args:
            wrench: Wrench of the spring, (6,) [N, Nm].
            share: Share of the correction, 0 to 1.
            in_tool: Whether the gains are given along the axes of the tool.
        """
        px, py, pz, x, y, z = self._far.tolist()
        fx, fy, fz, mx, my, mz = wrench.tolist()
        angle = math.sqrt(x * x + y * y + z * z)
        c = 1.0 / 12.0
        if angle > _SMALL:
            c = 1.0 / angle**2 - 0.5 / (angle * math.tan(0.5 * angle))
        ax, ay, az = y * mz - z * my, z * mx - x * mz, x * my - y * mx
        half = 0.5 if in_tool else -0.5
        tx = half * ax + c * (y * az - z * ay)
        ty = half * ay + c * (z * ax - x * az)
        tz = half * az + c * (x * ay - y * ax)
        if in_tool:
            tx, ty, tz = tx + py * fz - pz * fy, ty + pz * fx - px * fz, tz + px * fy - py * fx
        wrench[3] += share * tx
        wrench[4] += share * ty
        wrench[5] += share * tz


_add, _subtract, _negative = np.add, np.subtract, np.negative

FREEDOM_STEP = 0.01
"""Change per cycle of the scale of the correction for free directions."""


class CartesianSpring:
    r"""Compute the wrench of one arm's impedance; several laws are built on it.

    .. math::
        F = K \,\mathrm{clip}(e) + D (\dot x_d - \dot x), \quad
        e = \begin{bmatrix} p_d - p \\ \log(R_d R^T)^\vee \end{bmatrix}

    with D from :class:`.ModalDamping`. K is any symmetric positive
    semidefinite matrix, the damping ratios Z are diagonal. A change of gains is spread
    over some cycles: the square root of K is interpolated, so that every K on the way is
    positive semidefinite and the torque has no step. Damping always belongs to the present K
    and the present inertia. With ``in_tool`` the gains are given along the tool's axes.
    Where the posture does not stand this K (see ModalDamping), the spring is the softer
    :math:`K'`; ``kept`` says so. Where K leaves a direction free, the wrench is corrected to the
    gradient of a potential (:class:`.ConservativeSpring`). Error and rate, K and D lie one
    after the other, so that one product gives F.

    Args:
        damper: Where what the damper exerts is written, (6,); an array of its own by default.

    Attributes:
        error: Clipped error along the axes of the gains, (6,) [m, rad].
        spring: K times the error of the last :meth:`measure` or :meth:`spring_in_base`, along
            the axes of the gains, (6,) [N, Nm].
        damper: What the damper exerts, :math:`D (\dot x_d - \dot x)`, of the last
            :meth:`measure`, along the axes of the gains, (6,) [N, Nm].
        stiffness: The present K, or K' where that is softer, (6, 6).
        kept: Smallest share of the stiffness that any mode has kept at this posture; 1 is all.
        ratio: The largest damping ratio of all axes.
        is_free: Whether the stiffness leaves a direction free, or does so at one end of a ramp.

    Thread: control.
    """

    def __init__(self, damper: Vector | None = None) -> None:
        self._way, self._gains = np.zeros(12), np.zeros((12, 6))
        self.error, self._rate = self._way[:6], self._way[6:]
        self._pose_error = PoseError(self.error)
        self._asked, damping = self._gains[:6], self._gains[6:]
        self.stiffness, self.kept = self._asked, 1.0
        self._modal, self._stiffest = ModalDamping(damping=damping), 0.0
        self._root = Ramp(np.zeros((6, 6)))
        self._free_motion, self._gets_soft, self.is_free = FreeMotion(), False, False
        self._conservative, self._freedom = ConservativeSpring(), 0.0
        self._ratio, self.ratio = np.ones(6), 1.0
        self._in_tool = False
        self._asked_compliance: Matrix | None = None
        self._turned_inertia, self._turn = np.zeros((6, 6)), np.zeros((6, 6))
        self.spring, own, self._wrench, self._along = np.zeros((4, 6))
        self.damper = own if damper is None else damper

    def set_shape(self, damping_ratio: Vector, error_clip: Vector, in_tool: bool) -> None:
        """Set damping ratios (6,), error bounds (6,) [m, rad] and the axes of the gains."""
        self._ratio, self.ratio = np.array(damping_ratio), float(damping_ratio.max())
        self._pose_error.set_bounds(error_clip)
        self._in_tool = in_tool
        self._rescale()

    def set_stiffness(self, stiffness: Vector | Matrix, cycles: int = 0) -> None:
        """Go to a stiffness, diagonal (6,) or full (6, 6), within ``cycles``.

        Negative eigenvalues within rounding of zero are taken for zero.
        """
        matrix = np.diag(stiffness) if stiffness.ndim == 1 else stiffness
        values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        was_free = self.is_free
        self._gets_soft = is_soft(matrix)
        self.is_free = self._gets_soft or (was_free and cycles > 0)
        if self._gets_soft:
            self._conservative.set_stiffness(matrix)
        self._root.go(root, cycles)
        if not cycles:
            self._rescale()
            self._freedom = float(self._gets_soft)

    def _rescale(self) -> None:
        root = self._root.value
        np.dot(root, root, self._asked)
        self._stiffest = float(np.abs(self._asked).sum(axis=1).max())
        self._asked_compliance = None
        self._modal.set_root(root, self._ratio)

    def wrench(
        self, state: ArmState, position: Vector, rotation: Matrix, twist: Vector | None = None
    ) -> Vector:
        """Return spring and damper wrench on the tool along the base's axes, (6,) [N, Nm].

        Args:
            state: The arm.
            position: Target position of the tool in the base, (3,) [m].
            rotation: Target orientation, (3, 3).
            twist: Target velocity, (6,) [m/s, rad/s]; None is rest.
        """
        self._sense(state, position, rotation, twist)
        if self.kept == 1.0 and not self._freedom:
            wrench = self._way.dot(self._gains, self._wrench)
        else:
            self._pull_and_brake()
            wrench = _add(self.spring, self.damper, self._wrench)
        return self._turn.dot(wrench) if self._in_tool else wrench

    def free_velocity(self, state: ArmState) -> Vector:
        """Return the joint velocity of the free motion, (n,) [rad/s]; see :class:`.FreeMotion`."""
        root = self._root.value
        if self._in_tool:
            turn = self._axes(state)
            root = turn.dot(root).dot(turn.T)
        return self._free_motion.velocity(state, root)

    @property
    def most_pull(self) -> float:
        r"""A bound of what the spring exerts, :math:`\|K\|_\infty \|e\|` [N, Nm]."""
        return self._stiffest * self._pose_error.size

    def spring_in_base(self) -> Vector:
        """Return the wrench of the spring alone along the axes of the base, (6,) [N, Nm]."""
        pull: Vector = self.stiffness.dot(self.error, self.spring)
        if self._freedom:
            self._conservative.correct(pull, self._freedom, self._in_tool)
        return self._turn.dot(pull) if self._in_tool else pull

    def damping_along(self, direction: Vector) -> float:
        r"""Return :math:`v^T D v`, the power that D takes from a twist v in the base, (6,)."""
        along = direction.dot(self._turn) if self._in_tool else direction
        return float(self._modal.apply(along, self._along).dot(along))

    def stiffness_along(self, direction: Vector) -> float:
        r"""Return :math:`v^T K v` of a twist v in the base, (6,)."""
        along = direction.dot(self._turn) if self._in_tool else direction
        return float(self.stiffness.dot(along).dot(along))

    def measure(
        self, state: ArmState, position: Vector, rotation: Matrix, twist: Vector | None = None
    ) -> None:
        """Update error, gains, spring and damper, all along the axes of the gains."""
        self._sense(state, position, rotation, twist)
        self._pull_and_brake()

    def _pull_and_brake(self) -> None:
        self.stiffness.dot(self.error, self.spring)
        if self._freedom:
            self._conservative.correct(self.spring, self._freedom, self._in_tool)
        self._modal.apply(self._rate, self.damper)

    def _sense(
        self, state: ArmState, position: Vector, rotation: Matrix, twist: Vector | None
    ) -> None:
        """Update error, rate and gains."""
        if self._root.step():
            self._rescale()
            if self._root.arrived:
                self.is_free = self._gets_soft
        if self._gets_soft or self._freedom:
            step = FREEDOM_STEP if self._gets_soft else -FREEDOM_STEP
            self._freedom = min(1.0, max(0.0, self._freedom + step))
        modal, rate = self._modal, self._rate
        error = self._pose_error.measure(
            state.position_ee_in_base, state.rotation_ee_in_base, position, rotation
        )
        inertia_inv = state.operational_space().inertia_inv
        if twist is None:
            _negative(state.twist_ee_in_base, rate)
        else:
            _subtract(twist, state.twist_ee_in_base, rate)
        if self._in_tool:
            turn = self._turn
            turn[:3, :3] = turn[3:, 3:] = state.rotation_ee_in_base
            error[:], rate[:] = error.dot(turn), rate.dot(turn)
            inertia_inv = turn.T.dot(inertia_inv).dot(turn, self._turned_inertia)
        if self._freedom:
            self._conservative.project(error, self._freedom)
        self._pose_error.clip_measured()
        modal.design(inertia_inv)
        self.kept = kept = modal.kept
        self.stiffness = self._asked if kept == 1.0 else modal.stiffness

    def error_for(self, state: ArmState, wrench: Vector) -> tuple[Vector, float]:
        """Return where the target has to be for the spring to exert a wrench.

        Args:
            state: The arm.
            wrench: Force and torque on the tool, along the axes of the base, (6,) [N, Nm].

        Returns:
            The target's distance from the tool, along the same axes, (6,) [m, rad], as far as
            stiffness and error bounds allow, and the share of the wrench that it is good for.
        """
        turn = self._axes(state) if self._in_tool else None
        wanted = wrench if turn is None else wrench.dot(turn)
        error: Vector = self._compliance(state, turn).dot(wanted)
        bounded_error(error, self._pose_error.bounds)
        share = share_of(self.stiffness.dot(error), wanted)
        return error if turn is None else turn.dot(error), share

    def compliance(self, state: ArmState) -> Matrix:
        """Return the inverse of K along the axes of the base, (6, 6); zero for no spring."""
        if not self._in_tool:
            return self._compliance(state, None).copy()
        turn = self._axes(state)
        compliance: Matrix = turn.dot(self._compliance(state, turn)).dot(turn.T)
        return compliance

    def _axes(self, state: ArmState) -> Matrix:
        axes: Matrix = np.zeros((6, 6))
        axes[:3, :3] = axes[3:, 3:] = state.rotation_ee_in_base
        return axes

    def _compliance(self, state: ArmState, turn: Matrix | None) -> Matrix:
        """Return the inverse of K along the axes of the gains; where it is all there, kept."""
        # What this posture leaves of the stiffness, which may be less than where it was used last.
        modal, inertia_inv = self._modal, state.operational_space().inertia_inv
        modal.design(inertia_inv if turn is None else turn.T.dot(inertia_inv).dot(turn))
        self.kept = modal.kept
        if self.kept < 1.0:
            self.stiffness = modal.stiffness
            return _inverse(self.stiffness)
        self.stiffness = self._asked
        if self._asked_compliance is None:
            self._asked_compliance = _inverse(self._asked)
        return self._asked_compliance

    @property
    def turn(self) -> Matrix | None:
        """Rotation from the axes of the gains to the base for wrenches, or None if equal."""
        return self._turn if self._in_tool else None

    @property
    def damping(self) -> Matrix:
        """The present D, along the axes of the gains, (6, 6)."""
        return self._modal.damping.copy()


def _inverse(stiffness: Matrix) -> Matrix:
    """Return the inverse of a stiffness, zero where there is none of it."""
    return np.array(np.linalg.pinv(stiffness, rcond=1e-3), dtype=np.float64)
