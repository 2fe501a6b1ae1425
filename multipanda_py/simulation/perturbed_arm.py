# SPDX-License-Identifier: Apache-2.0
"""Simulated arm that differs from its description in inertia, friction, base, tool or payload."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pinocchio as pin
from numpy import add, multiply, subtract

from multipanda_py.config.arm_section import ArmConfig, PerturbationConfig
from multipanda_py.pose import Pose
from multipanda_py.registry import extras_named
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.arm import Tool
from multipanda_py.robots.dynamics.arm_dynamics import model_with_gravity
from multipanda_py.robots.inertial import Inertial
from multipanda_py.robots.robot import FRICTION_PARAMETERS, Robot
from multipanda_py.simulation.drivetrain.drivetrain import DrivetrainStage, Measured
from multipanda_py.simulation.mjcf_elements import put
from multipanda_py.state import Matrix, Vector

with extras_named():
    import mujoco


_gravity, _inverse_dynamics = pin.computeGeneralizedGravity, pin.rnea
PAYLOAD_RADIUS = 0.03
"""Radius of the sphere that defines the rotational inertia of an unknown payload [m]."""


def add_payload(
    spec: mujoco.MjSpec, arm: ArmDescription, settings: PerturbationConfig, weighs: bool = False
) -> None:
    """Attach a payload that the robot does not know to the flange of an arm.

    Args:
        spec: MuJoCo model.
        arm: Description of the arm.
        settings: Perturbation with mass and centre of the payload.
        weighs: True to let MuJoCo apply the weight, for compliant arms; False to let
            :class:`Perturbation` add it as joint torques.
    """
    if settings.payload <= 0.0:
        return
    flange = next(body for body in spec.bodies if body.name == arm.flange_frame)
    load = put(flange.add_body(), name=f"{arm.prefix}payload", gravcomp=float(not weighs))
    put(load, pos=np.array(settings.payload_com), mass=settings.payload)
    inertia = 0.4 * settings.payload * PAYLOAD_RADIUS**2
    # The body is at its centre of mass. Without ``ipos``, MuJoCo would use ``pos`` a second time.
    put(load, ipos=np.zeros(3), inertia=np.full(3, inertia), explicitinertial=True)


def scale_inertia(model: mujoco.MjModel, arm: ArmDescription, factor: float) -> None:
    """Scale all masses and inertias of an arm, including gripper, tool and rotors."""
    for body in range(model.nbody):
        name = model.body(body).name
        if name in arm.link_names and model.body_weldid[body]:
            model.body_mass[body] *= factor
            model.body_inertia[body] *= factor
    first = int(model.joint(arm.joint_names[0]).dofadr[0])
    model.dof_armature[first : first + arm.n_joints] *= factor
    mujoco.mj_setConst(model, mujoco.MjData(model))


class Perturbation(DrivetrainStage):
    r"""Errors of the torque that an arm executes: lag, bias and a payload unknown to the robot.

    .. math::
        T \dot\tau_m = \tau - \tau_m, \qquad
        \tau_{joint} = \tau_m + \tau_{bias} + J_c^T m g .

    Here :math:`\tau` is the commanded torque, T the lag and :math:`\tau_m` the motor torque. m is
    the mass of the payload, :math:`J_c` the Jacobian of its centre of mass and g the gravity
    vector. Measured torques contain the bias. The estimate of external torques contains bias and
    payload.

    Args:
        settings: Perturbation of the arm.
        model: MuJoCo model of the scene.
        data: MuJoCo data of the scene.
        arm: Description of the arm.
        dof: Index of the arm's first joint in ``qvel``.
        period: Cycle time [s].

    Attributes:
        motor: Motor torque after the lag, (n,) [Nm]; None before the first command.

    Thread: control.
    """

    CHANGING = ("motor",)

    def __init__(
        self,
        settings: PerturbationConfig,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        arm: ArmDescription,
        dof: int,
        period: float,
    ) -> None:
        self._model, self._data = model, data
        self._dofs = slice(dof, dof + arm.n_joints)
        lag = settings.torque_lag
        self._lag_gain = 1.0 - float(np.exp(-period / lag)) if lag > 0.0 else 1.0
        self.motor: Vector | None = None
        self._bias = np.array(settings.torque_bias)
        self._change = np.zeros(arm.n_joints)
        self._payload = settings.payload
        self._body = int(model.body(f"{arm.prefix}payload").id) if self._payload else -1
        self._weighs = bool(self._payload) and model.body_gravcomp[self._body] == 0.0
        self._jacobian, self._weight = np.zeros((3, model.nv)), np.zeros(arm.n_joints)

    def measure(self, state: Measured) -> None:
        """Add payload and bias to the estimate of external torques."""
        if self._payload:
            state.tau_ext += self._payload_torque()
        state.tau_ext += self._bias

    def execute(self, tau: Vector) -> None:
        """Convert commanded torques, (n,) [Nm], to executed ones, in place."""
        if self.motor is None:
            self.motor = tau.copy()
        change = subtract(tau, self.motor, self._change)
        add(self.motor, multiply(self._lag_gain, change, change), self.motor)
        add(self.motor, self._bias, tau)
        if self._payload and not self._weighs:
            tau += self._payload_torque()

    def _payload_torque(self) -> Vector:
        """Return the joint torques by the weight of the payload, (n,) [Nm]."""
        centre = self._data.xipos[self._body]
        mujoco.mj_jac(self._model, self._data, self._jacobian, None, centre, self._body)
        force = self._payload * self._model.opt.gravity
        return np.dot(force, self._jacobian[:, self._dofs], out=self._weight)


ESTIMATE_FILTER_TIME = 0.005
"""Time constant of the estimate of external torques, whose observer filters accelerations [s]."""


class ModelError(DrivetrainStage):
    r"""Torque error of a robot controller that uses wrong inertial parameters.

    .. math::
        \tau_{joint} = \tau + \hat g(q) - g(q), \qquad
        T \dot e + e = \hat h(q, \dot q, \ddot q) - h(q, \dot q, \ddot q), \qquad
        \hat\tau_{ext} = \tau_{ext} + e .

    Here :math:`\tau` is the torque before this stage and :math:`\tau_{joint}` after it. h is the
    inverse dynamics of the simulated arm and g its gravity torque; :math:`\hat h` and
    :math:`\hat g` are those of the described arm. :math:`\hat\tau_{ext}` is the estimate of the
    external torque, e its error and T its filter time. If the robot does not compensate gravity,
    :math:`\tau_{joint}` equals :math:`\tau`.

    Args:
        model: MuJoCo model of the scene.
        data: MuJoCo data of the scene.
        described: Description of the arm that controllets and the robot's controller use.
        real: Description of the arm as it is simulated.
        dof: Index of the arm's first joint in ``qvel``.
        period: Cycle time [s].

    Attributes:
        error: Error e of the estimated external torque, (n,) [Nm].

    Thread: control.
    """

    CHANGING = ("error",)

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        described: ArmDescription,
        real: ArmDescription,
        dof: int,
        period: float,
    ) -> None:
        first = int(model.joint(described.joint_names[0]).qposadr[0])
        self._positions = data.qpos[first : first + described.n_joints]
        self._accelerations = data.qacc[dof : dof + described.n_joints]
        self._known_model: Any = model_with_gravity(described)
        self._true_model: Any = model_with_gravity(real)
        self._known_data, self._true_data = (
            self._known_model.createData(),
            self._true_model.createData(),
        )
        self._compensates_gravity = bool(real.compensates_gravity)
        self._filter_gain = -math.expm1(-period / ESTIMATE_FILTER_TIME)
        self.error: Vector = np.zeros(described.n_joints)
        self._change: Vector = np.zeros(described.n_joints)

    def execute(self, tau: Vector) -> None:
        """Replace the exact gravity compensation in ``tau`` by that of the described arm."""
        if not self._compensates_gravity:
            return
        q = self._positions
        tau += _gravity(self._known_model, self._known_data, q)
        tau -= _gravity(self._true_model, self._true_data, q)

    def measure(self, state: Measured) -> None:
        """Update the error of the estimated external torques, and add it to ``tau_ext``."""
        q, dq, ddq = state.q, state.dq, self._accelerations
        change, error = self._change, self.error
        known = _inverse_dynamics(self._known_model, self._known_data, q, dq, ddq)
        true = _inverse_dynamics(self._true_model, self._true_data, q, dq, ddq)
        subtract(subtract(known, true, change), error, change)
        error += multiply(self._filter_gain, change, change)
        state.tau_ext += error


def perturbed(
    arm: ArmDescription, settings: PerturbationConfig, body: Robot | None = None
) -> ArmDescription:
    """Describe an arm as it is simulated, with perturbed inertia, friction, base and tool.

    Args:
        arm: Description that controllets and the robot use.
        settings: Perturbation of the arm, with the additional friction of ``body``; see
            :func:`with_friction_of`.
        body: Robot model to simulate, except for its friction; None for that of ``arm``.

    Returns:
        Description of the simulated arm; ``arm`` itself without a perturbation.
    """
    if settings.is_default:
        return arm
    body = arm.robot if body is None else body
    known = {name: getattr(arm.robot, name) for name in FRICTION_PARAMETERS}
    robot = arm.robot if body is arm.robot else replace(body, **known)
    rotation = arm.rotation_base_in_world
    base_error = Pose.from_rpy(settings.base_position, settings.base_rpy)
    dry_friction = np.add(settings.coulomb, settings.stribeck)
    return replace(
        arm,
        model=_with_links(robot, settings),
        position_base_in_world=arm.position_base_in_world + rotation @ base_error.position,
        rotation_base_in_world=rotation @ base_error.rotation,
        tool=None if arm.tool is None else _with_errors(arm.tool, settings),
        joint_damping=arm.joint_damping + np.array(settings.viscous),
        joint_frictionloss=arm.joint_frictionloss + dry_friction,
    )


def with_friction_of(
    body: Robot, known: Robot, settings: PerturbationConfig
) -> PerturbationConfig:
    """Return a perturbation plus the friction of ``body`` that ``known`` does not contain.

    Args:
        body: Robot model to simulate.
        known: Robot model that controllets use.
        settings: Perturbation of the arm.
    """
    if body is known:
        return settings
    keys = {"viscous": "damping", "coulomb": "friction", "friction_offset": "torque_offset"}
    more = {key: getattr(body, own) - getattr(known, own) for key, own in keys.items()}
    # The simulation contains the known friction already. Less friction than that cannot be
    # simulated, so only an excess is added.
    for key in ("viscous", "coulomb"):
        more[key] = np.maximum(more[key], 0.0)
    return settings.model_copy(
        update={key: np.add(getattr(settings, key), value).tolist() for key, value in more.items()}
    )


def with_all_friction(arm: ArmConfig) -> ArmConfig:
    """Return an arm's section whose perturbation includes the friction in its parameter file.

    The file is ``perturbation.parameters``; see :func:`with_friction_of`.
    """
    settings = with_friction_of(arm.robot_of_body, arm.robot, arm.perturbation)
    return arm.model_copy(update={"perturbation": settings})


def dynamics_differ(arm: ArmDescription, real: ArmDescription) -> bool:
    """Return True if two descriptions of an arm differ in robot model, tool or base orientation.

    Friction of joints is not compared.

    Args:
        arm: Description of the arm that controllets use.
        real: Description of the arm as it is simulated.
    """
    return (
        arm.robot is not real.robot
        or arm.tool is not real.tool
        or not np.array_equal(arm.rotation_base_in_world, real.rotation_base_in_world)
    )


def _with_links(robot: Robot, settings: PerturbationConfig) -> Robot:
    masses = np.array(settings.link_mass)
    shifts = np.reshape(settings.link_com, (-1, 3))
    stretches = np.reshape(settings.link_inertia, (-1, 3))
    if (masses == 1.0).all() and not shifts.any() and (stretches == 1.0).all():
        return robot
    moving = [
        replace(link, inertial=with_scaled_moments(link.inertial, mass, shift, stretch))
        for link, mass, shift, stretch in zip(robot.links[1:], masses, shifts, stretches)
    ]
    return replace(robot, links=(robot.links[0], *moving))


def with_scaled_moments(
    inertial: Inertial, mass: float, shift: Vector, stretch: Vector
) -> Inertial:
    r"""Return an inertia with a changed mass distribution that is physically consistent.

    .. math::
        \Sigma = \tfrac12 \mathrm{tr}(I)\,1 - I = R\,\mathrm{diag}(\sigma)\,R^T, \qquad
        \Sigma' = s\,R\,\mathrm{diag}(k_i \sigma_i)\,R^T, \qquad
        I' = \mathrm{tr}(\Sigma')\,1 - \Sigma' .

    Here I is the inertia and :math:`\Sigma` the second moments of mass about the centre of mass,
    with principal values :math:`\sigma` and axes R. Source: Wensing, Kim and Slotine, Linear
    matrix inequalities for physically consistent inertial parameter identification, 2018.

    Args:
        inertial: Inertial parameters of the link.
        mass: Factor s on the mass, above 0.
        shift: Displacement of the centre of mass, (3,) [m].
        stretch: Factors k along the three axes, above 0, smallest second moment first, (3,).
    """
    inertia = inertial.inertia
    second = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    moments, axes = np.linalg.eigh(second)
    moments = mass * np.maximum(moments, 0.0) * stretch
    second = (axes * moments) @ axes.T
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = (np.trace(second) * np.eye(3) - second).tolist()
    x, y, z = np.add(inertial.com, shift).tolist()
    return Inertial(mass * inertial.mass, (x, y, z), (xx, yy, zz, xy, xz, yz))


def _with_errors(tool: Tool, settings: PerturbationConfig) -> Tool:
    if settings.tool_mass == 1.0 and not any((*settings.tool_com, *settings.tool_position)):
        return tool
    pose: Matrix = np.array(tool.pose_tcp_in_flange)
    pose[:3, 3] += settings.tool_position
    return Tool(
        mass=settings.tool_mass * tool.mass,
        com_in_flange=tool.com_in_flange + np.array(settings.tool_com),
        inertia=settings.tool_mass * tool.inertia,
        pose_tcp_in_flange=pose,
        friction=tool.friction,
    )
