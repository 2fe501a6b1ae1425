# SPDX-License-Identifier: Apache-2.0
"""Springs and motors of compliant arms, built from the sections ``actuators`` of a cell file."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.actuator import Actuator
from multipanda_py.config.actuator_section import (
    ActuatorConfig,
    LinkPidConfig,
    MotorConfig,
    joint_indices,
)
from multipanda_py.config.arm_section import ArmConfig
from multipanda_py.registry import extras_named
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.actuated_joints import OperationMode
from multipanda_py.robots.dynamics.arm_dynamics import model_with_gravity
from multipanda_py.simulation.actuators.joints import CompliantJoints
from multipanda_py.simulation.actuators.link_torque import LinkTorque, MotorLimiter
from multipanda_py.simulation.actuators.motors import LinkPid, Motors
from multipanda_py.simulation.drivetrain.drivetrain import DrivetrainStage
from multipanda_py.simulation.mjcf_elements import put
from multipanda_py.state import ArmState, Vector

with extras_named():
    import mujoco


_gravity = pin.computeGeneralizedGravity


def remove_motor_limits(
    spec: mujoco.MjSpec, arm: ArmDescription, compliant_joints: Sequence[int]
) -> None:
    """Remove the control and force limits of an arm's MuJoCo actuators at its compliant joints."""
    for index in compliant_joints:
        motor = next(item for item in spec.actuators if item.name == arm.joint_names[index])
        put(motor, ctrllimited=False, forcelimited=False)


class CompliantArm(DrivetrainStage):
    r"""Drivetrain stage of a compliant arm: springs exert commanded torques and carry the weight.

    .. math:: \tau_{link} = \tau + \hat g(q) .

    Here :math:`\tau_{link}` is the spring torque on the links, :math:`\tau` the commanded torque
    and :math:`\hat g` the gravity torque of ``arm``. It is zero without gravity compensation.

    Args:
        model: MuJoCo model of the scene.
        data: MuJoCo data of the scene.
        arm: Description of the arm that controllets use. The simulated arm can differ from it.
        state: State of the arm, updated in every cycle.
        elastic: Indices of the compliant joints in the arm, (m,).
        link_torque_limit: Torque limits of the links, independent of the preset, (n,) [Nm].
        weight: Factor on :math:`\hat g`: the ``inertia_scale`` of the simulated arm.

    Attributes:
        name: Name of the arm.
        joint_names: Names of its compliant joints, with the arm's prefix.
        desired_torque: Torques that springs must exert, (m,) [Nm]; updated in place.
        torque_limit: Torque limits of controllets, at the preset in the cell file, (m,) [Nm].
        link_torque_limit: Torque limits of the links, independent of the preset, (m,) [Nm].
        dofs: Indices of the compliant joints in ``qvel``, (m,).
        positions: Indices of the compliant joints in ``qpos``, (m,).
        motors: Indices of the MuJoCo actuators of these joints in ``ctrl``, (m,).
        elastic: Indices of the compliant joints in the arm, (m,).
        actuators: Commands and measurements of the compliant actuators.

    Thread: control.
    """

    CHANGING = ("desired_torque",)

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        arm: ArmDescription,
        state: ArmState,
        elastic: Sequence[int],
        link_torque_limit: Vector,
        weight: float = 1.0,
    ) -> None:
        self.name, self._scale = arm.name, weight
        self.elastic = np.array(elastic)
        self.actuators, self._tau = state.actuators, state.tau
        self.joint_names = tuple(arm.joint_names[joint] for joint in elastic)
        self.torque_limit: Vector = arm.limits.torque[self.elastic]
        self.link_torque_limit: Vector = link_torque_limit[self.elastic]
        joints = [model.joint(name) for name in self.joint_names]
        self.dofs = np.array([int(joint.dofadr[0]) for joint in joints])
        self.positions = np.array([int(joint.qposadr[0]) for joint in joints])
        self.motors = np.array([int(model.actuator(name).id) for name in self.joint_names])
        first = int(model.joint(arm.joint_names[0]).qposadr[0])
        self._q = data.qpos[first : first + arm.n_joints]
        self._known_model: Any = model_with_gravity(arm) if arm.compensates_gravity else None
        self._known_data = None if self._known_model is None else self._known_model.createData()
        self.desired_torque: Vector = self._with_weight(np.zeros(arm.n_joints))[self.elastic]
        self.actuators.carried[self.elastic] = self.desired_torque

    def execute(self, tau: Vector) -> None:
        """Add the gravity torque of the arm to commanded torques.

        At rigid joints, ``tau`` becomes the sum. At compliant joints, the sum goes to
        :attr:`desired_torque`, and ``tau`` becomes zero.

        Args:
            tau: Commanded torques of all joints, (n,) [Nm]; changed in place.
        """
        tau[:] = self._with_weight(tau)
        self.desired_torque = tau[self.elastic]
        self.actuators.carried[self.elastic] = self.desired_torque - self._tau[self.elastic]
        tau[self.elastic] = 0.0

    def _with_weight(self, tau: Vector) -> Vector:
        if self._known_model is None:
            return tau
        result: Vector = tau + self._scale * _gravity(self._known_model, self._known_data, self._q)
        return result


