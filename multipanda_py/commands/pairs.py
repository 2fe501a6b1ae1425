# SPDX-License-Identifier: Apache-2.0
"""Record the same motions on a twin and on a plant."""

from __future__ import annotations

import argparse
from pathlib import Path

from multipanda_py.commands.options import arm_of, seed
from multipanda_py.commands.output import OK, complain, say
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.machine.interruption import end_in_order
from multipanda_py.pairs.data_set import TABLE, Wished, record_pairs
from multipanda_py.pairs.recording import ALIGNMENTS
from multipanda_py.perturbation import TYPICAL, PerturbationSpec

SUMMARY = "Record the same random motions on a twin and on a plant, into a data set to learn from."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("cell", metavar="CELL", help="the twin, a simulated cell file")
    parser.add_argument("--arm", metavar="ARM", help="which moves; the only one if none is named")
    parser.add_argument("--plant", metavar="FILE", help="the plant, another simulated cell file")
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
        "--align", choices=ALIGNMENTS, default=ALIGNMENTS[0],
        help="how both sides are cut to one begin: both at the same time (default), where "
        "each leaves its rest, or the plant by cross-correlation",
    )  # fmt: skip
    parser.add_argument("--seed", type=seed, default=0, help="of motions, noise and split")
    parser.add_argument(
        "--jobs", type=int, default=-1, metavar="N", help="processes, default one per core"
    )
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
    if options.plant and options.spec:
        raise ConfigurationError("--spec: got one with --plant, allowed one of them")
    twin = CellConfig.from_yaml(options.cell)
    arm = arm_of(twin.arms, options.arm)
    if options.plant:
        plant = CellConfig.from_yaml(options.plant)
    else:
        plant = PerturbationSpec.from_yaml(options.spec or TYPICAL).draw(twin, options.plant_seed)
    wished = Wished(options.multi, options.single, options.linear, options.margin, options.seed)
    count = record_pairs(
        twin,
        plant,
        arm,
        options.output,
        wished,
        align=options.align,
        jobs=options.jobs,
        say=complain,
    )
    say(f"{options.output / TABLE}: {count} motions on both sides")
    return OK
