# SPDX-License-Identifier: Apache-2.0
"""Record a data set of the same motions, executed by a simulated twin and a reference robot."""

from __future__ import annotations

import argparse
from pathlib import Path

from multipanda_py.apps.commands.command_line import OK, arm_of, complain, print_line, seed
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.perturbation import TYPICAL_ERRORS_FILE, PerturbationSpec
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.identification.paired.data_set import DataSetSpec, record_pairs
from multipanda_py.identification.paired.folder import PARALLEL_BACKENDS, TABLE_FILE
from multipanda_py.identification.paired.motions import CONTROLLETS
from multipanda_py.identification.paired.recording import ALIGNMENTS
from multipanda_py.identification.paired.replay import FOLLOWED_SIGNALS, replay_logs
from multipanda_py.realtime.system.signals import end_in_order

SUMMARY = (
    "Record the same motions on a twin and on a reference robot (simulated, real or from logs). "
    "The result is a data set for learning."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cell", metavar="CELL", help="cell file of the simulated twin")
    parser.add_argument("--arm", metavar="ARM", help="arm that moves; not needed for one arm")
    parser.add_argument(
        "--plant", metavar="FILE",
        help="cell file of the reference robot; if it is real, its arm MOVES through its whole "
        "workspace, one motion after another",
    )  # fmt: skip
    parser.add_argument(
        "--logs", metavar="FILE", type=Path, nargs="+",
        help="recordings instead of --plant, .mcap, bags, .csv or .parquet; the twin repeats "
        "their motions, each from rest to rest",
    )  # fmt: skip
    parser.add_argument("--log-arm", metavar="ARM", help="arm in --logs, if there are several")
    parser.add_argument("--robot", metavar="MODEL", help="robot model for --logs without one")
    parser.add_argument(
        "--follow", choices=FOLLOWED_SIGNALS,
        help="motion in --logs that the twin follows; default: commanded, if recorded",
    )  # fmt: skip
    parser.add_argument(
        "--controllet",
        choices=CONTROLLETS,
        default=CONTROLLETS[0],
        help=f"controllet of the twin, default {CONTROLLETS[0]}",
    )
    parser.add_argument(
        "--plant-controllet",
        choices=CONTROLLETS,
        help="controllet of the reference robot; default: as for the twin",
    )
    parser.add_argument(
        "--spec",
        metavar="FILE",
        help="without --plant: ranges for a random reference robot, as for multipanda perturb",
    )
    parser.add_argument(
        "--plant-seed", type=seed, default=1, help="seed of the random reference robot, default 1"
    )
    for kind, default, content in (
        ("multi", 850, "several joints"),
        ("single", 870, "one joint"),
        ("linear", 50, "the tool along straight lines"),
    ):
        parser.add_argument(
            f"--{kind}", type=int, default=default, metavar="N",
            help=f"number of motions of {content}, default {default}",
        )  # fmt: skip
    parser.add_argument(
        "--clearance", type=float, default=0.03, metavar="M",
        help="minimum distance to floor, objects and other arms, default 0.03",
    )  # fmt: skip
    parser.add_argument(
        "--align", choices=ALIGNMENTS,
        help="alignment of both sides. clock: same time (default); command: time of first command "
        "(default for real arms); rest: start of motion; correlation: cross-correlation",
    )  # fmt: skip
    parser.add_argument("--seed", type=seed, default=0, help="seed of motions, noise and split")
    parser.add_argument(
        "--jobs", type=int, default=-1, metavar="N",
        help="number of processes; default: one per core",
    )  # fmt: skip
    parser.add_argument(
        "--parallel", choices=PARALLEL_BACKENDS, default=PARALLEL_BACKENDS[0],
        help="backend of joblib: processes on this machine (default), or Dask",
    )  # fmt: skip
    parser.add_argument(
        "--cluster", metavar="HOST:PORT", default="",
        help="scheduler for --parallel dask; without it, a cluster on this machine",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", type=Path, required=True,
        help="folder of the data set; the same arguments continue an interrupted recording",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Record motions of twin and reference robot to a data set, or replay logs on the twin."""
    end_in_order()
    for kind in ("multi", "single", "linear"):
        if not 0 <= getattr(options, kind) <= 99999:
            raise ConfigurationError(
                f"--{kind}: got {getattr(options, kind)}, allowed 0 to 99999 motions"
            )
    if not 0.0 <= options.clearance <= 1.0:
        raise ConfigurationError(f"--clearance: got {options.clearance:g}, allowed 0 to 1 m")
    if options.jobs != -1 and options.jobs < 1:
        raise ConfigurationError(f"--jobs: got {options.jobs}, allowed 1 and above, or -1")
    values = [name for name in ("plant", "spec", "logs") if getattr(options, name)]
    if values[1:]:
        raise ConfigurationError(f"--{values[1]}: not allowed together with --{values[0]}")
    twin = CellConfig.from_yaml(options.cell)
    arm = arm_of(twin.arms, options.arm)
    count = (
        _replay_logged_motions(options, twin, arm)
        if options.logs
        else _record_new_motions(options, twin, arm)
    )
    print_line(f"{options.output / TABLE_FILE}: {count} motions on both sides")
    return OK


def _record_new_motions(options: argparse.Namespace, twin: CellConfig, arm: str) -> int:
    for name in ("follow", "robot", "log_arm"):
        if getattr(options, name):
            raise ConfigurationError(f"--{name.replace('_', '-')}: only allowed with --logs")
    if options.plant:
        plant = CellConfig.from_yaml(options.plant)
    else:
        plant = PerturbationSpec.from_yaml(options.spec or TYPICAL_ERRORS_FILE).draw(
            twin, options.plant_seed
        )
    desired = DataSetSpec(
        options.multi, options.single, options.linear, options.clearance, options.seed
    )
    return record_pairs(
        twin,
        plant,
        arm,
        options.output,
        desired,
        align=options.align or "",
        controllets=(options.controllet, options.plant_controllet or options.controllet),
        jobs=options.jobs,
        parallel=options.parallel,
        cluster=options.cluster,
        log=complain,
    )


def _replay_logged_motions(options: argparse.Namespace, twin: CellConfig, arm: str) -> int:
    if options.plant_controllet:
        raise ConfigurationError("--plant-controllet: not allowed with --logs. Remove it.")
    return replay_logs(
        twin,
        options.logs,
        arm,
        options.output,
        of_log=options.log_arm or "",
        robot=options.robot,
        follow=options.follow or "",
        controllet=options.controllet,
        align=options.align or "",
        seed=options.seed,
        jobs=options.jobs,
        parallel=options.parallel,
        cluster=options.cluster,
        report=complain,
    )
