# SPDX-License-Identifier: Apache-2.0
"""The handle in the scene that is dragged to move an arm's tool."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from multipanda_py.apps.panel.session import Desk
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.exceptions import TargetRejected
from multipanda_py.pose import Pose

TARGET_TIMEOUT = 0.5
"""Silence of a page in the middle of a drag from which on its arm holds [s]."""


class Drag:
    """What one viewer does with the target of one arm.

    A page that is closed, stalls or loses its network in the middle of a drag says nothing any
    more; nor does one whose user keeps the mouse still. Either way :meth:`falls_silent` says so
    once, and the arm is to hold where it is; it goes on with the next word.

    Attributes:
        viewer: Who drags, or None.

    Thread: one.
    """

    def __init__(self) -> None:
        self.viewer: int | None = None
        self._heard = math.inf

    def goes_on(self, viewer: int, now: float) -> None:
        """Take note of a word of the page at a time [s]."""
        self.viewer, self._heard = viewer, now

    def end(self) -> None:
        """Take note that the gizmo was let go of."""
        self.viewer, self._heard = None, math.inf

    def falls_silent(self, now: float) -> bool:
        """Return whether a drag has been silent for too long; says so once."""
        if now - self._heard <= TARGET_TIMEOUT:
            return False
        self._heard = math.inf
        return True


_CHANNEL = "pose"
_SCALE = 0.22
_BEGUN_ANEW = "a law has begun on it meanwhile: grasp the gizmo anew"


class Gizmo:
    """Shows where an arm's tool is to be, and takes it from whoever drags.

    Targets go to the cell as those of any client do: they are checked, far jumps are refused,
    and only a law that takes poses has them. While nobody has given it a target, and whenever a
    law begins on the arm, be it the same one again, the gizmo is where the tool is; who dragged
    it until then has to grasp it anew.

    Args:
        desk: Of the panel.
        arm: Name of the arm.
        base: Pose of its base in the world.

    Attributes:
        drag: Who drags it.
        arm: Name of the arm.
        handle: Its element of the page.

    Thread: the panel's.
    """

    def __init__(self, desk: Desk, arm: str, base: Pose) -> None:
        self._desk, self.arm, self._base = desk, arm, base
        self.drag = Drag()
        self._law: tuple[str, int] | None = None
        self._is_given = False
        self.handle = self._make(Pose.identity(), visible=False)

    @property
    def name(self) -> str:
        """Name of its node in the page."""
        return f"/target/{self.arm}"

    def tick(self, law: InstanceSpec, now: float) -> None:
        """Follow the tool, or have the arm hold because nothing is heard of a drag.

        Args:
            law: What the arm does.
            now: The time [s].
        """
        known = law.name, self._desk.cell.beginnings(self.arm)
        if known != self._law:
            if self.drag.viewer is not None:
                self._desk.note(f"{self.arm}: {_BEGUN_ANEW}")
            self._law = known
            self._put_back(self.takes_poses(law))
        if self.drag.falls_silent(now):
            self._hold(f"nothing heard of the drag for {TARGET_TIMEOUT:g} s")
        if self.handle.visible and not self._is_given and self.drag.viewer is None:
            pose = self._measured()
            self.handle.position, self.handle.wxyz = pose.position, _wxyz(pose)

    def forget(self, viewer: int) -> None:
        """Have the arm hold if a viewer that is gone was dragging."""
        if self.drag.viewer == viewer:
            self.drag.end()
            self._is_given = False
            self._hold(f"viewer {viewer} is gone")

    @staticmethod
    def takes_poses(law: InstanceSpec) -> bool:
        """Return whether a law takes a pose for each of its arms."""
        channel = law.channel_table.get(_CHANNEL)
        return channel is not None and not channel.shared

    def _measured(self) -> Pose:
        return self._base @ self._desk.cell.pose(self.arm)

    def _hold(self, why: str) -> None:
        cell = self._desk.cell
        if self._desk.try_to(lambda: cell.set_target(self.arm, cell.pose(self.arm))):
            self._desk.note(f"{self.arm} holds: {why}")

    def _asked(
        self, handle: Any, viewer: int, phase: str, position: Any, wxyz: Any, now: float
    ) -> None:
        """Give the arm a target; a gizmo whose target is refused goes back to the tool."""
        if handle is not self.handle:  # put back since
            return
        if self._law is None or self._desk.cell.beginnings(self.arm) != self._law[1]:
            self._put_back()
            raise TargetRejected(f"{self.arm}: {_BEGUN_ANEW}")
        if phase == "start":
            self.drag.goes_on(viewer, now)
            return
        try:
            pose = _pose(self.arm, position, wxyz)
            self._desk.cell.set_target(self.arm, pose, frame="world")
        except TargetRejected:
            self._put_back()
            raise
        self._is_given = True
        if phase == "end":
            self.drag.end()
        else:
            self.drag.goes_on(viewer, now)

    def _put_back(self, visible: bool | None = None) -> None:
        """Make it anew where the tool is.

        What a page has sent may be in the old one, and what it still sends of a drag is of that
        one until the mouse is up.
        """
        self.drag.end()
        self._is_given = False
        visible = self.handle.visible if visible is None else visible
        self.handle.remove()
        self.handle = self._make(self._measured(), visible)

    def _make(self, pose: Pose, visible: bool) -> Any:
        handle = self._desk.server.scene.add_transform_controls(
            self.name, scale=_SCALE, depth_test=False, disable_sliders=True,
            position=pose.position, wxyz=_wxyz(pose), visible=visible,
        )  # fmt: skip

        async def moved(event: Any) -> None:
            if event.target is not self.handle:  # the last words on one that was put back
                return
            act = partial(
                self._asked, handle, event.client_id, event.phase,
                np.array(handle.position), np.array(handle.wxyz), self._desk.now(),
            )  # fmt: skip
            if not self._desk.ask((_CHANNEL, self.arm), event.client_id, act):
                self._desk.inbox.post(("back", self.arm), None, self._put_back)

        handle.on_update(moved)
        return handle


def _wxyz(pose: Pose) -> Any:
    return np.roll(pose.quaternion_xyzw, 1)


def _pose(arm: str, position: Any, wxyz: Any) -> Pose:
    """Return what a page has sent as a pose in the world.

    Raises:
        TargetRejected: If it is none.
    """
    try:
        return Pose.from_quaternion(position, np.roll(wxyz, -1).tolist())
    except (TypeError, ValueError) as error:
        raise TargetRejected(f"{arm}: target: got what is no pose ({error})") from None
