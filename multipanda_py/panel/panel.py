# SPDX-License-Identifier: Apache-2.0
"""The page of a cell, put together and kept up to date."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import viser

from multipanda_py.cell.hold_reasons import HoldReasons
from multipanda_py.config.describe import bases_in_world
from multipanda_py.loop.events import LoopEvent
from multipanda_py.machine.closing import Closing
from multipanda_py.panel.access_token import AccessToken, demanded
from multipanda_py.panel.arm_tab import ArmTab
from multipanda_py.panel.desk import Desk
from multipanda_py.panel.due import Due
from multipanda_py.panel.plots import RATE, Plots
from multipanda_py.panel.same_origin import refuse_strangers
from multipanda_py.panel.scene_nodes import SceneNodes
from multipanda_py.panel.served import Served
from multipanda_py.panel.values_only import let_pages_change_values_only
from multipanda_py.view.scene_view import SceneView

HOST, PORT = "127.0.0.1", 8080
CAMERA, LOOKED_AT = (1.7, -0.9, 1.1), (0.3, 0.1, 0.3)
"""In the world [m]."""
POSE_RATE = 30.0
"""How often bodies are moved [Hz]."""
WORDS_RATE = 5.0
"""How often words, laws and gains are looked at [Hz]."""
TIMING_RATE = 1.0
"""[Hz]"""


class CellPanel(Closing):
    """Serve a page that shows a cell that runs, and that one viewer at a time moves.

    Every viewer sees the same and may stop; asking for anything else needs the command, which
    any viewer may take. Nothing here runs in the loop: the panel is a client of the handle, and
    what it asks for is checked as that of any other.

    Args:
        cell: A started cell, or a node's.
        host: Address to listen at; only this machine by default.
        port: To listen at; the next one that is free is taken. 0 for any.
        clock: Returns the time that ages are measured by [s].
        torque: What the states' ``tau`` is, in words.
        report: Function that is called with every event that the page shows.

    Attributes:
        desk: Where wishes come in.
        tabs: What there is of every arm.
        scene: Bodies in the page.

    Thread: the one that made it.
    """

    def __init__(
        self,
        cell: Served,
        host: str = HOST,
        port: int = PORT,
        clock: Callable[[], float] = time.monotonic,
        torque: str = "commanded torque",
        report: Callable[[LoopEvent], object] | None = None,
    ) -> None:
        self._cell, self._clock, self._host = cell, clock, host
        self._is_closed = False
        self._token = AccessToken()
        with demanded(self._token):
            self._server = viser.ViserServer(
                host=host, port=port, label=cell.config.cell.name, verbose=False
            )
        let_pages_change_values_only(self._server)
        refuse_strangers(self._server, host)
        self.desk = Desk(self._server, cell, clock)
        gui = self._server.gui
        # Without the button that hands the page on through a machine of somebody else.
        gui.configure_theme(show_logo=False, show_share_button=False, control_width="medium")
        self._server.initial_camera.position = CAMERA
        self._server.initial_camera.look_at = LOOKED_AT
        self.scene = SceneNodes(self._server, SceneView(cell.config))
        self._stop = gui.add_button("STOP", color="red", hint="every arm brakes and holds")
        self._take = gui.add_button("Take command")
        self._who = gui.add_markdown("")
        self._timing = gui.add_markdown("")
        bases, tabs = bases_in_world(cell.config), gui.add_tab_group()
        self.tabs = {arm: ArmTab(self.desk, tabs, arm, bases[arm]) for arm in cell.arms}
        self._plots = Plots(self.desk, torque)
        self._said = gui.add_markdown("")
        self._reasons = dict.fromkeys(cell.arms, "")
        self._holds, self._report = HoldReasons(cell.arms), report
        self._events = 0
        self._due = {
            self._move: Due(POSE_RATE),
            self._refresh: Due(WORDS_RATE),
            self._plots.sample: Due(RATE),
            self._measure: Due(TIMING_RATE),
        }
        self.desk.on_use(self._stop, lambda viewer, _: self.desk.stop(viewer))
        self.desk.on_use(self._take, lambda viewer, _: self._give_command(viewer))
        self._server.on_client_connect(self._greet)
        self._server.on_client_disconnect(self._miss)

    @property
    def address(self) -> str:
        """Address of the page, with its secret."""
        host = f"[{self._host}]" if ":" in self._host else self._host  # IPv6: RFC 3986, 3.2.2
        return f"http://{host}:{self._server.get_port()}{self._token.path}"

    @property
    def viewers(self) -> int:
        """How many pages are open."""
        return len(self._server.get_clients())

    def work(self) -> None:
        """Do what viewers ask for, and show what is due. Never waits."""
        self.desk.work()
        now = self._clock()
        with self._server.atomic():
            for show, due in self._due.items():
                if due.is_due(now):
                    self.desk.try_to(show)

    def wait(self) -> None:
        """Return when a viewer asks for something, or the next picture is due."""
        left = min(due.left(self._clock()) for due in self._due.values())
        self.desk.inbox.wait(left)

    def serve(self, duration: float = math.inf) -> None:
        """Work until the time is over [s], or there is nothing to show any more.

        Raises:
            LoopError: If the cell has ended.
        """
        ends = self._clock() + duration
        while self._clock() < ends:
            self._cell.check()
            self.work()
            self.wait()

    def close(self) -> None:
        """End the page; what arms do is not changed. Safe to call twice."""
        if not self._is_closed:
            self._is_closed = True
            self._server.stop()

    def _move(self) -> None:
        self.scene.show(self._cell.row())
        now = self._clock()
        for tab in self.tabs.values():
            tab.gizmo.tick(tab.owner(), now)

    def _refresh(self) -> None:
        self._events, events = self._cell.events_since(self._events)
        for event in events:
            self.desk.note(str(event))
            self._holds.note(event)
            if self._report is not None:
                self._report(event)
            if event.event.is_fault and event.arm in self._reasons:
                self._reasons[event.arm] = event.text
        for arm, tab in self.tabs.items():
            tab.refresh(self._reasons[arm], self._holds.of(arm))
        holder = self.desk.command.holder
        who = "nobody is in command" if holder is None else f"viewer {holder} is in command"
        _say(self._who, f"{who}; viewers: {self.viewers}")
        _say(self._said, "\n".join(f"- {line}" for line in self.desk.notes))
        if reason := self._cell.silence_reason():
            _say(self._timing, f"**{reason}; what is shown is of then**")

    def _measure(self) -> None:
        if self._cell.silence_reason():  # which is what is said then
            return
        found = self._cell.statistics(1000)
        _say(
            self._timing,
            f"loop {found.rate:.0f} Hz, late p50 {found.lateness_p50 * 1e6:.0f} us, p99 "
            f"{found.lateness_p99 * 1e6:.0f} us, compute p99 {found.compute_p99 * 1e6:.0f} us, "
            f"missed {found.missed}",
        )

    def _give_command(self, viewer: int) -> None:
        before = self.desk.command.take(viewer)
        if before is not None and before != viewer:
            self._lose(before)
        self.desk.note(f"viewer {viewer} has taken the command")

    def _greet(self, client: Any) -> None:
        client.gui.add_markdown(f"You are viewer {client.client_id}.", order=-1.0)

    def _miss(self, client: Any) -> None:
        if self.desk.command.release(client.client_id):
            self.desk.note(f"viewer {client.client_id} is gone: nobody is in command")
        self._lose(client.client_id)

    def _lose(self, viewer: int) -> None:
        """Have arms hold that a viewer drags, who may not do so any more."""
        for arm, tab in self.tabs.items():
            act = partial(tab.gizmo.forget, viewer)
            self.desk.inbox.post(("lost", arm, viewer), None, act)


def _say(element: Any, text: str) -> None:
    if element.content != text:
        element.content = text
