# SPDX-License-Identifier: Apache-2.0
"""Panel: server of a browser page that shows a cell."""

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
    accept_values_only,
    close_foreign_connections,
    require_token,
)
from multipanda_py.apps.panel.arm_tab import RATE, ArmTab, Plots
from multipanda_py.apps.panel.cell_protocol import CellProtocol
from multipanda_py.apps.panel.session import Session
from multipanda_py.cell.recovery import HoldReasons
from multipanda_py.config.describe import bases_in_world
from multipanda_py.realtime.events import LoopEvent
from multipanda_py.realtime.system.child_process import Closeable
from multipanda_py.simulation.scene_view import SceneView
from multipanda_py.state import Matrix, Vector

SHOWN_GROUPS = (0, 1, 2)
"""Geom groups that MuJoCo's viewer shows; collision shapes are in another group."""
MIN_POSE_CHANGE = 1e-5
"""Minimum change of a position [m] or of a quaternion element that is sent to pages."""


class SceneNodes:
    """Bodies of a MuJoCo scene as elements of the page, nested as in MuJoCo.

    Args:
        server: A ``viser.ViserServer``.
        view: MuJoCo scene of the cell.

    Attributes:
        frames: Elements of the page, by MuJoCo body number.

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
                pose = self._pose_in_parent(body)
                self.frames[body] = server.scene.add_frame(
                    paths[body], show_axes=False, position=pose[0], wxyz=pose[1]
                )
                self._sent[body] = pose
            for number, (color, mesh) in enumerate(_meshes_by_color(model, body).items()):
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
        """Show the poses of the bodies in a cycle, and return the number of bodies that moved.

        Args:
            row: Record of the cycle, see :meth:`.CellProtocol.latest_record`.
        """
        self._view.show(row)
        moved = 0
        for body, frame in self.frames.items():
            position, quaternion = self._pose_in_parent(body)
            before, rotation_before = self._sent[body]
            far = np.abs(position - before).max() > MIN_POSE_CHANGE
            turned = np.abs(quaternion - rotation_before).max() > MIN_POSE_CHANGE
            if far:
                frame.position = position
            if turned:
                frame.wxyz = quaternion
            if far or turned:
                self._sent[body] = position, quaternion
                moved += 1
        return moved

    def _pose_in_parent(self, body: int) -> tuple[Vector, Vector]:
        """Return position [m] and quaternion (w, x, y, z)."""
        data, parent = self._view.data, int(self._parents[body])
        base = data.xmat[parent].reshape(3, 3)
        quaternion = np.empty(4)
        mujoco.mju_mat2Quat(quaternion, (base.T @ data.xmat[body].reshape(3, 3)).ravel())
        return base.T @ (data.xpos[body] - data.xpos[parent]), quaternion


def _meshes_by_color(model: mujoco.MjModel, body: int) -> dict[tuple[float, ...], trimesh.Trimesh]:
    by_color: dict[tuple[float, ...], list[trimesh.Trimesh]] = {}
    first = int(model.body_geomadr[body])
    for geom in range(first, first + int(model.body_geomnum[body])):
        if int(model.geom_group[geom]) not in SHOWN_GROUPS:
            continue
        mesh = _geom_surface(model, geom)
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


def _geom_surface(model: mujoco.MjModel, geom: int) -> trimesh.Trimesh | None:
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


class RateTimer:
    """Timer of a periodic action, which skips missed periods.

    Args:
        rate: Rate of the action [Hz].
    """

    def __init__(self, rate: float) -> None:
        self._period = 1.0 / rate
        self._next = -math.inf

    def is_due(self, now: float) -> bool:
        """Return True, and start the next period, if the action is due at a time [s]."""
        if now < self._next:
            return False
        late = now - self._next
        self._next = now + self._period - (late if late < self._period else 0.0)
        return True

    def left(self, now: float) -> float:
        """Return the remaining time until the action is due [s]; 0 if it is due."""
        return max(0.0, self._next - now)


HOST, PORT = "127.0.0.1", 8080
CAMERA_POSITION, CAMERA_TARGET = (1.7, -0.9, 1.1), (0.3, 0.1, 0.3)
"""Initial position and view point of the camera in the world [m]."""
POSE_RATE = 30.0
"""Rate at which bodies are moved [Hz]."""
TEXT_RATE = 5.0
"""Rate at which texts, controllets and gains are updated [Hz]."""
TIMING_RATE = 1.0
"""Rate at which the loop's timing is updated [Hz]."""


