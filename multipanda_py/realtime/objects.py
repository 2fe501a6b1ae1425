# SPDX-License-Identifier: Apache-2.0
"""Objects in the loop: spawn, remove and move them, and attach them to grippers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.backend import Backend
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import bases_in_world, collision_names, movable_objects
from multipanda_py.pose import Pose, quaternion_from_rotation
from multipanda_py.realtime.arm import Arm
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.shared_memory import Mailbox, ObjectRequest, ObjectResult
from multipanda_py.realtime.torque_guard import is_finite
from multipanda_py.state import ArmState, Matrix, Vector

_DONE = (ObjectResult.DONE, 0, 0.0)


class SceneObjects:
    """Handler of requests to spawn, remove or move objects.

    A request is rejected if it would remove an attached object, spawn an object in collision, or
    move an object into an arm. The response contains the obstacle. A move request that needs no
    response is always executed, and an event reports a collision with an arm.

    Args:
        config: Configuration of the cell.
        arms: Arms in the order of the cell.
        backends: Backends of the cell. The backend that simulates the world moves objects.
        mailbox: Shared memory with requests and responses.
        present: Flag of each movable object, 1 if it is in the scene, (n,). This handler updates
            it.

    Attributes:
        backend: Backend that moves objects.
        taken: Number of requests received so far.

    Thread: control.
    """

    def __init__(
        self,
        config: CellConfig,
        arms: Sequence[Arm],
        backends: Sequence[Backend],
        mailbox: Mailbox,
        present: NDArray[np.int64],
    ) -> None:
        self._arms, self._mailbox, self._present = arms, mailbox, present
        self._collision_names, self.taken = collision_names(config), 0
        self._movable = movable_objects(config)
        self.backend = next((b for b in backends if b.provides_time), backends[0])

    def receive(self) -> None:
        """Execute the requests that have arrived since the last call, and respond to them."""
        box = self._mailbox
        for slot, answer in zip(box.entries, box.entry_answers):
            if (record := slot.pop()) is not None:
                self.taken += 1
                answer.write(np.array([slot.last_read, *self.change(record)]))
        for object_index, slot in enumerate(box.placed):
            if (record := slot.pop()) is not None and self._present[object_index]:
                self.taken += 1
                if result := self.backend.find_penetration(record):
                    name = self._movable[object_index]
                    text = f"{name} was moved {1e3 * result[1]:.1f} mm into {result[0]}"
                    self._mailbox.report(Event.NOTICE, time.monotonic_ns(), -1, -1, text)
                self.backend.set_object_pose(record)

    def change(self, record: Vector) -> tuple[ObjectResult, int, float]:
        """Spawn, remove or move an object.

        Args:
            record: Request as numbers, (15,): an :class:`.ObjectRequest`, then the argument of
                :meth:`.Backend.set_object_pose`.

        Returns:
            Result, index of the obstacle in :func:`.collision_names`, and penetration depth [m].
            Index and depth are 0 without an obstacle. For an attached object, the obstacle is its
            arm, and the depth is 0.
        """
        change, obj = ObjectRequest(int(record[0])), int(record[1])
        if (change is ObjectRequest.SPAWN) == bool(self._present[obj]):
            return (
                (ObjectResult.PRESENT if change is ObjectRequest.SPAWN else ObjectResult.ABSENT),
                0,
                0.0,
            )
        if change is ObjectRequest.REMOVE:
            for arm in self._arms:
                if arm.state.attached_object.item() == obj + 1:
                    return ObjectResult.ATTACHED, 1 + arm.index, 0.0
            self.backend.delete_object(obj)
        else:
            spawns, put = change is ObjectRequest.SPAWN, record[1:]
            result = (
                self.backend.spawn_object(put) if spawns else self.backend.find_penetration(put)
            )
            if result:
                return ObjectResult.INSIDE, self._collision_names.index(result[0]), result[1]
            if not spawns:
                self.backend.set_object_pose(put)
        self._present[obj] = change is not ObjectRequest.REMOVE
        return _DONE

    def skip(self) -> None:
        """Discard waiting requests, after a reset of the world."""
        for slot in (*self._mailbox.entries, *self._mailbox.placed):
            slot.skip()


NO_OBJECT_POSITION = np.zeros(3)
"""Position for the payload of an arm without an attached object, whose mass is 0."""
RELEASE_OPENING = 0.005
"""Increase of the finger width after which an attached object is released [m]."""


class AttachedObjects:
    """Objects that are attached to grippers.

    An object is attached by request, or after a successful grasp if the backend identifies the
    object. It is detached by request, when the grasp ends, or when the fingers open. Several
    grippers may hold one object. If no backend measures poses of objects, the loop computes the
    pose of an attached object from that of its gripper.

    Args:
        config: Configuration of the cell.
        arms: Arms in the order of the cell.
        backend_of: Backend of each arm, by index.
        mailbox: Shared memory with requests and events.
        objects: Poses of the movable objects in the world, (n, 7): position [m], quaternion w x y
            z. This class or a backend updates them in place.
        present: Flag of each movable object, 1 if it is in the scene, (n,).

    Thread: control.
    """

    def __init__(
        self,
        config: CellConfig,
        arms: Sequence[Arm],
        backend_of: Mapping[int, Backend],
        mailbox: Mailbox,
        objects: Vector,
        present: NDArray[np.int64],
    ) -> None:
        self._present = present
        self._arms, self._backend_of, self._mailbox = arms, backend_of, mailbox
        self._objects = objects
        self._names = movable_objects(config)
        self._masses = [config.objects[name].mass for name in self._names]
        bases = bases_in_world(config).values()
        self._bases = [(np.array(base.position), np.array(base.rotation)) for base in bases]
        self._is_measured = any(backend.measures_objects for backend in backend_of.values())
        self._grasped = [0] * len(arms)
        # Reading a memory view takes a tenth of the time of reading an array.
        views = [(arm.state.gripper.data, arm.state.attached_object.data) for arm in arms]
        self._words = views if self._names else []
        self._widths = [0.0] * len(arms)
        self._in_tool: dict[int, tuple[Vector, Matrix]] = {}

    def receive(self, now_ns: int) -> None:
        """Attach and detach the objects of new requests."""
        for arm, slot in zip(self._arms, self._mailbox.holds):
            record = slot.pop()
            if record is None:
                continue
            number, is_placed = int(record[0]), bool(record[1])
            if number and not self._present[number - 1]:
                text = f"cannot attach {self._names[number - 1]}: the object is absent"
                self._mailbox.report(Event.NOTICE, now_ns, arm.index, -1, text)
                continue
            self._attach_or_detach(arm, number, now_ns)
            if number and is_placed and not self._is_measured:
                self._in_tool[arm.index] = (
                    record[2:5].copy(),
                    _rotation_from_quaternion(record[5:]),
                )

    def update(self, now_ns: int) -> None:
        """Attach grasped objects, detach released ones, and update the poses of attached objects.

        Poses that a backend measures are not updated.
        """
        for index, (gripper, holds) in enumerate(self._words):
            if gripper[2] != self._grasped[index]:
                self._grasped[index] = gripper[2]
                self._update_after_grasp(self._arms[index], now_ns)
            if holds[()]:
                self._detach_or_carry(self._arms[index], now_ns)

    def _update_after_grasp(self, arm: Arm, now_ns: int) -> None:
        grasped = self._grasped[arm.index]
        result = self._backend_of[arm.index].grasped_object(arm.index) if grasped else 0
        if result != arm.state.attached_object.item() and (result or not grasped):
            self._attach_or_detach(arm, result, now_ns)

    def _detach_or_carry(self, arm: Arm, now_ns: int) -> None:
        index, width = arm.index, _width(arm.state)
        self._widths[index] = min(self._widths[index], width)
        if width > self._widths[index] + RELEASE_OPENING:
            self._attach_or_detach(arm, 0, now_ns)
        elif index in self._in_tool:
            self._carry(arm, *self._in_tool[index])

    def load(self) -> None:
        """Adopt grasps, finger widths and attached objects from the arm states, after a reset."""
        for index, arm in enumerate(self._arms):
            self._grasped[index] = arm.state.gripper.item(2)
            self._widths[index] = _width(arm.state)
        self._distribute_weights()

    def _distribute_weights(self) -> None:
        # Arms that hold the same object carry equal parts of its weight.
        holding = [arm.state.attached_object.item() for arm in self._arms]
        for arm, number in zip(self._arms, holding):
            if arm.gravity is not None:
                mass = self._masses[number - 1] / holding.count(number) if number else 0.0
                arm.gravity.set_grasped_object(
                    mass, self._objects[number - 1, :3] if number else NO_OBJECT_POSITION
                )

    def _attach_or_detach(self, arm: Arm, object_number: int, now_ns: int) -> None:
        before = arm.state.attached_object.item()  # Numbers count from 1; 0 is no object.
        arm.state.attached_object[...] = object_number
        self._widths[arm.index] = _width(arm.state)
        self._in_tool.pop(arm.index, None)
        if object_number and not self._is_measured:
            pose, (position, rotation) = (
                self._objects[object_number - 1],
                self._end_effector_in_world(arm),
            )
            rotation_step = rotation.T
            self._in_tool[arm.index] = (
                rotation_step @ (pose[:3] - position),
                rotation_step @ _rotation_from_quaternion(pose[3:]),
            )
        self._distribute_weights()
        if object_number != before:
            text = (
                f"attached {self._names[object_number - 1]} to its gripper"
                if object_number
                else f"detached {self._names[before - 1]} from its gripper"
            )
            self._mailbox.report(Event.NOTICE, now_ns, arm.index, -1, text)

    def _end_effector_in_world(self, arm: Arm) -> tuple[Vector, Matrix]:
        """Return position [m] and rotation matrix of an arm's end effector in the world."""
        base, rotation = self._bases[arm.index]
        return (
            base + rotation @ arm.state.position_ee_in_base,
            rotation @ arm.state.rotation_ee_in_base,
        )

    def _carry(self, arm: Arm, position_in_tool: Vector, rotation_in_tool: Matrix) -> None:
        position, rotation = self._end_effector_in_world(arm)
        position = position + rotation @ position_in_tool
        if is_finite(position):
            x, y, z, w = quaternion_from_rotation(rotation @ rotation_in_tool)
            self._objects[arm.state.attached_object.item() - 1] = *position, w, x, y, z


def _rotation_from_quaternion(wxyz: Vector) -> Matrix:
    w, *v = wxyz.tolist()
    return np.array(Pose.from_quaternion(np.zeros(3), [*v, w]).rotation)


def _width(state: ArmState) -> float:
    return float(state.finger_positions.item(0) + state.finger_positions.item(1))
