# SPDX-License-Identifier: Apache-2.0
"""The page of a cell, put together and kept up to date."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import mujoco
import numpy as np
import trimesh
import viser
from numpy.typing import NDArray

from multipanda_py.apps.panel.access import (
    AccessToken,
    demanded,
    let_pages_change_values_only,
    refuse_strangers,
)
from multipanda_py.apps.panel.arm_tab import RATE, ArmTab, Plots
from multipanda_py.apps.panel.cell_protocol import Served
from multipanda_py.apps.panel.session import Desk
from multipanda_py.cell.recovery import HoldReasons
from multipanda_py.config.describe import bases_in_world
from multipanda_py.realtime.events import LoopEvent
from multipanda_py.realtime.system.child_process import Closing
from multipanda_py.simulation.scene_view import SceneView
from multipanda_py.state import Matrix, Vector

SHOWN_GROUPS = (0, 1, 2)
"""Groups of geoms that MuJoCo's own viewer shows; collision shapes are in another."""
MOVED = 1e-5
"""Smallest change of a position [m] or of a quaternion that is sent."""


class SceneNodes:
    """Draw the bodies of a scene in a page, and move those that have moved.

    A body is a node below its parent's, so that a turning joint costs one message.

    Args:
        server: A ``viser.ViserServer``.
        view: The scene, which rows pose.

    Attributes:
        frames: Elements of the page by number of the body.

    Thread: one.
    """

    def __init__(self, server: Any, view: SceneView) -> None:
        self._view = view
        model = view.model
        self._parents = model.body_parentid
        self.frames: dict[int, Any] = {}
        self._sent: dict[int, tuple[Vector, Vector]] = {}
        paths = {0: "/cell"}
        for body in range(model.nbody):
            if body:
                name = model.body(body).name or f"body_{body}"
                paths[body] = f"{paths[int(self._parents[body])]}/{name}"
                place = self._place(body)
                self.frames[body] = server.scene.add_frame(
                    paths[body], show_axes=False, position=place[0], wxyz=place[1]
                )
                self._sent[body] = place
            for number, (color, mesh) in enumerate(_meshes(model, body).items()):
                server.scene.add_mesh_simple(
                    f"{paths[body]}/shape_{number}",
                    vertices=mesh.vertices.astype(np.float32),
                    faces=mesh.faces.astype(np.uint32),
                    color=tuple(round(255 * part) for part in color[:3]),
                    opacity=None if color[3] >= 1.0 else color[3],
                    flat_shading=False,
                    cast_shadow=False,
                    receive_shadow=False,
                )
        server.scene.add_grid("/floor", width=4.0, height=4.0, cell_size=0.1, section_size=1.0)

    def show(self, row: NDArray[np.void]) -> int:
        """Pose the scene as in a row of the cell; return how many bodies have moved."""
        self._view.show(row)
        moved = 0
        for body, frame in self.frames.items():
            position, turn = self._place(body)
            before, turn_before = self._sent[body]
            far = np.abs(position - before).max() > MOVED
            turned = np.abs(turn - turn_before).max() > MOVED
            if far:
                frame.position = position
            if turned:
                frame.wxyz = turn
            if far or turned:
                self._sent[body] = position, turn
                moved += 1
        return moved

    def _place(self, body: int) -> tuple[Vector, Vector]:
        """Return position and quaternion w x y z of a body in its parent, as of now."""
        data, parent = self._view.data, int(self._parents[body])
        base = data.xmat[parent].reshape(3, 3)
        turn = np.empty(4)
        mujoco.mju_mat2Quat(turn, (base.T @ data.xmat[body].reshape(3, 3)).ravel())
        return base.T @ (data.xpos[body] - data.xpos[parent]), turn


def _meshes(model: mujoco.MjModel, body: int) -> dict[tuple[float, ...], trimesh.Trimesh]:
    """Return what a body looks like, one mesh per color, in the body's frame."""
    by_color: dict[tuple[float, ...], list[trimesh.Trimesh]] = {}
    first = int(model.body_geomadr[body])
    for geom in range(first, first + int(model.body_geomnum[body])):
        if int(model.geom_group[geom]) not in SHOWN_GROUPS:
            continue
        mesh = _mesh(model, geom)
        material = int(model.geom_matid[geom])
        color = tuple(
            (model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]).tolist()
        )
        if mesh is None or color[3] == 0.0:
            continue
        rotation = np.empty(9)
        mujoco.mju_quat2Mat(rotation, model.geom_quat[geom])
        placed: Matrix = np.eye(4)
        placed[:3, :3], placed[:3, 3] = rotation.reshape(3, 3), model.geom_pos[geom]
        mesh.apply_transform(placed)
        by_color.setdefault(color, []).append(mesh)
    return {color: trimesh.util.concatenate(parts) for color, parts in by_color.items()}


def _mesh(model: mujoco.MjModel, geom: int) -> trimesh.Trimesh | None:
    """Return the surface of a geom, or None for a plane, which the grid stands for."""
    kind, size = int(model.geom_type[geom]), model.geom_size[geom]
    if kind == mujoco.mjtGeom.mjGEOM_MESH.value:
        number = int(model.geom_dataid[geom])
        vertex, face = int(model.mesh_vertadr[number]), int(model.mesh_faceadr[number])
        return trimesh.Trimesh(
            model.mesh_vert[vertex : vertex + int(model.mesh_vertnum[number])].copy(),
            model.mesh_face[face : face + int(model.mesh_facenum[number])].copy(),
            process=False,
        )
    if kind == mujoco.mjtGeom.mjGEOM_BOX.value:
        return trimesh.creation.box(extents=2.0 * size)
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE.value:
        return trimesh.creation.icosphere(subdivisions=2, radius=size[0])
    if kind == mujoco.mjtGeom.mjGEOM_CYLINDER.value:
        return trimesh.creation.cylinder(radius=size[0], height=2.0 * size[1], sections=24)
    if kind == mujoco.mjtGeom.mjGEOM_CAPSULE.value:
        return trimesh.creation.capsule(radius=size[0], height=2.0 * size[1], count=(16, 16))
    return None


class Due:
    """Says when a period has passed; periods that were missed are not made up for.

    Args:
        rate: How often [Hz].
    """

    def __init__(self, rate: float) -> None:
        self._period = 1.0 / rate
        self._next = -math.inf

    def is_due(self, now: float) -> bool:
        """Return whether it is time, and count the next period from now on [s]."""
        if now < self._next:
            return False
        late = now - self._next
        self._next = now + self._period - (late if late < self._period else 0.0)
        return True

    def left(self, now: float) -> float:
        """Return the time until then [s]; 0 if it has come."""
        return max(0.0, self._next - now)


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
