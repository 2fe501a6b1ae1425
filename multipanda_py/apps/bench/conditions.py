# SPDX-License-Identifier: Apache-2.0
"""Cells of the benchmark: conditions of the multipanda_ros2 paper, and cells of n arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig

PARTS = ("hot", "cpp", "paced", "wired", "scaling")
"""Parts of the benchmark. hot: controllets alone; cpp: the same in C++; paced: the node with
simulated arms; wired: the node with simulated FCI robots; scaling: one to eight arms and several
cells."""


@dataclass(frozen=True)
class Effort:
    """Extent of a benchmark.

    Attributes:
        seconds: Duration of each measurement of the running node [s].
        trials: Number of controllet switches.
        rounds: Number of rounds in the measurement of computing times, see :func:`.measure`.
        parts: Parts to measure, from :data:`PARTS`.
    """

    seconds: float = 30.0
    trials: int = 50
    rounds: int = 12
    parts: tuple[str, ...] = PARTS[:-1]


QUICK_EFFORT = Effort(seconds=0.6, trials=6, rounds=1, parts=("hot", "paced", "wired"))
"""Effort that takes less than a minute on a quiet machine."""


BASE_FEATURES = ("nullspace", "coriolis")
"""Features of every condition."""
ARM_POSITIONS = {"left": 0.3, "right": -0.3}
"""Base positions of the two arms along y of the world [m]."""
GATE = {"position": 0.6, "rotation": 1.0}
"""Gate wide enough for an arm to follow its target again after a delay [m, rad]."""
_CARTESIAN = {
    "DC-NF": (),
    "DC-CA": ("collision_avoidance",),
    "DC-MA": ("manipulability",),
    "DC-CA-MA": ("collision_avoidance", "manipulability"),
}
COUPLED_CONDITION = "C-MA"
CONDITIONS = (*_CARTESIAN, COUPLED_CONDITION)
"""Conditions in the order of the paper: a Cartesian impedance on each arm (DC), without features
(NF), with collision avoidance (CA), with manipulability (MA) and with both; a coupled impedance
(C) with manipulability."""
FORCE_CONDITION = "UFIC x 2"
"""Unified force-impedance control on each arm; not in the paper."""
PLAIN_CONDITION = "plain"
"""DC-NF without a governor, so that the recorded reference of a cycle is the target it used."""

Data = dict[str, Any]


def law_of(condition: str) -> Data:
    """Return the section of a controllet in a cell file for a condition of :data:`CONDITIONS`."""
    if condition == COUPLED_CONDITION:
        features = [*BASE_FEATURES, "manipulability"]
        return {"type": "coupled_impedance", "arms": list(ARM_POSITIONS), "features": features}
    if condition == FORCE_CONDITION:
        return {"type": "force_impedance", "features": list(BASE_FEATURES)}
    law = {
        "type": "cartesian_impedance",
        "features": [*BASE_FEATURES, *_CARTESIAN.get(condition, ())],
    }
    return law | ({"params": {"governor.enabled": False}} if condition == PLAIN_CONDITION else {})


def name_of(condition: str) -> str:
    """Return the name of the controllet for a condition, such as ``dc_ca_ma`` for ``DC-CA-MA``."""
    return condition.lower().replace("-", "_").replace(" ", "_")


def instances_of(condition: str) -> list[str]:
    """Return the names of the controllets to activate for a condition."""
    name = name_of(condition)
    return [name] if condition == COUPLED_CONDITION else [f"{arm}/{name}" for arm in ARM_POSITIONS]


def cell_data(
    arms: Mapping[str, Data], laws: Mapping[str, Data], active: Sequence[str], **cell: Any
) -> Data:
    """Return the content of a cell file with the given sections and initial controllets."""
    data: Data = {"cell": cell, "arms": dict(arms), "controllets": dict(laws)}
    # ROS 2 parameter files cannot contain empty lists.
    return data | ({"active": list(active)} if active else {})


def two_arms(**settings: Any) -> dict[str, Data]:
    """Return the cell-file sections of the arms in :data:`ARM_POSITIONS`, with ``settings``."""
    return {arm: {"position": [0.0, y, 0.0], **settings} for arm, y in ARM_POSITIONS.items()}


def all_conditions(arms: Mapping[str, Data], name: str) -> Data:
    """Return a cell file with the controllets of all :data:`CONDITIONS`, none of them active."""
    laws = {name_of(condition): law_of(condition) for condition in (*CONDITIONS, PLAIN_CONDITION)}
    return {**cell_data(arms, laws, [], name=name), "gate": GATE}


def row_of_arms(n: int, features: Sequence[str]) -> Data:
    """Return a cell file with n arms side by side, each with a Cartesian impedance controllet."""
    arms: dict[str, Data] = {f"arm{i}": {"position": [0.0, 0.7 * i, 0.0]} for i in range(n)}
    laws = {"law": {"type": "cartesian_impedance", "features": [*BASE_FEATURES, *features]}}
    return {**cell_data(arms, laws, [f"{arm}/law" for arm in arms], name="row"), "gate": GATE}


def inline_cell(data: Data) -> Cell:
    """Return a cell with placement ``inline`` from the content of a cell file, not started."""
    return Cell(CellConfig.from_dict({**data, "cell": {**data["cell"], "placement": "inline"}}))


def condition_cell(condition: str) -> Cell:
    """Return an inline cell of two arms with the controllets of one of :data:`CONDITIONS`."""
    name = name_of(condition)
    return inline_cell(
        cell_data(two_arms(), {name: law_of(condition)}, instances_of(condition), name=name)
    )


def as_yaml(data: Data) -> str:
    return yaml.safe_dump({"/**": {"ros__parameters": data}}, sort_keys=False)
