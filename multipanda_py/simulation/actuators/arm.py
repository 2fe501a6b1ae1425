# SPDX-License-Identifier: Apache-2.0
"""From the sections ``actuators`` of arms to the springs and motors of all of them."""

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
    places_of,
)
from multipanda_py.config.sections import ArmConfig
from multipanda_py.registry import extras_named
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.actuated_joints import OperationMode
from multipanda_py.robots.dynamics.arm_model import heavy_model
from multipanda_py.simulation.actuators.joints import CompliantJoints
from multipanda_py.simulation.actuators.link_torque import KeptMotors, LinkTorque
from multipanda_py.simulation.actuators.motors import LinkPid, Motors
from multipanda_py.simulation.drivetrain.drive import Stage
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


MOTOR_KEYS = tuple(MotorConfig.model_fields)


def elastic_of(settings: ArmConfig) -> list[int]:
    """Return which joints of an arm are compliant, counted from 0, in the order of the joints."""
    names = tuple(joint.name for joint in settings.robot.joints)
    return sorted(chain.from_iterable(places_of(settings.actuators, names).values()))


class CompliantGroups:
    """The groups of compliant joints of several arms, which are computed together.

    Their joints are numbered arm by arm, and within an arm in the order of its joints.

    Args:
        arms: Sections of the cell file.

    Attributes:
        count: Number of compliant joints, n.
        groups: Sections of the groups, and the numbers of their joints.
    """

    def __init__(self, arms: Sequence[ArmConfig]) -> None:
        self.count, self.groups = 0, list[tuple[ActuatorConfig, list[int]]]()
        most: list[float] = []
        speed: list[float] = []
        for arm in arms:
            names, elastic = tuple(joint.name for joint in arm.robot.joints), elastic_of(arm)
            numbers = {joint: self.count + place for place, joint in enumerate(elastic)}
            for key, joints in places_of(arm.actuators, names).items():
                self.groups.append((arm.actuators[key], [numbers[joint] for joint in joints]))
            self.count += len(elastic)
            most += arm.robot.limits.torque[elastic].tolist()
            speed += arm.robot.limits.velocity[elastic].tolist()
        self._most: Vector = np.array(most)
        self._speed: Vector = np.array(speed)

    @property
    def springs(self) -> list[tuple[Actuator[Any], list[int]]]:
        """The springs, all of one type as one object."""
        found = []
        for kind in dict.fromkeys(group.type for group, _ in self.groups):
            parts = [(group.actuator(len(at)), at) for group, at in self.groups
                     if group.type == kind]  # fmt: skip
            joints = [joint for _, at in parts for joint in at]
            order = np.argsort(joints)
            params = {
                name: np.concatenate([springs.of[name] for springs, _ in parts])[order]
                for name in parts[0][0].of
            }
            found.append((type(parts[0][0])(len(joints), params), sorted(joints)))
        return found

    @property
    def presets(self) -> Vector:
        """Stiffness presets, (n,)."""
        found = np.zeros(self.count)
        for group, at in self.groups:
            found[at] = group.preset
        return found

    @property
    def modes(self) -> list[OperationMode]:
        """What is commanded of each."""
        found = [OperationMode.EQUILIBRIUM] * self.count
        for group, at in self.groups:
            for joint in at:
                found[joint] = OperationMode.of(group.mode)
        return found

    @property
    def motors(self) -> Motors | None:
        """The motors; None if no group has any.

        Groups without motors get the default ones, which no mode of theirs uses. A second motor
        that moves a pivot does so by a pinion, if nothing is said of it.
        """
        if not any(group.motor for group, _ in self.groups):
            return None
        given: dict[str, Any] = {key: np.zeros(self.count) for key in MOTOR_KEYS}
        for group, at in self.groups:
            for key in MOTOR_KEYS:
                given[key][at] = getattr(group.motor or MotorConfig(), key)
        both = Motors.of(self.springs, **given)
        rows = {key: getattr(both, key).copy() for key in MOTOR_KEYS}
        for group, at in self.groups:
            for key in MOTOR_KEYS if group.motor_2 else ():
                rows[key][1, at] = getattr(group.motor_2, key)
        return Motors(**rows)

    @property
    def link_pid(self) -> LinkPid:
        """The controllers of links, with torques up to those of their joints."""
        given = {key: np.zeros(self.count) for key in LinkPidConfig.model_fields}
        for group, at in self.groups:
            for key, values in given.items():
                own = getattr(group.link_pid, key)
                values[at] = self._most[at] if own is None else own
        return LinkPid.of(self.count, **given)

    def drive(self, period: float) -> LinkTorque:
        """Return the joints, as torque laws drive them in cycles of a length [s]."""
        motors, modes = self.motors, self.modes
        joints = CompliantJoints(self.springs, self.count, motors, modes, link_pid=self.link_pid)
        kept = None if motors is None else KeptMotors(joints, motors, self._speed, period)
        return LinkTorque(joints, modes, motors, self.presets, period, kept)
