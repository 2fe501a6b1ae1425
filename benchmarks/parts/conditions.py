# SPDX-License-Identifier: Apache-2.0
"""The conditions of ``multipanda bench`` for what compares checkouts: old ones have no bench."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from multipanda_py import Cell
from multipanda_py.testing import simple_cell

BASE = ["nullspace", "coriolis"]
PAIR = ("left", "right")


def dual(law: dict[str, Any]) -> Cell:
    """Return a dual-arm cell with one instance of a law per arm, or one on both arms."""
    active = ["law"] if "arms" in law else [f"{arm}/law" for arm in PAIR]
    return simple_cell(controllets={"law": law}, active=active)


def row_of_arms(n: int, features: list[str]) -> Cell:
    """Return ``n`` arms in a row, each under its own Cartesian impedance."""
    arms = {f"arm{i}": {"position": [0.0, 0.7 * i, 0.0]} for i in range(n)}
    law = {"law": {"type": "cartesian_impedance", "features": features}}
    return simple_cell(arms, law, [f"{arm}/law" for arm in arms])


def conditions() -> dict[str, Cell]:
    """Return the cells of the paper's conditions, and of unified force-impedance control."""

    def cartesian(*more: str) -> Cell:
        return dual({"type": "cartesian_impedance", "features": [*BASE, *more]})

    coupled = {
        "type": "coupled_impedance",
        "arms": list(PAIR),
        "features": [*BASE, "manipulability"],
    }
    return {
        "DC-NF": cartesian(),
        "DC-CA": cartesian("collision_avoidance"),
        "DC-MA": cartesian("manipulability"),
        "DC-CA-MA": cartesian("collision_avoidance", "manipulability"),
        "C-MA": dual(coupled),
        "UFIC x 2": dual({"type": "force_impedance", "features": BASE}),
    }


def laws_of(cell: Cell) -> Callable[[], None]:
    """Return a function that computes models, laws and features of one cycle."""
    cell.start()
    cell.step(300)
    loop = cell.loop
    arms, active = loop._arms, loop._owners.active

    def laws() -> None:
        for arm in arms:
            arm.model.update(arm.state)
        for instance in active:
            instance.update()

    return laws
