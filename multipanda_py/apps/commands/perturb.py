# SPDX-License-Identifier: Apache-2.0
"""Write a twin of a cell whose arms differ from the models of their controllets."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from multipanda_py.apps.commands.command_line import CELL_FILES, OK, check_output, print_line, seed
from multipanda_py.config.cell_file import CellConfig, changed_text
from multipanda_py.config.parameter_file import merged
from multipanda_py.config.perturbation import FR3_GEARS, TYPICAL_ERRORS_FILE, PerturbationSpec
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files import replacing

SUMMARY = "Write a twin of a cell with other inertia, friction, delay, noise, contact and poses."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cell", metavar="CELL", help="cell file")
    parser.add_argument(
        "--spec", metavar="FILE",
        help="values and ranges; default: typical deviations of a carefully built arm, "
        f"{TYPICAL_ERRORS_FILE.name} of multipanda_py.config.perturbation; {FR3_GEARS.name} has "
        f"hysteresis",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=seed, help="seed of the random values; default: that of --spec"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="cell file of the twin to write"
    )


def run(options: argparse.Namespace) -> int:
    """Write the cell file of the twin atomically."""
    target = check_output(Path(options.output), *CELL_FILES, beside=[options.cell, options.spec])
    config = CellConfig.from_yaml(options.cell)
    if not any(arm.backend == "mujoco" for arm in config.arms.values()):
        raise ConfigurationError(
            f"{options.cell}: has real arms only, which cannot be perturbed. Use a cell file with "
            "simulated arms."
        )
    spec = PerturbationSpec.from_yaml(options.spec or TYPICAL_ERRORS_FILE)
    spec.draw(config, options.seed)  # This checks the values before anything is written.
    values = spec.values_for(config, options.seed)
    change: dict[str, Any] = {}
    for section, keys in values.items():
        layer: dict[str, Any] = dict(keys)
        for step in reversed(section.split(".")):
            layer = {step: layer}
        change = merged(change, layer)
    used = spec.seed if options.seed is None else options.seed
    head = f"# A twin of {Path(options.cell).name}, seed {used}."
    text = changed_text(options.cell, change, head)
    with replacing(target) as partial:
        partial.write_text(text, encoding="utf-8")
        CellConfig.from_yaml(partial)
    print_line(f"{target}: {sum(map(len, values.values()))} keys drawn with seed {used}")
    return OK
