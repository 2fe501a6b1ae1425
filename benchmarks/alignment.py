# SPDX-License-Identifier: Apache-2.0
"""Time shift between twin and plant, for two methods that align paired recordings.

.venv/bin/multipanda pairs config/single_sim.yaml --plant config/residual/plant.yaml -o pairs
.venv/bin/python benchmarks/alignment.py pairs
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from multipanda_py.identification.paired.folder import RECORDED_FOLDER

KINDS = ("multi", "single", "linear")
PERCENTILES = (0, 5, 50, 95, 100)
"""Printed percentiles [%]."""


def shifts(folder: Path, kind: str) -> np.ndarray:
    """Return delays of the plant by start of motion and by correlation, (m, 2) [ms]."""
    found = []
    for file in sorted((folder / RECORDED_FOLDER).glob(f"{kind}-*.npz")):
        with np.load(file, allow_pickle=False) as data:
            if not str(data["said"]).startswith("left out"):
                twin, plant, correlation = map(int, data["starts"][:3])
                found.append((plant - twin, correlation))
    return np.array(found, dtype=float).reshape(-1, 2)


def main() -> int:
    """Print percentiles of the delays in a data set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="output folder of `multipanda pairs`")
    folder = parser.parse_args().folder
    sys.stdout.write(f"delay of the plant relative to the twin [ms], percentiles {PERCENTILES}\n")
    for kind in KINDS:
        delays = shifts(folder, kind)
        for name, column in zip(("rest", "correlation"), delays.T):
            if len(delays):
                values = " ".join(f"{value:.0f}" for value in np.percentile(column, PERCENTILES))
                sys.stdout.write(f"{kind:7} {len(delays):4} motions, {name:11}: {values}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
