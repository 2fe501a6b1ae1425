# SPDX-License-Identifier: Apache-2.0
"""Simulation backend: all simulated arms in one MuJoCo scene, advanced by a period per cycle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from multipanda_py.backend import Backend
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_objects, movable_objects
from multipanda_py.exceptions import BackendError
from multipanda_py.hardware.franka.errors import words_of
from multipanda_py.hardware.franka.settings import FrankaSettings
from multipanda_py.pose import Pose
from multipanda_py.registry import extras_named
from multipanda_py.robots import ArmDescription
from multipanda_py.simulation import mujoco_friction
from multipanda_py.simulation.actuators.arm import (
    CompliantArm,
    CompliantGroups,
    elastic_of,
    remove_motor_limits,
)
from multipanda_py.simulation.actuators.mujoco_coupling import (
    CompliantWorld,
    SavedSprings,
    spring_steps,
)
from multipanda_py.simulation.drivetrain.drivetrain import Drivetrain
from multipanda_py.simulation.drivetrain.drivetrain_stages import stages_of
from multipanda_py.simulation.drivetrain.elasticity import (
    SpringTorqueSensors,
    add_rotors,
    choose_steps,
    elastic_joints,
    motor_addresses,
)
from multipanda_py.simulation.gripper import SimGripper
from multipanda_py.simulation.object_activation import ObjectActivation, prepare_activation
from multipanda_py.simulation.perturbed_arm import (
    add_payload,
    perturbed,
    scale_inertia,
    with_all_friction,
)
from multipanda_py.simulation.robot import ExternalTorque, JointServo, SimRobot
from multipanda_py.simulation.scene_mjcf import add_cameras, build_scene
from multipanda_py.simulation.world import (
    World,
    WorldState,
    divergence_message,
    install_warning_handler,
    start_contacts,
    was_reset,
)
from multipanda_py.state import COMMAND_INTERFACES, ArmState, Vector

with extras_named():
    import mujoco


@dataclass(frozen=True)
class SavedMujoco:
    """Saved state of the simulation between two cycles.

    Attributes:
        world: State of MuJoCo.
        drives: Attributes that change at run time, by arm, drivetrain stage and name.
        grippers: Result of :meth:`.SimGripper.save` for each gripper.
        servos: Servos of arms with the command interface ``position`` or ``velocity``, by index
            among the simulated arms.
        springs: State of the springs and motors of compliant arms; None without compliant arms.
    """

    world: WorldState
    drives: Sequence[Sequence[Mapping[str, object]]]
    grippers: Sequence[tuple[Vector, dict[str, object]]]
    servos: Mapping[int, JointServo]
    springs: SavedSprings | None


def _motor_state(
    joint_state: tuple[Vector, Vector], springs: SpringTorqueSensors | None
) -> tuple[Vector, Vector]:
    """Return positions [rad] and velocities [rad/s] of an arm's motors, (n,) each."""
    return joint_state if springs is None else springs.motors


