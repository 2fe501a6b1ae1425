# SPDX-License-Identifier: Apache-2.0
"""Say what the hands of a cell hold, so that it is kept away from things as they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.cell.arm_request import given_up, wait_or_withdraw
from multipanda_py.cell.connection import Connection, Counts
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.config.backend_section import find_backend
from multipanda_py.config.describe import bases_in_world, movable_things
from multipanda_py.exceptions import HoldingRejected, UnknownName
from multipanda_py.pose import Pose
from multipanda_py.realtime.shared_memory import HELD, Slot
from multipanda_py.state import Vector

FARTHEST = 0.3
"""Of a thing's centre from the tool, for what is attached without a name, and of any part of it
for an arm that would carry its weight [m]."""
HOLDING_TIMEOUT = 2.0
"""Far longer than the loop takes to answer [s]."""


@dataclass(frozen=True)
class HoldingRequest:
    """What the loop has been asked to count as held.

    Attributes:
        arm: The arm.
        thing: What is attached, or what was held before it is detached; empty for nothing.
        holds: Number of what the arm is to hold, 0 for nothing.
        number: Of the record.
    """

    arm: str
    thing: str
    holds: int
    number: int


class Holding:
    """Attach movable things to hands, and detach them.

    Args:
        names: Of the cell's arms.
        connection: To its loop.
        reader: Of its states.
        counts: Where refusals go.
    """

    def __init__(
        self, names: CellNames, connection: Connection, reader: StateReader, counts: Counts
    ) -> None:
        self._names, self._connection = names, connection
        self._reader, self._counts = reader, counts
        self._movable = movable_things(names.config)

    def held(self) -> dict[str, str]:
        """Return what is in the hands: names of things by that of the arm."""
        numbers = self._reader.row()["arms"]["holds"].tolist()
        return {
            arm: self._movable[number - 1]
            for arm, number in zip(self._names.arms, numbers)
            if number
        }

    def attach(self, arm: str, thing: str = "", pose_in_tool: Pose | None = None) -> str:
        """Count a movable thing as a part of an arm's hand from now on.

        It moves with the hand, is kept away from what the hand is kept away from, and is no
        obstacle to its own arm any more. More than one hand may hold it. In simulation a grasp
        does this by itself. It ends with :meth:`detach`, with the grasp, or when the fingers
        open by 5 mm.

        Args:
            arm: The arm.
            thing: Its name in ``objects`` of the cell file, where it has a mass; the nearest one
                if empty.
            pose_in_tool: Where it is in the tool's frame; by default where it lies. Only where
                nothing measures poses of things: without simulated arms.

        Returns:
            The name of what is held.

        Raises:
            HoldingRejected: If there is no such thing, its pose is measured, it is out of reach
                of an arm that would carry its weight, or somebody else has asked for something
                else meanwhile.
            LoopTimeout: If the loop did not answer in time.
        """
        request = self.ask_attach(arm, thing, pose_in_tool)
        self._await(request)
        return request.thing

    def detach(self, arm: str) -> str:
        """Count what an arm holds as a thing of the scene again, where it is now.

        Returns:
            Its name, empty if nothing was held.

        Raises:
            HoldingRejected: If somebody else has asked for something else meanwhile.
            LoopTimeout: If the loop did not answer in time.
        """
        request = self.ask_detach(arm)
        self._await(request)
        return request.thing

    def ask_attach(
        self, arm: str, thing: str = "", pose_in_tool: Pose | None = None
    ) -> HoldingRequest:
        """Do as :meth:`attach` and return at once; see :meth:`answer`."""
        try:
            chosen = self._check(thing) if thing else self._nearest(arm)
            if pose_in_tool is not None and self._is_measured():
                raise HoldingRejected(
                    f"{arm}: pose_in_tool: got one, allowed none in a cell with simulated arms: "
                    f"{chosen} is where it is"
                )
            self._refuse_what_is_not_there(arm, chosen, pose_in_tool)
        except HoldingRejected:
            self._counts.rejected[f"{arm} attach"] += 1
            raise
        record = np.zeros(HELD)
        record[0] = self._movable.index(chosen) + 1
        if pose_in_tool is not None:
            x, y, z, w = pose_in_tool.quaternion_xyzw.tolist()
            record[1:] = 1.0, *pose_in_tool.position, w, x, y, z
        return self._ask(arm, chosen, record)

    def ask_detach(self, arm: str) -> HoldingRequest:
        """Do as :meth:`detach` and return at once; see :meth:`answer`."""
        return self._ask(arm, self.held().get(arm, ""), np.zeros(HELD))

    def answer(self, request: HoldingRequest) -> bool:
        """Return whether it is so now.

        Raises:
            HoldingRejected: If a newer request has replaced it.
        """
        slot, arm = self._slot(request.arm), self._names.arm_index(request.arm)
        holds = int(self._reader.row()["arms"]["holds"][arm])
        if slot.taken >= request.number and holds == request.holds:
            return True
        if slot.written > request.number:  # what comes about is the newer one's
            raise HoldingRejected(
                f"{request.arm}: a newer request to attach or detach has replaced this one"
            )
        return False

    def withdraw(self, request: HoldingRequest) -> str:
        """Give a request up; return in words whether it still may come about."""
        slot = self._slot(request.arm)
        return given_up(self._connection.withdraw(slot, request.number, "attach"))

    def _ask(self, arm: str, thing: str, record: Vector) -> HoldingRequest:
        number = self._connection.post(self._slot(arm), record)
        return HoldingRequest(arm, thing, int(record[0]), number)

    def _await(self, request: HoldingRequest) -> None:
        wait_or_withdraw(
            self._connection,
            lambda: self.answer(request) or None,
            lambda: self.withdraw(request),
            HOLDING_TIMEOUT,
            f"an answer to what {request.arm} holds",
        )

    def _slot(self, arm: str) -> Slot:
        return self._connection.mailbox.holds[self._names.arm_index(arm)]

    def _check(self, thing: str) -> str:
        if thing in self._movable:
            if thing not in self._reader.objects():
                raise HoldingRejected(f"{thing} is absent, allowed things in the scene")
            return thing
        if thing in self._names.config.objects:
            raise HoldingRejected(
                f"{thing} rests: its mass is 0 (objects.{thing}.mass), allowed things with a mass"
            )
        raise HoldingRejected(str(UnknownName("thing", thing, self._movable)))

    def _nearest(self, arm: str) -> str:
        """Return the movable thing whose centre is nearest to an arm's tool."""
        tool = bases_in_world(self._names.config)[arm] @ self._reader.pose(arm)
        far = {name: pose.distance(tool)[0] for name, pose in self._reader.objects().items()}
        if not far:
            raise HoldingRejected(f"{arm}: no thing of the cell file can be held (objects)")
        nearest = min(far, key=lambda name: far[name])
        if far[nearest] > FARTHEST:
            raise HoldingRejected(
                f"{arm}: the nearest thing, {nearest}, got {far[nearest]:.2f} m from the tool, "
                f"allowed {FARTHEST:g} m: attach it by its name"
            )
        return nearest

    def _refuse_what_is_not_there(self, arm: str, thing: str, pose_in_tool: Pose | None) -> None:
        """Refuse a weight out of a hand's reach: carried by the loop, it would lift the arm."""
        config = self._names.config
        if self._names.arm_config(arm).compensates_gravity:
            return
        if pose_in_tool is None:
            tool = bases_in_world(config)[arm] @ self._reader.pose(arm)
            far = self._reader.objects()[thing].distance(tool)[0]
        else:
            far = float(np.linalg.norm(pose_in_tool.position))
        size = sum(config.objects[thing].size)
        if far - size > FARTHEST:
            raise HoldingRejected(
                f"{arm}: {thing}, got {far:.2f} m from the tool, allowed {size + FARTHEST:.2f} m: "
                f"the loop carries {arm} (compensates_gravity: false), and a weight that is not "
                "in its hand would lift it"
            )

    def _is_measured(self) -> bool:
        arms = self._names.config.arms.values()
        return any(find_backend(arm.backend).measures_objects for arm in arms)
