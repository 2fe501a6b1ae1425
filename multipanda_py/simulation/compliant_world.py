# SPDX-License-Identifier: Apache-2.0
"""Steps of a world some of whose joints are driven through springs."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from multipanda_py.simulation.compliant_arm import CompliantArm
from multipanda_py.state import Vector


class CompliantWorld:
    r"""Move MuJoCo and the springs of all arms on together.

    Springs and motors may be much faster than a step of MuJoCo, and take smaller ones of their
    own: see :class:`.CompliantJoints`. MuJoCo's motors exert the mean of the springs' torque, and
    afterwards the links get the difference between where springs have brought them and where
    MuJoCo has, unless contacts or friction hold them.

    Args:
        model: MuJoCo's model.
        data: Its data.
        arms: The arms with springs.

    Thread: control.
    """

    CHANGING = ("_kicks",)

    def __init__(
        self, model: mujoco.MjModel, data: mujoco.MjData, arms: Sequence[CompliantArm]
    ) -> None:
        self._model, self._data = model, data
        self._dofs, self._positions, self._motors = (
            np.concatenate([getattr(arm, name) for arm in arms])
            for name in ("dofs", "positions", "motors")
        )
        ends = np.cumsum([len(arm.dofs) for arm in arms]).tolist()
        parts = [slice(end - len(arm.dofs), end) for end, arm in zip(ends, arms)]
        self._parts = list(zip((arm.joints for arm in arms), parts))
        self._unit = np.zeros((len(self._dofs), model.nv))
        self._unit[np.arange(len(self._dofs)), self._dofs] = 1.0
        self._rows, self._shift = np.zeros_like(self._unit), np.zeros(len(self._dofs))
        self._qpos, self._qvel, self._ctrl = data.qpos, data.qvel, data.ctrl
        self._smooth = data.qacc_smooth
        self._damping: Vector = np.array(model.dof_damping)[self._dofs]
        self._kicks: Vector | None = None

    def step(self, steps: int) -> None:
        """Move on by some steps of MuJoCo, with controls of rigid joints as they are.

        Raises:
            BackendError: If springs push with what is not finite.
        """
        model, data, dofs = self._model, self._data, self._dofs
        duration = float(model.opt.timestep)
        for _ in range(steps):
            mujoco.mj_step1(model, data)
            self._ctrl[self._motors] = 0.0
            mujoco.mj_fwdActuation(model, data)
            mujoco.mj_fwdAcceleration(model, data)
            mujoco.mj_solveM(model, data, self._rows, self._unit)
            rest, compliance, dq = self._smooth[dofs], self._rows[:, dofs], self._qvel[dofs]
            # The other half of the last step's kick, which the joints' own damping is no part of.
            kicks = rest + np.dot(compliance, self._damping * dq)
            if self._kicks is not None:
                dq += 0.5 * duration * (kicks - self._kicks)
                self._qvel[dofs] = dq
            self._kicks = kicks
            q, pushes = self._qpos[self._positions], []
            for joints, part in self._parts:
                push = joints.advance(
                    q[part], dq[part], rest[part], compliance[part, part], duration,
                    self._damping[part],
                )  # fmt: skip
                pushes.append((part, push))
                self._ctrl[self._motors[part]] = push.torque
            mujoco.mj_step2(model, data)
            reached = self._qvel[dofs]
            for part, push in pushes:
                self._shift[part] = push.shift_for(reached[part])
            self._qpos[self._positions] += self._shift
