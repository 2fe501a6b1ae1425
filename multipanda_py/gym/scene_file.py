# SPDX-License-Identifier: Apache-2.0
"""The cell of an environment: a task's scene with the law that a control needs, or a user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError, UnknownName
from multipanda_py.gym.control import Control
from multipanda_py.gym.task import GymTask

LAW = "gym"
"""Name of the instance that every arm has for an environment."""
Residual: TypeAlias = "str | Path | Mapping[str, str | Path] | None"
"""A file of ``multipanda residual train`` for all arms, or files by arm."""
STALLED = 1.0
"""Silence of a policy after which arms of a cell in real time hold [s]."""


def lockstep_cell(
    task: GymTask,
    control: type[Control],
    features: Sequence[str] | None,
    residual: Residual = None,
) -> CellConfig:
    """Return the cell of a task whose loop is stepped by hand.

    Args:
        task: With the scene.
        control: With the law.
        features: Of the law, or None for its own.
        residual: File of what simulated arms do not show of themselves, or files by arm.

    Raises:
        ConfigurationError: If the task's sections are faulty, with every fault.
    """
    arms = _with_residual({name: dict(arm) for name, arm in task.arms.items()}, residual)
    return CellConfig.from_dict(
        {
            "cell": {"name": "gym", "placement": "inline"},
            "arms": arms,
            "objects": {name: dict(section) for name, section in task.objects.items()},
            "collisions": {"touching": list(task.touching)},
            "controllets": {LAW: _law(task, control, features)},
            "active": [f"{arm}/{LAW}" for arm in arms],
        },
        type(task).__name__,
    )


def cell_of_file(
    path: str | Path,
    task: GymTask,
    control: type[Control],
    features: Sequence[str] | None,
    residual: Residual = None,
) -> CellConfig:
    """Return a user's cell with the law of a control added; nothing is active at its start.

    Args as :func:`lockstep_cell`.

    Raises:
        ConfigurationError: If the file is faulty, or its arms are not the task's.
    """
    config = CellConfig.from_yaml(path)
    if missing := [name for name in task.arms if name not in config.arms]:
        raise ConfigurationError(
            f"{path}: arms: got {', '.join(config.arms)}; {type(task).__name__} needs "
            f"{', '.join(missing)} too"
        )
    data = config.model_dump()
    data["arms"] = _with_residual(data["arms"], residual)
    data["controllets"] = {
        **data["controllets"],
        LAW: {**_law(task, control, features), "target_timeout": STALLED},
    }
    data["active"] = []
    return CellConfig.from_dict(data, str(path))


def _with_residual(arms: dict[str, Any], residual: Residual) -> dict[str, Any]:
    """Return sections of arms with files of learned residuals.

    Raises:
        UnknownName: If there is no such arm.
    """
    files = residual if isinstance(residual, Mapping) else dict.fromkeys(arms, residual)
    for name, file in files.items():
        if name not in arms:
            raise UnknownName("arm", name, tuple(arms))
        if file:
            shown = {**arms[name].get("residual", {}), "state": str(Path(file).absolute())}
            arms = {**arms, name: {**arms[name], "residual": shown}}
    return arms


def _law(
    task: GymTask, control: type[Control], features: Sequence[str] | None
) -> Mapping[str, Any]:
    params = {**control.params, **task.params}
    if features is None:
        return {"type": control.law, "params": params}
    for name in set(task.params) - set(features):  # parameters of what is left out
        del params[name]
    return {"type": control.law, "params": params, "features": list(features)}
