# SPDX-License-Identifier: Apache-2.0
"""What was found about arms and things, put into a cell."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from multipanda_py.config.cell_file import CellConfig


def body_layer(files: Mapping[str, str]) -> dict[str, Any]:
    """Return what a twin's file says beside its own: bodies of simulated arms."""
    return {"arms": {arm: {"perturbation": {"parameters": path}} for arm, path in files.items()}}


def law_layer(files: Mapping[str, str]) -> dict[str, Any]:
    """Return the same of a cell whose laws and estimates are to go by them."""
    return {"arms": {arm: {"identified": path} for arm, path in files.items()}}


def with_bodies(cell: CellConfig, files: Mapping[str, Path]) -> CellConfig:
    """Return a twin whose simulated arms have the bodies of files."""
    arms = dict(cell.arms)
    for name, path in files.items():
        own = arms[name].perturbation.model_copy(update={"parameters": str(path)})
        arms[name] = arms[name].model_copy(update={"perturbation": own})
    return cell.model_copy(update={"arms": arms})


def with_laws(cell: CellConfig, files: Mapping[str, Path]) -> CellConfig:
    """Return a cell whose laws and estimates go by files."""
    arms = dict(cell.arms)
    for name, path in files.items():
        arms[name] = arms[name].model_copy(update={"identified": str(path)})
    return cell.model_copy(update={"arms": arms})


def with_surface(cell: CellConfig, thing: str, surface: Mapping[str, float]) -> CellConfig:
    """Return a cell with another friction and contact of a thing."""
    objects = {**cell.objects, thing: cell.objects[thing].model_copy(update=dict(surface))}
    return cell.model_copy(update={"objects": objects})
