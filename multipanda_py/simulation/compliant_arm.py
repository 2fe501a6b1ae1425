# SPDX-License-Identifier: Apache-2.0
"""Compliant actuators between what an arm is commanded and its joints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import pinocchio as pin

from multipanda_py.compliance.joints import CompliantJoints, Saved
from multipanda_py.dynamics.gravity import heavy_model
from multipanda_py.exceptions import ActuatorRefused, BackendError
from multipanda_py.robots import ArmDescription
from multipanda_py.simulation.drive import Stage
from multipanda_py.simulation.link_torque import LinkTorque
from multipanda_py.simulation.mjcf_elements import put
from multipanda_py.state import Matrix, Vector

_gravity = pin.computeGeneralizedGravity


def free_motors(spec: mujoco.MjSpec, arm: ArmDescription, elastic: Sequence[int]) -> None:
    """Let MuJoCo's motors of compliant joints exert whatever their springs do."""
    for joint in elastic:
        motor = next(item for item in spec.actuators if item.name == arm.joint_names[joint])
        put(motor, ctrllimited=False, forcelimited=False)


@dataclass(frozen=True, eq=False)
class SavedArm:
    """The state of a :class:`CompliantArm`, of copies."""

    joints: Saved
    drive: tuple[Vector, Matrix]


class CompliantArm(Stage):
    r"""Have springs carry an arm, and do what it is commanded.

    .. math:: \tau_{link}(q, \theta) = \tau + \hat g(q)

    is what motors are asked to bring about: the commanded torque and, of an arm that carries
    itself, its weight as it believes it to be. Nothing else holds a compliant arm up; MuJoCo
    compensates no weight of it. The torque that laws are told of is that of the springs, which is
    that of MuJoCo's motors.

    Args:
        model: MuJoCo's model.
        data: MuJoCo's data.
        arm: As its laws and its robot believe it to be.
        joints: Its compliant joints.
        elastic: Which of its joints those are, counted from 0, (m,).
        drive: What turns torques of links into commands of motors.
        weight: Factor on the weight that it believes to have.

    Attributes:
        name: Of the arm.
        joints: As given.
        dofs: Their places among all velocities, (m,).
        positions: Their places among all positions, (m,).
        motors: Their places among all controls, (m,).

    Thread: control.
    """

    CHANGING = ("moving",)

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        arm: ArmDescription,
        joints: CompliantJoints,
        elastic: Sequence[int],
        drive: LinkTorque,
        weight: float = 1.0,
    ) -> None:
        self.joints, self._elastic, self._drive = joints, np.array(elastic), drive
        self.name, self._scale, self._most = arm.name, weight, arm.limits.torque[elastic]
        places = [model.joint(name) for name in arm.joint_names]
        dofs, positions = ([int(p.dofadr[0]) for p in places], [int(p.qposadr[0]) for p in places])
        self.dofs, self.positions = (np.array(at)[self._elastic] for at in (dofs, positions))
        motors = [int(model.actuator(name).id) for name in arm.joint_names]
        self.motors = np.array(motors)[self._elastic]
        span = slice(positions[0], positions[0] + arm.n_joints)
        self._q, self._dq = data.qpos[span], data.qvel[dofs[0] : dofs[0] + arm.n_joints]
        self._ctrl = data.ctrl
        self._believed: Any = heavy_model(arm) if arm.compensates_gravity else None
        self._data = None if self._believed is None else self._believed.createData()

    @property
    def moving(self) -> SavedArm:
        """All that changes in it: motors, their friction, what they are commanded."""
        return SavedArm(self.joints.save(), self._drive.save())

    @moving.setter
    def moving(self, saved: SavedArm) -> None:
        self.joints.restore(saved.joints)
        self._drive.restore(saved.drive)

    def start(self) -> None:
        """Put the motors where the springs carry the arm as it stands, at rest.

        Raises:
            BackendError: If they cannot.
        """
        torque = self._weight(np.zeros(len(self._q)))[self._elastic]
        try:
            self._drive.start(self._q[self._elastic], torque)
        except ActuatorRefused as error:
            raise BackendError(
                f"arms.{self.name}.actuators: {error}; at q_start springs carry the arm"
            ) from None
        self._ctrl[self.motors] = torque

    def stiffest(self) -> Vector:
        """Return the stiffness that its springs have at its joints' largest torques, (m,)."""
        return self._drive.stiffness(self._q[self._elastic], self._most)

    def execute(self, tau: Vector) -> None:
        """Command the motors, and leave torques (n,) [Nm] to rigid joints alone."""
        tau[:] = self._weight(tau)
        elastic = self._elastic
        self._drive.command(self._q[elastic], self._dq[elastic], tau[elastic])
        tau[elastic] = 0.0

    def _weight(self, tau: Vector) -> Vector:
        """Return torques with what carries the arm, if it does that itself."""
        if self._believed is None:
            return tau
        found: Vector = tau + self._scale * _gravity(self._believed, self._data, self._q)
        return found