class Mujoco(Backend[FrankaSettings]):
    """Simulation of all arms with the backend ``mujoco``, in one shared MuJoCo scene.

    MuJoCo compensates the weight of arms with ``compensates_gravity: true``. For other arms the
    loop adds the gravity torque. The estimated external torques of an arm include the torque that
    carries the load in its robot settings.

    Attributes:
        model: MuJoCo model, after :meth:`connect`.
        data: MuJoCo data, after :meth:`connect`. Thread: control.
        world: Access to bodies between two cycles, after :meth:`connect`.
        drives: Drivetrain of every arm, with all its imperfections, after :meth:`connect`.
        robots: Simulated robot controller of every arm, after :meth:`connect`.
        compliant: Springs of arms with compliant actuators, after :meth:`connect`; None without
            such arms.
        steps: Number of MuJoCo steps in a cycle.
        dofs: Indices of each arm's joints in ``qvel``, after :meth:`connect`.
        external: External torques of all joints in the scene, after :meth:`connect`.
    """

    Settings, settings_section = FrankaSettings, "franka"
    interfaces = COMMAND_INTERFACES
    measures_objects = True
    provides_time = True
    simulates_actuators = True
    model: mujoco.MjModel
    data: mujoco.MjData
    world: World

    def __init__(
        self,
        config: CellConfig,
        arms: Sequence[int],
        states: Sequence[ArmState],
        objects: Vector,
        descriptions: Sequence[ArmDescription],
    ) -> None:
        super().__init__(config, arms, states, objects, descriptions)
        install_warning_handler()
        meshes = Path(config.cell.meshes) if config.cell.meshes else None
        self._arms = {arm.name: with_all_friction(config.arms[arm.name]) for arm in descriptions}
        self._simulated = [
            perturbed(arm, self._arms[arm.name].perturbation, self._arms[arm.name].robot_of_body)
            for arm in self.descriptions
        ]
        self._elastic = [elastic_of(self._arms[arm.name]) for arm in self.descriptions]
        # The springs of a compliant arm carry its weight, so MuJoCo must not compensate this
        # weight.
        self._simulated = [
            replace(arm, compensates_gravity=False) if elastic else arm
            for arm, elastic in zip(self._simulated, self._elastic)
        ]
        scene = build_scene(
            self._simulated, describe_objects(config), timestep=self.period, meshes=meshes
        )
        add_cameras(scene, config)
        for arm, elastic in zip(self._simulated, self._elastic):
            settings = self._arms[arm.name]
            add_payload(scene, arm, settings.perturbation, weighs=bool(elastic))
            remove_motor_limits(scene, arm, elastic)
            add_rotors(scene, arm, settings.transmission, settings.perturbation.inertia_scale)
        self._movable_objects = movable_objects(config)
        prepare_activation(scene, self._movable_objects)
        self.model = scene.compile()
        for arm in self.descriptions:
            factor = config.arms[arm.name].perturbation.inertia_scale
            if factor != 1.0:
                scale_inertia(self.model, arm, factor)
        self.data = mujoco.MjData(self.model)

    @classmethod
    def describe_stall(cls, arms: Sequence[str]) -> str:
        return "simulated arms pause with it"

    def connect(self) -> None:
        """Set every arm to its start configuration, at rest, and build all drivetrain stages."""
        model, data = self.model, self.data
        mujoco.mj_resetData(model, data)
        prefixes = {arm.name: arm.prefix for arm in self.descriptions}
        self._presence = ObjectActivation(
            model, data, self._movable_objects, self.present, prefixes
        )
        for arm in self.descriptions:
            joints = self.config.arms[arm.name].transmission
            q_start = self.config.arms[arm.name].q_start
            # Rotors start at the positions of their links, so that springs start without torque.
            data.qpos[motor_addresses(model, arm, joints)[0]] = q_start
            data.qpos[[int(model.joint(name).qposadr[0]) for name in arm.joint_names]] = q_start
        mujoco.mj_forward(model, data)
        self.notices += start_contacts(model, data, prefixes)
        joints_of = [(arm, self.config.arms[arm.name].transmission) for arm in self.descriptions]
        self.steps = choose_steps(model, data, joints_of, self.period)
        model.opt.timestep = self.period / self.steps
        self._q: list[Vector] = []
        self._dq: list[Vector] = []
        self._ctrl: list[Vector] = []
        self.dofs: list[slice] = []
        self._grippers: list[SimGripper | None] = []
        self.robots: list[SimRobot] = []
        self.drives: list[Drivetrain] = []
        self._servos: dict[int, JointServo] = {}
        self._motors: list[Callable[[], tuple[Vector, Vector]]] = []
        compliant: list[CompliantArm] = []
        for seed, (index, arm, real, state, compliant_joints) in enumerate(
            zip(self.arms, self.descriptions, self._simulated, self.states, self._elastic)
        ):
            first = model.joint(arm.joint_names[0])
            q_at, dof = int(first.qposadr[0]), int(first.dofadr[0])
            actuator = int(model.actuator(arm.joint_names[0]).id)
            n = arm.n_joints
            self._q.append(data.qpos[q_at : q_at + n])
            self._dq.append(data.qvel[dof : dof + n])
            self._ctrl.append(data.ctrl[actuator : actuator + n])
            self.dofs.append(slice(dof, dof + n))
            settings = self._arms[arm.name]
            gripper = arm.gripper
            self._grippers.append(
                SimGripper(model, data, arm, gripper, state, self.period) if gripper else None
            )
            elastic = bool(elastic_joints(settings.transmission))
            springs = (
                SpringTorqueSensors(model, data, arm, settings.transmission) if elastic else None
            )
            robot = SimRobot(
                model,
                data,
                arm,
                state,
                dof,
                self.settings[index],
                words_of,
                self.period,
                springs,
                settings.motor_lag,
            )
            self.robots.append(robot)
            own = (self._q[-1], self._dq[-1])
            self._motors.append(partial(_motor_state, own, springs))
            stages = stages_of(model, data, arm, real, settings, robot, dof, seed, self.period)
            if compliant_joints:
                # The robot knows the scaled inertia of its arm, so it compensates the scaled
                # weight.
                scale = settings.perturbation.inertia_scale
                link_torque_limit = settings.rigid_robot.limits.torque
                compliant.append(
                    CompliantArm(
                        model, data, arm, state, compliant_joints, link_torque_limit, scale
                    )
                )
            if springs:
                stages.append(springs)
            elif compliant_joints:
                stages.append(compliant[-1])
            self.drives.append(Drivetrain(stages))
        self._objects: list[Vector] = []
        for name in self._movable_objects:
            at = int(model.joint(f"{name}_joint").qposadr[0])
            self._objects.append(data.qpos[at : at + 7])
        self.external = ExternalTorque(model, data)
        tau_ext = [self.external.torque[dofs] for dofs in self.dofs]
        # ``read`` copies these in every cycle. Copying memory views takes half the time of arrays.
        self._copies = [
            (destination.data, source.data)
            for i, state in enumerate(self.states)
            for destination, source in (
                (state.q, self._q[i]), (state.dq, self._dq[i]), (state.tau_ext, tau_ext[i]),
            )
        ]  # fmt: skip
        self._copies += [
            (state.finger_positions.data, gripper.fingers.data)
            for state, gripper in zip(self.states, self._grippers)
            if gripper is not None
        ]
        self._gravity_compensation = [data.qfrc_gravcomp[dofs] for dofs in self.dofs]
        mujoco.mj_forward(model, data)
        self.compliant: CompliantWorld | None = None
        if compliant:
            groups = CompliantGroups([self._arms[arm.name] for arm in compliant])
            self.compliant = CompliantWorld(model, data, compliant, groups.drive(self.period))
            self.compliant.start()
            steps, result = spring_steps(self.compliant, self.period)
            self.steps = max(self.steps, steps)
            model.opt.timestep = self.period / self.steps
            self.warnings += result
        self.time = 0.0
        self.world = World(model, data, self._presence)

    def command_gripper(self, arm: int, number: int, record: Vector) -> None:
        """Start a command of an arm's gripper. Thread: control.

        Args:
            arm: Index of the arm in the cell.
            number: Number of the command, for ``state.gripper[0]``.
            record: Action and its values, in the format of :attr:`.GripperCommand.record`.
        """
        gripper = self._grippers[self.arms.index(arm)]
        if gripper is not None:
            gripper.start(number, record)

    def grasped_object(self, arm: int) -> int:
        """Return the number of the object that both fingers of an arm press, or 0 for none.

        Movable objects have the numbers 1, 2, ... in the order of the cell file.
        """
        prefix = self.descriptions[self.arms.index(arm)].prefix
        fingers = [f"{prefix}{side}finger" for side in ("left", "right")]

        def pressed(object_name: str) -> float:
            forces = (self.world.contact_force(finger, object_name) for finger in fingers)
            return min(float(np.linalg.norm(force)) for force in forces)

        forces = [pressed(obj) for obj in self._movable_objects]
        return int(np.argmax(forces)) + 1 if forces and max(forces) > 0.0 else 0

    def read(self, fresh: Collection[int]) -> None:
        """Copy joint states, torques, external torques and object poses from the simulation.

        Args:
            fresh: Indices in the cell of the arms that the loop updates in this cycle. Without the
                first simulated arm, nothing is read.

        Raises:
            BackendError: If the simulation has diverged.
        """
        # All simulated arms advance together, in the cycles of the first one.
        if self.arms[0] not in fresh:
            return
        data = self.data
        self.external.estimate()
        for destination, source in self._copies:
            destination[:] = source
        for i, state in enumerate(self.states):
            np.add(self._ctrl[i], self._gravity_compensation[i], state.tau_J)
            self.drives[i].measure(state)
        if self.compliant is not None:
            self.compliant.write_state()
            self.notices += self.compliant.new_notices()
        for pose, result in zip(self.objects, self._objects):
            pose[:] = result
        self.time = data.time

    def write(self, fresh: Collection[int]) -> None:
        """Apply the torques and advance the simulation by one period.

        Args:
            fresh: Indices in the cell of the arms that the loop updates in this cycle. Without the
                first simulated arm, nothing happens.

        Raises:
            BackendError: If the simulation has diverged.
        """
        if self.arms[0] not in fresh:
            return
        for index, servo in self._servos.items():
            servo.rest() if self.robots[index].stopped else servo.drive()
        for state, ctrl, drive in zip(self.states, self._ctrl, self.drives):
            np.add(state.tau, state.tau_gravity, ctrl)
            drive.execute(ctrl)
        for gripper in self._grippers:
            if gripper is not None and gripper.is_active:
                gripper.step()
        before = self.data.time
        if self.compliant is None:
            mujoco_friction.step(self.model, self.data, self.steps)
        else:
            self.compliant.command()
            self.compliant.step(self.steps)
        if was_reset(self.data, before):
            raise BackendError(divergence_message("the simulation diverged and was reset"))

    def faults(self) -> list[tuple[int, str]]:
        """Return index of the arm and reason for each fault since the last call.

        Causes are exceeded collision thresholds and rejected commands of compliant actuators.
        """
        faults = []
        for index, robot in zip(self.arms, self.robots):
            if robot.fault:
                faults.append((index, robot.fault))
                robot.fault = ""
        if self.compliant is not None:
            names = {arm.name: index for index, arm in zip(self.arms, self.descriptions)}
            faults += [
                (names[name], f"actuators of {name}: {reason}")
                for name, reason in self.compliant.rejected_commands()
            ]
        return faults

    def recover(self, arm: int) -> None:
        """Let an arm execute torques again after a collision threshold has stopped it."""
        self.robots[self.arms.index(arm)].stopped = False

    def is_ready(self, arm: int) -> bool:
        """Return True if an arm executes torques; False from a collision stop until recovery."""
        return not self.robots[self.arms.index(arm)].stopped

    def switch_interface(self, arm: int, interface: str) -> None:
        """Switch the command interface of an arm.

        With ``position`` or ``velocity``, a :class:`.JointServo` computes the torques.

        Args:
            arm: Index of the arm in the cell.
            interface: One of ``COMMAND_INTERFACES``: effort, position or velocity.
        """
        index = self.arms.index(arm)
        self._servos.pop(index, None)
        if interface != COMMAND_INTERFACES[0]:
            gains = self.robots[index].servo_gains()
            self._servos[index] = JointServo(self.states[index], self._motors[index], gains)

    def configure(self, arm: int, settings: FrankaSettings) -> None:
        """Apply new robot settings to an arm at once: thresholds, load and stiffness."""
        self.robots[self.arms.index(arm)].configure(settings)
        super().configure(arm, settings)

    def save(self) -> SavedMujoco:
        """Return a copy of the state of physics, drivetrains and grippers, for :meth:`load`."""
        grippers = [gripper.save() for gripper in self._grippers if gripper is not None]
        world = WorldState.capture(self.model, self.data)
        drives = [drive.save() for drive in self.drives]
        springs = None if self.compliant is None else self.compliant.save()
        return SavedMujoco(world, drives, grippers, dict(self._servos), springs)

    def set_object_pose(self, record: Vector) -> None:
        """Set pose and twist of a movable object.

        Args:
            record: Index of the object, position [m], quaternion x y z w, and twist [m/s, rad/s],
                (14,).
        """
        obj = int(record[0])
        pose = Pose.from_quaternion(record[1:4], record[4:8].tolist())
        self.world.set_pose(self._movable_objects[obj], pose, record[8:])
        self._copy_object_pose(obj)

    def find_penetration(self, record: Vector) -> tuple[str, float] | None:
        """Return the arm that an object would penetrate at a pose, or None.

        Args:
            record: Index and pose of the object, as in :meth:`set_object_pose`.

        Returns:
            Name of the arm, and penetration depth [m].
        """
        pose = Pose.from_quaternion(record[1:4], record[4:8].tolist())
        return self._presence.overlap(int(record[0]), pose, only_arms=True)

    def spawn_object(self, record: Vector) -> tuple[str, float] | None:
        """Add an absent object to the scene, unless it would penetrate another body.

        Args:
            record: Index, pose and twist of the object, as in :meth:`set_object_pose`.

        Returns:
            None if the object was added; otherwise name of the other body and depth [m].
        """
        obj = int(record[0])
        pose = Pose.from_quaternion(record[1:4], record[4:8].tolist())
        if result := self._presence.overlap(obj, pose):
            return result
        self._presence.activate(obj)
        self.set_object_pose(record)
        return None

    def delete_object(self, object_index: int) -> None:
        """Remove a movable object from the scene."""
        self._presence.deactivate(object_index)
        self._copy_object_pose(object_index)

    def _copy_object_pose(self, object_index: int) -> None:
        self.objects[object_index] = self._presence.pose(object_index)

    def load(self, saved: object, seed: int | None = None) -> None:
        """Restore a state from :meth:`save`.

        Args:
            saved: Saved state.
            seed: New seed of all noise; None to continue the saved random sequences.

        Raises:
            BackendError: If the state was saved by another backend.
        """
        if not isinstance(saved, SavedMujoco):
            raise BackendError(
                f"mujoco: got a saved state of type {type(saved).__name__}, allowed SavedMujoco"
            )
        saved.world.load(self.model, self.data)
        self._servos = dict(saved.servos)
        for drive, stages in zip(self.drives, saved.drives):
            drive.load(stages)
            if seed is not None:
                drive.reseed(seed)
        if self.compliant is not None and saved.springs is not None:
            self.compliant.load(saved.springs)
        grippers = [gripper for gripper in self._grippers if gripper is not None]
        for gripper, state in zip(grippers, saved.grippers):
            gripper.load(state)
        self.time = self.data.time

    def close(self) -> None:
        """Do nothing: the simulation advances only in :meth:`write`."""
