# SPDX-License-Identifier: Apache-2.0
"""Commands that import the description of an arm, and export a cell to MoveIt 2."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

import numpy as np

from multipanda_py.apps.commands.command_line import (
    OK,
    Verb,
    add_verbs,
    complain,
    print_line,
    run_verb,
)
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError, RenderingUnavailable
from multipanda_py.robots.importing.robot_draft import RobotDraft, draft_robot, draft_yaml

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


def _add_import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="URDF without macros, or MJCF")
    parser.add_argument("--base", default="", metavar="LINK", help="base link of the arm")
    parser.add_argument("--tip", default="", metavar="LINK", help="link that carries the tool")
    parser.add_argument("--name", default="", help="name of the robot; default: that of the file")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="output folder; default: this folder",
    )
    parser.add_argument(
        "--extra", type=Path, metavar="YAML", help="known data, such as limits, kept as they are"
    )
    parser.add_argument(
        "--package-path",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="folder for package:// URLs, in addition to the folders above FILE; may be repeated",
    )
    parser.add_argument(
        "--capsules",
        type=int,
        choices=range(1, 5),
        default=2,
        help="maximum number of capsules per link, default 2",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing YAML file")
    parser.add_argument("--no-image", action="store_true", help="draw no image")


def _run_import(options: argparse.Namespace) -> int:
    name = options.name or re.sub(r"\W", "_", options.file.stem)
    if not _NAME.match(name):
        raise ConfigurationError(
            f"--name: got {name!r}, allowed a letter, then letters, digits and underscores"
        )
    target = options.output / f"{name}.yaml"
    if target.exists() and not options.force:
        raise ConfigurationError(f"{target}: exists already. Replace it with --force.")
    draft = draft_robot(
        options.file,
        base=options.base,
        tip=options.tip,
        name=name,
        extra=options.extra,
        packages=options.package_path,
        max_capsules=options.capsules,
    )
    options.output.mkdir(parents=True, exist_ok=True)
    source = os.path.relpath(options.file.resolve(), target.parent.resolve())
    target.write_text(draft_yaml(draft, source), encoding="utf-8")
    _report(draft)
    print_line(f"wrote {target}")
    if not options.no_image:
        _draw(draft, target.with_suffix(".png"))
    return OK


def _report(draft: RobotDraft) -> None:
    robot, limits = draft.robot, draft.robot.limits
    print_line(f"{robot.name}: {robot.n_joints} joints, {draft.arm.base} to {draft.arm.tip}")
    for i, joint in enumerate(robot.joints):
        span, unit = "turns without limits", limits.unit(i)
        if np.isfinite([limits.lower[i], limits.upper[i]]).all():
            span = f"{limits.lower[i]:.3g} to {limits.upper[i]:.3g} {unit}"
        torque = f"{limits.torque[i]:.4g} {limits.unit(i, 'Nm')}"
        print_line(f"  {joint.name}: {span}, {limits.velocity[i]:.3g} {unit}/s, {torque}")
    for link in robot.links:
        count = len(link.capsules)
        print_line(
            f"  {link.name}: {link.inertial.mass:.3g} kg, {count} capsule{'s' * (count != 1)}"
        )
    for text in (*draft.warnings, *draft.fit.warnings, *draft.left_out):
        complain(f"warning: {text}")


def _draw(draft: RobotDraft, path: Path) -> None:
    # MuJoCo takes half a second to load and is needed only for the image.
    from multipanda_py.simulation.scene_view import render_robot

    try:
        render_robot(path, draft.robot, draft.chain, draft.shapes)
    except RenderingUnavailable as error:
        complain(f"warning: no image: {error}")
        return
    print_line(f"wrote {path}: check that the capsules enclose the links")


IMPORT = Verb(
    "Write a YAML draft of the data that a URDF or MJCF lacks; fit capsules and draw them.",
    _add_import_arguments,
    _run_import,
)
ROBOT_VERBS = {"import": IMPORT}


def _add_robot_arguments(parser: argparse.ArgumentParser) -> None:
    add_verbs(parser, ROBOT_VERBS)


def _add_moveit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="CELL", help="cell file")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FOLDER", help="output folder; default moveit_<cell>"
    )


def _run_moveit(options: argparse.Namespace) -> int:
    # The collision library is slow to load, so only this command imports it.
    from multipanda_py.planning.moveit_files import moveit_files
    from multipanda_py.planning.moveit_srdf import Groups

    config = CellConfig.from_yaml(options.file)
    folder = options.output or Path(f"moveit_{config.cell.name}")
    groups = Groups(config)
    hands = [groups.hand_group(arm) for arm in groups.arms.values() if arm.hand]
    print_line(f"groups: {', '.join([*groups.arms, *groups.sets, *hands])}")
    files = moveit_files(config)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    print_line(f"{folder}: {', '.join(files)}")
    return OK


COMMANDS = {
    "robot": Verb(
        "Draft the data of an arm that its URDF or MJCF lacks: multipanda robot import FILE.",
        _add_robot_arguments,
        run_verb,
    ),
    "moveit": Verb(
        "Write the MoveIt 2 configuration of a cell: SRDF, limits, planners, controllers.",
        _add_moveit_arguments,
        _run_moveit,
    ),
}
