# SPDX-License-Identifier: Apache-2.0
"""Draw a cell, as a picture of its start or as a film."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from multipanda_py.cell import Cell
from multipanda_py.commands.demo import Demo
from multipanda_py.commands.options import pixels, positive
from multipanda_py.commands.output import FAILED, OK, complain, say
from multipanda_py.config import CellConfig
from multipanda_py.rendering import Renderer, VideoWriter, render_png
from multipanda_py.scene_view import SceneView

SUMMARY = "Draw a cell without a window: a picture of its start (png) or a film (mp4, gif)."

FPS = {".mp4": 30.0, ".gif": 25.0}
SIMULATED = ("mujoco", "mock")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", help="the cell file")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="picture or film; default: <cell>.png"
    )
    parser.add_argument(
        "--seconds", type=positive, default=6.0, help="length of a film (default: %(default)g)"
    )
    parser.add_argument("--width", type=pixels, default=1280, help="default: %(default)d pixels")
    parser.add_argument("--height", type=pixels, default=720, help="default: %(default)d pixels")
    parser.add_argument("--camera", metavar="NAME", help="a camera of the scene, e.g. overview")
    parser.add_argument(
        "--demo", action="store_true", help="move every arm on a circle and switch once"
    )


def run(options: argparse.Namespace) -> int:
    """Draw what the suffix of the output asks for."""
    config = simulated(CellConfig.from_yaml(options.file))
    output = options.output or Path(f"{config.cell.name}.png")
    suffix = output.suffix.lower()
    if suffix == ".png":
        view = SceneView(config)
        render_png(view.model, view.data, output, options.width, options.height, options.camera)
    elif suffix in FPS:
        _film(config, output, FPS[suffix], options)
    else:
        complain(f"multipanda render: {output}: the suffix must be .png, .mp4 or .gif")
        return FAILED
    say(f"{output}: {output.stat().st_size / 1e3:.0f} kB")
    return OK


def simulated(config: CellConfig) -> CellConfig:
    """Return the same cell, inline and in simulation: a film moves no real arm."""
    data = config.model_dump()
    data["cell"]["placement"] = "inline"
    for arm in data["arms"].values():
        if arm["backend"] not in SIMULATED:
            arm["backend"] = "mujoco"
    return CellConfig.from_dict(data)


def _film(config: CellConfig, output: Path, fps: float, options: argparse.Namespace) -> None:
    """Run the cell and record it: the same file for the same cell, on any machine."""
    view = SceneView(config)
    count = max(1, round(options.seconds * fps))
    rate = config.cell.rate
    with (
        Cell(config) as cell,
        Renderer(view.model, options.width, options.height) as renderer,
        VideoWriter(output, fps) as film,
    ):
        demo = Demo(cell, options.seconds) if options.demo else None
        done = 0
        for number in range(count):
            until = round(number * rate / fps)
            while done < until:
                if demo is not None:
                    news = demo.update(done / rate)
                    if news:
                        _progress(f"{done / rate:.2f} s: {news}\n")
                batch = min(10, until - done)
                cell.step(batch)
                done += batch
            total, rows = cell.rows(max(0, cell.rows(1 << 62)[0] - 1))
            view.show(rows[-1]) if total else None
            film.append(renderer.frame(view.data, options.camera))
            _progress(f"frame {number + 1} of {count}")
        _progress(f"{count} frames\n")
        for event in cell.events():
            complain(f"event: {event}")


def _progress(text: str) -> None:
    """Write over the last line of standard error, if someone watches."""
    if sys.stderr.isatty() or text.endswith("\n"):
        sys.stderr.write(f"\r\x1b[K{text}" if sys.stderr.isatty() else text)
        sys.stderr.flush()