MOTOR_KEYS = tuple(MotorConfig.model_fields)


def elastic_of(settings: ArmConfig) -> list[int]:
    """Return the indices of an arm's compliant joints, in ascending order from 0."""
    names = tuple(joint.name for joint in settings.robot.joints)
    return sorted(chain.from_iterable(joint_indices(settings.actuators, names).values()))


class CompliantGroups:
    """Actuator groups of several compliant arms, which are simulated together.

    Compliant joints have indices from 0: arm by arm, and within an arm in the order of its joints.

    Args:
        arms: Sections of the arms in the cell file.

    Attributes:
        count: Number of compliant joints of all arms, n.
        groups: Section of each actuator group, and the indices of its joints.
    """

    def __init__(self, arms: Sequence[ArmConfig]) -> None:
        self.count, self.groups = 0, list[tuple[ActuatorConfig, list[int]]]()
        max_torque: list[float] = []
        max_speed: list[float] = []
        for arm in arms:
            names, elastic = tuple(joint.name for joint in arm.robot.joints), elastic_of(arm)
            numbers = {joint: self.count + index for index, joint in enumerate(elastic)}
            for key, joints in joint_indices(arm.actuators, names).items():
                self.groups.append((arm.actuators[key], [numbers[joint] for joint in joints]))
            self.count += len(elastic)
            max_torque += arm.robot.limits.torque[elastic].tolist()
            max_speed += arm.robot.limits.velocity[elastic].tolist()
        self._max_torque: Vector = np.array(max_torque)
        self._max_speed: Vector = np.array(max_speed)

    @property
    def springs(self) -> list[tuple[Actuator[Any], list[int]]]:
        """One actuator object for each actuator type, with the indices of its joints."""
        result = []
        for kind in dict.fromkeys(group.type for group, _ in self.groups):
            parts = [(group.actuator(len(at)), at) for group, at in self.groups
                     if group.type == kind]  # fmt: skip
            joints = [joint for _, at in parts for joint in at]
            order = np.argsort(joints)
            params = {
                name: np.concatenate([springs.of[name] for springs, _ in parts])[order]
                for name in parts[0][0].of
            }
            result.append((type(parts[0][0])(len(joints), params), sorted(joints)))
        return result

    @property
    def presets(self) -> Vector:
        """Stiffness preset of each joint in the cell file, (n,) [rad or m]."""
        presets = np.zeros(self.count)
        for group, at in self.groups:
            presets[at] = group.preset
        return presets

    @property
    def modes(self) -> list[OperationMode]:
        """Operation mode of each joint in the cell file."""
        modes = [OperationMode.EQUILIBRIUM] * self.count
        for group, at in self.groups:
            for joint in at:
                modes[joint] = OperationMode.from_value(group.mode)
        return modes

    @property
    def motors(self) -> Motors | None:
        """Motors of all joints, with default parameters where missing; None if all are missing."""
        if not any(group.motor for group, _ in self.groups):
            return None
        values: dict[str, Any] = {key: np.zeros(self.count) for key in MOTOR_KEYS}
        for group, at in self.groups:
            for key in MOTOR_KEYS:
                values[key][at] = getattr(group.motor or MotorConfig(), key)
        both = Motors.of(self.springs, **values)
        rows = {key: getattr(both, key).copy() for key in MOTOR_KEYS}
        for group, at in self.groups:
            for key in MOTOR_KEYS if group.motor_2 else ():
                rows[key][1, at] = getattr(group.motor_2, key)
        return Motors(**rows)

    @property
    def link_pid(self) -> LinkPid:
        """PID controllers of the links for mode ``link_pid``.

        The default of ``max_torque`` is the torque limit of the joint.
        """
        gains = {key: np.zeros(self.count) for key in LinkPidConfig.model_fields}
        for group, at in self.groups:
            for key, values in gains.items():
                own = getattr(group.link_pid, key)
                values[at] = self._max_torque[at] if own is None else own
        return LinkPid.from_config(self.count, **gains)

    def drive(self, period: float) -> LinkTorque:
        """Build the torque control of all compliant joints for a cycle time [s]."""
        motors, modes = self.motors, self.modes
        joints = CompliantJoints(self.springs, self.count, motors, modes, link_pid=self.link_pid)
        limiter = None if motors is None else MotorLimiter(joints, motors, self._max_speed, period)
        return LinkTorque(joints, modes, motors, self.presets, period, limiter)
