# SPDX-License-Identifier: Apache-2.0
"""Cartesian spring with inertia-dependent damping between a tool and its target pose."""

from __future__ import annotations

import math

import numpy as np
from numpy import add, negative, subtract

from multipanda_py.context import bounded_error, fraction_of
from multipanda_py.control.impedance.free_motion import FreeMotion, is_soft
from multipanda_py.control.impedance.gains import Ramp
from multipanda_py.control.impedance.modal_damping import ModalDamping
from multipanda_py.control.impedance.pose_error import PoseError, scale_by
from multipanda_py.state import ArmState, Matrix, Vector

_SMALL = 1e-3  # Angle theta [rad] below which ``ConservativeSpring`` approximates c by 1/12.
_ZERO_STIFFNESS_RATIO = 1e-6
"""Ratio of a direction's stiffness to the largest one, below which the stiffness counts as
zero."""


class ConservativeSpring:
    """Correction that makes a Cartesian spring conservative if a direction has no stiffness.

    Equations::

        mu' = mu - phi x mu / 2 + c phi x (phi x mu)            if K is along the base axes
        mu' = mu + phi x mu / 2 + c phi x (phi x mu) + p x f    if K is along the tool axes
        c = 1 / theta^2 - (1 + cos(theta)) / (2 theta sin(theta))
        theta = |phi|

    - f, mu: Force [N] and torque [Nm] of the spring wrench K e.
    - K, e: Stiffness, (6, 6), and clipped pose error, (6,).
    - mu': Corrected torque [Nm].
    - p, phi: Unclipped translational [m] and rotational error [rad].

    Along a direction without stiffness (a free direction), the error becomes large, and K e would
    do work on a closed path.

    ``project`` removes the error along free directions and must precede the clipping of each axis.

    Thread: control.
    """

    def __init__(self) -> None:
        self._range = np.eye(6)
        self._far = np.zeros(6)

    def set_stiffness(self, stiffness: Matrix) -> None:
        """Set the stiffness K, (6, 6) [N/m, Nm/rad]."""
        w, v = np.linalg.eigh(stiffness)
        held = v[:, w > _ZERO_STIFFNESS_RATIO * max(float(w[-1]), _ZERO_STIFFNESS_RATIO)]
        self._range = held @ held.T

    def project(self, error: Vector, removed_fraction: float) -> None:
        """Store the unclipped error, and reduce it in place along directions without stiffness.

        Args:
            error: Unclipped error along the axes of K, (6,) [m, rad].
            removed_fraction: Fraction of the error along these directions to remove, 0 to 1.
        """
        self._far[:] = error
        error += removed_fraction * (self._range.dot(error) - error)

    def correct(self, wrench: Vector, scale: float, in_tool: bool) -> None:
        """Correct the torque of a spring wrench in place, as in the equations of the class.

        Args:
            wrench: Wrench of the spring along the axes of K, (6,) [N, Nm].
            scale: Scale of the correction, 0 to 1.
            in_tool: True if K is along the axes of the tool, False for those of the base.
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
        wrench[3] += scale * tx
        wrench[4] += scale * ty
        wrench[5] += scale * tz


FREEDOM_STEP = 0.01
"""Change per cycle of the scale of ``ConservativeSpring`` after directions become free or held."""


class CartesianSpring:
    """Cartesian spring and damper between a tool and its reference pose.

    Equations::

        F  = s K clip(e) + d D de
        e  = [p_d - p; log(R_d R^T)]
        de = dx_d - dx

    - F: Wrench on the tool, (6,) [N, Nm].
    - s, d: Scales of spring and damper, 1 by default.
    - K: Stiffness, symmetric positive semidefinite, (6, 6) [N/m, Nm/rad].
    - D: Damping by ``ModalDamping`` with diagonal damping ratios Z, (6, 6).
    - e: Pose error, (6,) [m, rad]; clip: bound per axis.
    - p, R: Measured position and rotation of the tool; p_d, R_d: reference.
    - dx, dx_d: Measured and reference twist, (6,) [m/s, rad/s].

    K and D are along the axes of the base or of the tool, see ``set_shape``.

    Call ``measure`` in each cycle, before the other methods.

    If the bandwidth limit of ``ModalDamping`` does not allow K, the spring uses the lower
    stiffness K', and ``stiffness_scale`` is below 1. If a direction has no stiffness,
    ``ConservativeSpring`` corrects the wrench.

    Attributes:
        error: Clipped error along the axes of K, (6,) [m, rad].
        wrench_bound: Upper bound of the spring wrench, ``|K|_inf |e|`` [N, Nm].
        stiffness: Current K, or K' if that is lower, (6, 6).
        stiffness_scale: Factor by which ``ModalDamping`` reduces K in the fastest mode, 0 to 1.
        ratio: Maximum damping ratio of all axes.
        is_free: True if a direction has no stiffness, now or at the start or end of a ramp.
        is_singular: True if the last measured configuration is nearly singular.

    Thread: control.
    """

    def __init__(self) -> None:
        self._error_and_rate, self._gains = np.zeros(12), np.zeros((12, 6))
        self.error, self._rate = self._error_and_rate[:6], self._error_and_rate[6:]
        self._pose_error = PoseError(self.error)
        self._desired_stiffness, damping = self._gains[:6], self._gains[6:]
        self.stiffness, self.stiffness_scale = self._desired_stiffness, 1.0
        self._modal, self._stiffest, self.wrench_bound = ModalDamping(damping=damping), 0.0, 0.0
        self._root = Ramp(np.zeros((6, 6)))
        self._free_motion, self._gets_soft, self.is_free = FreeMotion(), False, False
        self._conservative, self._freedom = ConservativeSpring(), 0.0
        self._ratio, self.ratio = np.ones(6), 1.0
        self._in_tool = self.is_singular = False
        self._desired_compliance: Matrix | None = None
        self._turned_inertia, self._rotation = np.zeros((6, 6)), np.zeros((6, 6))
        self._spring, self._damper, self._wrench, self._along = np.zeros((4, 6))

    def set_shape(self, damping_ratio: Vector, error_clip: Vector, in_tool: bool) -> None:
        """Set the damping ratios, the error bounds and the axes of stiffness and damping.

        Args:
            damping_ratio: Damping ratios, (6,).
            error_clip: Maximum error per axis, (6,) [m, rad].
            in_tool: True for the axes of the tool, False for those of the base.
        """
        self._ratio, self.ratio = np.array(damping_ratio), float(damping_ratio.max())
        self._pose_error.set_bounds(error_clip)
        self._in_tool = in_tool
        self._rescale()

    def set_stiffness(self, stiffness: Vector | Matrix, cycles: int = 0) -> None:
        """Start a ramp to a stiffness.

        Args:
            stiffness: Diagonal (6,) or full stiffness (6, 6) [N/m, Nm/rad].
            cycles: Length of the ramp [cycles]; 0 sets the stiffness immediately.
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
        np.dot(root, root, self._desired_stiffness)
        self._stiffest = float(np.abs(self._desired_stiffness).sum(axis=1).max())
        self._desired_compliance = None
        self._modal.set_root(root, self._ratio)

    def wrench(self, spring_scale: float = 1.0, damper_scale: float = 1.0) -> Vector:
        """Return the wrench F in the base, (6,) [N, Nm]. The next call overwrites it.

        Args:
            spring_scale: Scale s of the spring.
            damper_scale: Scale d of the damper.
        """
        is_whole = self.stiffness_scale == 1.0
        if spring_scale == 1.0 and damper_scale == 1.0 and is_whole and not self._freedom:
            wrench = self._error_and_rate.dot(self._gains, self._wrench)
            return self._rotation.dot(wrench) if self._in_tool else wrench
        spring = scale_by(self._spring_along_gains(self._spring), spring_scale)
        damper = scale_by(self._modal.apply(self._rate, self._damper), damper_scale)
        return self._in_base(add(spring, damper, self._wrench))

    def spring_wrench(self) -> Vector:
        """Return the spring wrench K e in the base, (6,) [N, Nm], until the next wrench."""
        return self._in_base(self._spring_along_gains(self._spring))

    def write_spring(self, out: Vector) -> Vector:
        """Write the spring wrench K e in the base, (6,) [N, Nm], into ``out``, and return it."""
        return self._write(self._spring_along_gains(out), out)

    def write_damper(self, out: Vector) -> Vector:
        """Write the damper wrench D de in the base, (6,) [N, Nm], into ``out``, and return it."""
        return self._write(self._modal.apply(self._rate, out), out)

    def _spring_along_gains(self, out: Vector) -> Vector:
        spring: Vector = self.stiffness.dot(self.error, out)
        if self._freedom:
            self._conservative.correct(spring, self._freedom, self._in_tool)
        return spring

    def _in_base(self, along_gains: Vector) -> Vector:
        return self._rotation.dot(along_gains) if self._in_tool else along_gains

    def _write(self, along_gains: Vector, out: Vector) -> Vector:
        if self._in_tool:
            out[:] = self._rotation.dot(along_gains)
        return out

    def free_velocity(self, state: ArmState) -> Vector:
        """Return the joint velocity of the free motion, (n,) [rad/s], see ``FreeMotion``."""
        root = self._root.value
        if self._in_tool:
            axes = self._axes(state)
            root = axes.dot(root).dot(axes.T)
        return self._free_motion.velocity(state, root)

    def damping_along(self, direction: Vector) -> float:
        """Return v^T D v, the power dissipated at a twist v in the base, (6,)."""
        along = direction.dot(self._rotation) if self._in_tool else direction
        return float(self._modal.apply(along, self._along).dot(along))

    def stiffness_along(self, direction: Vector) -> float:
        """Return the stiffness v^T K v along a twist v in the base, (6,)."""
        along = direction.dot(self._rotation) if self._in_tool else direction
        return float(self.stiffness.dot(along).dot(along))

    def measure(
        self, state: ArmState, position: Vector, rotation: Matrix, twist: Vector | None = None
    ) -> None:
        """Update the pose error e, its rate de, the stiffness K and the damping D.

        Args:
            state: State of the arm.
            position: Reference position of the tool in the base, (3,) [m].
            rotation: Reference rotation, (3, 3).
            twist: Reference twist dx_d, (6,) [m/s, rad/s]; None means rest.
        """
        if not self._root.arrived:
            self._step_gains()
        if self._gets_soft or self._freedom:
            step = FREEDOM_STEP if self._gets_soft else -FREEDOM_STEP
            self._freedom = min(1.0, max(0.0, self._freedom + step))
        modal, rate = self._modal, self._rate
        error = self._pose_error.measure(
            state.position_ee_in_base, state.rotation_ee_in_base, position, rotation
        )
        space = state.operational_space()
        inertia_inv, self.is_singular = space.inertia_inv, space.damping > 0.0
        if twist is None:
            negative(state.twist_ee_in_base, rate)
        else:
            subtract(twist, state.twist_ee_in_base, rate)
        if self._in_tool:
            rotation_step = self._rotation
            rotation_step[:3, :3] = rotation_step[3:, 3:] = state.rotation_ee_in_base
            error[:], rate[:] = error.dot(rotation_step), rate.dot(rotation_step)
            inertia_inv = rotation_step.T.dot(inertia_inv).dot(rotation_step, self._turned_inertia)
        if self._freedom:
            self._conservative.project(error, self._freedom)
        self._pose_error.clip_measured()
        self.wrench_bound = self._stiffest * self._pose_error.size
        modal.design(inertia_inv)
        self.stiffness_scale = stiffness_scale = modal.stiffness_scale
        self.stiffness = self._desired_stiffness if stiffness_scale == 1.0 else modal.stiffness

    def _step_gains(self) -> None:
        self._root.step()
        self._rescale()
        if self._root.arrived:
            self.is_free = self._gets_soft

    def error_for(self, state: ArmState, wrench: Vector) -> tuple[Vector, float]:
        """Return the pose error at which the spring exerts a wrench.

        Args:
            state: State of the arm.
            wrench: Wrench on the tool along the base axes, (6,) [N, Nm].

        Returns:
            Pose error along the base axes, within the error bounds, (6,) [m, rad], and the
                fraction of ``wrench`` that the spring exerts at this error.
        """
        axes = self._axes(state) if self._in_tool else None
        desired = wrench if axes is None else wrench.dot(axes)
        error: Vector = self._compliance(state, axes).dot(desired)
        bounded_error(error, self._pose_error.bounds)
        fraction = fraction_of(self.stiffness.dot(error), desired)
        return error if axes is None else axes.dot(error), fraction

    def compliance(self, state: ArmState) -> Matrix:
        """Return the inverse stiffness along the base axes, (6, 6); zero where K is zero."""
        if not self._in_tool:
            return self._compliance(state, None).copy()
        axes = self._axes(state)
        compliance: Matrix = axes.dot(self._compliance(state, axes)).dot(axes.T)
        return compliance

    def _axes(self, state: ArmState) -> Matrix:
        axes: Matrix = np.zeros((6, 6))
        axes[:3, :3] = axes[3:, 3:] = state.rotation_ee_in_base
        return axes

    # ``axes``: block-diagonal rotation from the tool to the base; None for K along the base axes.
    def _compliance(self, state: ArmState, axes: Matrix | None) -> Matrix:
        # The bandwidth limit may require a lower stiffness in this configuration than in the
        # last one, so design the gains first.
        modal, inertia_inv = self._modal, state.operational_space().inertia_inv
        modal.design(inertia_inv if axes is None else axes.T.dot(inertia_inv).dot(axes))
        self.stiffness_scale = modal.stiffness_scale
        if self.stiffness_scale < 1.0:
            self.stiffness = modal.stiffness
            return _pseudoinverse(self.stiffness)
        self.stiffness = self._desired_stiffness
        if self._desired_compliance is None:
            self._desired_compliance = _pseudoinverse(self._desired_stiffness)
        return self._desired_compliance

    @property
    def error_in_base(self) -> Vector:
        """Clipped error along the axes of the base, (6,) [m, rad]."""
        return self._in_base(self.error)

    @property
    def damping(self) -> Matrix:
        """Current damping D along the axes of the base or tool that ``set_shape`` sets, (6, 6)."""
        return self._modal.damping.copy()


def _pseudoinverse(stiffness: Matrix) -> Matrix:
    return np.array(np.linalg.pinv(stiffness, rcond=1e-3), dtype=np.float64)
