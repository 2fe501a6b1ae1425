# SPDX-License-Identifier: Apache-2.0
"""What real arms require of a cell file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multipanda_py.config.cell_file import CellConfig

RATE = 1000.0
"""Of the robots' states [Hz]."""


def check_real_arms(config: CellConfig, arms: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong: real arms need an address each, and are FR3s that set the pace."""
    owner: dict[str, str] = {}
    for name in arms:
        arm = config.arms[name]
        if not arm.robot_ip:
            yield f"arms.{name}.robot_ip: missing; backend franka needs the address"
        elif arm.robot_ip in owner:
            yield f"arms.{name}.robot_ip: got {arm.robot_ip}, which arm {owner[arm.robot_ip]} has"
        owner[arm.robot_ip] = name
        if arm.model != "fr3":
            got = f"{arm.robot.name!r}{'' if isinstance(arm.model, str) else ' of files'}"
            yield f"arms.{name}.model: got {got}, allowed fr3 for backend franka"
        if not isinstance(arm.hand, bool):
            yield f"arms.{name}.hand: got files, allowed true or false for backend franka"
        if not arm.compensates_gravity:
            yield (
                f"arms.{name}.compensates_gravity: got false, allowed true for backend franka: "
                "the robot does it"
            )
        if config.cell.rate != RATE:
            yield f"cell.rate: got {config.cell.rate:g} Hz, allowed 1000 with backend franka"
