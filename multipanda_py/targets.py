# SPDX-License-Identifier: Apache-2.0
"""What a user asks of an active controllet.

A target arrives through *channels*: fixed-width vectors that carry one kind of
request for one arm (:mod:`.channel`, ``channels/``). A target type names the channels
it listens to and gives them readable views. The loop refills the views in place, so a
law simply reads ``target.position_ee_in_base[arm]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeAlias

import numpy as np
import pinocchio as pin

from multipanda_py.channel import Channel, channel_table
from multipanda_py.state import JOINTS, ArmState, Matrix, Vector

TRAJECTORY_POINTS = 128
"""Most points of one trajectory."""
TRAJECTORY_CONTROLLETS = ("joint_trajectory", "joint_position", "optimization_augmented")
"""Controllets that follow trajectories and report their progress."""
Joints: TypeAlias = "int | Sequence[int]"
"""Number of joints of every arm, or one per arm."""


class Target:
    """Base of the target types: storage per channel and arm.

    Args:
        n_arms: Number of arms of the controllet.
        extra: Channels that its features take in addition: names of built-in ones, or their own.
        n_joints: Number of joints of each arm, n; or one per arm, where they differ.

    Attributes:
        joints: The same per arm.
        data: The records by channel, one per arm or one for all.
        reshaped: The channels that features may reshape every cycle.
    """

    channels: ClassVar[tuple[str | Channel, ...]] = ()
    """Channels that users may write to, in the order of their records: names of built-in ones,
    or declarations of the law's own."""
    stored: ClassVar[tuple[str | Channel, ...]] = ()
    """Channels that the law needs, written to by users or only at activation."""
    far: ClassVar[tuple[str, ...]] = ()
    """Channels whose targets may be far from the measured state: the law itself goes there
    within limits."""
    leaning: ClassVar[tuple[str, ...]] = ()
    """Channels that the law only leans towards, whose targets may be far while a governor moves
    there; without one a far posture would be swung to."""
    joint_parts: ClassVar[tuple[str, ...]] = ("q", "dq")
    """What of channel ``joint`` counts: positions, velocities. Anything else is refused."""

    def __init__(
        self, n_arms: int, extra: Sequence[str | Channel] = (), n_joints: Joints = JOINTS
    ) -> None:
        table = channel_table((*self.channels, *self.stored, *extra))
        self.joints = (n_joints,) * n_arms if isinstance(n_joints, int) else tuple(n_joints)
        self.data: dict[str, list[Vector]] = {
            name: [np.zeros(channel.size(n)) for n in self.joints[: channel.places(n_arms)]]
            for name, channel in table.items()
        }
        self.reshaped = tuple(name for name, channel in table.items() if channel.reshaped)

    def clear(self) -> None:
        """Forget everything, at the start of an activation."""
        for records in self.data.values():
            for record in records:
                record[:] = 0.0


class JointTarget(Target):
    """Joint positions and velocities for every arm.

    Attributes:
        q: Per arm, (n,) [rad].
        dq: Per arm, (n,) [rad/s].
        leash: Per arm, how far a reference may be from the measured positions, on the way beyond
            what it was at rest, and at rest; the law sets it for its stiffness, (2, n) [rad].
        moving: Whether a governor moves the positions, per arm.
        ddq: Accelerations with which it does, per arm, (n,) [rad/s^2].
    """

    channels: ClassVar[tuple[str | Channel, ...]] = ("joint",)

    def __init__(
        self, n_arms: int, extra: Sequence[str | Channel] = (), n_joints: Joints = JOINTS
    ) -> None:
        super().__init__(n_arms, extra, n_joints)
        records = list(zip(self.data["joint"], self.joints))
        self.q: list[Vector] = [data[:n] for data, n in records]
        self.dq: list[Vector] = [data[n:] for data, n in records]
        self.leash: list[Matrix] = [np.full((2, n), np.inf) for n in self.joints]
        self.moving = [False] * n_arms
        self.ddq: list[Vector] = [np.zeros(n) for n in self.joints]

    def clear(self) -> None:
        """Forget everything, at the start of an activation."""
        super().clear()
        self.moving[:] = [False] * len(self.moving)


class RateTarget(JointTarget):
    """A joint target of which only the velocities count."""

    joint_parts: ClassVar[tuple[str, ...]] = ("dq",)


class HeldPosture(JointTarget):
    """A joint target that nobody can write to: what was measured at activation."""

    channels: ClassVar[tuple[str | Channel, ...]] = ()
    stored: ClassVar[tuple[str | Channel, ...]] = ("joint",)


class TrajectoryTarget(JointTarget):
    """A posture to go to, or a trajectory to follow, whichever came last.

    Attributes:
        count: Number of points as the first element, per arm, (1,).
        points: Per arm, (128, 1 + 3 n): time since it came [s], q, dq and ddq [rad, s].
        tolerances: Per arm, (2 n + 1,): of path and goal (n each) [rad], time for it [s].
    """

    channels: ClassVar[tuple[str | Channel, ...]] = ("joint", "trajectory")
    far: ClassVar[tuple[str, ...]] = ("joint",)
    joint_parts: ClassVar[tuple[str, ...]] = ("q",)

    def __init__(
        self, n_arms: int, extra: Sequence[str | Channel] = (), n_joints: Joints = JOINTS
    ) -> None:
        super().__init__(n_arms, extra, n_joints)
        records = list(zip(self.data["trajectory"], self.joints))
        self.count: list[Vector] = [data[:1] for data, _ in records]
        self.points: list[Matrix] = [
            data[3 : -(2 * n + 1)].reshape(TRAJECTORY_POINTS, 1 + 3 * n) for data, n in records
        ]
        self.tolerances: list[Vector] = [data[-(2 * n + 1) :] for data, n in records]


