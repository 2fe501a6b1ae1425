# SPDX-License-Identifier: Apache-2.0
"""What a user asks of an active controllet.

A target arrives through *channels*: fixed-width vectors that carry one kind of
request for one arm. A target type names the channels it listens to and gives
them readable views. The loop refills the views in place, so a law simply reads
``target.position_ee_in_base[arm]``.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from multipanda_py.state import JOINTS, Matrix, Vector

CHANNELS: dict[str, int] = {
    "pose": 12,  # position (3) [m], rotation matrix row by row (9), of the tool in the arm's base
    "joint": 14,  # positions (7) [rad], velocities (7) [rad/s]
}
"""Width of every channel, in floats."""


class Target:
    """Base of the target types: storage per channel and arm.

    Args:
        n_arms: Number of arms of the controllet.
    """

    channels: ClassVar[tuple[str, ...]] = ()
    """Channels that users may write to, in the order of their records."""
    stored: ClassVar[tuple[str, ...]] = ()
    """Channels that the law needs, written to by users or only at activation."""

    def __init__(self, n_arms: int) -> None:
        names = dict.fromkeys((*self.channels, *self.stored))
        self.data: dict[str, list[Vector]] = {
            name: [np.zeros(CHANNELS[name]) for _ in range(n_arms)] for name in names
        }


class JointTarget(Target):
    """Joint positions and velocities for every arm.

    Attributes:
        q: Per arm, (7,) [rad].
        dq: Per arm, (7,) [rad/s].
    """

    channels: ClassVar[tuple[str, ...]] = ("joint",)

    def __init__(self, n_arms: int) -> None:
        super().__init__(n_arms)
        self.q: list[Vector] = [data[:JOINTS] for data in self.data["joint"]]
        self.dq: list[Vector] = [data[JOINTS:] for data in self.data["joint"]]


class HeldPosture(JointTarget):
    """A joint target that nobody can write to: what was measured at activation."""

    channels: ClassVar[tuple[str, ...]] = ()
    stored: ClassVar[tuple[str, ...]] = ("joint",)


class CartesianTarget(Target):
    """Tool pose in the arm's base, and the posture that the nullspace prefers.

    Attributes:
        position_ee_in_base: Per arm, (3,) [m].
        rotation_ee_in_base: Per arm, (3, 3).
        posture: Preferred joint positions, per arm, (7,) [rad].
    """

    channels: ClassVar[tuple[str, ...]] = ("pose", "joint")

    def __init__(self, n_arms: int) -> None:
        super().__init__(n_arms)
        poses = self.data["pose"]
        self.position_ee_in_base: list[Vector] = [data[:3] for data in poses]
        self.rotation_ee_in_base: list[Matrix] = [data[3:].reshape(3, 3) for data in poses]
        self.posture: list[Vector] = [data[:JOINTS] for data in self.data["joint"]]
        for rotation in self.rotation_ee_in_base:
            rotation[:] = np.eye(3)
