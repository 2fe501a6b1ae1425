# SPDX-License-Identifier: Apache-2.0
"""Torques that carry an arm which does not compensate gravity itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.dynamics.arm_model import LoadedFlange, build_pinocchio
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.load import Load
from multipanda_py.state import ArmState, Matrix, Vector

STANDARD_GRAVITY = 9.81
"""Of the simulated worlds too [m/s^2]."""
RAMP = 0.2
"""In which the weight of a gripped thing is taken on: it may stand on a table yet [s]."""
_gravity = pin.computeGeneralizedGravity


def heavy_model(arm: ArmDescription) -> Any:
    """Return the pinocchio model of an arm on which gravity acts as its base stands."""
    model = build_pinocchio(arm)
    down_in_base = -arm.rotation_base_in_world[2]
    model.gravity = pin.Motion(STANDARD_GRAVITY * down_in_base, np.zeros(3))
    return model


class ArmGravity:
    r"""Compute what carries an arm with its tool, its load and what its hand holds.

    .. math::
        \tau_g = g(q) + J^T \begin{bmatrix} f \\ (c - x) \times f \end{bmatrix}, \qquad
        f = s \, m \, 9.81 \, u

    with the mass m and centre c of the thing in the hand, the tool's point x, the vertical u, all
    in the base, and a share s that grows to 1 when the thing is gripped and is 0 as soon as the
    hand lets go of it.

    Args:
        arm: What it is.
        state: Its live state.
        period: Cycle time [s].
        out: What this fills, (n,); by default ``tau_gravity`` of the state.

    Attributes:
        share: s.

    Thread: control.
    """

    def __init__(
        self, arm: ArmDescription, state: ArmState, period: float, out: Vector | None = None
    ) -> None:
        self._model = heavy_model(arm)
        self._flange = LoadedFlange(self._model, arm.flange_frame)
        self._data = self._model.createData()
        self._state, self._out = state, state.tau_gravity if out is None else out
        self._base: Vector = np.array(arm.position_base_in_world)
        self._turn: Matrix = np.array(arm.rotation_base_in_world)
        self._up_in_base = self._turn[2]
        self._step = period / RAMP
        self._mass = self.share = 0.0
        self._centre_in_world: Vector = np.zeros(3)

    def set_load(self, load: Load) -> None:
        """Carry what the flange does, instead of any load before."""
        self._flange.carry(load)

    def hold(self, mass: float, centre_in_world: Vector) -> None:
        """Carry what the hand holds, too; nothing if it has no mass.

        Args:
            mass: Of what this hand has to carry [kg].
            centre_in_world: Live view of where it is, (3,) [m].
        """
        if mass <= 0.0 or self._mass <= 0.0:
            self.share = 0.0
        self._mass, self._centre_in_world = mass, centre_in_world

    def update(self) -> None:
        """Fill it; where a posture is not finite, it stays as it was."""
        tau = _gravity(self._model, self._data, self._state.q)
        if self._mass > 0.0:
            tau = tau + self._of_held_thing()
        if math.isfinite(tau.dot(tau)):
            self._out[:] = tau

    def _of_held_thing(self) -> Vector:
        self.share = min(1.0, self.share + self._step)
        state = self._state
        force = self.share * self._mass * STANDARD_GRAVITY * self._up_in_base
        centre = np.dot(self._centre_in_world - self._base, self._turn)
        torque = np.cross(centre - state.position_ee_in_base, force)
        tau: Vector = np.dot(np.concatenate([force, torque]), state.jacobian)
        return tau
