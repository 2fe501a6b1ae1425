# SPDX-License-Identifier: Apache-2.0
"""The conditions that are measured: those of the multipanda_ros2 paper, and rows of arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig

PARTS = ("hot", "cpp", "paced", "wired", "scaling")
"""Laws alone, the same in C++, the node on simulated arms, the node on simulated FCI robots; one
to eight arms, and several cells."""


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        seconds: Of each condition, on simulated arms and on simulated robots.
        trials: Number of switches.
        rounds: Turns of what runs in a hot loop.
        parts: Which of :data:`PARTS`.
    """

    seconds: float = 30.0
    trials: int = 50
    rounds: int = 12
    parts: tuple[str, ...] = PARTS[:-1]


QUICK = Effort(seconds=0.6, trials=6, rounds=1, parts=("hot", "paced", "wired"))
"""Under a minute on a quiet machine."""


BASE = ("nullspace", "coriolis")
"""Features of every condition."""
ARMS = {"left": 0.3, "right": -0.3}
"""Where the bases of the two arms are, along y of the world [m]."""
GATE = {"position": 0.6, "rotation": 1.0}
"""So that an arm which was left behind on a busy machine follows again [m, rad]."""
_CARTESIAN = {
    "DC-NF": (),
    "DC-CA": ("collision_avoidance",),
    "DC-MA": ("manipulability",),
    "DC-CA-MA": ("collision_avoidance", "manipulability"),
}
COUPLED = "C-MA"
CONDITIONS = (*_CARTESIAN, COUPLED)
"""In the order of the paper: a Cartesian impedance on each arm, with collision avoidance, with
manipulability, with both; a coupled impedance with manipulability."""
FORCE = "UFIC x 2"
"""Unified force-impedance control on each arm; not in the paper."""
PLAIN = "plain"
"""As DC-NF, but the reference is the target itself, so that one tells which target was used."""

Data = dict[str, Any]


def law_of(condition: str) -> Data:
    """Return the controllet of a condition, as a cell file has it."""
    if condition == COUPLED:
        features = [*BASE, "manipulability"]
        return {"type": "coupled_impedance", "arms": list(ARMS), "features": features}
    if condition == FORCE:
        return {"type": "force_impedance", "features": list(BASE)}
    law = {"type": "cartesian_impedance", "features": [*BASE, *_CARTESIAN.get(condition, ())]}
    return law | ({"params": {"governor.enabled": False}} if condition == PLAIN else {})


def name_of(condition: str) -> str:
    """Return the name of a condition's controllet: ``dc_ca_ma``."""
    return condition.lower().replace("-", "_").replace(" ", "_")


def instances_of(condition: str) -> list[str]:
    """Return the instances to activate for a condition."""
    name = name_of(condition)
    return [name] if condition == COUPLED else [f"{arm}/{name}" for arm in ARMS]


def cell_data(
    arms: Mapping[str, Data], laws: Mapping[str, Data], active: Sequence[str], **cell: Any
) -> Data:
    """Return the sections of a cell file.

    Args:
        arms: Sections of the arms.
        laws: Sections of the controllets.
        active: What runs at the start.
        cell: Of the section ``cell``.
    """
    data: Data = {"cell": cell, "arms": dict(arms), "controllets": dict(laws)}
    return data | ({"active": list(active)} if active else {})  # ROS 2 has no empty lists


def two_arms(**settings: Any) -> dict[str, Data]:
    """Return the sections of the two arms, with further settings of both."""
    return {arm: {"position": [0.0, y, 0.0], **settings} for arm, y in ARMS.items()}


def all_conditions(arms: Mapping[str, Data], name: str) -> Data:
    """Return the cell that has every condition to switch to, and holds at the start."""
    laws = {name_of(condition): law_of(condition) for condition in (*CONDITIONS, PLAIN)}
    return {**cell_data(arms, laws, [], name=name), "gate": GATE}


def row_of_arms(n: int, features: Sequence[str]) -> Data:
    """Return ``n`` arms in a row, each under its own Cartesian impedance."""
    arms: dict[str, Data] = {f"arm{i}": {"position": [0.0, 0.7 * i, 0.0]} for i in range(n)}
    laws = {"law": {"type": "cartesian_impedance", "features": [*BASE, *features]}}
    return {**cell_data(arms, laws, [f"{arm}/law" for arm in arms], name="row"), "gate": GATE}


def inline_cell(data: Data) -> Cell:
    """Return a cell that is stepped by hand."""
    return Cell(CellConfig.from_dict({**data, "cell": {**data["cell"], "placement": "inline"}}))


def condition_cell(condition: str) -> Cell:
    """Return the cell of one condition, stepped by hand."""
    name = name_of(condition)
    return inline_cell(
        cell_data(two_arms(), {name: law_of(condition)}, instances_of(condition), name=name)
    )


def as_yaml(data: Data) -> str:
    """Return a cell file."""
    return yaml.safe_dump({"/**": {"ros__parameters": data}}, sort_keys=False)
