# SPDX-License-Identifier: Apache-2.0
"""Elastic joints: rotors that drive their links through springs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.config.arm_section import JointsConfig
from multipanda_py.exceptions import BackendError
from multipanda_py.registry import extras_named
from multipanda_py.robots import ArmDescription
from multipanda_py.simulation.drivetrain.drivetrain import DrivetrainStage, Measured
from multipanda_py.simulation.mjcf_elements import put
from multipanda_py.state import Vector

with extras_named():
    import mujoco

STEP_FRACTION = 0.3
"""Maximum simulation step relative to the inverse angular frequency of the fastest vibration.
Frequencies are then accurate to 1 %, and the energy varies by 3 % without drift."""
MAX_STEPS = 20
"""Maximum number of steps per cycle; faster vibrations are simulated inaccurately."""
_ROTOR_BODY_INERTIA = 1e-6
"""Mass [kg] and inertia [kg m^2] of a rotor body. Its armature is the rotor inertia."""


def _rotor(arm: ArmDescription, joint: int) -> str:
    return f"{arm.prefix}rotor{joint + 1}"


def elastic_joints(settings: JointsConfig) -> list[int]:
    """Return the indices of joints with a spring."""
    return [joint for joint, stiffness in enumerate(settings.stiffness) if stiffness > 0.0]


def add_rotors(
    spec: mujoco.MjSpec, arm: ArmDescription, settings: JointsConfig, inertia_scale: float
) -> None:
    r"""Model each elastic joint of an arm as a rotor that drives the link through a spring.

    .. math::
        M_{link}(q) \ddot q + C \dot q = \tau_s + \tau_{ext}, \qquad
        B \ddot\theta = \tau - \tau_s, \qquad
        \tau_s = K (\theta - q) + D (\dot\theta - \dot q) .

    Here :math:`M_{link}` and C are mass and Coriolis matrix of the links. q are the link angles
    and :math:`\theta` the motor angles. K and D are stiffness and damping of the springs.
    :math:`\tau_s` are the spring torques, :math:`\tau_{ext}` the external and :math:`\tau` the
    commanded torques. B is the rotor inertia as shaped by the torque loop of a real robot
    (Albu-Schäffer, Ott and Hirzinger, 2007). A rotor rotates about its own axis only (Spong,
    Modeling and control of elastic joint robots, 1987). The weight of the arm is compensated at
    the links.

    Args:
        spec: MuJoCo model of the scene.
        arm: Description of the arm, which is already in the model.
        settings: Section ``transmission`` of the arm.
        inertia_scale: Factor on the rotor inertias of the robot model.
    """
    for joint in elastic_joints(settings):
        name = _rotor(arm, joint)
        # Neither gravity nor the motion of the arm acts on a rotor, so its body is in the world.
        body = put(
            spec.worldbody.add_body(), name=name, mass=_ROTOR_BODY_INERTIA, explicitinertial=True
        )
        put(body, inertia=np.full(3, _ROTOR_BODY_INERTIA), gravcomp=1.0)
        hinge = put(body.add_joint(), name=name, type=mujoco.mjtJoint.mjJNT_HINGE)
        inertia = inertia_scale * float(arm.robot.armature[joint]) - _ROTOR_BODY_INERTIA
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
            # In MuJoCo 4 the attribute is a polynomial, in earlier versions a number. Writing to
            # the first element works in both.
            numbers = np.zeros_like(getattr(spring, key))
            numbers.flat[0] = value
            put(spring, **{key: numbers if numbers.ndim else float(numbers)})
        for key in spec.keys:
            put(key, qpos=np.append(key.qpos, arm.robot.ready[joint]))


def motor_addresses(
    model: mujoco.MjModel, arm: ArmDescription, settings: JointsConfig
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of motor angles in ``qpos`` and motor velocities in ``qvel``, (n,) each.

    The motor of a rigid joint has the indices of the joint.

    Args:
        model: MuJoCo model.
        arm: Description of the arm.
        settings: Section ``transmission`` of the arm.
    """
    elastic = elastic_joints(settings)
    joints = [
        model.joint(_rotor(arm, joint) if joint in elastic else arm.joint_names[joint])
        for joint in range(arm.n_joints)
    ]
    positions = np.array([int(joint.qposadr[0]) for joint in joints])
    return positions, np.array([int(joint.dofadr[0]) for joint in joints])


