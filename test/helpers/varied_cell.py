# SPDX-License-Identifier: Apache-2.0
"""Shipped cells whose things are not quite what their files say."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig


def varied(file: str | Path, seed: int) -> Cell:
    """Return a cell with masses and friction off by up to 20 %; as it is for seed 0."""
    data = CellConfig.from_yaml(file).model_dump()
    random = np.random.default_rng(seed)
    for thing in data["objects"].values():
        by_mass, by_friction = 1.0 + random.uniform(-0.2, 0.2, 2) * (seed > 0)
        thing["mass"] *= by_mass
        thing["friction"] *= by_friction
    data["cell"]["placement"] = "inline"
    return Cell(CellConfig.from_dict(data))
