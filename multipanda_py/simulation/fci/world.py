# SPDX-License-Identifier: Apache-2.0
"""The physics of one arm, in a MuJoCo world of its own or with others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import BackendError
from multipanda_py.registry import extras_named
from multipanda_py.robots import MODELS, READY_POSTURE, ArmDescription, SceneObject, Tool
from multipanda_py.robots.franka import ARMATURE, FLANGE_HEIGHT, LOWER, UPPER
from multipanda_py.robots.inertial import NO_LOAD, Load
from multipanda_py.simulation.drivetrain.drive import Drive
from multipanda_py.simulation.mjcf import build_scene
from multipanda_py.simulation.mjcf_elements import put
from multipanda_py.simulation.sliding_contact import correct_friction
from multipanda_py.simulation.world import diverged, listen, was_reset

with extras_named():
    import mujoco


Vector = NDArray[np.float64]

PERIOD = 1e-3
"""Of the control loop and of the physics [s]."""
DEEP = 2e-3
"""What is so far inside something is in its way [m]."""
STOP_MARGIN = 0.05
"""The mechanical stops lie this far behind the limits that the robot guards [rad]."""
_FIRST_CONTACT = int(mujoco.mjtConstraint.mjCNSTR_CONTACT_FRICTIONLESS)


@dataclass(frozen=True, eq=False)
class WorldArm:
    """An arm of the world.

    Attributes:
        described: As its robot believes it to be; a hand is a tool here.
        real: As it is.
        q_start: Where it is at first, (7,) [rad].
        add: Puts further bodies on it before the world is compiled.
        drive: Returns what is imperfect about it, for a model, its data and the arm's first
            velocity there; None for an arm as it is described.
    """

    described: ArmDescription
    real: ArmDescription
    q_start: Vector
    add: Callable[[mujoco.MjSpec], None] | None = None
    drive: Callable[[mujoco.MjModel, mujoco.MjData, int], Drive] | None = None


def lone_arm() -> WorldArm:
    """Return an FR3 with its hand that is as it is described."""
    hand = MODELS["fr3"].hand
    tool = None
    if hand is not None:
        load = hand.load
        tool = Tool(load.mass, load.com, load.inertia, hand.pose_tcp_in_flange)
    arm = ArmDescription("robot", "fr3", hand=False, tool=tool)
    return WorldArm(arm, arm, READY_POSTURE)


class RobotWorld:
    """Let the arms of several robots, each with a clock of its own, move in one world.

    It moves on by a period when every arm has said its torque, or when one comes for the second
    time: an arm whose robot is off, or late, stops no other.

    Args:
        arms: All arms.
        things: What stands and lies around them.
        tidy: Whether movable things are put back when a robot begins to move and no other one
            does, as somebody would between two runs.

    Attributes:
        arms: As given.
        model: MuJoCo's model.
        data: Its state.
        drives: What is imperfect about each arm, or None.
        rests: Whether nothing in it moves while a single arm rests.

    Raises:
        ConfigurationError: If names repeat.
    """

    def __init__(
        self, arms: Sequence[WorldArm], things: Sequence[SceneObject] = (), *, tidy: bool = False
    ) -> None:
        listen()
        self._tidy, self._moving = tidy, 0
        self.arms = tuple(arms)
        spec = build_scene([arm.real for arm in arms], things, timestep=PERIOD)
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
            model.jnt_range[joints] = np.column_stack((LOWER - STOP_MARGIN, UPPER + STOP_MARGIN))
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
        self.rests = len(arms) == 1 and not len(free) and arms[0].drive is None
        self._sense: list[Callable[[Vector], None] | None] = [None] * len(arms)
        self._contact = np.zeros(model.nv)
        self._said = 0

    def join(self, place: int, sense: Callable[[Vector], None]) -> bool:
        """Have what is measured on an arm refreshed whenever the world has moved on.

        Args:
            place: Index of the arm.
            sense: Function that takes the generalized contact forces of the world, (nv,), and
                refreshes the measurements.

        Returns:
            Whether the arm is new to the world: a robot that was switched off and on is not.
        """
        is_new = self._sense[place] is None
        self._sense[place] = sense
        return is_new

    def go_on(self, place: int) -> None:
        """Take note that an arm has said its torque, and move on if it is time.

        Raises:
            BackendError: If the simulation has diverged.
        """
        mine = 1 << place
        again = bool(self._said & mine)
        self._said |= mine
        if again or self._said == (1 << len(self.arms)) - 1:
            self._said = mine if again else 0
            self._step()

    def begins(self, place: int) -> None:
        """Take note that a robot begins a motion."""
        if self._tidy and not self._moving:
            self.put_back()
        self._moving |= 1 << place

    def ends(self, place: int) -> None:
        """Take note that a robot does not move any more."""
        self._moving &= ~(1 << place)

    def put_back(self) -> bool:
        """Put everything that can be moved back to where it was at first, at rest.

        Returns:
            Whether that was possible: nothing was in the way.
        """
        before = self.data.qpos.copy(), self.data.qvel.copy()
        for positions, velocities in self._movable:
            self.data.qpos[positions] = self.model.qpos0[positions]
            self.data.qvel[velocities] = 0.0
        mujoco.mj_step1(self.model, self.data)
        if any(contact.dist < -DEEP for contact in self.data.contact):
            self.data.qpos[:], self.data.qvel[:] = before
            mujoco.mj_step1(self.model, self.data)
            return False
        return True

    def places(self) -> dict[str, list[float]]:
        """Return where everything is that can be moved, by name, (3,) [m]."""
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
            raise BackendError(diverged("the simulated arm diverged"))
        contact = self._contact
        contact[:] = 0.0
        if data.ncon and data.nefc:
            force = np.where(data.efc_type >= _FIRST_CONTACT, data.efc_force, 0.0)
            mujoco.mj_mulJacTVec(model, data, contact, force)
        for sense in self._sense:
            if sense is not None:
                sense(contact)
        mujoco.mj_step1(model, data)


_GRAVITY = np.array([0.0, 0.0, -9.81])
_REGULARISATION = 1e-7  # far below the squared singular values of J in useful postures


class Physics:
    r"""An FR3 with its hand as a rigid load; gravity is compensated.

    The equation of motion, with rotor inertia B and torques that the environment applies:

    .. math:: (M + B) \ddot q + c(q, \dot q) = \tau + \tau_{env}

    Everything outside is expressed in the arm's base. An arm that is not as it is described has
    a :class:`.Drive` between command, joints and sensors.

    Args:
        world: It moves in; one of its own if None.
        place: Of the arm there.

    Attributes:
        world: As given.
        end_effector: What Desk knows to be on the flange, or None.
        gravity_in_base: As the robot believes that it stands, (3,) [m/s^2].
        n_joints: 7.
        q: Measured joint positions, (7,) [rad].
        dq: Measured joint velocities, (7,) [rad/s].
        ddq: Joint accelerations of the last step, (7,) [rad/s^2].
        tau_ext: What the environment does, by the robot's own estimate, (7,) [Nm].
        tau_J: What link-side torque sensors measure, gravity included, (7,) [Nm].
    """

    n_joints = 7

    def __init__(self, world: RobotWorld | None = None, place: int = 0) -> None:
        self.world = world = world or RobotWorld([lone_arm()])
        self._place, arm = place, world.arms[place]
        model, data, real = world.model, world.data, arm.real
        self.end_effector = arm.described.tool
        self.gravity_in_base: Vector = arm.described.rotation_base_in_world.T @ _GRAVITY
        self._position, self._turn = real.position_base_in_world, real.rotation_base_in_world
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
        self._drive = world.drives[place]
        self.q: Vector = self._positions.copy() if self._drive else self._positions
        self.dq: Vector = self._velocities.copy() if self._drive else self._velocities
        self.tau_ext, self.tau_J = np.zeros(7), np.zeros(7)
        self._pushed, self._executed = np.zeros(model.nv), np.zeros(7)
        if world.join(place, self.sense):
            self.place(arm.q_start)
        else:
            self.ends()
            self.set_load(NO_LOAD)
            self.refresh()

    def place(self, q: Vector) -> None:
        """Put the arm at rest at joint positions, (7,) [rad]."""
        if self.world.rests:
            mujoco.mj_resetData(self.world.model, self.world.data)
        self._positions[:] = q
        self.refresh()

    def refresh(self) -> None:
        """Recompute what follows from positions, for an arm that rests."""
        self._velocities[:] = 0.0
        self.ddq[:] = 0.0
        mujoco.mj_step1(self.world.model, self.world.data)
        self.tau_ext[:] = 0.0
        self.tau_J[:] = self._carried
        if self._drive:
            self.q[:], self.dq[:] = self._positions, 0.0

    def rest(self) -> None:
        """Let a period pass with brakes on: this arm does not move, whatever others do."""
        if self.world.rests:
            self.refresh()
            return
        self._velocities[:] = 0.0
        for torques in (self._pushed, self._executed, self._applied):
            torques[:] = 0.0
        self.world.go_on(self._place)

    def begins(self) -> None:
        """Take note that the robot begins a motion."""
        self.world.begins(self._place)

    def ends(self) -> None:
        """Take note that it does not move any more."""
        self.world.ends(self._place)

    def set_load(self, load: Load) -> None:
        """Attach a load to the flange; the one before is taken off."""
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
        """Move on by one period.

        Args:
            tau: Torques of the motors without gravity, (7,) [Nm].
            tau_pushed: Joint torques of somebody who pushes, (7,) [Nm].
            wrench: Force and torque of somebody who pushes, in the base's axes, (6,) [N, Nm].
            point: Where the wrench acts, in the base, (3,) [m].

        Raises:
            BackendError: If the simulation has diverged.
        """
        pushed = self._pushed
        pushed[self._dofs] = tau_pushed
        if wrench.any():
            turn = self._turn
            mujoco.mj_applyFT(
                self.world.model, self.world.data, turn @ wrench[:3], turn @ wrench[3:],
                self._position + turn @ point, self._link7, pushed,
            )  # fmt: skip
        self._executed[:] = tau
        if self._drive:
            self._drive.execute(self._executed)
        np.add(self._executed, pushed[self._dofs], self._applied)
        self.world.go_on(self._place)

    def sense(self, contact: Vector) -> None:
        """Take what is measured, after a step and before anything else is computed.

        Args:
            contact: What contacts do to all joints of the world, (nv,) [Nm].
        """
        np.add(self._pushed[self._dofs], contact[self._dofs], self.tau_ext)
        self.tau_J[:] = self._executed
        self.tau_J += self._carried
        self.tau_J -= ARMATURE * self.ddq
        if self._drive:
            self.q[:], self.dq[:] = self._positions, self._velocities
            self._drive.measure(self)

    def flange(self) -> Vector:
        """Return the pose of the flange in the base, (4, 4)."""
        return self._flange(self.world.data)

    def jacobian(self, point: Vector) -> Vector:
        """Return the Jacobian of a point of the flange in the base's axes, (6, 7)."""
        return self._jacobian(self.world.data, point)

    def wrench_at(self, point: Vector, tau: Vector) -> Vector:
        """Return the wrench at a point that causes joint torques, least squares, (6,)."""
        J = self.jacobian(point)
        normal = J @ J.T + _REGULARISATION * np.eye(6)
        return np.asarray(np.linalg.solve(normal, J @ tau))

    def kinematics_at(self, q: Vector, F_T_EE: Vector) -> tuple[Vector, Vector]:
        """Return pose (4, 4) and Jacobian (6, 7) of the end effector at other positions."""
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
        turn = data.xmat[self._link7].reshape(3, 3)
        pose[:3, :3] = self._turn.T @ turn
        tip = data.xpos[self._link7] + FLANGE_HEIGHT * turn[:, 2]
        pose[:3, 3] = self._turn.T @ (tip - self._position)
        return pose

    def _jacobian(self, data: mujoco.MjData, point: Vector) -> Vector:
        model = self.world.model
        J = np.empty((6, model.nv))
        where = self._position + self._turn @ point
        mujoco.mj_jac(model, data, J[:3], J[3:], where, self._link7)
        own = J[:, self._dofs]
        return np.vstack([self._turn.T @ own[:3], self._turn.T @ own[3:]])
