# SPDX-License-Identifier: Apache-2.0
"""Compliant actuators between what an arm is commanded and its joints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.dynamics.gravity import heavy_model
from multipanda_py.extras import extras_named
from multipanda_py.robots import ArmDescription
from multipanda_py.simulation.drive import Stage
from multipanda_py.simulation.mjcf_elements import put
from multipanda_py.state import ArmState, Vector

with extras_named():
    import mujoco

_gravity = pin.computeGeneralizedGravity


def free_motors(spec: mujoco.MjSpec, arm: ArmDescription, elastic: Sequence[int]) -> None:
    """Let MuJoCo's motors of compliant joints exert whatever their springs do."""
    for joint in elastic:
        motor = next(item for item in spec.actuators if item.name == arm.joint_names[joint])
        put(motor, ctrllimited=False, forcelimited=False)


class CompliantArm(Stage):
    r"""Have springs carry an arm, and exert what it is commanded.

    .. math:: \tau_{link} = \tau + \hat g(q)

    is asked of them: the commanded torque and, of an arm that carries itself, its weight as it
    believes it to be. Nothing else holds a compliant arm up; MuJoCo compensates no weight of it.
    The torque that laws are told of is that of the springs, which MuJoCo's motors exert.

    Args:
        model: MuJoCo's model.
        data: MuJoCo's data.
        arm: As its laws and its robot believe it to be.
        state: Its live state.
        elastic: Which of its joints are compliant, counted from 0, (m,).
        bears: Largest torques that links bear, whatever springs exert, (n,) [Nm].
        weight: Factor on the weight that it believes to have.

    Attributes:
        name: Of the arm.
        joint_names: Of its compliant joints, with the arm's prefix.
        wanted: Torques that springs are to exert, (m,) [Nm]; live.
        most: Largest torques of these joints, of laws at the preset of the cell file, (m,) [Nm].
        bears: Largest ones that their links bear at any preset, (m,) [Nm].
        dofs: Their places among all velocities, (m,).
        positions: Their places among all positions, (m,).
        motors: Their places among all controls, (m,).
        elastic: These joints among those of the arm, (m,).
        actuators: What is asked of them, and what they do.

    Thread: control.
    """

    CHANGING = ("wanted",)

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        arm: ArmDescription,
        state: ArmState,
        elastic: Sequence[int],
        bears: Vector,
        weight: float = 1.0,
    ) -> None:
        self.name, self._scale = arm.name, weight
        self.elastic = np.array(elastic)
        self.actuators, self._tau = state.actuators, state.tau
        self.joint_names = tuple(arm.joint_names[joint] for joint in elastic)
        self.most: Vector = arm.limits.torque[self.elastic]
        self.bears: Vector = bears[self.elastic]
        places = [model.joint(name) for name in self.joint_names]
        self.dofs = np.array([int(place.dofadr[0]) for place in places])
        self.positions = np.array([int(place.qposadr[0]) for place in places])
        self.motors = np.array([int(model.actuator(name).id) for name in self.joint_names])
        first = int(model.joint(arm.joint_names[0]).qposadr[0])
        self._q = data.qpos[first : first + arm.n_joints]
        self._believed: Any = heavy_model(arm) if arm.compensates_gravity else None
        self._data = None if self._believed is None else self._believed.createData()
        self.wanted: Vector = self._with_weight(np.zeros(arm.n_joints))[self.elastic]
        self.actuators.carried[self.elastic] = self.wanted

    def execute(self, tau: Vector) -> None:
        """Ask it of the springs, and leave torques (n,) [Nm] to rigid joints alone."""
        tau[:] = self._with_weight(tau)
        self.wanted = tau[self.elastic]
        self.actuators.carried[self.elastic] = self.wanted - self._tau[self.elastic]
        tau[self.elastic] = 0.0

    def _with_weight(self, tau: Vector) -> Vector:
        """Return torques with what carries the arm, if it does that itself."""
        if self._believed is None:
            return tau
        found: Vector = tau + self._scale * _gravity(self._believed, self._data, self._q)
        return found
