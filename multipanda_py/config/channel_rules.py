# SPDX-License-Identifier: Apache-2.0
"""The rule that channels of different laws have different names, as their topics would be one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from multipanda_py import registry
from multipanda_py.channel import Channel, channel_table, refuse_twin
from multipanda_py.config.standing import feature_names
from multipanda_py.exceptions import ConfigurationError

if TYPE_CHECKING:
    from multipanda_py.config.cell_sections import CellSections


def channel_faults(config: CellSections) -> Iterator[str]:
    """Yield a sentence for every channel that another law of the cell has declared otherwise."""
    known: list[Channel] = []
    for name, controllet in config.controllets.items():
        law = registry.find("controllets", controllet.type)
        parts = [
            registry.find("features", part) for part in feature_names(law, controllet.features)
        ]
        declared = (channel for part in (law.Target, *parts) for channel in part.channels)
        for channel in channel_table(declared).values():
            try:
                for other in known:
                    refuse_twin(channel, other)
            except ConfigurationError as error:
                yield f"controllets.{name}.type: {controllet.type}: {error}"
            else:
                known.append(channel)
