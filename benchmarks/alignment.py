# SPDX-License-Identifier: Apache-2.0
"""By how much each way of cutting paired motions shifts a plant that was told with its twin.

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
SHARES = (0, 5, 50, 95, 100)
"""Percentiles that are said."""


def shifts(folder: Path, kind: str) -> np.ndarray:
    """Return by how many ms leaving rest and correlation have the plant later, (m, 2)."""
    found = []
    for file in sorted((folder / RECORDED_FOLDER).glob(f"{kind}-*.npz")):
        with np.load(file, allow_pickle=False) as data:
            if not str(data["said"]).startswith("left out"):
                twin, plant, correlation = map(int, data["starts"][:3])
                found.append((plant - twin, correlation))
    return np.array(found, dtype=float).reshape(-1, 2)


def main() -> int:
    """Say it of a data set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="of `multipanda pairs`")
    folder = parser.parse_args().folder
    sys.stdout.write(f"percentiles {SHARES} of ms by which the plant is later\n")
    for kind in KINDS:
        rows = shifts(folder, kind)
        for name, column in zip(("rest", "correlation"), rows.T):
            if len(rows):
                reported = " ".join(f"{value:.0f}" for value in np.percentile(column, SHARES))
                sys.stdout.write(f"{kind:7} {len(rows):4} motions, {name:11}: {reported}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
