# SPDX-License-Identifier: Apache-2.0
"""Channels that nobody would read at the moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.exceptions import TargetRejected


def refuse_unused(
    spec: InstanceSpec, channel: str, parameters: Callable[[str], Mapping[str, Any]]
) -> None:
    """Refuse a target that is for features only, if the instance has none of them switched on.

    Args:
        spec: The active instance.
        channel: One of its channels, by name.
        parameters: Returns those of an instance by name.

    Raises:
        TargetRejected: If nobody would read it.
    """
    if channel in spec.own_channels:
        return
    readers = [
        name
        for name, feature in spec.features.items()
        if channel in feature.reads or channel in {str(brought) for brought in feature.channels}
    ]
    values = parameters(spec.name)
    if not any(values[f"{name}.enabled"] for name in readers):
        off = " and ".join(f"{name}.enabled is false" for name in readers)
        raise TargetRejected(
            f"{spec.name}: {channel}: got a target, allowed none: only a feature would use it; "
            f"{off or 'this controllet has no such feature'}"
        )
