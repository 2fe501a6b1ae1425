# SPDX-License-Identifier: Apache-2.0
"""Render a cell, as an image of its start or as a video."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from multipanda_py.apps.commands.command_line import OK, complain, pixels, positive, print_line
from multipanda_py.cell import Cell
from multipanda_py.cell.switch_planning import Strictness
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.pose import Pose
from multipanda_py.realtime.system.signals import end_in_order
from multipanda_py.state import Vector

if TYPE_CHECKING:
    from multipanda_py.simulation.scene_view import SceneView


CIRCLE_RADIUS = 0.08
"""Radius of the circles that the tools draw [m]; twice the radius must stay within the gate."""
JOINT_AMPLITUDE = 0.15
"""Amplitude of the joints under a controllet with joint targets only [rad]."""
PERIOD = 3.0
"""Period of one circle [s]."""
RAMP_TIME = 0.6
"""Duration of the start and of the stop of a motion [s]."""


class Demo:
    """Demo motion of tools on circles in the y-z plane of the base.

    Controllets with joint targets move the first joint back and forth instead. Adjacent arms move
    in opposite directions. Half-way, other controllets take over.

    Args:
        cell: A started cell.
        duration: Duration of the motion [s].
    """

    def __init__(self, cell: Cell, duration: float) -> None:
        self._cell = cell
        self._duration = duration
        self._switched = False
        gate = cell.config.gate
        self._radius = min(CIRCLE_RADIUS, 0.4 * gate.position)
        self._swing = min(JOINT_AMPLITUDE, 0.4 * gate.joint)
        idle = [arm for arm in cell.arms if not cell.spec(cell.state(arm).owner).channels]
        taken: set[str] = set()
        chosen = []
        for spec in cell.specs:  # Arms on hold get the first controllet that accepts targets.
            arms = set(spec.config.arms)
            if spec.channels and arms <= set(idle) and not arms & taken:
                taken |= arms
                chosen.append(spec.name)
        if chosen:
            cell.switch(chosen, strictness=Strictness.AUTO)
        self._pose = {arm: cell.pose(arm) for arm in cell.arms}
        self._q = {arm: cell.state(arm).q for arm in cell.arms}

    def update(self, time: float) -> str:
        """Send the targets of all arms for a time since the start [s], and switch half-way.

        Returns:
            Message on a switch in this call; otherwise empty.
        """
        news = ""
        if not self._switched and time >= self._duration / 2:
            self._switched = True
            news = self._switch_controllets()
        angle = 2.0 * np.pi / PERIOD * time
        left = min(time, self._duration - time)
        size = 0.5 - 0.5 * np.cos(np.pi * min(1.0, max(0.0, left / RAMP_TIME)))
        for index, arm in enumerate(self._cell.arms):
            channels = self._cell.spec(self._cell.state(arm).owner).channels
            signed_angle = angle if index % 2 == 0 else -angle
            if "pose" in channels:
                step = size * self._radius * _circle(signed_angle)
                start = self._pose[arm]
                self._cell.set_target(arm, Pose(start.position + step, start.rotation))
            elif "joint" in channels:
                q = self._q[arm].copy()
                q[0] += size * self._swing * np.sin(signed_angle)
                self._cell.set_target(arm, q=q)
        return news

    def _switch_controllets(self) -> str:
        cell = self._cell
        active, taken = set(cell.active), set[str]()
        chosen = []
        for spec in sorted(cell.specs, key=_fitness):
            arms = set(spec.config.arms)
            if spec.channels and spec.name not in active and not arms & taken:
                taken |= arms
                chosen.append(spec.name)
        if not chosen:
            return ""
        return cell.switch(chosen, strictness=Strictness.FORCE_AUTO).message


def _fitness(spec: InstanceSpec) -> tuple[bool, int]:
    return ("pose" not in spec.channels, -len(spec.arms))


def _circle(angle: float) -> Vector:
    return np.array([0.0, np.sin(angle), np.cos(angle)])


SUMMARY = "Render a cell offscreen: an image of its start (png) or a video (mp4, gif, webp)."

FPS = {".mp4": 30.0, ".gif": 20.0, ".webp": 25.0}
SMALL_SIZE, LARGE_SIZE = (640, 360), (1280, 720)
"""Default sizes of GIF and WebP, and of everything else [pixels]."""
TARGET_CYCLES = 10
"""Cycles between two targets of the demo."""
SIMULATED_BACKENDS = ("mujoco", "mock")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="cell file")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="image or video; default: <cell>.png"
    )
    parser.add_argument(
        "--seconds", type=positive, default=6.0, help="length of a video (default: %(default)g)"
    )
    parser.add_argument("--fps", type=positive, help="frames per second of a video")
    for side, small, large in zip(("width", "height"), SMALL_SIZE, LARGE_SIZE):
        text = f"size in pixels; default: {large}, {small} for gif and webp"
        parser.add_argument(f"--{side}", type=pixels, metavar="N", help=text)
    parser.add_argument(
        "--camera", default="overview", metavar="NAME", help="camera name; default: %(default)s"
    )
    parser.add_argument(
        "--demo",
        action="store_true",
        help="move every arm on a circle and switch controllets once",
    )


def run(options: argparse.Namespace) -> int:
    """Render an image or a video, according to the suffix of the output."""
    # MuJoCo takes half a second to load, so only this command imports it.
    from multipanda_py.simulation.rendering import Renderer, open_video, render_png
    from multipanda_py.simulation.scene_view import SceneView

    config = with_simulated_arms(CellConfig.from_yaml(options.file))
    output = options.output or Path(f"{config.cell.name}.png")
    suffix = output.suffix.lower()
    if suffix != ".png" and suffix not in FPS:
        raise ConfigurationError(f"{output}: the suffix must be .png, {', '.join(FPS)}")
    width, height = SMALL_SIZE if suffix in (".gif", ".webp") else LARGE_SIZE
    size = (options.width or width, options.height or height)
    output.parent.mkdir(parents=True, exist_ok=True)
    view = SceneView(config)
    if suffix == ".png":
        render_png(view.model, view.data, output, *size, options.camera)
    else:
        fps = options.fps or FPS[suffix]
        end_in_order()
        with Renderer(view.model, *size) as renderer, open_video(output, fps) as video:
            for _ in simulate_frames(config, options.seconds, fps, options.demo, view):
                video.append(renderer.frame(view.data, options.camera))
    print_line(f"{output}: {output.stat().st_size / 1e3:.0f} kB")
    return OK


def with_simulated_arms(config: CellConfig) -> CellConfig:
    """Return a copy of the cell in which all arms are simulated and the placement is inline."""
    data = config.model_dump()
    data["cell"]["placement"] = "inline"
    for arm in data["arms"].values():
        if arm["backend"] not in SIMULATED_BACKENDS:
            arm["backend"] = "mujoco"
    return CellConfig.from_dict(data)


def simulate_frames(
    config: CellConfig, seconds: float, fps: float, demo: bool, view: SceneView
) -> Iterator[int]:
    """Run a cell and move the bodies of a scene to their poses at each frame of a video.

    Args:
        config: Configuration of a cell with placement inline.
        seconds: Duration of the video [s].
        fps: Frames per second.
        demo: True to move the arms by :class:`Demo`.
        view: Scene of the cell.

    Yields:
        Number of the frame.
    """
    rate = config.cell.rate
    count = max(1, round(seconds * fps))
    with Cell(config) as cell:
        motion = Demo(cell, seconds) if demo else None
        done = 0
        for number in range(count):
            until = round(number * rate / fps)
            while done < until:
                news = motion.update(done / rate) if motion is not None else ""
                if news:
                    _show_progress(f"{done / rate:.2f} s: {news}\n")
                batch = min(TARGET_CYCLES, until - done)
                cell.step(batch)
                done += batch
            view.show(newest_row(cell))
            _show_progress(f"frame {number + 1} of {count}")
            yield number
        _show_progress(f"{count} frames\n")
        for event in cell.events():
            complain(f"event: {event}")


def newest_row(cell: Cell) -> NDArray[np.void]:
    """Return a copy of the record of the newest cycle: the state of all arms and objects."""
    cell.state(cell.arms[0])  # An inline cell that has not run yet runs one cycle here.
    total, _ = cell.records(since=sys.maxsize)
    row: NDArray[np.void] = cell.records(total - 1)[1][-1]
    return row


def _show_progress(text: str) -> None:
    if sys.stderr.isatty() or text.endswith("\n"):
        sys.stderr.write(f"\r\x1b[K{text}" if sys.stderr.isatty() else text)
        sys.stderr.flush()
