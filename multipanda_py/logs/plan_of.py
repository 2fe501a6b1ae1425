# SPDX-License-Identifier: Apache-2.0
"""What a recorder is told of a cell."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.extras import VERSION
from multipanda_py.logs.from_rows import arm_facts
from multipanda_py.logs.plan import CELL_FILE, ArmPlan, CellPlan
from multipanda_py.loop.row_place import RowPlace
from multipanda_py.robots.urdf import cell_urdf

URDF_FILE = "robot_description.urdf"
"""Attachment of every log, beside the cell as it ran."""


def plan_of(config: CellConfig, specs: Sequence[InstanceSpec], place: RowPlace) -> CellPlan:
    """Return what a recorder is told of a cell.

    Args:
        config: The cell.
        specs: Its instances.
        place: Of its rows.
    """
    arms = describe_arms(config)
    about = {
        "multipanda_py": VERSION,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "host": platform.node(),
        "kernel": platform.release(),
        "cell": config.cell.name,
        "rate": f"{config.cell.rate:g}",
        "placement": config.cell.placement,
        "arms": json.dumps([asdict(facts) for facts in arm_facts(config)]),
        "laws": json.dumps([spec.name for spec in specs]),
    }
    return CellPlan(
        name=config.cell.name,
        rate=config.cell.rate,
        place=place,
        arms=tuple(ArmPlan(arm.name, tuple(arm.joint_names), arm.base_frame) for arm in arms),
        laws=tuple(spec.name for spec in specs),
        attachments={
            CELL_FILE: config.model_dump_json(),
            URDF_FILE: cell_urdf(arms, config.cell.name),
        },
        about=about,
    )
