# SPDX-License-Identifier: Apache-2.0
"""Physics of simulated robots: one MuJoCo scene for one or several arms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import BackendError
from multipanda_py.registry import extras_named
from multipanda_py.robots import MODELS, READY_CONFIGURATION, ArmDescription, SceneObject, Tool
from multipanda_py.robots.franka import ARMATURE, FLANGE_HEIGHT, LOWER_LIMITS, UPPER_LIMITS
from multipanda_py.robots.inertial import NO_LOAD, STANDARD_GRAVITY, Load
from multipanda_py.simulation.drivetrain.drivetrain import Drivetrain
from multipanda_py.simulation.mjcf_elements import put
from multipanda_py.simulation.mujoco_friction import correct_friction
from multipanda_py.simulation.scene_mjcf import build_scene
from multipanda_py.simulation.world import divergence_message, install_warning_handler, was_reset

with extras_named():
    import mujoco


Vector = NDArray[np.float64]

PERIOD = 1e-3
"""Period of the control loop and of the physics [s]."""
BLOCKING_DEPTH = 2e-3
"""Penetration depth above which a pose counts as occupied by another body [m]."""
STOP_MARGIN = 0.05
"""Distance of the mechanical stops beyond the joint limits that the robot monitors [rad]."""
_FIRST_CONTACT = int(mujoco.mjtConstraint.mjCNSTR_CONTACT_FRICTIONLESS)


@dataclass(frozen=True, eq=False)
class WorldArm:
    """Arm of a scene: description that its robot uses, and arm that is simulated.

    Attributes:
        described: Description of the arm that its robot uses. It contains the gripper as a tool.
        real: Description of the simulated arm, with model errors.
        q_start: Initial joint positions, (7,) [rad].
        add: Function that adds bodies to the arm before the scene is compiled.
        drive: Function that builds the drivetrain from model, data and index of the arm's first
            joint in ``qvel``; None for an ideal arm.
    """

    described: ArmDescription
    real: ArmDescription
    q_start: Vector
    add: Callable[[mujoco.MjSpec], None] | None = None
    drive: Callable[[mujoco.MjModel, mujoco.MjData, int], Drivetrain] | None = None


def default_arm() -> WorldArm:
    """Return an ideal FR3 with its gripper."""
    hand = MODELS["fr3"].hand
    tool = None
    if hand is not None:
        load = hand.load
        tool = Tool(load.mass, load.com, load.inertia, hand.pose_tcp_in_flange)
    arm = ArmDescription("robot", "fr3", hand=False, tool=tool)
    return WorldArm(arm, arm, READY_CONFIGURATION)


class RobotWorld:
    """Scene shared by the arms of several robots, each with its own clock.

    The scene advances by a period when every arm has commanded a torque, or one arm has commanded
    two.

    Args:
        arms: Arms of the scene.
        objects: Objects of the scene.
        reset_objects: True to reset movable objects when a robot begins to move while no other
            robot moves.

    Attributes:
        drives: Drivetrain of each arm; None for an ideal arm.
        is_static: True for a scene of one ideal arm without movable objects.

    Raises:
        ConfigurationError: If names repeat.
    """

    def __init__(
        self,
        arms: Sequence[WorldArm],
        objects: Sequence[SceneObject] = (),
        *,
        reset_objects: bool = False,
    ) -> None:
        install_warning_handler()
        self._reset_objects, self._moving = reset_objects, 0
        self.arms = tuple(arms)
        spec = build_scene([arm.real for arm in arms], objects, timestep=PERIOD)
        for arm in arms:
            flange = next(body for body in spec.bodies if body.name == arm.real.flange_frame)
            load = put(flange.add_body(), name=f"{arm.real.prefix}load", gravcomp=1.0)
            put(load, explicitinertial=True)
            if arm.add is not None:
                arm.add(spec)
        self.model = model = spec.compile()
        self.data = mujoco.MjData(model)
        for arm in arms:
            joints = [int(model.joint(name).id) for name in arm.real.joint_names]
            model.jnt_range[joints] = np.column_stack(
                (LOWER_LIMITS - STOP_MARGIN, UPPER_LIMITS + STOP_MARGIN)
            )
        self.drives = [
            arm.drive
            and arm.drive(model, self.data, int(model.joint(arm.real.joint_names[0]).dofadr[0]))
            for arm in arms
        ]
        free = np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
        self._movable = [
            (slice(int(model.jnt_qposadr[j]), int(model.jnt_qposadr[j]) + 7),
             slice(int(model.jnt_dofadr[j]), int(model.jnt_dofadr[j]) + 6))
            for j in free
        ]  # fmt: skip
        self.is_static = len(arms) == 1 and not len(free) and arms[0].drive is None
        self._sense: list[Callable[[Vector], None] | None] = [None] * len(arms)
        self._contact = np.zeros(model.nv)
        self._commanded = 0

    def join(self, arm_index: int, sense: Callable[[Vector], None]) -> bool:
        """Register the function that updates the measurements of an arm after every step.

        Args:
            arm_index: Index of the arm.
            sense: Function to call with the generalized contact forces of the scene, (nv,).

        Returns:
            True at the first call for this arm; False after a restart of its robot.
        """
        is_new = self._sense[arm_index] is None
        self._sense[arm_index] = sense
        return is_new

    def torque_commanded(self, arm_index: int) -> None:
        """Record that an arm has commanded its torque for the next period.

        This advances the scene if all arms have commanded, or this arm twice.

        Raises:
            BackendError: If the simulation has diverged.
        """
        mine = 1 << arm_index
        again = bool(self._commanded & mine)
        self._commanded |= mine
        if again or self._commanded == (1 << len(self.arms)) - 1:
            self._commanded = mine if again else 0
            self._step()

    def begins(self, arm_index: int) -> None:
        """Record that a robot begins a motion.

        If ``reset_objects`` is True and no other robot moves, first reset all objects.
        """
        if self._reset_objects and not self._moving:
            self.put_back()
        self._moving |= 1 << arm_index

    def ends(self, arm_index: int) -> None:
        """Record that a robot has ended its motion."""
        self._moving &= ~(1 << arm_index)

    def put_back(self) -> bool:
        """Move all movable objects back to their initial poses, at rest.

        Returns:
            False if another body is at one of these poses; then no object is moved.
        """
        before = self.data.qpos.copy(), self.data.qvel.copy()
        for positions, velocities in self._movable:
            self.data.qpos[positions] = self.model.qpos0[positions]
            self.data.qvel[velocities] = 0.0
        mujoco.mj_step1(self.model, self.data)
        if any(contact.dist < -BLOCKING_DEPTH for contact in self.data.contact):
            self.data.qpos[:], self.data.qvel[:] = before
            mujoco.mj_step1(self.model, self.data)
            return False
        return True

    def object_positions(self) -> dict[str, list[float]]:
        """Return the positions of all movable objects by name, (3,) [m]."""
        model, data = self.model, self.data
        free = np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
        bodies = [int(model.jnt_bodyid[j]) for j in free]
        return {model.body(body).name: data.xpos[body].tolist() for body in bodies}

    def _step(self) -> None:
        model, data = self.model, self.data
        before = data.time
        if data.ncon:
            correct_friction(model, data)
        mujoco.mj_step2(model, data)
        if was_reset(data, before):
            raise BackendError(divergence_message("the simulation of the arms diverged"))
        contact = self._contact
        contact[:] = 0.0
        if data.ncon and data.nefc:
            force = np.where(data.efc_type >= _FIRST_CONTACT, data.efc_force, 0.0)
            mujoco.mj_mulJacTVec(model, data, contact, force)
        for sense in self._sense:
            if sense is not None:
                sense(contact)
        mujoco.mj_step1(model, data)


_GRAVITY = np.array([0.0, 0.0, -STANDARD_GRAVITY])
# Regularisation of J J^T, far below its eigenvalues away from singularities.
_REGULARISATION = 1e-7


class Physics:
    r"""Simulated FR3 that compensates gravity; its gripper is a rigid load.

    .. math:: (M + B) \ddot q + c(q, \dot q) = \tau + \tau_{env} .

    Here M is the mass matrix, B the rotor inertia, c the Coriolis torque, :math:`\tau` the motor
    torque and :math:`\tau_{env}` the torque by the environment. All public quantities are in the
    base frame of the arm. An arm with model errors or noise has a :class:`.Drivetrain`.

    Args:
        world: Scene of the arm; None for a separate scene.
        arm_index: Index of the arm in the scene.

    Attributes:
        end_effector: End effector, which Desk sets on a real robot; None without one.
        gravity_in_base: Gravity vector in the base frame, without model errors, (3,) [m/s^2].
        q: Measured joint positions, (7,) [rad].
        dq: Measured joint velocities, (7,) [rad/s].
        ddq: Joint accelerations of the last step, (7,) [rad/s^2].
        tau_ext: External torques that the robot estimates, (7,) [Nm].
        tau_J: Torques measured on the link side, including gravity, (7,) [Nm].
    """

    n_joints = 7

    def __init__(self, world: RobotWorld | None = None, arm_index: int = 0) -> None:
        self.world = world = world or RobotWorld([default_arm()])
        self._arm_index, arm = arm_index, world.arms[arm_index]
        model, data, real = world.model, world.data, arm.real
        self.end_effector = arm.described.tool
        self.gravity_in_base: Vector = arm.described.rotation_base_in_world.T @ _GRAVITY
        self._position, self._rotation = real.position_base_in_world, real.rotation_base_in_world
        first = model.joint(real.joint_names[0])
        at, dof = int(first.qposadr[0]), int(first.dofadr[0])
        self._at, self._dofs = slice(at, at + 7), slice(dof, dof + 7)
        self._scratch = mujoco.MjData(model)
        self._link7 = int(model.body(f"{real.prefix}link7").id)
        self._load = int(model.body(f"{real.prefix}load").id)
        self._positions, self._velocities = data.qpos[self._at], data.qvel[self._dofs]
        self.ddq: Vector = data.qacc[self._dofs]
        self._applied, self._carried = (
            data.qfrc_applied[self._dofs],
            data.qfrc_gravcomp[self._dofs],
        )
        self._drive = world.drives[arm_index]
        self.q: Vector = self._positions.copy() if self._drive else self._positions
        self.dq: Vector = self._velocities.copy() if self._drive else self._velocities
        self.tau_ext, self.tau_J = np.zeros(7), np.zeros(7)
        self._pushed, self._executed = np.zeros(model.nv), np.zeros(7)
        if world.join(arm_index, self.sense):
            self.reset_to(arm.q_start)
        else:
            self.ends()
            self.set_load(NO_LOAD)
            self.refresh()

    def reset_to(self, q: Vector) -> None:
        """Move the arm to joint positions, (7,) [rad], at rest."""
        if self.world.is_static:
            mujoco.mj_resetData(self.world.model, self.world.data)
        self._positions[:] = q
        self.refresh()

    def refresh(self) -> None:
        """Set the arm to rest at its position, and update kinematics and measurements."""
        self._velocities[:] = 0.0
        self.ddq[:] = 0.0
        mujoco.mj_step1(self.world.model, self.world.data)
        self.tau_ext[:] = 0.0
        self.tau_J[:] = self._carried
        if self._drive:
            self.q[:], self.dq[:] = self._positions, 0.0

    def rest(self) -> None:
        """Advance one period with brakes on; the arm does not move, but other arms may."""
        if self.world.is_static:
            self.refresh()
            return
        self._velocities[:] = 0.0
        for torques in (self._pushed, self._executed, self._applied):
            torques[:] = 0.0
        self.world.torque_commanded(self._arm_index)

    def begins(self) -> None:
        """Report to the scene that the robot begins a motion."""
        self.world.begins(self._arm_index)

    def ends(self) -> None:
        """Report to the scene that the robot has ended its motion."""
        self.world.ends(self._arm_index)

    def set_load(self, load: Load) -> None:
        """Attach a load to the flange, in place of the previous one."""
        model = self.world.model
        moments, axes = np.linalg.eigh(load.inertia)
        if np.linalg.det(axes) < 0.0:
            axes[:, 0] *= -1.0
        quat = np.zeros(4)
        mujoco.mju_mat2Quat(quat, np.ascontiguousarray(axes).ravel())
        model.body_mass[self._load] = load.mass
        model.body_ipos[self._load] = load.com
        model.body_inertia[self._load] = np.maximum(moments, 0.0)
        model.body_iquat[self._load] = quat
        mujoco.mj_setConst(model, self._scratch)
        mujoco.mj_step1(model, self.world.data)

    def step(self, tau: Vector, tau_pushed: Vector, wrench: Vector, point: Vector) -> None:
        """Command the torques of one period; the scene advances when all arms have commanded.

        Args:
            tau: Motor torques without gravity, (7,) [Nm].
            tau_pushed: External joint torques, (7,) [Nm].
            wrench: External wrench along the axes of the base, (6,) [N, Nm].
            point: Point of application of the wrench, in the base, (3,) [m].

        Raises:
            BackendError: If the simulation has diverged.
        """
        pushed = self._pushed
        pushed[self._dofs] = tau_pushed
        if wrench.any():
            rotation = self._rotation
            mujoco.mj_applyFT(
                self.world.model, self.world.data, rotation @ wrench[:3], rotation @ wrench[3:],
                self._position + rotation @ point, self._link7, pushed,
            )  # fmt: skip
        self._executed[:] = tau
        if self._drive:
            self._drive.execute(self._executed)
        np.add(self._executed, pushed[self._dofs], self._applied)
        self.world.torque_commanded(self._arm_index)

    def sense(self, contact: Vector) -> None:
        """Update the measurements of the arm after a step of the scene.

        Args:
            contact: Generalized contact forces of the scene, (nv,) [Nm].
        """
        np.add(self._pushed[self._dofs], contact[self._dofs], self.tau_ext)
        self.tau_J[:] = self._executed
        self.tau_J += self._carried
        self.tau_J -= ARMATURE * self.ddq
        if self._drive:
            self.q[:], self.dq[:] = self._positions, self._velocities
            self._drive.measure(self)

    def flange(self) -> Vector:
        """Return the true pose of the flange in the base, (4, 4)."""
        return self._flange(self.world.data)

    def jacobian(self, point: Vector) -> Vector:
        """Return the Jacobian of a point fixed to the flange, (6, 7); all in the base frame.

        Args:
            point: Current position of the point, (3,) [m].
        """
        return self._jacobian(self.world.data, point)

    def wrench_at(self, point: Vector, tau: Vector) -> Vector:
        """Return the wrench in the base that best explains joint torques, (6,) [N, Nm].

        Args:
            point: Point of application in the base, (3,) [m].
            tau: Joint torques, (7,) [Nm].
        """
        J = self.jacobian(point)
        normal = J @ J.T + _REGULARISATION * np.eye(6)
        return np.asarray(np.linalg.solve(normal, J @ tau))

    def kinematics_at(self, q: Vector, F_T_EE: Vector) -> tuple[Vector, Vector]:
        """Return pose (4, 4) and Jacobian (6, 7) of the end effector in the base.

        Args:
            q: Joint positions, (7,) [rad].
            F_T_EE: Pose of the end effector in the flange, (4, 4).
        """
        model, data = self.world.model, self._scratch
        data.qpos[self._at] = q
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        pose = self._flange(data) @ F_T_EE
        return pose, self._jacobian(data, pose[:3, 3])

    def inertias(self) -> Vector:
        """Return the diagonal of the mass matrix with rotors, (7,) [kg m^2]."""
        model, data = self.world.model, self.world.data
        diagonal, unit, column = np.zeros(7), np.zeros(model.nv), np.zeros(model.nv)
        for i, dof in enumerate(range(self._dofs.start, self._dofs.stop)):
            unit[:] = 0.0
            unit[dof] = 1.0
            mujoco.mj_mulM(model, data, column, unit)
            diagonal[i] = column[dof]
        return diagonal

    def _flange(self, data: mujoco.MjData) -> Vector:
        pose = np.eye(4)
        rotation = data.xmat[self._link7].reshape(3, 3)
        pose[:3, :3] = self._rotation.T @ rotation
        tip = data.xpos[self._link7] + FLANGE_HEIGHT * rotation[:, 2]
        pose[:3, 3] = self._rotation.T @ (tip - self._position)
        return pose

    def _jacobian(self, data: mujoco.MjData, point: Vector) -> Vector:
        model = self.world.model
        J = np.empty((6, model.nv))
        point_in_world = self._position + self._rotation @ point
        mujoco.mj_jac(model, data, J[:3], J[3:], point_in_world, self._link7)
        own = J[:, self._dofs]
        return np.vstack([self._rotation.T @ own[:3], self._rotation.T @ own[3:]])
