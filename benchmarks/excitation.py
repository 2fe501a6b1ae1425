# SPDX-License-Identifier: Apache-2.0
"""Condition numbers of motions of ``multipanda excite``, compared with random motions.

    .venv/bin/python benchmarks/excitation.py
    .venv/bin/python benchmarks/excitation.py --evaluations 20000 --random 1000

Condition numbers are those of the base regressor. The three cases are one arm, one motion for
three mountings (generalised base parameters), and one arm next to another arm that holds. Random
motions satisfy the same limits and distances.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.identification.arm.excitation import (
    Clearance,
    Excitation,
    ExcitationOptions,
    clearance_in,
)
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.geometry import gravity_in_base

CELL = Path(__file__).parents[1] / "config" / "dual_sim.yaml"
MOUNTINGS = ((0.0, 0.0, 0.0), (0.0, np.pi / 4, 0.0), (0.0, np.pi / 2, 0.0))
"""Roll, pitch and yaw of the base on a table, a slope and a wall, in the world [rad]."""
MARGIN = 0.05
"""Minimum distance to floor, objects and the other arm [m]."""
MAXIMUM = 60.0
"""Maximum processor time of a search [s]."""


def searches(expected: ExcitationOptions) -> dict[str, Excitation]:
    """Return the search of each case, by name."""
    arm = ArmDescription("arm", "fr3")
    config = CellConfig.from_yaml(CELL)
    name, arm_config = next(iter(config.arms.items()))
    clearance = clearance_in(config, name, MARGIN)
    return {
        "an FR3": Excitation(arm, expected, Clearance(arm)),
        "for three mountings": Excitation(
            arm, expected, Clearance(arm), [gravity_in_base(rpy) for rpy in MOUNTINGS]
        ),
        "next to an arm that holds": Excitation(
            describe_arm(name, arm_config), expected, clearance
        ),
    }


def main() -> int:
    """Print the condition numbers; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--evaluations", type=int, default=4000, help="evaluations of the search, default 4000"
    )
    parser.add_argument(
        "--random", type=int, default=100, help="number of random motions, default 100"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.evaluations < 1 or options.random < 1:
        parser.error("--evaluations, --random: allowed 1 or more")
    expected = ExcitationOptions(evaluations=options.evaluations, seed=options.seed)
    rng, good = np.random.default_rng(options.seed + 1), True
    print(f"| arm | base parameters | best of {options.random} random | median | found | CPU |")
    print("|---|---|---|---|---|---|")
    for name, search in searches(expected).items():
        motions = (search.motion(search.random(rng)) for _ in range(options.random))
        others = [search.condition(motion) for motion in motions]
        begin = time.process_time()
        found = search.condition(search.search())
        seconds = time.process_time() - begin
        good &= found < min(others) and seconds < MAXIMUM
        print(
            f"| {name} | {search.parameters} | {min(others):.0f} | {np.median(others):.0f} | "
            f"{found:.1f} | {seconds:.1f} s |"
        )
    print("goals met" if good else f"goals missed: below all random ones, within {MAXIMUM:g} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
