# SPDX-License-Identifier: Apache-2.0
"""Mock backend: arms that follow the ideal equations of motion without an environment."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pinocchio as pin

from multipanda_py.backend import Backend
from multipanda_py.hardware.franka.settings import FrankaSettings
from multipanda_py.robots.dynamics.arm_dynamics import LoadedFlange, model_with_gravity
from multipanda_py.robots.gripper import Action, Outcome
from multipanda_py.state import Vector


class Mock(Backend[FrankaSettings]):
    r"""Backend that simulates arms without limits, contacts or friction.

    .. math:: M(q) \ddot q + C(q, \dot q) \dot q = \tau.

    Here M is the mass matrix, C the Coriolis matrix and :math:`\tau` the commanded torque without
    gravity, integrated by semi-implicit Euler steps. Use this backend for tests, and on machines
    without MuJoCo. Arms carry the load of their settings.

    Attributes:
        q: Joint positions of each arm, (n,) [rad], after :meth:`connect`.
        dq: Joint velocities of each arm, (n,) [rad/s], after :meth:`connect`.
    """

    Settings, settings_section = FrankaSettings, "franka"

    @classmethod
    def describe_stall(cls, arms: Sequence[str]) -> str:
        """Return a sentence for users on the behaviour of simulated arms with a stalled loop."""
        return "simulated arms stand still as well"

    def connect(self) -> None:
        """Set every arm to its start configuration, at rest."""
        self.q: list[Vector] = []
        self.dq: list[Vector] = []
        self._models = []
        self._flanges = []
        for index, description in zip(self.arms, self.descriptions):
            arm = self.config.arms[description.name]
            model = model_with_gravity(description)
            self._flanges.append(LoadedFlange(model, description.flange_frame))
            self._flanges[-1].set_load(self.settings[index].load)
            self._models.append((model, model.createData()))
            self.q.append(np.array(arm.q_start))
            self.dq.append(np.zeros(description.n_joints))
        for state, description in zip(self.states, self.descriptions):
            state.finger_positions[:] = description.finger_opening
        self.time = 0.0

    def command_gripper(self, arm: int, number: int, record: Vector) -> None:
        """Execute a gripper command at once; a grasp finds an object of the requested width.

        Args:
            arm: Index of the arm in the cell.
            number: Number of the command, stored in the state of the gripper.
            record: Command as in :attr:`.GripperCommand.record`.
        """
        at, action = self.arms.index(arm), Action(int(record[0]))
        state, gripper = self.states[at], self.descriptions[at].gripper
        if action is not Action.STOP and gripper is not None:
            width = gripper.max_width if action is Action.HOMING else record[1]
            state.finger_positions[:] = width / 2.0
            state.gripper[2] = action is Action.GRASP
        state.gripper[:2] = number, Outcome.SUCCEEDED

    def configure(self, arm: int, settings: FrankaSettings) -> None:
        self._flanges[self.arms.index(arm)].set_load(settings.load)
        super().configure(arm, settings)

    def read(self, fresh: Collection[int]) -> None:
        """Copy integrated positions and velocities to the states of all arms.

        Args:
            fresh: Indices of the arms to read. Nothing is copied if the first arm of the backend
                is not among them.
        """
        if self.arms[0] not in fresh:
            return
        for i, (state, q, dq) in enumerate(zip(self.states, self.q, self.dq)):
            state.q[:], state.dq[:] = q, dq
            state.tau_J[:] = state.tau + self._gravity_compensation(i)
            state.tau_ext[:] = 0.0

    def write(self, fresh: Collection[int]) -> None:
        """Integrate the motion of all arms over one period.

        Args:
            fresh: Indices of the arms with new torques. Nothing is integrated if the first arm of
                the backend is not among them.
        """
        if self.arms[0] not in fresh:
            return
        for i, (state, q, dq) in enumerate(zip(self.states, self.q, self.dq)):
            model, data = self._models[i]
            dq += self.period * pin.aba(
                model, data, q, dq, state.tau + self._gravity_compensation(i)
            )
            q += self.period * dq
        self.time += self.period

    def _gravity_compensation(self, index: int) -> Vector:
        """Return the gravity compensation by the arm itself or by the loop, (n,) [Nm]."""
        if not self.descriptions[index].compensates_gravity:
            return self.states[index].tau_gravity
        model, data = self._models[index]
        gravity: Vector = pin.computeGeneralizedGravity(model, data, self.q[index])
        return gravity

    def close(self) -> None:
        """Do nothing: there are no resources to release."""
