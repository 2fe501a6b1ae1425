# SPDX-License-Identifier: Apache-2.0
"""Friction in joints and torque ripple of gears."""

from __future__ import annotations

import math

import numpy as np
from numpy import add, divide, exp, multiply, negative, subtract
from numpy.typing import NDArray

from multipanda_py.config.arm_section import JointsConfig, PerturbationConfig
from multipanda_py.registry import extras_named
from multipanda_py.simulation.drivetrain.drivetrain import DrivetrainStage, Measured
from multipanda_py.state import Matrix, Vector

with extras_named():
    import mujoco


SLIP_DISTANCES = (0.125, 0.25, 0.5, 1.0)
"""Distances after a reversal at which the elements slip, relative to the total distance. The
increasing distances model the gradual softening of strain wave gears."""


class Hysteresis(DrivetrainStage):
    r"""Rate-independent hysteretic friction by the Maxwell-slip model.

    .. math::
        \tau_h = \sum_i z_i, \qquad
        z_i \leftarrow \mathrm{clip}\left(z_i + \frac{2 w}{s_i d} \Delta q,\, -w,\, w\right),
        \qquad w = \frac{h}{m} .

    Here :math:`z_i` are the torques of m elastic elements, and w is the torque at which each of
    them slips. :math:`\Delta q` is the motion of the joint in a cycle, and :math:`s_i` an element
    of :data:`SLIP_DISTANCES`. h and d are the parameters ``hysteresis`` and
    ``hysteresis_distance``. After a reversal, the friction changes from h to -h within the
    distance d. From rest, it grows to h within half this distance.

    Source: Al-Bender, Lampaert and Swevers, The generalized Maxwell-slip model, 2005. Source for
    strain wave gears: Tjahjowidodo, Al-Bender and Van Brussel, Theoretical modelling and
    experimental identification of nonlinear torsional behaviour in harmonic drives, 2013.

    This friction appears in the estimate of external torques, and not in ``tau_J``.

    Args:
        settings: Perturbation of the arm, with ``hysteresis`` and ``hysteresis_distance``.
        q: Joint positions of the simulation, updated in place, (n,) [rad].

    Thread: control.
    """

    CHANGING = ("_last", "_springs", "_torque")

    def __init__(self, settings: PerturbationConfig, q: Vector) -> None:
        self._q, n = q, len(q)
        strength: Vector = np.array(settings.hysteresis) / len(SLIP_DISTANCES)
        distances = np.outer(SLIP_DISTANCES, settings.hysteresis_distance)
        self._stiffness: Matrix = 2.0 * strength / distances
        self._max_torque: Matrix = np.tile(strength, (len(SLIP_DISTANCES), 1))
        self._min_torque: Matrix = -self._max_torque
        # Joint positions of the last cycle; None before the first cycle.
        self._last: Vector | None = None
        self._springs, self._torque = np.zeros((len(SLIP_DISTANCES), n)), np.zeros(n)
        self._displacement, self._change = np.zeros(n), np.zeros((len(SLIP_DISTANCES), n))

    def execute(self, tau: Vector) -> None:
        """Update the friction for the last motion of the joints, and subtract it from ``tau``."""
        if self._last is None:
            self._last = self._q.copy()
        springs, change = self._springs, self._change
        displacement = np.subtract(self._q, self._last, self._displacement)
        self._last[:] = self._q
        np.add(springs, np.multiply(self._stiffness, displacement, change), springs)
        np.maximum(springs, self._min_torque, out=springs)
        np.minimum(springs, self._max_torque, out=springs)
        tau -= springs.sum(axis=0, out=self._torque)

    def measure(self, state: Measured) -> None:
        """Remove the friction from ``tau_J``; it appears in ``tau_ext`` instead."""
        state.tau_ext -= self._torque
        state.tau_J += self._torque


