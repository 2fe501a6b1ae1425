# SPDX-License-Identifier: Apache-2.0
"""Compliant actuators of an FR3, from a shipped cell file."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.parameter_file import ParameterFile

FILE = Path(__file__).parents[2] / "config" / "elastic_sim.yaml"


@cache
def _shipped() -> dict[str, Any]:
    CellConfig.from_yaml(FILE)
    found: dict[str, Any] = ParameterFile.read(FILE).cell["arms"]["left"]["actuators"]
    return found


def springs(mode: str = "equilibrium_pid", **changed: Any) -> dict[str, Any]:
    """Return the section ``actuators`` of an arm, with a mode and changes for all groups."""
    groups = copy.deepcopy(_shipped())
    for group in groups.values():
        group |= {"mode": mode, **changed}
    return groups
