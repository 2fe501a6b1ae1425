# SPDX-License-Identifier: Apache-2.0
"""Which laws of a cell may touch what rests around them, in sentences."""

from __future__ import annotations

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import InstanceSpec, instance_specs
from multipanda_py.features.collision_avoidance import parts_kept_off

_AVOIDANCE = "collision_avoidance"


def may_touch(config: CellConfig) -> list[str]:
    """Say which controllets do not keep whole arms away from fixed things and the floor.

    Live parameters may change it; this is what the cell file says, with its defaults.

    Returns:
        Sentences, none if all of them do.
    """
    hands: dict[str, None] = {}
    arms: dict[str, None] = {}
    for spec in instance_specs(config):
        parts = "all" if spec.is_hold else _parts_of(spec)
        if parts != "all":
            (hands if parts == "without_hand" else arms)[spec.config.short_name] = None
    found = []
    if hands:
        found.append(
            f"hands may touch fixed things and the floor under {', '.join(hands)}, so that these "
            f"laws can work on them; {_AVOIDANCE}.fixed_objects: all keeps them off"
        )
    if arms:
        found.append(
            f"whole arms may touch fixed things under {', '.join(arms)}: {_AVOIDANCE} is left "
            "out, not enabled, or ignores them"
        )
    return found


def _parts_of(spec: InstanceSpec) -> str:
    """Return which parts of its arms a controllet keeps away from fixed things."""
    values = spec.initial_values()
    if not values.get(f"{_AVOIDANCE}.enabled"):
        return "ignore"
    return parts_kept_off(values[f"{_AVOIDANCE}.fixed_objects"], spec.law.touches)
