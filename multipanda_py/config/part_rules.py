# SPDX-License-Identifier: Apache-2.0
"""Arms can be described, and no two of their parts have one name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ConfigurationError

if TYPE_CHECKING:
    from multipanda_py.config.cell_sections import CellSections

_IDENTIFIED = {"identified": "robot_of_laws", "perturbation.parameters": "robot_of_body"}
"""Keys of an arm that are files, and the robot that each of them makes."""


def part_faults(config: CellSections) -> Iterator[str]:
    """Yield what is wrong with the arms of a cell, whose sections are well formed, as bodies."""
    owner: dict[str, str] = {}
    for name, section in config.arms.items():
        try:
            arm = describe_arm(name, section)
        except ConfigurationError as error:
            yield from (f"arms.{name}: {fault}" for fault in error.faults)
            continue
        for key, place in _IDENTIFIED.items():
            try:
                getattr(section, place)
            except ConfigurationError as error:
                yield from (f"arms.{name}.{key}: {fault}" for fault in error.faults)
        parts = (*arm.link_names, *arm.joint_names)
        if taken := next((part for part in parts if owner.setdefault(part, name) != name), None):
            yield (
                f"arms.{name}: got a part {taken}, which arm {owner[taken]} has, allowed another "
                "name of the arm or of its model"
            )
