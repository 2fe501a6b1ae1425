# SPDX-License-Identifier: Apache-2.0
"""What the hands of a cell hold: attached by request or by a grasp, let go of when they open."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.backend import Backend
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import bases_in_world, movable_things, surroundings
from multipanda_py.pose import Pose, quaternion_from_rotation
from multipanda_py.realtime.arm import Arm
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.safety import is_finite
from multipanda_py.realtime.shared_memory import Change, Entry, Mailbox
from multipanda_py.state import ArmState, Matrix, Vector

_DONE = (Entry.DONE, 0, 0.0)


class Things:
    """Do with things what the owner asks for, and answer.

    What a hand holds does not go, nothing comes to where something else is, and nothing moves to
    where an arm is: the answer says what is in the way. Who wants no answer may put things there,
    and it is reported: what is inside an arm pushes it away, as hard as it is deep.

    Args:
        config: The cell.
        arms: The arms, in its order.
        backends: What moves the arms; the one with a world of its own moves things.
        mailbox: Where requests come from, and answers go to.
        present: Which movable things are in the scene, (n,); kept here.

    Attributes:
        backend: That moves things.
        taken: How many requests there were.

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
        self._around, self.taken = surroundings(config), 0
        self._movable = movable_things(config)
        self.backend = next((b for b in backends if b.keeps_time), backends[0])

    def take(self) -> None:
        """Do what is asked for."""
        box = self._mailbox
        for slot, answer in zip(box.entries, box.entry_answers):
            if (record := slot.take()) is not None:
                self.taken += 1
                answer.write(np.array([slot.seen, *self.change(record)]))
        for thing, slot in enumerate(box.placed):
            if (record := slot.take()) is not None and self._present[thing]:
                self.taken += 1
                if found := self.backend.inside(record):
                    text = (
                        f"{self._movable[thing]} is put {1e3 * found[1]:.1f} mm inside {found[0]}"
                    )
                    self._mailbox.report(Event.NOTICE, time.monotonic_ns(), -1, -1, text)
                self.backend.place(record)

    def change(self, record: Vector) -> tuple[Entry, int, float]:
        """Bring a thing in, take it out, or put it elsewhere.

        Args:
            record: A :class:`.Change`, then as of :meth:`.Backend.place`.

        Returns:
            As an answer in the mailbox has it, without the number: what became of it, what is in
            the way (its place in :func:`.surroundings`), and how deep [m].
        """
        change, thing = Change(int(record[0])), int(record[1])
        if (change is Change.SPAWN) == bool(self._present[thing]):
            return (Entry.PRESENT if change is Change.SPAWN else Entry.ABSENT), 0, 0.0
        if change is Change.REMOVE:
            for arm in self._arms:
                if arm.state.holds.item() == thing + 1:
                    return Entry.HELD, 1 + arm.index, 0.0
            self.backend.remove(thing)
        else:
            spawns, put = change is Change.SPAWN, record[1:]
            found = self.backend.spawn(put) if spawns else self.backend.inside(put)
            if found:
                return Entry.INSIDE, self._around.index(found[0]), found[1]
            if not spawns:
                self.backend.place(put)
        self._present[thing] = change is not Change.REMOVE
        return _DONE

    def skip(self) -> None:
        """Leave what was asked for before a world was set back."""
        for slot in (*self._mailbox.entries, *self._mailbox.placed):
            slot.skip()


NOWHERE = np.zeros(3)
OPENED = 0.005
"""How much wider fingers are that have let go of what they held [m]."""


