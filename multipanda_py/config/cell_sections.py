# SPDX-License-Identifier: Apache-2.0
"""Sections of a cell file as a whole; only the values within each section are checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from multipanda_py.config.parameter_file import merged
from multipanda_py.config.section import Name, Section
from multipanda_py.config.sections import (
    ArmConfig,
    CameraConfig,
    CellSettings,
    CollisionsConfig,
    ControlletConfig,
    GateConfig,
    InstanceConfig,
    ObjectConfig,
    RealtimeConfig,
    RecorderConfig,
)


class CellSections(Section):
    """Sections of a cell file, each checked alone; :class:`.CellConfig` checks them together."""

    cell: CellSettings = CellSettings()
    realtime: RealtimeConfig = RealtimeConfig()
    gate: GateConfig = GateConfig()
    recorder: RecorderConfig = RecorderConfig()
    arms: Annotated[dict[Name, ArmConfig], Field(min_length=1, max_length=8)]
    objects: dict[Name, ObjectConfig] = {}
    cameras: dict[Name, CameraConfig] = {}
    collisions: CollisionsConfig = CollisionsConfig()
    controllets: dict[Name, ControlletConfig] = {}
    active: list[str] = []
    """Instances that are active at the start; ``hold`` owns the remaining arms."""

    def instances(self) -> Iterator[InstanceConfig]:
        """Yield every controllet instance: ``hold`` of each arm first, then the declared ones."""
        for arm in self.arms:
            yield InstanceConfig(
                name=f"{arm}/hold", short_name="hold", type="hold", arms=(arm,), per_arm=True
            )
        for name, declared in self.controllets.items():
            common: dict[str, Any] = {
                "short_name": name,
                "type": declared.type,
                "features": None if declared.features is None else tuple(declared.features),
                "params": declared.params,
                "target_timeout": declared.target_timeout,
            }
            if declared.arms is not None:
                yield InstanceConfig(name=name, arms=tuple(declared.arms), **common)
                continue
            for arm in self.arms:
                common["params"] = merged(declared.params, declared.arm_params.get(arm, {}))
                yield InstanceConfig(name=f"{arm}/{name}", arms=(arm,), per_arm=True, **common)
