# SPDX-License-Identifier: Apache-2.0
"""Grippers of a cell, and objects attached to them.

Collision avoidance and planning treat an attached object as a part of the gripper.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from multipanda_py.backend import Backend
from multipanda_py.cell.arm_request import LOOP_TIMEOUT, describe_withdrawal, wait_or_withdraw
from multipanda_py.cell.connection import Connection, Counts
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.config.backend_section import find_backend
from multipanda_py.config.describe import bases_in_world, movable_objects
from multipanda_py.exceptions import AttachmentRejected, ConfigurationError, UnknownName
from multipanda_py.pose import Pose
from multipanda_py.realtime.shared_memory import ATTACH_WIDTH, SeqlockBuffer
from multipanda_py.robots.gripper import (
    Action,
    Gripper,
    GripperCommand,
    GripperMotion,
    GripperResult,
    GripperState,
    Outcome,
)
from multipanda_py.robots.parallel_gripper import ParallelGripper
from multipanda_py.state import Vector

MAX_ATTACH_DISTANCE = 0.3
"""Maximum distance between the tool and the centre of an object, if the request names none [m]. An
arm whose payload the loop compensates has a limit for named objects too, from the tool to their
nearest part."""
HOLDING_TIMEOUT = 2.0
"""Maximum time to wait for the answer of the loop, far longer than it needs [s]."""


class LoopGripper(Gripper):
    """Gripper that the control loop moves, for example a simulated one.

    A command, even a stop, is withdrawn if the loop does not receive it within
    :data:`.LOOP_TIMEOUT`.
    """

    def __init__(
        self,
        arm: str,
        index: int,
        connection: Connection,
        reader: StateReader,
        description: ParallelGripper,
    ) -> None:
        super().__init__(arm, description)
        self._index, self._connection, self._reader = index, connection, reader
        self._motion: GripperMotion | None = None

    def state(self) -> GripperState:
        """Return the state of the gripper in the newest cycle."""
        _, _, held, width = self._reader.gripper_answer(self.arm)
        motion = self._motion
        is_moving = not (motion is None or motion.done)
        return GripperState(width, self.description.max_width, held, is_moving)

    def start(self, command: GripperCommand) -> GripperMotion:
        """Abort the running motion and send a command to the loop."""
        connection = self._connection
        with connection.lock:
            self.end_motion(f"ended by {command}")
            slot = connection.mailbox.grippers[self._index]
            number = connection.post(slot, np.array(command.record))
            since = time.monotonic()
            self._motion = GripperMotion(
                command, lambda: self._poll(command, number, since), connection.wait
            )
            return self._motion

    def end_motion(self, reason: str) -> None:
        """Abort the running motion, if any: its result becomes ``ABORTED``."""
        if self._motion is not None:
            text = f"{self._motion.command}: {reason}"
            self._motion.end(GripperResult(Outcome.ABORTED, self.state().width, text))

    def _poll(self, command: GripperCommand, number: int, since: float) -> GripperResult | None:
        started, outcome, held, width = self._reader.gripper_answer(self.arm)
        if started != number or outcome is Outcome.MOVING:
            is_late = (
                time.monotonic() - since > LOOP_TIMEOUT
                and self._connection.cycle_age() > LOOP_TIMEOUT
            )
            return self._withdraw_unanswered(command, number, width) if is_late else None
        text = f"{command}: {outcome.name.lower()} at {width:.4f} m"
        if command.action is Action.GRASP:
            text += ", an object is held" if held else ", nothing is held"
        return GripperResult(outcome, width, text)

    def _withdraw_unanswered(
        self, command: GripperCommand, number: int, width: float
    ) -> GripperResult:
        connection = self._connection
        slot = connection.mailbox.grippers[self._index]
        done = describe_withdrawal(connection.withdraw(slot, number, "gripper"))
        reason = self._reader.stall_reason() or "the loop does not run"
        text = f"{command}: {reason}; {done}"
        return GripperResult(Outcome.FAILED, width, text)


class Grippers:
    """Handles of the grippers of a cell."""

    def __init__(self, names: CellNames, connection: Connection, reader: StateReader) -> None:
        self._names, self._connection, self._reader = names, connection, reader
        self._grippers: dict[str, Gripper] = {}

    def gripper(self, arm: str) -> Gripper:
        """Return the handle of the gripper of an arm, always the same object.

        Raises:
            UnknownName: If there is no such arm.
            ConfigurationError: If the arm has no gripper.
            LoopError: If the gripper is a real one, and the cell is not started.
        """
        name = self._names.arms[self._names.arm_index(arm)]
        description = self._names.descriptions[name].gripper
        if description is None:
            raise ConfigurationError(
                f"{arm}: has no gripper, because the cell file has arms.{arm}.gripper: false"
            )
        with self._connection.lock:
            if arm not in self._grippers:
                self._grippers[arm] = self._make(arm, description)
            return self._grippers[arm]

    def _make(self, arm: str, description: ParallelGripper) -> Gripper:
        config, connection = self._names.arm_config(arm), self._connection

        def publish(width: float, is_grasped: bool) -> None:
            record = np.array([Action.MEASURED, width, is_grasped, 0.0, 0.0, 0.0])
            connection.post(connection.mailbox.grippers[self._names.arm_index(arm)], record)

        backend: type[Backend[Any]] = find_backend(config.backend)
        gripper = backend.make_gripper(arm, config, publish, connection.check)
        if gripper is None:
            index = self._names.arm_index(arm)
            gripper = LoopGripper(arm, index, connection, self._reader, description)
        gripper.stall_reason = self._reader.stall_reason
        return gripper

    def connect(self) -> None:
        """Create the handles of all grippers and start the processes of real ones."""
        for arm, config in self._names.config.arms.items():
            if config.gripper:
                self.gripper(arm)

    def end_motions(self, reason: str) -> None:
        """Abort running motions of simulated grippers: their result becomes ``ABORTED``."""
        for gripper in self._grippers.values():
            if isinstance(gripper, LoopGripper):
                gripper.end_motion(reason)

    def close(self) -> None:
        """Disconnect from all grippers without moving them. It is safe to call this twice."""
        for gripper in self._grippers.values():
            gripper.close()
        self._grippers.clear()


@dataclass(frozen=True)
class AttachmentRequest:
    """Handle of a request to attach or detach an object.

    Attributes:
        arm: Name of the arm.
        object_name: Name of the object; empty to detach from an arm without an object.
        object_number: Index of the object to attach, from 1; 0 to detach.
        number: Sequence number of the request.
    """

    arm: str
    object_name: str
    object_number: int
    number: int


class Attachments:
    """Attach movable objects to grippers, and detach them."""

    def __init__(
        self, names: CellNames, connection: Connection, reader: StateReader, counts: Counts
    ) -> None:
        self._names, self._connection = names, connection
        self._reader, self._counts = reader, counts
        self._movable = movable_objects(names.config)

    def attached_objects(self) -> dict[str, str]:
        """Return the names of the attached objects, by arm."""
        numbers = self._reader.latest_record()["arms"]["attached_object"].tolist()
        return {
            arm: self._movable[number - 1]
            for arm, number in zip(self._names.arms, numbers)
            if number
        }

    def attach(self, arm: str, object_name: str = "", pose_in_tool: Pose | None = None) -> str:
        """Attach an object to the gripper of an arm.

        Collision avoidance and planning then treat it as a part of the gripper. The attachment
        ends with :meth:`detach`, with the end of the grasp, or when the finger width increases by
        5 mm. A simulated grasp attaches its object automatically.

        Args:
            arm: Name of the arm.
            object_name: Name of an object with a mass in ``objects`` of the cell file; the nearest
                object by default.
            pose_in_tool: Pose of the object in the tool frame; its present pose by default.
                Simulated cells allow only the default.

        Returns:
            Name of the attached object.

        Raises:
            AttachmentRejected: If the object does not exist or is farther from the tool than
                :data:`MAX_ATTACH_DISTANCE`. Also if ``pose_in_tool`` is not allowed, or a newer
                request replaced this one.
            LoopTimeout: If the loop did not answer in time.
        """
        request = self.request_attach(arm, object_name, pose_in_tool)
        self._await(request)
        return request.object_name

    def detach(self, arm: str) -> str:
        """Treat the attached object of an arm as a separate object at its present pose.

        Returns:
            Name of the detached object; empty without an attached object.

        Raises:
            AttachmentRejected: If a newer request has replaced this one.
            LoopTimeout: If the loop did not answer in time.
        """
        request = self.request_detach(arm)
        self._await(request)
        return request.object_name

    def request_attach(
        self, arm: str, object_name: str = "", pose_in_tool: Pose | None = None
    ) -> AttachmentRequest:
        """Request :meth:`attach` without waiting for the answer. See :meth:`answer`."""
        try:
            chosen = self._check(object_name) if object_name else self._nearest_object(arm)
            if pose_in_tool is not None and self._is_measured():
                raise AttachmentRejected(
                    f"{arm}: pose_in_tool: the simulation measures the pose of {chosen} in a "
                    "cell with simulated arms. Omit pose_in_tool"
                )
            self._check_object_near_tool(arm, chosen, pose_in_tool)
        except AttachmentRejected:
            self._counts.rejected[f"{arm} attach"] += 1
            raise
        record = np.zeros(ATTACH_WIDTH)
        record[0] = self._movable.index(chosen) + 1
        if pose_in_tool is not None:
            x, y, z, w = pose_in_tool.quaternion_xyzw.tolist()
            record[1:] = 1.0, *pose_in_tool.position, w, x, y, z
        return self._ask(arm, chosen, record)

    def request_detach(self, arm: str) -> AttachmentRequest:
        """Request :meth:`detach` without waiting for the answer. See :meth:`answer`."""
        return self._ask(arm, self.attached_objects().get(arm, ""), np.zeros(ATTACH_WIDTH))

    def answer(self, request: AttachmentRequest) -> bool:
        """Return True once the object is attached or detached, False before.

        Raises:
            AttachmentRejected: If a newer request has replaced this one.
        """
        slot, arm = self._slot(request.arm), self._names.arm_index(request.arm)
        holds = int(self._reader.latest_record()["arms"]["attached_object"][arm])
        if slot.taken >= request.number and holds == request.object_number:
            return True
        if slot.written > request.number:  # The loop executes only the newest request.
            raise AttachmentRejected(
                f"{request.arm}: a newer attach or detach request has replaced this one"
            )
        return False

    def cancel(self, request: AttachmentRequest) -> str:
        """Cancel a request, unless the loop has received it; return the outcome as text."""
        slot = self._slot(request.arm)
        return describe_withdrawal(self._connection.withdraw(slot, request.number, "attach"))

    def _ask(self, arm: str, object_name: str, record: Vector) -> AttachmentRequest:
        number = self._connection.post(self._slot(arm), record)
        return AttachmentRequest(arm, object_name, int(record[0]), number)

    def _await(self, request: AttachmentRequest) -> None:
        wait_or_withdraw(
            self._connection,
            lambda: self.answer(request) or None,
            lambda: self.cancel(request),
            HOLDING_TIMEOUT,
            f"the answer to the attach or detach request of {request.arm}",
        )

    def _slot(self, arm: str) -> SeqlockBuffer:
        return self._connection.mailbox.holds[self._names.arm_index(arm)]

    def _check(self, object_name: str) -> str:
        if object_name in self._movable:
            if object_name not in self._reader.objects():
                raise AttachmentRejected(
                    f"{object_name} is absent. Attach an object that is in the scene"
                )
            return object_name
        if object_name in self._names.config.objects:
            raise AttachmentRejected(
                f"{object_name} is fixed, because its mass is 0 (objects.{object_name}.mass). "
                "Attach an object with a mass"
            )
        raise AttachmentRejected(str(UnknownName("object", object_name, self._movable)))

    def _nearest_object(self, arm: str) -> str:
        tool = bases_in_world(self._names.config)[arm] @ self._reader.pose(arm)
        far = {name: pose.distance(tool)[0] for name, pose in self._reader.objects().items()}
        if not far:
            raise AttachmentRejected(
                f"{arm}: the scene has no object with a mass, which can be attached"
            )
        nearest = min(far, key=lambda name: far[name])
        if far[nearest] > MAX_ATTACH_DISTANCE:
            raise AttachmentRejected(
                f"{arm}: the nearest object, {nearest}, is {far[nearest]:.2f} m from the tool, "
                f"allowed {MAX_ATTACH_DISTANCE:g} m. Attach it by its name"
            )
        return nearest

    def _check_object_near_tool(
        self, arm: str, object_name: str, pose_in_tool: Pose | None
    ) -> None:
        config = self._names.config
        if self._names.arm_config(arm).compensates_gravity:
            return  # The loop does not compensate the weight of the object.
        if pose_in_tool is None:
            tool = bases_in_world(config)[arm] @ self._reader.pose(arm)
            far = self._reader.objects()[object_name].distance(tool)[0]
        else:
            far = float(np.linalg.norm(pose_in_tool.position))
        size = sum(config.objects[object_name].size)
        if far - size > MAX_ATTACH_DISTANCE:
            raise AttachmentRejected(
                f"{arm}: {object_name} is {far:.2f} m from the tool, allowed "
                f"{size + MAX_ATTACH_DISTANCE:.2f} m. Move the tool closer. The loop compensates "
                f"the payload of {arm} (compensates_gravity: false), so a weight that the gripper "
                "does not carry would lift the arm"
            )

    def _is_measured(self) -> bool:
        arms = self._names.config.arms.values()
        return any(find_backend(arm.backend).measures_objects for arm in arms)
