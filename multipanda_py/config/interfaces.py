# SPDX-License-Identifier: Apache-2.0
"""What the arms of a cell can be commanded, and whether laws fit that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from multipanda_py.config.backend_section import find_backend
from multipanda_py.feature import Feature
from multipanda_py.state import INTERFACES

if TYPE_CHECKING:
    from multipanda_py.config.cell_sections import CellSections
    from multipanda_py.config.sections import ArmConfig
    from multipanda_py.controllet import Controllet


def only_adds_torques(feature: type[Feature[Any]]) -> bool:
    """Return whether a feature does nothing for a law that commands something else."""
    has = [name for name in ("add", "prepare", "pace") if name in _own(feature)]
    return has == ["add"]


def _own(feature: type[Feature[Any]]) -> set[str]:
    return {name for kind in feature.__mro__ if kind is not Feature for name in vars(kind)}


def interfaces_of(arm: ArmConfig) -> tuple[str, ...]:
    """Return what an arm can be commanded, in the order of :data:`.INTERFACES`.

    Raises:
        ConfigurationError: If its backend cannot be loaded.
    """
    offered = find_backend(arm.backend).interfaces_with(arm.settings)
    return tuple(name for name in INTERFACES if name in (arm.interfaces or offered))


def interface_faults(config: CellSections) -> Iterator[str]:
    """Yield a fault for every arm that is to take what its backend does not offer."""
    for name, arm in config.arms.items():
        offered = find_backend(arm.backend).interfaces_with(arm.settings)
        for wanted in arm.interfaces:
            if wanted not in offered:
                yield (
                    f"arms.{name}.interfaces: got {wanted}, allowed {', '.join(offered)} with "
                    f"backend {arm.backend}"
                )


def unfit(
    where: str,
    law: type[Controllet[Any, Any]],
    kind: str,
    config: CellSections,
    arms: Sequence[str],
) -> Iterator[str]:
    """Yield a fault if a law commands what some of its arms do not take.

    Args:
        where: Path of the controllet.
        law: Its class.
        kind: Its name.
        config: The cell.
        arms: Names of its arms, which exist.
    """
    for name in arms:
        taken = interfaces_of(config.arms[name])
        if law.command_interface not in taken:
            yield (
                f"{where}.type: {kind} commands {law.command_interface}, which arm {name} does "
                f"not take; allowed laws that command {' or '.join(taken)}"
            )