class JointFriction(DrivetrainStage):
    r"""Coulomb, Stribeck and viscous friction with an offset, not known to the robot.

    .. math::
        \tau_f = \left(f_c + f_s e^{-(\dot q / v_s)^2}\right) \mathrm{sgn}(\dot q)
        + f_v \dot q + f_o .

    Here :math:`f_c` is the Coulomb friction and :math:`f_s` the additional friction at rest.
    :math:`v_s` is the Stribeck velocity, :math:`f_v` the viscous friction and :math:`f_o` the
    offset. A joint at rest does not move under torques up to :math:`f_c + f_s`.

    This friction appears in the robot's estimate of external torques. ``joint_friction`` and
    ``joint_damping`` of the arm do not, because the robot knows them.

    Args:
        settings: Perturbation of the arm, with the friction of its joints.
        model: MuJoCo model, whose friction limits are changed.
        data: MuJoCo data of the scene.
        dof: Index of the arm's first joint in ``qvel``.

    Attributes:
        known: Dry friction that the robot knows, (n,) [Nm].

    Thread: control.
    """

    CHANGING = ("_unknown_limits",)

    def __init__(
        self,
        settings: PerturbationConfig,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        dof: int,
    ) -> None:
        n = len(settings.coulomb)
        self._data, self._model = data, model
        self._dq = data.qvel[dof : dof + n]
        self._friction_limits = model.dof_frictionloss[dof : dof + n]
        self._dofs = slice(dof, dof + n)
        self._stribeck, self._stribeck_speed = (
            np.array(settings.stribeck),
            np.array(settings.stribeck_speed),
        )
        self._negative_viscous = -np.array(settings.viscous)
        self._offset = np.array(settings.friction_offset)
        self._coulomb = np.array(settings.coulomb)
        # MuJoCo's friction limits are the sum of the friction that the robot knows and the
        # unknown part.
        self._unknown_limits: Vector = self._coulomb + self._stribeck
        self.known = self._friction_limits - self._unknown_limits
        self._varies = bool(self._stribeck.any())
        self._has_dry_friction = bool(self._unknown_limits.any())
        self._has_known_friction = bool(self.known.any())
        self._dry, self._tau_ext = np.zeros(model.nv), np.zeros(n)
        self._decay, self._limits = np.zeros((2, n))

    def execute(self, tau: Vector) -> None:
        """Set MuJoCo's limits of dry friction for the current speed, and subtract the offset."""
        if self._varies:
            decay = divide(self._dq, self._stribeck_speed, self._decay)
            exp(negative(multiply(decay, decay, decay), decay), decay)
            add(self._coulomb, multiply(self._stribeck, decay, decay), self._unknown_limits)
            add(self.known, self._unknown_limits, self._friction_limits)
        tau -= self._offset

    def measure(self, state: Measured) -> None:
        """Add the friction to ``tau_ext``, and the offset to ``tau_J``."""
        estimate, data = self._tau_ext, self._data
        subtract(multiply(self._negative_viscous, self._dq, estimate), self._offset, estimate)
        if self._has_dry_friction and data.nf:
            add(estimate, self._unknown_dry_friction(), estimate)
        state.tau_ext += estimate
        # The torque sensor is on the motor side of the friction. The friction offset that
        # ``execute`` has subtracted is therefore added again.
        state.tau_J += self._offset

    def _unknown_dry_friction(self) -> Vector:
        """Return the part of the dry friction that the robot does not know, (n,) [Nm]."""
        data, dry = self._data, self._dry
        # Constraint rows of dry friction follow those of equalities, one for each joint with
        # friction.
        rows = slice(data.ne, data.ne + data.nf)
        dry[:] = 0.0
        dry[data.efc_id[rows]] = data.efc_force[rows]
        own: Vector = dry[self._dofs]
        if not self._has_known_friction:
            return own
        bounds = add(self.known, self._unknown_limits, self._limits)
        fraction = np.divide(
            self._unknown_limits, bounds, out=np.zeros_like(bounds), where=bounds > 0.0
        )
        dry_friction: Vector = fraction * own
        return dry_friction


class Ripple(DrivetrainStage):
    r"""Torque ripple of gears, periodic in the motor angle.

    .. math:: \tau_i \leftarrow \tau_i + a_i \sin(n_i \theta_i) .

    Here :math:`a_i` is the amplitude and :math:`n_i` the number of periods per revolution of the
    joint. :math:`\theta_i` is the motor angle on the joint side of the gear. The ripple of a
    strain wave gear has two periods per revolution of the motor. Source: Tuttle and Seering, A
    nonlinear model of a harmonic drive gear transmission, 1996.

    Args:
        settings: Amplitudes and numbers of periods.
        qpos: Positions of the simulation, updated in place.
        motor_indices: Indices of the motor angles in ``qpos``, (n,).

    Thread: control.
    """

    def __init__(
        self, settings: JointsConfig, qpos: Vector, motor_indices: NDArray[np.int64]
    ) -> None:
        self._amplitude, self._waves = np.array(settings.ripple), np.array(settings.ripple_waves)
        self._qpos, self._motor_indices = qpos, motor_indices
        self._angle = np.zeros(len(motor_indices))

    def execute(self, tau: Vector) -> None:
        """Add the ripple at the current motor angles to the torques."""
        angle = self._qpos.take(self._motor_indices, None, self._angle, "clip")
        np.sin(np.remainder(np.multiply(self._waves, angle, angle), math.tau, angle), angle)
        tau += np.multiply(self._amplitude, angle, angle)
