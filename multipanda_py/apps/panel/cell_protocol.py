# SPDX-License-Identifier: Apache-2.0
"""Protocols of the cells that a panel can show: one in this process, or one of a ROS node."""

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
class PendingResponse(Protocol):
    """Pending result of a request, which can be polled without waiting."""

    def poll(self) -> object | None:
        """Return the result, or None while it is pending.

        Raises:
            MultipandaError: The request is rejected, or there is no response in time.
        """


class GripperProtocol(Protocol):
    """Gripper of an arm; its methods may return a :class:`PendingResponse`."""

    @property
    def description(self) -> ParallelGripper:
        """Properties of the gripper."""

    def move(self, width: float) -> object:
        """Start to move the fingers to a width [m]."""

    def grasp(self, width: float, *, force: float = ..., epsilon_outer: float = ...) -> object:
        """Start to grasp the object between the fingers; see :meth:`.Gripper.grasp`."""


class CellProtocol(Protocol):
    """Cell that a panel shows; :class:`.Cell` implements and documents these methods.

    No method waits. Requests return a :class:`PendingResponse` if their result comes later, and
    raise an exception if they are rejected at once.

    Thread: the panel's; :meth:`request_hold` any.
    """

    @property
    def config(self) -> CellConfig:
        """Validated cell file."""

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms."""

    @property
    def descriptions(self) -> Mapping[str, ArmDescription]:
        """Descriptions of the arms, by name."""

    @property
    def specs(self) -> list[InstanceSpec]:
        """Specifications of all controllets."""

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the active controllets."""

    def activation_count(self, arm: str) -> int:
        """Return the number of controllet activations on an arm since the start of the cell."""

    def stall_reason(self) -> str:
        """Return the reason why the state of the cell is out of date; empty if it is current."""

    def check(self) -> None:
        """Raise :class:`.LoopError` if the cell has ended."""

    def latest_record(self) -> NDArray[np.void]:
        """Return the record of the newest cycle, for :meth:`.SceneView.show`."""

    def state(self, arm: str) -> ArmSnapshot:
        """Return the state of an arm."""

    def pose(self, arm: str) -> Pose:
        """Return the tool pose of an arm in its base."""

    def statistics(self, cycles: int = ...) -> LoopStatistics:
        """Return timing statistics of the loop over its last ``cycles`` cycles."""

    def events_since(self, count: int) -> tuple[int, list[LoopEvent]]:
        """Return the total number of events, and the events after the first ``count``."""

    def parameters(self, name: str) -> dict[str, Any]:
        """Return the values of a controllet's parameters, by name."""

    def set_parameters(self, name: str, values: Mapping[str, object]) -> object:
        """Change parameters of a controllet, all in the same cycle of the loop."""

    def set_target(self, arm: str, pose: Pose | None = ..., *, frame: str = ...) -> None:
        """Send a target pose of the tool in a frame to the controllet of an arm."""

    def request_switch(
        self,
        activate: Sequence[str] = ...,
        deactivate: Sequence[str] = ...,
        strictness: str = ...,
        timeout: float = ...,
        by: str = ...,
    ) -> PendingResponse:
        """Request a switch of controllets, see :meth:`.Cell.request_switch`."""

    def request_hold(self, *, by: str = ...) -> PendingResponse:
        """Request that all arms brake and hold; ``by`` names the client."""

    def request_recovery(self, arms: Sequence[str] | None = ...) -> object:
        """Request to clear the latched faults of arms; None for all arms."""

    def gripper(self, arm: str) -> GripperProtocol:
        """Return the gripper of an arm."""
