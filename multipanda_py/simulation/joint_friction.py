# SPDX-License-Identifier: Apache-2.0
"""Friction of a simulated arm that its robot does not know."""

from __future__ import annotations

import numpy as np

from multipanda_py.config.perturbation_section import PerturbationConfig
from multipanda_py.extras import extras_named
from multipanda_py.simulation.drive import Measured, Stage
from multipanda_py.state import Vector

with extras_named():
    import mujoco

_add, _subtract, _multiply = np.add, np.subtract, np.multiply
_divide, _negative, _exp = np.divide, np.negative, np.exp


class JointFriction(Stage):
    r"""Rub as Coulomb, Stribeck, viscosity and an offset say, and be felt.

    .. math::
        \tau_f = \left(f_c + f_s e^{-(\dot q / v_s)^2}\right) \mathrm{sgn}(\dot q)
        + f_v \dot q + f_o

    Coulomb's and Stribeck's parts are MuJoCo's dry friction, whose bound follows the velocity:
    at rest it holds against any torque up to :math:`f_c + f_s`. An estimate of external torques
    that goes by a model without friction takes it for something from outside, so it is added
    there; ``joint_friction`` and ``joint_damping`` of the arm are known and are not.

    Args:
        settings: What is wrong with the arm.
        model: MuJoCo's model, whose bounds of friction this changes.
        data: MuJoCo's data.
        dof: The first of the arm's velocities.

    Attributes:
        known: Dry friction that the robot knows, (n,) [Nm].

    Thread: control.
    """

    CHANGING = ("_own",)

    def __init__(
        self,
        settings: PerturbationConfig,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        dof: int,
    ) -> None:
        n = len(settings.coulomb)
        self._data, self._model = data, model
        self._speeds = data.qvel[dof : dof + n]
        self._bounds = model.dof_frictionloss[dof : dof + n]
        self._dofs = slice(dof, dof + n)
        self._stribeck, self._speed = (
            np.array(settings.stribeck),
            np.array(settings.stribeck_speed),
        )
        self._slowing = -np.array(settings.viscous)
        self._offset = np.array(settings.friction_offset)
        self._coulomb = np.array(settings.coulomb)
        self._own: Vector = self._coulomb + self._stribeck  # of what is in the bounds
        self.known = self._bounds - self._own
        self._varies = bool(self._stribeck.any())
        self._rubs = bool(self._own.any())
        self._shares_bounds = bool(self.known.any())
        self._dry, self._felt = np.zeros(model.nv), np.zeros(n)
        self._falling, self._bound = np.zeros((2, n))

    def execute(self, tau: Vector) -> None:
        """Set the bounds of dry friction for this cycle, and take the offset away."""
        if self._varies:
            falling = _divide(self._speeds, self._speed, self._falling)
            _exp(_negative(_multiply(falling, falling, falling), falling), falling)
            _add(self._coulomb, _multiply(self._stribeck, falling, falling), self._own)
            _add(self.known, self._own, self._bounds)
        tau -= self._offset

    def measure(self, state: Measured) -> None:
        """Add what the estimate of external torques takes for a push."""
        felt, data = self._felt, self._data
        _subtract(_multiply(self._slowing, self._speeds, felt), self._offset, felt)
        if self._rubs and data.nf:
            _add(felt, self._dry_friction(), felt)
        state.tau_ext += felt
        state.tau_J += self._offset  # of a motor, which friction is beyond

    def _dry_friction(self) -> Vector:
        """Return what of MuJoCo's dry friction is this arm's own, (n,) [Nm]."""
        data, dry = self._data, self._dry
        rows = slice(data.ne, data.ne + data.nf)  # a row per joint that rubs, with 1 at its place
        dry[:] = 0.0
        dry[data.efc_id[rows]] = data.efc_force[rows]
        own: Vector = dry[self._dofs]
        if not self._shares_bounds:
            return own
        bounds = _add(self.known, self._own, self._bound)
        share = np.divide(self._own, bounds, out=np.zeros_like(bounds), where=bounds > 0.0)
        found: Vector = share * own
        return found
