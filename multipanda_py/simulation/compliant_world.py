# SPDX-License-Identifier: Apache-2.0
"""Steps of a world some of whose joints are driven through springs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mujoco
import numpy as np

from multipanda_py.simulation.compliant_arm import CompliantArm
from multipanda_py.state import Vector

CONTACT_TIME = 0.02
"""Within which springs learn of the force of a contact that lasts [s]."""


class CompliantWorld:
    r"""Move MuJoCo and springs on together.

    Springs and motors may be much faster than a step of MuJoCo, h, and take smaller ones of their
    own (:class:`.CompliantJoints`), in which links move as :math:`\ddot q = C \tau_{spring} + a`
    with the rows and columns C of the inverse mass matrix. MuJoCo is given the mean of their
    torque, and afterwards the links the difference between where they came to under the torque as
    it was, and under its mean: a multiple time step method, as in Tuckerman, Berne and Martyna,
    Reversible multiple time scale molecular dynamics, 1992.

    The acceleration a is that of all other forces at the beginning of the step, and of what
    contacts, friction and stops lastingly do, low-passed. So an arm at rest stays exactly where it
    is, in contact too. Velocities get :math:`\tfrac h2 (a_k - a_{k-1})` of the former, which makes
    the whole a velocity Verlet method for them, without a drift of the energy.

    Args:
        model: MuJoCo's model.
        data: Its data.
        arms: The arms with springs.

    Thread: control.
    """

    CHANGING = ("_before", "_lasting")

    def __init__(
        self, model: mujoco.MjModel, data: mujoco.MjData, arms: Sequence[CompliantArm]
    ) -> None:
        self._model, self._data, self._arms = model, data, tuple(arms)
        self._dofs = np.concatenate([arm.dofs for arm in arms])
        self._positions = np.concatenate([arm.positions for arm in arms])
        self._motors = np.concatenate([arm.motors for arm in arms])
        ends = np.cumsum([len(arm.dofs) for arm in arms])
        self._parts = [slice(end - len(arm.dofs), end) for end, arm in zip(ends, arms)]
        self._unit = np.zeros((len(self._dofs), model.nv))
        self._unit[np.arange(len(self._dofs)), self._dofs] = 1.0
        self._rows = np.zeros_like(self._unit)
        self._qpos, self._qvel, self._ctrl = data.qpos, data.qvel, data.ctrl
        self._smooth, self._whole = data.qacc_smooth, data.qacc
        self._before: Vector = np.full(len(self._dofs), math.nan)
        self._lasting: Vector = np.zeros(len(self._dofs))
        self._shift: Vector = np.zeros(len(self._dofs))

    def step(self, steps: int) -> None:
        """Move on by some steps of MuJoCo, with controls of rigid joints as they are."""
        model, data, dofs, ctrl = self._model, self._data, self._dofs, self._ctrl
        step = float(model.opt.timestep)
        share = -math.expm1(-step / CONTACT_TIME)
        for _ in range(steps):
            mujoco.mj_step1(model, data)
            ctrl[self._motors] = 0.0
            mujoco.mj_fwdActuation(model, data)
            mujoco.mj_fwdAcceleration(model, data)
            mujoco.mj_solveM(model, data, self._rows, self._unit)
            rest = self._smooth[dofs]
            if math.isfinite(self._before[0]):
                self._qvel[dofs] += 0.5 * step * (rest - self._before)
            self._before = rest
            known = rest + self._lasting
            for arm, part in zip(self._arms, self._parts):
                push = arm.joints.advance(
                    self._qpos[arm.positions], self._qvel[arm.dofs], known[part],
                    self._rows[part, arm.dofs], step,
                )  # fmt: skip
                ctrl[arm.motors] = push.torque
                self._shift[part] = push.shift
            mujoco.mj_step2(model, data)
            self._lasting += share * ((self._whole - self._smooth)[dofs] - self._lasting)
            self._qpos[self._positions] += self._shift

    def forget(self) -> None:
        """Begin anew, after positions or velocities were put elsewhere."""
        self._before, self._lasting = np.full_like(self._before, math.nan), 0.0 * self._lasting