class HeldThings:
    """Keep ``holds`` of every arm, and move what no backend measures along with its hand.

    A thing is attached by request, or when a grasp succeeds and the backend knows what is between
    the fingers. It is let go of by request, when the grasp ends, or when the fingers open; it
    stays where it is then. It may be in several hands.

    Args:
        config: The cell.
        arms: The arms, in its order.
        backend_of: What moves each arm, by its index.
        mailbox: Where requests come from, and reports go to.
        objects: Live poses of the movable things in the world, (n, 7).
        present: Which of them are in the scene, (n,).

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
        self._names = movable_things(config)
        self._masses = [config.objects[name].mass for name in self._names]
        bases = bases_in_world(config).values()
        self._bases = [(np.array(base.position), np.array(base.rotation)) for base in bases]
        self._is_measured = any(backend.measures_objects for backend in backend_of.values())
        self._grasped = [0] * len(arms)
        # Memory views are read in a tenth of the time that arrays take.
        views = [(arm.state.gripper.data, arm.state.holds.data) for arm in arms]
        self._words = views if self._names else []
        self._widths = [0.0] * len(arms)
        self._in_tool: dict[int, tuple[Vector, Matrix]] = {}

    def take(self, now_ns: int) -> None:
        """Attach and detach what the owner asks for."""
        for arm, slot in zip(self._arms, self._mailbox.holds):
            record = slot.take()
            if record is None:
                continue
            number, is_placed = int(record[0]), bool(record[1])
            if number and not self._present[number - 1]:
                text = f"cannot hold {self._names[number - 1]}, which has just become absent"
                self._mailbox.report(Event.NOTICE, now_ns, arm.index, -1, text)
                continue
            self._attach(arm, number, now_ns)
            if number and is_placed and not self._is_measured:
                self._in_tool[arm.index] = record[2:5].copy(), _rotation(record[5:])

    def look(self, now_ns: int) -> None:
        """Notice grasps and opened fingers, and move along what nobody measures."""
        for index, (gripper, holds) in enumerate(self._words):
            if gripper[2] != self._grasped[index]:
                self._grasped[index] = gripper[2]
                self._note_grasp(self._arms[index], now_ns)
            if holds[()]:
                self._keep(self._arms[index], now_ns)

    def _note_grasp(self, arm: Arm, now_ns: int) -> None:
        """Attach what a grasp has found, if that is known; let go of it with the grasp."""
        grasped = self._grasped[arm.index]
        found = self._backend_of[arm.index].thing_in_hand(arm.index) if grasped else 0
        if found != arm.state.holds.item() and (found or not grasped):
            self._attach(arm, found, now_ns)

    def _keep(self, arm: Arm, now_ns: int) -> None:
        """Let go of what an arm holds if its fingers open, or have it follow the hand."""
        index, width = arm.index, _width(arm.state)
        self._widths[index] = min(self._widths[index], width)
        if width > self._widths[index] + OPENED:
            self._attach(arm, 0, now_ns)
        elif index in self._in_tool:
            self._carry(arm, *self._in_tool[index])

    def load(self) -> None:
        """Go on from states that have been put elsewhere."""
        for index, arm in enumerate(self._arms):
            self._grasped[index] = arm.state.gripper.item(2)
            self._widths[index] = _width(arm.state)
        self._share_weights()

    def _share_weights(self) -> None:
        """Have every arm carry its part of what it holds, if the loop carries the arm."""
        holding = [arm.state.holds.item() for arm in self._arms]
        for arm, number in zip(self._arms, holding):
            if arm.gravity is not None:
                mass = self._masses[number - 1] / holding.count(number) if number else 0.0
                arm.gravity.hold(mass, self._objects[number - 1, :3] if number else NOWHERE)

    def _attach(self, arm: Arm, number: int, now_ns: int) -> None:
        """Have an arm hold a thing, or nothing, from now on."""
        before = arm.state.holds.item()
        arm.state.holds[...] = number
        self._widths[arm.index] = _width(arm.state)
        self._in_tool.pop(arm.index, None)
        if number and not self._is_measured:
            pose, (position, rotation) = self._objects[number - 1], self._tool(arm)
            turn = rotation.T
            self._in_tool[arm.index] = turn @ (pose[:3] - position), turn @ _rotation(pose[3:])
        self._share_weights()
        if number != before:
            text = (
                f"holds {self._names[number - 1]}, which counts as a part of its hand"
                if number
                else f"has let go of {self._names[before - 1]}"
            )
            self._mailbox.report(Event.NOTICE, now_ns, arm.index, -1, text)

    def _tool(self, arm: Arm) -> tuple[Vector, Matrix]:
        """Return position and rotation of an arm's tool in the world."""
        base, turn = self._bases[arm.index]
        return base + turn @ arm.state.position_ee_in_base, turn @ arm.state.rotation_ee_in_base

    def _carry(self, arm: Arm, position_in_tool: Vector, rotation_in_tool: Matrix) -> None:
        """Have what an arm holds be where its tool is."""
        position, rotation = self._tool(arm)
        position = position + rotation @ position_in_tool
        if is_finite(position):
            x, y, z, w = quaternion_from_rotation(rotation @ rotation_in_tool)
            self._objects[arm.state.holds.item() - 1] = *position, w, x, y, z


def _rotation(wxyz: Vector) -> Matrix:
    """Return the rotation matrix of a quaternion w, x, y, z, (4,)."""
    w, *v = wxyz.tolist()
    return np.array(Pose.from_quaternion(np.zeros(3), [*v, w]).rotation)


def _width(state: ArmState) -> float:
    """Return the width between the fingers [m]."""
    return float(state.fingers.item(0) + state.fingers.item(1))
