# SPDX-License-Identifier: Apache-2.0
"""Which arms of a cell stand within one another, in sentences."""

from __future__ import annotations

import itertools

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms

APART = 0.1
"""Bases that are nearer than this are within one another [m]."""


def same_place(config: CellConfig) -> list[str]:
    """Say which bases are in the same place, which is where no arm can move without a fault.

    Arms on both sides of a plate have their base frames close together too, with z axes that
    point away from each other: these are meant.

    Returns:
        A sentence for each pair, none if every arm has a place of its own.
    """
    found = []
    for one, other in itertools.combinations(describe_arms(config), 2):
        apart = np.linalg.norm(one.position_base_in_world - other.position_base_in_world)
        upright = one.rotation_base_in_world[:, 2] @ other.rotation_base_in_world[:, 2]
        if apart < APART and upright > 0.0 and not one.shares_base(other):
            found.append(
                f"{one.name} and {other.name} stand within one another: got bases {apart:.3f} m "
                f"apart, expected {APART:g} m at least; see arms.{other.name}.position"
            )
    return found
