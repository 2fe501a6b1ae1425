# SPDX-License-Identifier: Apache-2.0
"""Attach movable objects to the grippers of a cell, and detach them.

Collision avoidance and planning treat an attached object as a part of the gripper.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.cell.arm_request import describe_withdrawal, wait_or_withdraw
from multipanda_py.cell.connection import Connection, Counts
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.config.backend_section import find_backend
from multipanda_py.config.describe import bases_in_world, movable_objects
from multipanda_py.exceptions import HoldingRejected, UnknownName
from multipanda_py.pose import Pose
from multipanda_py.realtime.shared_memory import ATTACH_WIDTH, SeqlockBuffer
from multipanda_py.state import Vector

MAX_ATTACH_DISTANCE = 0.3
"""Maximum distance between the tool and the centre of an object that is attached without a name
[m]. For an arm whose payload the loop compensates, the limit applies to the nearest part of any
object."""
HOLDING_TIMEOUT = 2.0
"""Maximum time to wait for the answer of the loop, far longer than it needs [s]."""


@dataclass(frozen=True)
class HoldingRequest:
    """Handle of a request to attach or detach an object.

    Attributes:
        arm: Name of the arm.
        thing: Name of the object to attach or detach. Empty if there is none.
        object_number: Number of the object that the arm is to hold, 0 for none.
        number: Sequence number of the request record.
    """

    arm: str
    thing: str
    object_number: int
    number: int


class Attachments:
    """Attach movable objects to grippers, and detach them.

    Args:
        names: Names of arms and controllets of the cell.
        connection: Connection to the control loop.
        reader: State reader of the cell.
        counts: Counters of rejected requests.
    """

    def __init__(
        self, names: CellNames, connection: Connection, reader: StateReader, counts: Counts
    ) -> None:
        self._names, self._connection = names, connection
        self._reader, self._counts = reader, counts
        self._movable = movable_objects(names.config)

    def held(self) -> dict[str, str]:
        """Return the names of the attached objects, by arm."""
        numbers = self._reader.row()["arms"]["attached_object"].tolist()
        return {
            arm: self._movable[number - 1]
            for arm, number in zip(self._names.arms, numbers)
            if number
        }

    def attach(self, arm: str, thing: str = "", pose_in_tool: Pose | None = None) -> str:
        """Treat a movable object as a part of a gripper from now on.

        The object moves with the gripper, and collision avoidance treats it like the gripper. It
        is therefore no longer kept away from its own arm. Several grippers may hold the same
        object. In simulation, a grasp attaches the object automatically. The attachment ends with
        :meth:`detach`, with the end of the grasp, or when the fingers open by 5 mm.

        Args:
            arm: Name of the arm.
            thing: Name of an object with a mass in ``objects`` of the cell file. If empty, the
                nearest object is used.
            pose_in_tool: Pose of the object in the tool frame. By default its present pose.
                Allowed only in cells without simulated arms, where object poses are not measured.

        Returns:
            Name of the attached object.

        Raises:
            HoldingRejected: If there is no such object, a newer request has replaced this one, or
                ``pose_in_tool`` was given although poses are measured. Also if the object is out
                of reach of an arm whose payload the loop compensates.
            LoopTimeout: If the loop did not answer in time.
        """
        request = self.ask_attach(arm, thing, pose_in_tool)
        self._await(request)
        return request.thing

    def detach(self, arm: str) -> str:
        """Treat the attached object of an arm as an object of the scene again.

        The object stays at its present pose.

        Returns:
            Name of the detached object, empty if there was none.

        Raises:
            HoldingRejected: If a newer request has replaced this one.
            LoopTimeout: If the loop did not answer in time.
        """
        request = self.ask_detach(arm)
        self._await(request)
        return request.thing

    def ask_attach(
        self, arm: str, thing: str = "", pose_in_tool: Pose | None = None
    ) -> HoldingRequest:
        """Request :meth:`attach` without waiting for the answer. See :meth:`answer`."""
        try:
            chosen = self._check(thing) if thing else self._nearest(arm)
            if pose_in_tool is not None and self._is_measured():
                raise HoldingRejected(
                    f"{arm}: pose_in_tool: the simulation measures the pose of {chosen} in a "
                    "cell with simulated arms. Omit pose_in_tool"
                )
            self._check_object_present(arm, chosen, pose_in_tool)
        except HoldingRejected:
            self._counts.rejected[f"{arm} attach"] += 1
            raise
        record = np.zeros(ATTACH_WIDTH)
        record[0] = self._movable.index(chosen) + 1
        if pose_in_tool is not None:
            x, y, z, w = pose_in_tool.quaternion_xyzw.tolist()
            record[1:] = 1.0, *pose_in_tool.position, w, x, y, z
        return self._ask(arm, chosen, record)

    def ask_detach(self, arm: str) -> HoldingRequest:
        """Request :meth:`detach` without waiting for the answer. See :meth:`answer`."""
        return self._ask(arm, self.held().get(arm, ""), np.zeros(ATTACH_WIDTH))

    def answer(self, request: HoldingRequest) -> bool:
        """Return True if the request has been executed.

        Raises:
            HoldingRejected: If a newer request has replaced this one.
        """
        slot, arm = self._slot(request.arm), self._names.arm_index(request.arm)
        holds = int(self._reader.row()["arms"]["attached_object"][arm])
        if slot.taken >= request.number and holds == request.object_number:
            return True
        if slot.written > request.number:  # The loop will execute only the newer request.
            raise HoldingRejected(
                f"{request.arm}: a newer attach or detach request has replaced this one"
            )
        return False

    def withdraw(self, request: HoldingRequest) -> str:
        """Withdraw a request; return a text stating whether it may still be executed."""
        slot = self._slot(request.arm)
        return describe_withdrawal(self._connection.withdraw(slot, request.number, "attach"))

    def _ask(self, arm: str, object_name: str, record: Vector) -> HoldingRequest:
        number = self._connection.post(self._slot(arm), record)
        return HoldingRequest(arm, object_name, int(record[0]), number)

    def _await(self, request: HoldingRequest) -> None:
        wait_or_withdraw(
            self._connection,
            lambda: self.answer(request) or None,
            lambda: self.withdraw(request),
            HOLDING_TIMEOUT,
            f"the answer to the attach or detach request of {request.arm}",
        )

    def _slot(self, arm: str) -> SeqlockBuffer:
        return self._connection.mailbox.holds[self._names.arm_index(arm)]

    def _check(self, object_name: str) -> str:
        if object_name in self._movable:
            if object_name not in self._reader.objects():
                raise HoldingRejected(
                    f"{object_name} is absent. Attach an object that is in the scene"
                )
            return object_name
        if object_name in self._names.config.objects:
            raise HoldingRejected(
                f"{object_name} is fixed, because its mass is 0 (objects.{object_name}.mass). "
                f"Attach an "
                "object with a mass"
            )
        raise HoldingRejected(str(UnknownName("thing", object_name, self._movable)))

    def _nearest(self, arm: str) -> str:
        """Return the movable object whose centre is nearest to the tool of an arm."""
        tool = bases_in_world(self._names.config)[arm] @ self._reader.pose(arm)
        far = {name: pose.distance(tool)[0] for name, pose in self._reader.objects().items()}
        if not far:
            raise HoldingRejected(f"{arm}: the cell file has no object with a mass (objects)")
        nearest = min(far, key=lambda name: far[name])
        if far[nearest] > MAX_ATTACH_DISTANCE:
            raise HoldingRejected(
                f"{arm}: the nearest object, {nearest}, is {far[nearest]:.2f} m from the tool, "
                f"allowed {MAX_ATTACH_DISTANCE:g} m. Attach it by its name"
            )
        return nearest

    def _check_object_present(self, arm: str, object_name: str, pose_in_tool: Pose | None) -> None:
        """Refuse an object out of reach: compensating its weight would lift the arm."""
        config = self._names.config
        if self._names.arm_config(arm).compensates_gravity:
            return
        if pose_in_tool is None:
            tool = bases_in_world(config)[arm] @ self._reader.pose(arm)
            far = self._reader.objects()[object_name].distance(tool)[0]
        else:
            far = float(np.linalg.norm(pose_in_tool.position))
        size = sum(config.objects[object_name].size)
        if far - size > MAX_ATTACH_DISTANCE:
            raise HoldingRejected(
                f"{arm}: {object_name} is {far:.2f} m from the tool, allowed "
                f"{size + MAX_ATTACH_DISTANCE:.2f} m. "
                f"The loop compensates the payload of {arm} (compensates_gravity: false), and "
                "the weight of an object out of reach would lift the arm"
            )

    def _is_measured(self) -> bool:
        arms = self._names.config.arms.values()
        return any(find_backend(arm.backend).measures_objects for arm in arms)
