# SPDX-License-Identifier: Apache-2.0
"""Gizmo (draggable axes) in the scene of the page, which moves an arm's tool."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from multipanda_py.apps.panel.session import Session
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.exceptions import TargetRejected
from multipanda_py.pose import Pose

TARGET_TIMEOUT = 0.5
"""Time without messages during a drag after which the arm holds [s]."""


class DragTimeout:
    """Timeout of the messages that a page sends while its viewer drags a gizmo.

    Messages also stop if the page stalls or is closed, or the mouse does not move. The arm must
    hold from the timeout until the next message.

    Attributes:
        viewer: Number of the viewer who drags; None without a drag.

    Thread: one.
    """

    def __init__(self) -> None:
        self.viewer: int | None = None
        self._latest = math.inf

    def message_received(self, viewer: int, now: float) -> None:
        """Restart the timeout at the time of a message [s]."""
        self.viewer, self._latest = viewer, now

    def end(self) -> None:
        """Disable the timeout, because the viewer has released the gizmo."""
        self.viewer, self._latest = None, math.inf

    def has_timed_out(self, now: float) -> bool:
        """Return True once if a drag has had no message for :data:`TARGET_TIMEOUT`."""
        if now - self._latest <= TARGET_TIMEOUT:
            return False
        self._latest = math.inf
        return True


_CHANNEL = "pose"
_SCALE = 0.22  # Scale of the axes of a gizmo.
_RESTARTED = "a controllet has started meanwhile. Grasp the gizmo again."


class Gizmo:
    """Gizmo that a viewer drags to send target poses to an arm.

    It follows the tool until the first target, and returns to the tool when a target is rejected
    or a controllet starts on the arm.

    Args:
        session: Session of the panel.
        arm: Name of the arm.
        base: Pose of the arm's base in the world.

    Attributes:
        drag: Timeout of the present drag.
        arm: Name of the arm.
        handle: Element of the page.

    Thread: the panel's.
    """

    def __init__(self, session: Session, arm: str, base: Pose) -> None:
        self._session, self.arm, self._base = session, arm, base
        self.drag = DragTimeout()
        self._law: tuple[str, int] | None = None
        self._is_commanded = False
        self.handle = self._make(Pose.identity(), visible=False)

    @property
    def name(self) -> str:
        """Name of the gizmo's node in the scene of the page."""
        return f"/target/{self.arm}"

    def tick(self, law: InstanceSpec, now: float) -> None:
        """Update the gizmo, and let the arm hold after a timeout of a drag; call it periodically.

        Args:
            law: Active controllet of the arm.
            now: Present time [s].
        """
        known = law.name, self._session.cell.activation_count(self.arm)
        if known != self._law:
            if self.drag.viewer is not None:
                self._session.note(f"{self.arm}: {_RESTARTED}")
            self._law = known
            self._recreate_at_tool(self.takes_poses(law))
        if self.drag.has_timed_out(now):
            self._hold(f"no message of the drag for {TARGET_TIMEOUT:g} s")
        if self.handle.visible and not self._is_commanded and self.drag.viewer is None:
            pose = self._measured()
            self.handle.position, self.handle.wxyz = pose.position, _wxyz(pose)

    def hold_if_dragged_by(self, viewer: int) -> None:
        """Let the arm hold if a viewer, who has left or lost the command, was dragging it."""
        if self.drag.viewer == viewer:
            self.drag.end()
            self._is_commanded = False
            self._hold(f"viewer {viewer} has left or no longer has the command")

    @staticmethod
    def takes_poses(law: InstanceSpec) -> bool:
        """Return True if a controllet takes a separate target pose for each of its arms."""
        channel = law.channel_table.get(_CHANNEL)
        return channel is not None and not channel.shared

    def _measured(self) -> Pose:
        return self._base @ self._session.cell.pose(self.arm)

    def _hold(self, reason: str) -> None:
        cell = self._session.cell
        if self._session.try_to(lambda: cell.set_target(self.arm, cell.pose(self.arm))):
            self._session.note(f"{self.arm} holds: {reason}")

    def _send_target(
        self, handle: Any, viewer: int, phase: str, position: Any, wxyz: Any, now: float
    ) -> None:
        if handle is not self.handle:  # The message belongs to a former gizmo.
            return
        if self._law is None or self._session.cell.activation_count(self.arm) != self._law[1]:
            self._recreate_at_tool()
            raise TargetRejected(f"{self.arm}: {_RESTARTED}")
        if phase == "start":
            self.drag.message_received(viewer, now)
            return
        try:
            pose = _pose_from_page(self.arm, position, wxyz)
            self._session.cell.set_target(self.arm, pose, frame="world")
        except TargetRejected:
            self._recreate_at_tool()
            raise
        self._is_commanded = True
        if phase == "end":
            self.drag.end()
        else:
            self.drag.message_received(viewer, now)

    def _recreate_at_tool(self, visible: bool | None = None) -> None:
        # Messages of a running drag refer to the old element and are ignored.
        self.drag.end()
        self._is_commanded = False
        visible = self.handle.visible if visible is None else visible
        self.handle.remove()
        self.handle = self._make(self._measured(), visible)

    def _make(self, pose: Pose, visible: bool) -> Any:
        handle = self._session.server.scene.add_transform_controls(
            self.name, scale=_SCALE, depth_test=False, disable_sliders=True,
            position=pose.position, wxyz=_wxyz(pose), visible=visible,
        )  # fmt: skip

        async def moved(event: Any) -> None:
            if event.target is not self.handle:  # The message belongs to a former gizmo.
                return
            if event.client_id not in self._session.server.get_clients():
                # viser sends a last pose for a page that was closed during a drag. The arm must
                # not move to it, but hold: see `hold_if_dragged_by`.
                return
            act = partial(
                self._send_target, handle, event.client_id, event.phase,
                np.array(handle.position), np.array(handle.wxyz), self._session.now(),
            )  # fmt: skip
            if not self._session.ask((_CHANNEL, self.arm), event.client_id, act):
                self._session.queue.post(("back", self.arm), None, self._recreate_at_tool)

        handle.on_update(moved)
        return handle


def _wxyz(pose: Pose) -> Any:
    return np.roll(pose.quaternion_xyzw, 1)


def _pose_from_page(arm: str, position: Any, wxyz: Any) -> Pose:
    try:
        return Pose.from_quaternion(position, np.roll(wxyz, -1).tolist())
    except (TypeError, ValueError) as error:
        raise TargetRejected(f"{arm}: target: not a valid pose ({error})") from None