def choose_steps(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    arms: Sequence[tuple[ArmDescription, JointsConfig]],
    period: float,
) -> int:
    r"""Return the number of simulation steps per cycle; 1 if all joints are rigid.

    A step lasts up to :data:`STEP_FRACTION` of :math:`1/\omega`. Here :math:`\omega^2` is the
    largest eigenvalue of :math:`M^{-1} K`, with mass matrix M and stiffness matrix K of links and
    rotors together. The number is limited to :data:`MAX_STEPS`. The damping of a spring at a very
    light link is reduced in the model, for stability.

    Args:
        model: Model of the scene, in which damping may be reduced.
        data: State of the scene, with the mass matrix computed.
        arms: Arms and their sections ``transmission``.
        period: Cycle time [s].

    Raises:
        BackendError: If a spring is too stiff for the maximum number of steps.
    """
    mass = np.zeros((model.nv, model.nv))
    try:
        mujoco.mj_fullM(model, data, mass)  # Arguments of MuJoCo 4, not of earlier versions.
    except TypeError:
        mujoco.mj_fullM(model, mass, data.qM)
    fastest, springs = 0.0, []
    for arm, settings in arms:
        elastic = elastic_joints(settings)
        if not elastic:
            continue
        links = np.array([int(model.joint(name).dofadr[0]) for name in arm.joint_names])
        dofs = np.concatenate([links, motor_addresses(model, arm, settings)[1][elastic]])
        difference = np.zeros((len(elastic), len(dofs)))
        for row, joint in enumerate(elastic):
            difference[row, joint], difference[row, arm.n_joints + row] = -1.0, 1.0
        compliance = difference @ np.linalg.solve(mass[np.ix_(dofs, dofs)], difference.T)
        root = np.sqrt(np.array(settings.stiffness)[elastic])
        omega = math.sqrt(np.linalg.eigvalsh(root[:, None] * compliance * root)[-1])
        if omega * period > MAX_STEPS:
            raise BackendError(
                f"arms.{arm.name}.transmission.stiffness: vibrates at {omega / math.tau:.0f} Hz, "
                f"allowed up to {MAX_STEPS / (math.tau * period):.0f} Hz. Lower the stiffness, or "
                "use a heavier gripper or tool"
            )
        fastest = max(fastest, omega)
        springs += [(_rotor(arm, j), c) for j, c in zip(elastic, compliance.diagonal())]
    steps = min(max(1, math.ceil(period * fastest / STEP_FRACTION)), MAX_STEPS)
    for name, inverse in springs:
        tendon = model.tendon(name).id
        # Explicit steps h are stable up to D = 0.5 / (h c) with the inverse inertia c of the
        # relative motion of link and rotor.
        max_damping = 0.5 * steps / (period * inverse)
        model.tendon_damping[tendon] = min(model.tendon_damping[tendon], max_damping)
    return steps


class SpringTorqueSensors(DrivetrainStage):
    """Torque sensors in the springs of elastic joints.

    Measured positions and velocities are those of the links, not those of the motors.

    Args:
        model: MuJoCo model of the scene.
        data: MuJoCo data of the scene.
        arm: Description of the arm.
        settings: Section ``transmission`` of the arm.

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
        self._motors = q_at, dof_at
        self._rotors: Vector = np.array(model.dof_armature)[self._dtheta]
        self._dofs = np.array([int(model.joint(name).dofadr[0]) for name in arm.joint_names])
        tendons = [int(model.tendon(_rotor(arm, joint)).id) for joint in self._elastic]
        self._stiffness = np.array(model.tendon_stiffness)[tendons]
        self._damping = np.array(model.tendon_damping)[tendons]

    @property
    def motors(self) -> tuple[Vector, Vector]:
        """Current angles [rad] and velocities [rad/s] of the motors, (n,) each."""
        q_at, dof_at = self._motors
        return self._data.qpos[q_at], self._data.qvel[dof_at]

    @property
    def rotor_compliance(self) -> Vector:
        """Inverse rotor inertias, (n,) [1/(kg m^2)]; zero for rigid joints."""
        inverse = np.zeros(len(self._dofs))
        inverse[self._elastic] = 1.0 / self._rotors
        return inverse

    def measure(self, state: Measured) -> None:
        """Set ``tau_J`` of elastic joints to the spring torques plus the weight of the links."""
        elastic, data = self._elastic, self._data
        twist: Vector = data.qpos[self._theta] - state.q[elastic]
        speed: Vector = data.qvel[self._dtheta] - state.dq[elastic]
        torque = self._stiffness * twist + self._damping * speed
        # MuJoCo compensates the weight at the links, so the springs do not carry it.
        state.tau_J[elastic] = torque + data.qfrc_gravcomp[self._dofs[elastic]]
