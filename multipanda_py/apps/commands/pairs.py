# SPDX-License-Identifier: Apache-2.0
"""Record the same motions on a twin and on a plant."""

from __future__ import annotations

import argparse
from pathlib import Path

from multipanda_py.apps.commands.command_line import OK, arm_of, complain, say, seed
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.perturbation import TYPICAL, PerturbationSpec
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.identification.paired.data_set import Wished, record_pairs
from multipanda_py.identification.paired.folder import TABLE
from multipanda_py.identification.paired.motions import LAWS
from multipanda_py.identification.paired.parallel import PARALLEL
from multipanda_py.identification.paired.recording import ALIGNMENTS
from multipanda_py.identification.paired.replay import FOLLOW, replay_logs
from multipanda_py.realtime.system.signals import end_in_order

SUMMARY = (
    "Record the same motions on a twin and on a plant, simulated, real or recorded before, into a "
    "data set to learn from."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("cell", metavar="CELL", help="the twin, a simulated cell file")
    parser.add_argument("--arm", metavar="ARM", help="which moves; the only one if none is named")
    parser.add_argument(
        "--plant", metavar="FILE",
        help="the plant, another cell file; if its arm is real, this arm MOVES all over its "
        "workspace, one motion after another",
    )  # fmt: skip
    parser.add_argument(
        "--logs", metavar="FILE", type=Path, nargs="+",
        help="instead of a plant: recordings of it, .mcap, bags, .csv or .parquet, whose motions "
        "from rest to rest the twin does again",
    )  # fmt: skip
    parser.add_argument("--log-arm", metavar="ARM", help="which of several arms of --logs")
    parser.add_argument("--robot", metavar="MODEL", help="of --logs that do not say")
    parser.add_argument(
        "--follow", choices=FOLLOW,
        help="what of --logs the twin is told; default what was commanded, if recorded",
    )  # fmt: skip
    parser.add_argument(
        "--law", choices=LAWS, default=LAWS[0], help=f"of the twin, default {LAWS[0]}"
    )
    parser.add_argument("--plant-law", choices=LAWS, help="of the plant, default that of the twin")
    parser.add_argument(
        "--spec", metavar="FILE", help="without --plant: ranges, as for multipanda perturb"
    )
    parser.add_argument(
        "--plant-seed", type=seed, default=1, help="of the plant that is drawn, default 1"
    )
    for kind, default in (("multi", 850), ("single", 870), ("linear", 50)):
        parser.add_argument(
            f"--{kind}", type=int, default=default, metavar="N", help=f"default {default}"
        )
    parser.add_argument(
        "--margin", type=float, default=0.03, metavar="M",
        help="least distance to floor, things and other arms, default 0.03",
    )  # fmt: skip
    parser.add_argument(
        "--align", choices=ALIGNMENTS,
        help="how both sides are cut to one begin: both at the same time (default), or since each "
        "one's law was told (default of real arms), where each leaves its rest, or the plant by "
        "cross-correlation",
    )  # fmt: skip
    parser.add_argument("--seed", type=seed, default=0, help="of motions, noise and split")
    parser.add_argument(
        "--jobs", type=int, default=-1, metavar="N", help="processes, default one per core"
    )
    parser.add_argument(
        "--parallel", choices=PARALLEL, default=PARALLEL[0],
        help="by which joblib simulates: processes of this machine (default), or Dask",
    )  # fmt: skip
    parser.add_argument(
        "--cluster", metavar="HOST:PORT", default="",
        help="the scheduler of --parallel dask; without, a cluster of this machine",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", type=Path, required=True,
        help="of the data set; what was broken off goes on with the same arguments",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Record the data set."""
    end_in_order()
    for kind in ("multi", "single", "linear"):
        if not 0 <= getattr(options, kind) <= 99999:
            raise ConfigurationError(
                f"--{kind}: got {getattr(options, kind)}, allowed 0 to 99999 motions"
            )
    if not 0.0 <= options.margin <= 1.0:
        raise ConfigurationError(f"--margin: got {options.margin:g}, allowed 0 to 1 m")
    if options.jobs != -1 and options.jobs < 1:
        raise ConfigurationError(f"--jobs: got {options.jobs}, allowed 1 and more, or -1")
    given = [name for name in ("plant", "spec", "logs") if getattr(options, name)]
    if given[1:]:
        raise ConfigurationError(f"--{given[1]}: got one with --{given[0]}, allowed one of them")
    twin = CellConfig.from_yaml(options.cell)
    arm = arm_of(twin.arms, options.arm)
    count = _replayed(options, twin, arm) if options.logs else _recorded(options, twin, arm)
    say(f"{options.output / TABLE}: {count} motions on both sides")
    return OK


def _recorded(options: argparse.Namespace, twin: CellConfig, arm: str) -> int:
    """Have a plant move."""
    for name in ("follow", "robot", "log_arm"):
        if getattr(options, name):
            raise ConfigurationError(f"--{name.replace('_', '-')}: got one, allowed with --logs")
    if options.plant:
        plant = CellConfig.from_yaml(options.plant)
    else:
        plant = PerturbationSpec.from_yaml(options.spec or TYPICAL).draw(twin, options.plant_seed)
    wished = Wished(options.multi, options.single, options.linear, options.margin, options.seed)
    return record_pairs(
        twin,
        plant,
        arm,
        options.output,
        wished,
        align=options.align or "",
        laws=(options.law, options.plant_law or options.law),
        jobs=options.jobs,
        parallel=options.parallel,
        cluster=options.cluster,
        say=complain,
    )


def _replayed(options: argparse.Namespace, twin: CellConfig, arm: str) -> int:
    """Have the twin do what a plant has done."""
    if options.plant_law:
        raise ConfigurationError("--plant-law: got one with --logs, which have their own")
    return replay_logs(
        twin,
        options.logs,
        arm,
        options.output,
        of_log=options.log_arm or "",
        robot=options.robot,
        follow=options.follow or "",
        law=options.law,
        align=options.align or "",
        seed=options.seed,
        jobs=options.jobs,
        parallel=options.parallel,
        cluster=options.cluster,
        say=complain,
    )
