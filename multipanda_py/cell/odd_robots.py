# SPDX-License-Identifier: Apache-2.0
"""What is odd about the robots of a cell, in sentences."""

from __future__ import annotations

from multipanda_py.config.cell_file import CellConfig


def odd_robots(config: CellConfig) -> list[str]:
    """Say what is possible and odd in the descriptions of arms, once for all of a kind."""
    robots = {id(arm.robot): (name, arm.robot) for name, arm in reversed(config.arms.items())}
    return [
        f"arms.{name}.model: {doubt}" for name, robot in robots.values() for doubt in robot.doubts
    ]
