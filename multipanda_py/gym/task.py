# SPDX-License-Identifier: Apache-2.0
"""What is to be learned: a scene, where an episode begins, a reward, and when it is done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from multipanda_py.gym.task_scene import TaskScene
from multipanda_py.pose import Pose
from multipanda_py.state import Vector


class GymTask(ABC):
    """Say what a scene is made of, and what counts in it; one file each.

    Sections are those of a cell file. What differs from episode to episode is drawn in
    :meth:`begin` from the generator that it is given, and from nothing else, so that a seed is an
    episode.

    Attributes:
        arms: Sections of the arms, by name; actions and observations have them in this order.
        objects: Sections of things, by name.
        goal_size: How many numbers :meth:`begin` returns.
        seconds: After which an episode is cut off.
        touching: Parts of the cell file's ``collisions``: pairs that are meant to touch.
        params: Of the law's features, where the usual ones are in the way.
    """

    arms: ClassVar[Mapping[str, Mapping[str, Any]]]
    objects: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    goal_size: ClassVar[int] = 0
    seconds: ClassVar[float] = 10.0
    touching: ClassVar[tuple[str, ...]] = ()
    params: ClassVar[Mapping[str, Any]] = {}

    def begin(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Put things where the episode begins, and return its goal, (goal_size,)."""
        return np.zeros(0)

    @abstractmethod
    def reward(self, scene: TaskScene) -> float:
        """Return how much of the task is done, 0 to 1; smooth enough to be learned from."""

    @abstractmethod
    def is_done(self, scene: TaskScene) -> bool:
        """Return whether the task is done: the episode ends."""

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Return by arm where its tool is to be in the world, and how far its hand open, 0 to 1.

        For demonstrations, and to know that a task can be done; not every task has one.

        Args:
            scene: As it is.
            time: Since the episode's beginning [s].

        Raises:
            NotImplementedError: If the task has none.
        """
        raise NotImplementedError(f"{type(self).__name__} has no expert")


def closeness(distance: float, scale: float) -> float:
    r"""Return 1 where something is, and less the further it is away.

    .. math:: 1 - \tanh(d / s)
    """
    return float(1.0 - np.tanh(distance / scale))
