# SPDX-License-Identifier: Apache-2.0
"""Add, remove and move objects of a simulated scene while the control loop runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.cell.arm_request import describe_withdrawal, wait_or_withdraw
from multipanda_py.cell.connection import Connection
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.config.describe import (
    collision_names,
    first_arm_without_simulation,
    movable_objects,
)
from multipanda_py.exceptions import SimulationRejected, UnknownName
from multipanda_py.pose import Pose
from multipanda_py.realtime.shared_memory import (
    OBJECT_REQUEST_WIDTH,
    ObjectRequest,
    ObjectResult,
)
from multipanda_py.state import Vector

SCENE_CHANGE_TIMEOUT = 2.0
"""Maximum time to wait for the answer of the loop, far longer than it needs [s]."""
ZERO_TWIST = (0.0,) * 6


@dataclass(frozen=True)
class SceneChangeRequest:
    """Handle of a request to add, remove or move an object.

    Attributes:
        object_name: Name of the object.
        change: Kind of change: spawn, remove or move.
        number: Sequence number of the request.
    """

    object_name: str
    change: ObjectRequest
    number: int


class SceneEditor:
    """Add, remove and move objects of the cell file between two cycles.

    The simulated world contains all objects from the start; absent ones have no weight and no
    contacts.

    Thread: owner of the cell.
    """

    def __init__(self, names: CellNames, connection: Connection, reader: StateReader) -> None:
        self._names, self._connection, self._reader = names, connection, reader
        self._movable = movable_objects(names.config)
        self._collision_names = collision_names(names.config)

    @property
    def spawnable(self) -> tuple[str, ...]:
        """Names of the movable objects that are not in the scene."""
        there = self._reader.objects()
        return tuple(name for name in self._movable if name not in there)

    def spawnable_like(self, object_name: str) -> str:
        """Return the name of an absent object that equals a given one except for its pose.

        The result is empty if no such object exists.
        """
        own = self._names.config.objects
        same = {"present": True, "position": [0.0] * 3, "rpy": [0.0] * 3}
        model = own[object_name].model_copy(update=same) if object_name in own else None
        result = (name for name in self.spawnable if own[name].model_copy(update=same) == model)
        return next(result, "")

    def spawn(
        self, object_name: str, pose: Pose | None = None, twist: ArrayLike = ZERO_TWIST
    ) -> None:
        """Add an absent object to the scene.

        Args:
            object_name: Name of an object with a mass in ``objects`` of the cell file.
            pose: Pose in the world; the pose in the cell file by default.
            twist: Linear velocity in the world [m/s], and angular velocity in the axes of the
                object [rad/s], (6,).

        Raises:
            UnknownName: If there is no such movable object.
            SimulationRejected: If the object is present already, pose or twist are invalid, an arm
                is not simulated, or the object would overlap a body by more than 1 mm.
            LoopTimeout: If the loop did not answer in time.
        """
        self._change(object_name, self._entry(object_name, pose, twist))

    def delete(self, object_name: str) -> None:
        """Remove an object from the scene. Objects on top of it fall.

        Raises:
            UnknownName: If there is no such movable object.
            SimulationRejected: If the object is absent, a gripper holds it, or an arm is not
                simulated.
            LoopTimeout: If the loop did not answer in time.
        """
        self._change(object_name, self._exit(object_name))

    def request_spawn(
        self, object_name: str, pose: Pose | None = None, twist: ArrayLike = ZERO_TWIST
    ) -> SceneChangeRequest:
        """Request :meth:`spawn` without waiting for the answer. See :meth:`answer`."""
        return self._ask(object_name, self._entry(object_name, pose, twist))

    def request_delete(self, object_name: str) -> SceneChangeRequest:
        """Request :meth:`delete` without waiting for the answer. See :meth:`answer`."""
        return self._ask(object_name, self._exit(object_name))

    def request_object_pose(
        self, object_name: str, pose: Pose, twist: ArrayLike = ZERO_TWIST
    ) -> SceneChangeRequest:
        """Request to move a present object without waiting. See :meth:`answer`.

        The loop refuses a pose that overlaps an arm by more than 1 mm.

        Args:
            object_name: Name of the object.
            pose: New pose in the world.
            twist: New twist, as for :meth:`spawn`, (6,) [m/s, rad/s].
        """
        return self._ask(object_name, self._entry(object_name, pose, twist, ObjectRequest.MOVE))

    def answer(self, request: SceneChangeRequest) -> bool:
        """Return True once the request is executed, False before.

        Raises:
            SimulationRejected: If the loop refused the request, or a newer request replaced it.
        """
        index = self._movable.index(request.object_name)
        answer = self._connection.mailbox.entry_answers[index].newest()
        if answer is None or answer[0] < request.number:
            return False
        if answer[0] > request.number:
            raise SimulationRejected(
                f"{request.object_name}: a newer request has replaced this one"
            )
        self._raise_if_refused(request.object_name, request.change, answer[1:])
        is_there = request.object_name in self._reader.objects()
        # The newest cycle, which the caller may read next, must show the change.
        return is_there == (request.change is not ObjectRequest.REMOVE)

    def cancel(self, request: SceneChangeRequest) -> str:
        """Cancel a request, unless the loop has received it; return the outcome as text."""
        slot = self._connection.mailbox.entries[self._movable.index(request.object_name)]
        change_name = request.change.name.lower()
        return describe_withdrawal(self._connection.withdraw(slot, request.number, change_name))

    def _change(self, object_name: str, record: Vector) -> None:
        if self._names.config.cell.placement == "inline":
            answer = self._connection.loop.change_object(record)
            self._raise_if_refused(object_name, ObjectRequest(int(record[0])), np.array(answer))
            return
        request = self._ask(object_name, record)
        wait_or_withdraw(
            self._connection,
            lambda: self.answer(request) or None,
            lambda: self.cancel(request),
            SCENE_CHANGE_TIMEOUT,
            f"the answer to the request for {object_name}",
        )

    def _ask(self, object_name: str, record: Vector) -> SceneChangeRequest:
        slot = self._connection.mailbox.entries[self._movable.index(object_name)]
        return SceneChangeRequest(
            object_name, ObjectRequest(int(record[0])), self._connection.post(slot, record)
        )

    def _entry(
        self,
        object_name: str,
        pose: Pose | None,
        twist: ArrayLike,
        change: ObjectRequest = ObjectRequest.SPAWN,
    ) -> Vector:
        self._check(change, object_name)
        own = self._names.config.objects[object_name]
        object_pose = Pose.from_rpy(own.position, own.rpy) if pose is None else pose
        if not isinstance(object_pose, Pose):
            raise SimulationRejected(f"{object_name}: pose: got {pose!r:.60}, allowed a Pose")
        motion = checked_twist(object_name, twist)
        index = self._movable.index(object_name)
        return np.array(
            [change, index, *object_pose.position, *object_pose.quaternion_xyzw, *motion]
        )

    def _exit(self, object_name: str) -> Vector:
        self._check(ObjectRequest.REMOVE, object_name)
        record = np.zeros(OBJECT_REQUEST_WIDTH)
        record[1] = self._movable.index(object_name)
        return record

    def _check(self, change: ObjectRequest, object_name: str) -> None:
        change_name = change.name.lower()
        if real := first_arm_without_simulation(self._names.config):
            raise SimulationRejected(f"{change_name}: got {real}, allowed simulated arms only")
        if object_name not in self._movable:
            raise UnknownName("movable object", object_name, tuple(self._movable))

    def _raise_if_refused(self, object_name: str, change: ObjectRequest, answer: Vector) -> None:
        change_name = change.name.lower()
        outcome, other = ObjectResult(int(answer[0])), self._collision_names[int(answer[1])]
        if outcome is ObjectResult.PRESENT:
            raise SimulationRejected(
                f"spawn: {object_name} is already in the scene. Absent objects: "
                f"{', '.join(self.spawnable) or 'there are none'}"
            )
        if outcome is ObjectResult.ABSENT:
            hint = "" if change is ObjectRequest.REMOVE else ". Spawn it first"
            raise SimulationRejected(f"{change_name}: {object_name} is not in the scene{hint}")
        if outcome is ObjectResult.ATTACHED:
            raise SimulationRejected(
                f"remove: {object_name} is held by {other}. Open the gripper, or detach the "
                "object first"
            )
        if outcome is ObjectResult.INSIDE:
            raise SimulationRejected(
                f"{change_name}: {object_name} would overlap {other}: got {1e3 * answer[2]:.1f} "
                "mm, allowed 1 mm"
            )


def checked_twist(object_name: str, twist: ArrayLike) -> Vector:
    """Check the twist of an object and return it, (6,) [m/s, rad/s].

    Raises:
        SimulationRejected: If the twist does not consist of 6 finite numbers.
    """
    try:
        motion = np.array(twist, dtype=np.float64)
    except (TypeError, ValueError):
        motion = np.zeros(0)
    if motion.shape != (6,) or not np.isfinite(motion).all():
        got = motion.tolist() if motion.size else twist
        raise SimulationRejected(
            f"{object_name}: twist: got {got!r:.60}, allowed 6 finite numbers"
        )
    return motion
