# SPDX-License-Identifier: Apache-2.0
"""Motors that drive their joints through springs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

from multipanda_py.backends.simulated.drive import Stage
from multipanda_py.config import JointsConfig
from multipanda_py.description import ARMATURE, READY_POSTURE, ArmDescription
from multipanda_py.description.mjcf_elements import put
from multipanda_py.state import JOINTS, ArmState, Vector

STEP_SHARE = 0.3
"""Of the time constant of the fastest vibration, that a step of the simulation may last: energy
then stays within 3 %, and frequencies within 1 %, of what they should be."""
_TINY = 1e-6  # mass [kg] and inertia [kg m^2] of a rotor apart from its armature


def _rotor(arm: ArmDescription, joint: int) -> str:
    return f"{arm.prefix}rotor{joint + 1}"


def elastic_joints(settings: JointsConfig) -> list[int]:
    """Return which joints have a spring, counted from 0."""
    return [joint for joint, stiffness in enumerate(settings.stiffness) if stiffness > 0.0]


def add_rotors(
    spec: mujoco.MjSpec, arm: ArmDescription, settings: JointsConfig, inertia_scale: float
) -> None:
    r"""Take the rotors out of an arm's elastic joints and connect them by springs.

    .. math::
        M_{link}(q) \ddot q + C \dot q = \tau_s + \tau_{ext}, \qquad
        B \ddot\theta = \tau - \tau_s, \qquad
        \tau_s = K (\theta - q) + D (\dot\theta - \dot q)

    (Spong, Modeling and control of elastic joint robots, 1987: a rotor turns about its own axis
    only.) :math:`B` is the rotor inertia as the robot's inner torque loop shapes it, ``ARMATURE``,
    and :math:`\tau` what that loop is told: with torque and its derivative fed back it leaves
    exactly such a motor behind the same spring (Albu-Schäffer, Ott and Hirzinger, 2007), so the
    loop itself is not simulated. Rotors stand still in the world, since gravity and the motion
    of the arm do nothing to them in this model. The arm's weight is compensated at the links:
    springs are twisted by what comes on top of it.
    """
    for joint in elastic_joints(settings):
        name = _rotor(arm, joint)
        body = put(spec.worldbody.add_body(), name=name, mass=_TINY, explicitinertial=True)
        put(body, inertia=np.full(3, _TINY), gravcomp=1.0)
        hinge = put(body.add_joint(), name=name, type=mujoco.mjtJoint.mjJNT_HINGE)
        inertia = inertia_scale * float(ARMATURE[joint]) - _TINY
        put(hinge, axis=np.array([0.0, 0.0, 1.0]), armature=inertia)
        link = arm.joint_names[joint]
        next(item for item in spec.joints if item.name == link).armature = 0.0
        next(item for item in spec.actuators if item.name == link).target = name
        spring = put(spec.add_tendon(), name=name, springlength=np.zeros(2))
        spring.wrap_joint(name, 1.0)
        spring.wrap_joint(link, -1.0)
        for key, value in (
            ("stiffness", settings.stiffness[joint]),
            ("damping", settings.damping[joint]),
        ):
            numbers = np.zeros_like(getattr(spring, key))  # a polynomial since MuJoCo 4
            numbers.flat[0] = value
            put(spring, **{key: numbers if numbers.ndim else float(numbers)})
        for key in spec.keys:
            put(key, qpos=np.append(key.qpos, READY_POSTURE[joint]))


def motor_addresses(
    model: mujoco.MjModel, arm: ArmDescription, settings: JointsConfig
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the motors' positions and velocities are, (7,) each; a rigid joint is its own."""
    elastic = elastic_joints(settings)
    found = [
        model.joint(_rotor(arm, joint) if joint in elastic else arm.joint_names[joint])
        for joint in range(JOINTS)
    ]
    positions = np.array([int(joint.qposadr[0]) for joint in found])
    return positions, np.array([int(joint.dofadr[0]) for joint in found])


def steps_per_cycle(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    arms: Sequence[tuple[ArmDescription, JointsConfig]],
    period: float,
) -> int:
    r"""Return in how many steps the world has to move on per cycle; 1 if all joints are rigid.

    Steps last :data:`STEP_SHARE` of :math:`1/\omega` and of :math:`1/\delta` at most, with the
    largest eigenvalues :math:`\omega^2` of :math:`M^{-1} K` and :math:`\delta` of
    :math:`M^{-1} D`, over links and rotors together.

    Args:
        model: The world.
        data: Its state, with the mass matrix computed.
        arms: The arms and their joints.
        period: Cycle time [s].
    """
    mass = np.zeros((model.nv, model.nv))
    try:
        mujoco.mj_fullM(model, data, mass)  # MuJoCo 4
    except TypeError:
        mujoco.mj_fullM(model, mass, data.qM)
    fastest = 0.0
    for arm, settings in arms:
        elastic = elastic_joints(settings)
        if not elastic:
            continue
        links = np.array([int(model.joint(name).dofadr[0]) for name in arm.joint_names])
        rotors = motor_addresses(model, arm, settings)[1][elastic]
        dofs = np.concatenate([links, rotors])
        difference = np.zeros((len(elastic), len(dofs)))
        for row, joint in enumerate(elastic):
            difference[row, joint], difference[row, JOINTS + row] = -1.0, 1.0
        compliance = difference @ np.linalg.solve(mass[np.ix_(dofs, dofs)], difference.T)
        for values, power in ((settings.stiffness, 0.5), (settings.damping, 1.0)):
            root = np.sqrt(np.array(values)[elastic])
            largest = np.linalg.eigvalsh(root[:, None] * compliance * root)[-1]
            fastest = max(fastest, float(largest) ** power)
    return max(1, math.ceil(period * fastest / STEP_SHARE))


class Springs(Stage):
    r"""Measure the torque in the springs of elastic joints.

    Positions and velocities that the laws see are those of the links, as ``q`` of a Franka is,
    beside ``theta`` of the motor.

    Args:
        model: MuJoCo's model.
        data: MuJoCo's data.
        arm: The arm.
        settings: Its joints.

    Thread: control.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        arm: ArmDescription,
        settings: JointsConfig,
    ) -> None:
        self._data, self._elastic = data, np.array(elastic_joints(settings))
        q_at, dof_at = motor_addresses(model, arm, settings)
        self._theta, self._dtheta = q_at[self._elastic], dof_at[self._elastic]
        self._dofs = np.array([int(model.joint(name).dofadr[0]) for name in arm.joint_names])
        self._stiffness = np.array(settings.stiffness)[self._elastic]
        self._damping = np.array(settings.damping)[self._elastic]

    def measure(self, state: ArmState) -> None:
        """Put the springs' torques, with the compensated weight, in place of the motors'."""
        elastic, data = self._elastic, self._data
        twist: Vector = data.qpos[self._theta] - state.q[elastic]
        speed: Vector = data.qvel[self._dtheta] - state.dq[elastic]
        torque = self._stiffness * twist + self._damping * speed
        state.tau_J[elastic] = torque + data.qfrc_gravcomp[self._dofs[elastic]]