class CellPanel(Closeable):
    """Server of a browser page that shows and moves a running cell.

    All viewers see the same page, and each of them may stop the arms. Other requests need the
    command (:class:`.Command`), which one viewer at a time has.

    Args:
        cell: A started cell, or the client of a node.
        host: Address to listen at; by default only this machine can connect.
        port: Port to listen at, or the next free one if it is in use; 0 for any free port.
        clock: Function that returns the time [s].
        torque: Title of the torque plot, such as ``measured torque``.
        report: Callback for every event that the page shows.

    Attributes:
        session: Session that processes requests.
        tabs: Tab of every arm.
        scene: Bodies of the scene in the page.

    Thread: the one that created it.
    """

    def __init__(
        self,
        cell: CellProtocol,
        host: str = HOST,
        port: int = PORT,
        clock: Callable[[], float] = time.monotonic,
        torque: str = "commanded torque",
        report: Callable[[LoopEvent], object] | None = None,
    ) -> None:
        self._cell, self._clock, self._host = cell, clock, host
        self._is_closed = False
        self._token = AccessToken()
        with require_token(self._token):
            self._server = viser.ViserServer(
                host=host, port=port, label=cell.config.cell.name, verbose=False
            )
        accept_values_only(self._server)
        close_foreign_connections(self._server, host)
        self.session = Session(self._server, cell, clock)
        gui = self._server.gui
        # The share button would forward the page through a public server.
        gui.configure_theme(show_logo=False, show_share_button=False, control_width="medium")
        self._server.initial_camera.position = CAMERA_POSITION
        self._server.initial_camera.look_at = CAMERA_TARGET
        self.scene = SceneNodes(self._server, SceneView(cell.config))
        self._stop = gui.add_button("STOP", color="red", hint="every arm brakes and holds")
        self._take = gui.add_button("Take command")
        self._viewer = gui.add_markdown("")
        self._timing = gui.add_markdown("")
        bases, tabs = bases_in_world(cell.config), gui.add_tab_group()
        self.tabs = {arm: ArmTab(self.session, tabs, arm, bases[arm]) for arm in cell.arms}
        self._plots = Plots(self.session, torque)
        self._reported = gui.add_markdown("")
        self._reasons = dict.fromkeys(cell.arms, "")
        self._holds, self._report = HoldReasons(cell.arms), report
        self._events = 0
        self._timers = {
            self._move: RateTimer(POSE_RATE),
            self._refresh: RateTimer(TEXT_RATE),
            self._plots.sample: RateTimer(RATE),
            self._measure: RateTimer(TIMING_RATE),
        }
        self.session.on_use(self._stop, lambda viewer, _: self.session.stop(viewer))
        self.session.on_use(self._take, lambda viewer, _: self._give_command(viewer))
        self._server.on_client_connect(self._greet)
        self._server.on_client_disconnect(self._miss)

    @property
    def address(self) -> str:
        """URL of the page, with its secret."""
        # URLs have brackets around IPv6 addresses (RFC 3986, section 3.2.2).
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._server.get_port()}{self._token.path}"

    @property
    def viewers(self) -> int:
        """Number of open pages."""
        return len(self._server.get_clients())

    def work(self) -> None:
        """Process the requests of viewers and update the page, without waiting."""
        self.session.work()
        now = self._clock()
        with self._server.atomic():
            for show, timer in self._timers.items():
                if timer.is_due(now):
                    self.session.try_to(show)

    def wait(self) -> None:
        """Wait until a viewer sends a request or the page needs an update."""
        left = min(timer.left(self._clock()) for timer in self._timers.values())
        self.session.queue.wait(left)

    def serve(self, duration: float = math.inf) -> None:
        """Run the panel for a duration [s], or until the cell ends.

        Raises:
            LoopError: The cell has ended.
        """
        ends = self._clock() + duration
        while self._clock() < ends:
            self._cell.check()
            self.work()
            self.wait()

    def close(self) -> None:
        """Stop serving the page; arms are not affected. Safe to call twice."""
        if not self._is_closed:
            self._is_closed = True
            self._server.stop()

    def _move(self) -> None:
        self.scene.show(self._cell.latest_record())
        now = self._clock()
        for tab in self.tabs.values():
            tab.gizmo.tick(tab.owner(), now)

    def _refresh(self) -> None:
        self._events, events = self._cell.events_since(self._events)
        for event in events:
            self.session.note(str(event))
            self._holds.note(event)
            if self._report is not None:
                self._report(event)
            if event.event.is_fault and event.arm in self._reasons:
                self._reasons[event.arm] = event.text
        for arm, tab in self.tabs.items():
            tab.refresh(self._reasons[arm], self._holds.reason(arm))
        holder = self.session.command.holder
        name = "no viewer is in command" if holder is None else f"viewer {holder} is in command"
        _set_text(self._viewer, f"{name}; viewers: {self.viewers}")
        _set_text(self._reported, "\n".join(f"- {line}" for line in self.session.notes))
        if reason := self._cell.stall_reason():
            _set_text(self._timing, f"**{reason}; the page shows the last known state**")

    def _measure(self) -> None:
        if self._cell.stall_reason():  # _refresh() shows this reason in place of the timing.
            return
        statistics = self._cell.statistics(1000)
        _set_text(
            self._timing,
            f"loop {statistics.rate:.0f} Hz, late p50 {statistics.lateness_p50 * 1e6:.0f} us, p99 "
            f"{statistics.lateness_p99 * 1e6:.0f} us, compute p99 "
            f"{statistics.compute_p99 * 1e6:.0f} us, "
            f"missed {statistics.missed}",
        )

    def _give_command(self, viewer: int) -> None:
        before = self.session.command.acquire(viewer)
        if before is not None and before != viewer:
            self._hold_arms_dragged_by(before)
        self.session.note(f"viewer {viewer} has taken the command")

    def _greet(self, client: Any) -> None:
        client.gui.add_markdown(f"You are viewer {client.client_id}.", order=-1.0)

    def _miss(self, client: Any) -> None:
        if self.session.command.release(client.client_id):
            self.session.note(f"viewer {client.client_id} has left: no viewer is in command")
        self._hold_arms_dragged_by(client.client_id)

    def _hold_arms_dragged_by(self, viewer: int) -> None:
        for arm, tab in self.tabs.items():
            act = partial(tab.gizmo.hold_if_dragged_by, viewer)
            self.session.queue.post(("lost", arm, viewer), None, act)


def _set_text(element: Any, text: str) -> None:
    if element.content != text:
        element.content = text
