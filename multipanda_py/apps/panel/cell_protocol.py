# SPDX-License-Identifier: Apache-2.0
"""What a panel asks of what it shows: a cell of its own process, or a node that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.pose import Pose
from multipanda_py.realtime.events import LoopEvent
from multipanda_py.realtime.timing import LoopStatistics
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.parallel_gripper import ParallelGripper
from multipanda_py.state import ArmSnapshot


@runtime_checkable
class Answer(Protocol):
    """What was asked for and is not answered yet. Nothing in it waits."""

    def look(self) -> object | None:
        """Return the answer, or None while there is none.

        Raises:
            MultipandaError: If it was refused, or no answer came in time.
        """


class ServedHand(Protocol):
    """The hand of an arm; what its methods return may be an :class:`Answer`."""

    @property
    def description(self) -> ParallelGripper:
        """What it can do."""

    def move(self, width: float) -> object:
        """Begin to take the fingers to a width [m]."""

    def grasp(self, width: float, *, force: float = ..., epsilon_outer: float = ...) -> object:
        """Begin to close them on whatever is there: see :meth:`.Gripper.grasp`."""


class Served(Protocol):
    """A cell as a panel knows it: :class:`.Cell` is one, and says what each of these does.

    Everything returns at once. Where the answer of what is asked for comes later, an
    :class:`Answer` is returned; a refusal that is known at once is raised.

    Thread: the panel's; :meth:`ask_hold` any.
    """

    @property
    def config(self) -> CellConfig:
        """The checked cell file."""

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of its arms."""

    @property
    def descriptions(self) -> Mapping[str, ArmDescription]:
        """What its arms are."""

    @property
    def specs(self) -> list[InstanceSpec]:
        """All instances of laws."""

    @property
    def active(self) -> tuple[str, ...]:
        """Names of those that are active."""

    def beginnings(self, arm: str) -> int:
        """Return how often a law has begun on an arm, as far as is known."""

    def silence_reason(self) -> str:
        """Say why what is known of it is of the past; empty if it is not."""

    def check(self) -> None:
        """Raise :class:`.LoopError` if there is nothing to show any more."""

    def row(self) -> NDArray[np.void]:
        """Return where everything is, as :meth:`.SceneView.show` takes it."""

    def state(self, arm: str) -> ArmSnapshot:
        """Return what an arm does."""

    def pose(self, arm: str) -> Pose:
        """Return where its tool is, in its base."""

    def statistics(self, cycles: int = ...) -> LoopStatistics:
        """Return how the loop keeps its time."""

    def events_since(self, count: int) -> tuple[int, list[LoopEvent]]:
        """Return how many events there were, and those after the first ``count``."""

    def parameters(self, name: str) -> dict[str, Any]:
        """Return the parameters of an instance."""

    def set_parameters(self, name: str, values: Mapping[str, object]) -> object:
        """Change some of them."""

    def set_target(self, arm: str, pose: Pose | None = ..., *, frame: str = ...) -> None:
        """Give an arm's law a pose for its tool."""

    def ask_switch(
        self,
        activate: Sequence[str] = ...,
        deactivate: Sequence[str] = ...,
        strictness: str = ...,
        timeout: float = ...,
        by: str = ...,
    ) -> Answer:
        """Ask for other laws; strictness as in :class:`.Strictness`; ``by`` names the client."""

    def ask_hold(self, *, by: str = ...) -> Answer:
        """Have every arm brake and hold."""

    def ask_recovery(self, arms: Sequence[str] | None = ...) -> object:
        """Clear latched faults."""

    def gripper(self, arm: str) -> ServedHand:
        """Return the hand of an arm that has one."""
