# SPDX-License-Identifier: Apache-2.0
"""Logs out of the rows of a cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.config.backend_section import find_backend
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import instance_specs
from multipanda_py.logs.arm_log import ArmLog
from multipanda_py.logs.from_records import ArmFacts, arm_log_of_records
from multipanda_py.logs.log import Log
from multipanda_py.logs.marks import marks_of
from multipanda_py.robots.rotations import gravity_in_base


def log_of_rows(rows: NDArray[np.void], config: CellConfig) -> Log:
    """Return what the rows of a cell say of its arms, as :func:`multipanda_py.logs.read` does.

    Args:
        rows: In their order, (n,), as of :meth:`.Cell.rows` or a :class:`.RowFollower`.
        config: The cell.

    Raises:
        LogError: If there is no row.
    """
    laws = tuple(spec.name for spec in instance_specs(config))
    arms = arm_logs(rows, arm_facts(config), laws)
    return Log(arms, cell=config.model_dump_json(), marks=marks_of(arms))


def arm_logs(
    rows: NDArray[np.void], facts: Sequence[ArmFacts], laws: tuple[str, ...]
) -> dict[str, ArmLog]:
    """Return what rows say of arms, by name.

    Args:
        rows: In their order, (n,).
        facts: Of the arms, in the order of the cell.
        laws: Names of the controllets, by number.

    Raises:
        LogError: If there is no row.
    """
    found = {}
    for index, arm in enumerate(facts):
        records = rows["arms"][:, index]
        fields = {name: records[name] for name in records.dtype.names or ()}
        found[arm.name] = arm_log_of_records(fields, rows, arm, laws)
    return found


def arm_facts(config: CellConfig) -> list[ArmFacts]:
    """Return what logs say of the arms of a cell, in their order."""
    return [
        ArmFacts(
            name,
            arm.robot.name,
            tuple(joint.name for joint in arm.robot.joints),
            tuple(gravity_in_base(arm.rpy).tolist()),
            find_backend(arm.backend).rotors_in_torques,
        )
        for name, arm in config.arms.items()
    ]
