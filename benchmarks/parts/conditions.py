# SPDX-License-Identifier: Apache-2.0
"""Conditions of ``multipanda bench`` of this checkout, for the measurement of any checkout.

A comparison of two checkouts runs the same cells with both versions of ``multipanda_py``. The
conditions are therefore loaded by path, since the other checkout can have other ones or none.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from multipanda_py import Cell

_FILE = Path(__file__).resolve().parents[2] / "multipanda_py" / "apps" / "bench" / "conditions.py"
_spec = importlib.util.spec_from_file_location("conditions_of_bench", _FILE)
if _spec is None or _spec.loader is None:
    raise ImportError(f"{_FILE}: no such file")
_bench = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _bench  # Dataclasses resolve their annotations here.
_spec.loader.exec_module(_bench)

BASE, PAIR = list(_bench.BASE_FEATURES), tuple(_bench.ARM_POSITIONS)
"""Features of all conditions, and names of the two arms."""


def dual(law: dict[str, Any]) -> Cell:
    """Return a dual-arm cell with one instance of a controllet per arm, or one for both arms."""
    active = ["law"] if "arms" in law else [f"{arm}/law" for arm in PAIR]
    data = _bench.cell_data(_bench.two_arms(), {"law": law}, active, name="dual")
    cell: Cell = _bench.inline_cell(data)
    return cell


def row_of_arms(n: int, *features: str) -> Cell:
    """Return a cell of ``n`` arms in a row, each with its own Cartesian impedance controllet."""
    cell: Cell = _bench.inline_cell(_bench.row_of_arms(n, features))
    return cell


def conditions() -> dict[str, Cell]:
    """Return the cells of the conditions of the paper and of unified force-impedance control."""
    return {
        name: _bench.condition_cell(name) for name in (*_bench.CONDITIONS, _bench.FORCE_CONDITION)
    }


def laws_of(cell: Cell) -> Callable[[], None]:
    """Return a function that computes models, controllets and features of one cycle."""
    cell.start()
    cell.step(300)
    loop = cell.loop
    arms, active = loop.arms, loop.owners.active

    def laws() -> None:
        for arm in arms:
            arm.model.update(arm.state)
        for instance in active:
            instance.update()

    return laws