class CartesianTarget(Target):
    """Tool pose in the arm's base, and the posture that the nullspace prefers.

    Attributes:
        position_ee_in_base: Per arm, (3,) [m].
        rotation_ee_in_base: Per arm, (3, 3).
        posture: Preferred joint positions, per arm, (n,) [rad].
    """

    channels: ClassVar[tuple[str | Channel, ...]] = ("pose", "joint")
    leaning: ClassVar[tuple[str, ...]] = ("joint",)

    def __init__(
        self, n_arms: int, extra: Sequence[str | Channel] = (), n_joints: Joints = JOINTS
    ) -> None:
        super().__init__(n_arms, extra, n_joints)
        poses = self.data["pose"]
        self.position_ee_in_base: list[Vector] = [data[:3] for data in poses]
        self.rotation_ee_in_base: list[Matrix] = [data[3:].reshape(3, 3) for data in poses]
        self.posture: list[Vector] = [data[:n] for data, n in zip(self.data["joint"], self.joints)]

    def seed(self, states: Sequence[ArmState]) -> None:
        """Take the measured poses and postures over."""
        for arm, state in enumerate(states):
            self.position_ee_in_base[arm][:] = state.position_ee_in_base
            self.rotation_ee_in_base[arm][:] = state.rotation_ee_in_base
            self.posture[arm][:] = state.q

    def displace(self, arm: int, error: Vector) -> None:
        """Move a seeded pose by an error (6,) [m, rad] along and about the axes of the base."""
        self.position_ee_in_base[arm][:] += error[:3]
        self.rotation_ee_in_base[arm][:] = pin.exp3(error[3:]) @ self.rotation_ee_in_base[arm]


class HeldPose(CartesianTarget):
    """A Cartesian target that nobody can write to: the law keeps what it measured."""

    channels: ClassVar[tuple[str | Channel, ...]] = ()
    stored: ClassVar[tuple[str | Channel, ...]] = CartesianTarget.channels


class ReferenceMotion:
    """How a reference pose moves as its goal does, besides where it is.

    Attributes:
        moving: Whether it does; the rest counts only then.
        twist: (6,) [m/s, rad/s].
        acceleration: (6,) [m/s^2, rad/s^2].
    """

    __slots__ = ("acceleration", "moving", "twist")

    def __init__(self) -> None:
        self.moving = False
        self.twist, self.acceleration = np.zeros(6), np.zeros(6)


class MovingCartesianTarget(CartesianTarget):
    """A Cartesian target that may also say how fast to move and how stiff to be.

    Attributes:
        twist_ee_in_base: Per arm, (6,) [m/s, rad/s].
        stiffness: Per arm, (6, 6) [N/m, Nm/rad].
        motion: How a governor moves the pose, per arm.
    """

    channels: ClassVar[tuple[str | Channel, ...]] = ("pose", "joint", "twist", "stiffness")

    def __init__(
        self, n_arms: int, extra: Sequence[str | Channel] = (), n_joints: Joints = JOINTS
    ) -> None:
        super().__init__(n_arms, extra, n_joints)
        self.twist_ee_in_base: list[Vector] = self.data["twist"]
        self.stiffness: list[Matrix] = [data.reshape(6, 6) for data in self.data["stiffness"]]
        self.motion = [ReferenceMotion() for _ in range(n_arms)]

    def clear(self) -> None:
        """Forget everything, at the start of an activation."""
        super().clear()
        for motion in self.motion:
            motion.moving = False


class ForceTarget(CartesianTarget):
    """A Cartesian target, how stiff to be, and the wrench that the tool exerts on the world.

    Attributes:
        stiffness: Per arm, (6, 6) [N/m, Nm/rad].
        wrench_in_base: Force and torque at the tool's point, per arm, (6,) [N, Nm].
    """

    channels: ClassVar[tuple[str | Channel, ...]] = (
        *CartesianTarget.channels,
        "stiffness",
        "wrench",
    )

    def __init__(
        self, n_arms: int, extra: Sequence[str | Channel] = (), n_joints: Joints = JOINTS
    ) -> None:
        super().__init__(n_arms, extra, n_joints)
        self.stiffness: list[Matrix] = [data.reshape(6, 6) for data in self.data["stiffness"]]
        self.wrench_in_base: list[Vector] = self.data["wrench"]


class ObjectTarget(Target):
    """Pose of an object that several arms hold, the force between them, and postures.

    Attributes:
        position_object_in_world: (3,) [m].
        rotation_object_in_world: (3, 3).
        squeeze: Force with which the arms press the object, (1,) [N].
        posture: Preferred joint positions, per arm, (n,) [rad].
    """

    channels: ClassVar[tuple[str | Channel, ...]] = ("object", "squeeze", "joint")
    leaning: ClassVar[tuple[str, ...]] = ("joint",)

    def __init__(
        self, n_arms: int, extra: Sequence[str | Channel] = (), n_joints: Joints = JOINTS
    ) -> None:
        super().__init__(n_arms, extra, n_joints)
        pose = self.data["object"][0]
        self.position_object_in_world: Vector = pose[:3]
        self.rotation_object_in_world: Matrix = pose[3:].reshape(3, 3)
        self.squeeze: Vector = self.data["squeeze"][0]
        self.posture: list[Vector] = [data[:n] for data, n in zip(self.data["joint"], self.joints)]
