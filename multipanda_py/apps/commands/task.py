# SPDX-License-Identifier: Apache-2.0
"""Execute a task of several subtasks."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from multipanda_py.apps.commands.command_line import (
    FAILED,
    OK,
    check_output,
    complain,
    pixels,
    positive,
    print_line,
)
from multipanda_py.apps.commands.render import newest_row
from multipanda_py.cell import Cell
from multipanda_py.cell.tasks import TaskFile, TaskRunner
from multipanda_py.cell.tasks.controllet_client import observe
from multipanda_py.cell.tasks.metrics import TaskMetrics, write_report
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError, TaskFailed
from multipanda_py.planning.tasks.check import SubtaskCheck, check_task
from multipanda_py.planning.tasks.sections import PARTS
from multipanda_py.realtime.system.signals import end_in_order
from multipanda_py.registry import pyplot

SUMMARY = "Execute a task file of several subtasks: plan motions, press, carry objects."
FPS = 25.0
"""Default frame rate of videos [1/s]."""
SUFFIXES = (".mp4", ".gif", ".webp")
CAMERA_DISTANCE_SCALE, CAMERA_RAISE = 1.6, 0.2
"""Video camera relative to the default: distance factor, and height [m], because arms may lift
objects above themselves."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="task file")
    parser.add_argument(
        "--cell", metavar="CELL", help="cell file instead of the one that the task names"
    )
    parser.add_argument(
        "--lockstep", action="store_true",
        help="run as fast as possible and repeatably; simulated arms only",
    )  # fmt: skip
    parser.add_argument(
        "--check", action="store_true",
        help="plan each subtask from the end of the previous one and report faults; nothing moves",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the result of --check as JSON")
    parser.add_argument(
        "--no-check", action="store_true",
        help="start without this check; an infeasible subtask fails when it is reached",
    )  # fmt: skip
    parser.add_argument(
        "--ablate", choices=PARTS,
        help="leave out a part to see its effect. force: no contact forces; plan: straight paths; "
        "hybrid: force and motion never at the same time. Only with --lockstep",
    )  # fmt: skip
    parser.add_argument(
        "--video",
        type=Path,
        metavar="OUT",
        help="video to write, mp4, gif or webp; runs in lockstep",
    )
    parser.add_argument(
        "--report", type=Path, metavar="FOLDER",
        help="folder for a report: measures of each subtask, plots of forces and paths",
    )  # fmt: skip
    parser.add_argument(
        "--width", type=pixels, default=640, metavar="N", help="width of the video [pixels]"
    )
    parser.add_argument(
        "--height", type=pixels, default=360, metavar="N", help="height of the video [pixels]"
    )
    parser.add_argument("--fps", type=positive, default=FPS, help="frames per second of the video")


def run(options: argparse.Namespace) -> int:
    """Execute the task of a file, or only check it with ``--check``."""
    task = TaskFile.from_yaml(options.file)
    path = options.cell or task.cell
    if not path:
        raise ConfigurationError(f"{options.file}: cell: missing. Add this key or use --cell.")
    video = options.video
    if video is not None:
        check_output(video, *SUFFIXES, option="--video")
    inline = options.lockstep or video is not None
    if options.ablate and not inline:
        raise ConfigurationError("--ablate: needs --lockstep (simulation), because it leaves "
                                 "out forces, and real arms may drop what they carry")  # fmt: skip
    if options.report is not None:
        pyplot()  # Fails now, before arms move, if matplotlib is missing.
    cell = Cell.from_yaml(path, placement="inline" if inline else None)
    task.check(cell.config)
    if options.check:
        return print_plan_checks(task, cell.config, options)
    end_in_order()
    with cell:
        if not (options.no_check or options.ablate):
            start = observe(cell, cell.spec(task.controllet).config.arms)
            print_line(f"{task.name}: {describe_checks(check_task(cell.config, task, start))}")
        runner = TaskRunner(cell, task, lambda event: print_line(f"{event}"), options.ablate)
        book = TaskMetrics(runner)
        note = None if options.report is None else book.note
        try:
            is_done = runner.run(note) if video is None else run_with_video(runner, options, note)
        finally:
            runner.close()
    if options.report is not None:
        print_line(", ".join(map(str, write_report(book, options.report))))
    if not is_done:
        complain(f"multipanda task: {runner.reason}; all arms hold")
    return OK if is_done else FAILED


def print_plan_checks(task: TaskFile, config: CellConfig, options: argparse.Namespace) -> int:
    """Plan all subtasks without motion, print the results and return the exit code."""
    checks: list[SubtaskCheck] = []

    def note(one: SubtaskCheck) -> None:
        checks.append(one)
        if not options.json:
            print_line(f"{one}")

    refused = ""
    try:
        check_task(config, task, on_subtask=note)
    except TaskFailed as error:
        refused = f"{error}"
        complain(f"multipanda task: {refused}")
    if options.json:
        result = {
            "task": task.name,
            "refused": refused,
            "subtasks": [asdict(one) for one in checks],
        }
        print_line(json.dumps(result))
    elif not refused:
        print_line(f"{options.file}: {describe_checks(checks)}")
    return FAILED if refused else OK


def describe_checks(checks: Sequence[SubtaskCheck]) -> str:
    """Return the number of checked subtasks and their computing time as text."""
    count = sum(one.is_checked for one in checks)
    seconds = sum(one.seconds for one in checks)
    return f"{count} of {len(checks)} subtasks checked in {seconds:.1f} s"


def run_with_video(
    runner: TaskRunner, options: argparse.Namespace, note: Callable[[], None] | None
) -> bool:
    """Execute the task and render it to a video; return True if it was completed.

    Args:
        runner: Runner of the task.
        options: Options of the command.
        note: Function that is called after every step; None for no function.
    """
    # MuJoCo is optional and takes half a second to load.
    import mujoco

    from multipanda_py.simulation.rendering import Renderer, open_video
    from multipanda_py.simulation.scene_view import SceneView

    cell, images = runner.cell, 0
    view = SceneView(cell.config)
    camera = mujoco.MjvCamera()
    mujoco.mjv_defaultFreeCamera(view.model, camera)
    camera.distance *= CAMERA_DISTANCE_SCALE
    camera.lookat[2] += CAMERA_RAISE
    with (
        Renderer(view.model, options.width, options.height) as renderer,
        open_video(options.video, options.fps) as video,
    ):

        def take() -> None:
            nonlocal images
            if note is not None:
                note()
            if cell.time * options.fps >= images:
                view.show(newest_row(cell))
                video.append(renderer.frame(view.data, camera))
                images += 1

        is_done = runner.run(take)
    print_line(f"{options.video}: {images} frames")
    return is_done
