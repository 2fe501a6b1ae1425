# SPDX-License-Identifier: Apache-2.0
"""What a law or feature may know beyond the states it is given each cycle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.parameters import JointVector
from multipanda_py.state import ArmState, Matrix, Vector

if TYPE_CHECKING:
    from multipanda_py.robots import ArmDescription, SceneObject

MOST_NOTICES = 4
"""Notices of one instance in one cycle; more are dropped."""


@dataclass(frozen=True, eq=False)
class Context:
    """The place where an instance works; fixed while the loop runs.

    Attributes:
        period: Cycle time of the loop [s].
        arms: Its own arms, in the order of the states it is given.
        other_arms: The cell's other arms.
        other_states: Their live states, in the same order.
        objects: Things in the scene.
        object_poses: Live poses of the movable ones, in order, (n, 7): position, w x y z. Absent
            ones are parked where nothing else is.
        touches: What the law's hands are for, as :attr:`Controllet.touches` says.
        led: Numbers of own arms that a hand leads, as :attr:`Controllet.led` says.
        touching: Pairs of names that are meant to touch: arms, ``arm/hand``, objects, ``floor``.
        notices: Sentences that the loop has not reported yet; see :meth:`notify`.
    """

    period: float
    arms: tuple[ArmDescription, ...]
    other_arms: tuple[ArmDescription, ...] = ()
    other_states: tuple[ArmState, ...] = ()
    objects: tuple[SceneObject, ...] = ()
    object_poses: Vector = field(default_factory=lambda: np.zeros((0, 7)))
    touches: tuple[str, ...] = ()
    touching: tuple[tuple[str, str], ...] = ()
    led: tuple[int, ...] = ()
    notices: list[str] = field(default_factory=list)

    def notify(self, text: str) -> None:
        """Have the loop report a sentence as an event, after this cycle's update.

        For what a user should know and what is no fault, such as a limit that has begun to act.
        Say it once when it begins, not every cycle: what comes too fast is dropped.

        Raises:
            TypeError: If it is no text.

        Thread: control.
        """
        if not isinstance(text, str):
            raise TypeError(f"notify: got {type(text).__name__}, allowed str")
        if len(self.notices) < MOST_NOTICES:
            self.notices.append(text)

    @property
    def n_arms(self) -> int:
        """Number of its own arms."""
        return len(self.arms)

    @property
    def n_joints(self) -> int:
        """Number of joints of each own arm; for laws that take arms of one number only.

        Raises:
            ConfigurationError: If the own arms have different numbers.
        """
        if len({*self.joints}) > 1:
            found = ", ".join(f"{arm.name} {arm.n_joints}" for arm in self.arms)
            raise ConfigurationError(
                f"number of joints: got {found}, allowed arms of one number here"
            )
        return self.arms[0].n_joints

    @property
    def joints(self) -> tuple[int, ...]:
        """Number of joints of each own arm."""
        return tuple(arm.n_joints for arm in self.arms)

    def joint_zeros(self) -> list[Vector]:
        """Return a vector of zeros for each own arm, (n,)."""
        return [np.zeros(n) for n in self.joints]

    def per_arm(self, value: JointVector) -> tuple[Vector, ...]:
        """Return the value of a :func:`.joint_vector` for each own arm, (n,)."""
        return value if isinstance(value, tuple) else (value,) * self.n_arms

    @property
    def positions_base_in_world(self) -> list[Vector]:
        """Position of each own arm's base, (3,) [m]."""
        return [np.array(arm.position_base_in_world) for arm in self.arms]

    @property
    def rotations_base_in_world(self) -> list[Matrix]:
        """Orientation of each own arm's base, (3, 3)."""
        return [np.array(arm.rotation_base_in_world) for arm in self.arms]

    @classmethod
    def of(cls, period: float, arms: Sequence[ArmDescription]) -> Context:
        """Return the context of arms that are alone in the world."""
        return cls(period, tuple(arms))
