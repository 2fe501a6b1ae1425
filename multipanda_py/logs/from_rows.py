# SPDX-License-Identifier: Apache-2.0
"""Logs out of the rows of a cell."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import instance_specs
from multipanda_py.logs.arm_log import ArmLog
from multipanda_py.logs.log import Log
from multipanda_py.loop.row import ARM_FIELDS
from multipanda_py.robots.rotations import rotation_from_rpy

_GRAVITY = (0.0, 0.0, -9.81)
_RENAMED = {"q": "q", "dq": "dq", "tau_J": "tau", "tau": "tau_commanded"}
_LEFT_OUT = ("sensed_ns",)


def log_of_rows(rows: NDArray[np.void], config: CellConfig) -> Log:
    """Return what the rows of a cell say of its arms, as :func:`multipanda_py.logs.read` does.

    Args:
        rows: In their order, (n,), as of :meth:`.Cell.rows` or a :class:`.RowFollower`.
        config: The cell.

    Raises:
        LogError: If there is no row.
    """
    laws = tuple(spec.name for spec in instance_specs(config))
    arms = {
        name: arm_log_of_rows(rows, index, name, config, laws)
        for index, name in enumerate(config.arms)
    }
    return Log(arms, cell=config.model_dump_json())


def arm_log_of_rows(
    rows: NDArray[np.void], index: int, name: str, config: CellConfig, laws: tuple[str, ...]
) -> ArmLog:
    """Return one arm of :func:`log_of_rows`; rows without a new state of it are left out."""
    record = rows["arms"][:, index]
    is_new = (record["sensed_ns"] == 0) | (record["sensed_ns"] == rows["wake_ns"])
    time = rows["time"]
    is_new &= np.diff(time, prepend=-np.inf) > 0.0  # a world that was paused is recorded again
    record = record[is_new]
    arm = config.arms[name]
    joints = arm.robot.n_joints
    found: dict[str, NDArray[Any]] = {}
    for field in ARM_FIELDS:
        if field.name in _LEFT_OUT:
            continue
        cut = tuple(slice(joints) if size == "joints" else slice(None) for size in field.shape)
        values = np.ascontiguousarray(record[field.name][(slice(None), *cut)])
        found[_RENAMED.get(field.name, field.name)] = values
    if not found["terms_traced"].any():
        del found["terms"]
    found["time"] = np.ascontiguousarray(time[is_new])
    return ArmLog(
        arm=name,
        robot=arm.robot.name,
        joints=tuple(joint.name for joint in arm.robot.joints),
        time=found["time"],
        q=found["q"],
        laws=laws,
        gravity_in_base=rotation_from_rpy(*arm.rpy).T @ np.array(_GRAVITY),
    ).with_columns(found)
