# SPDX-License-Identifier: Apache-2.0
"""The cell file: one YAML that describes a cell, and is a ROS 2 parameter file too.

Everything below ``ros__parameters`` of the file is one :class:`CellConfig`. A file
is refused as a whole, with every fault it has: the path, what was got, what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError

from multipanda_py.config.backend_section import check_sections
from multipanda_py.config.bounds import Name
from multipanda_py.config.files import relative_to
from multipanda_py.config.node_names import NODE, may_reach_node
from multipanda_py.config.ros_yaml import load, ros_faults
from multipanda_py.config.rules import Faults, check_cell
from multipanda_py.config.section import Section
from multipanda_py.config.sections import (
    ArmConfig,
    CellSettings,
    CollisionsConfig,
    ControlletConfig,
    GateConfig,
    InstanceConfig,
    ObjectConfig,
    RealtimeConfig,
)
from multipanda_py.config.sentences import sentences
from multipanda_py.exceptions import ConfigurationError


class CellConfig(Section):
    """A whole cell. Raises what pydantic raises; use :meth:`from_dict` for sentences."""

    cell: CellSettings = CellSettings()
    realtime: RealtimeConfig = RealtimeConfig()
    gate: GateConfig = GateConfig()
    arms: Annotated[dict[Name, ArmConfig], Field(min_length=1, max_length=8)]
    objects: dict[Name, ObjectConfig] = {}
    collisions: CollisionsConfig = CollisionsConfig()
    controllets: dict[Name, ControlletConfig] = {}
    active: list[str] = []
    """Instances that are active at the start; arms that none of them owns hold."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], source: str = "cell") -> CellConfig:
        """Check a nested dictionary.

        Raises:
            ConfigurationError: With one sentence for every fault.
        """
        faults: Faults = []
        config = None
        try:
            config = cls.model_validate(_with_checked_sections(data, faults))
        except ValidationError as error:
            faults.extend(sentences(error, cls))
        if config is not None:
            check_cell(config, faults)
        if config is None or faults:
            raise ConfigurationError(*(f"{source}: {fault}" for fault in faults))
        return config

    @classmethod
    def from_yaml(cls, path: str | Path) -> CellConfig:
        """Read and check a cell file.

        Raises:
            ConfigurationError: If it cannot be read, is no ROS parameter file, or is faulty.
        """
        data = _load(path)
        faults = [f"{path}: {fault}" for fault in ros_faults(data)]
        try:
            config = cls.from_dict(relative_to([Path(path).parent], data), str(path))
        except ConfigurationError as error:
            raise ConfigurationError(*dict.fromkeys((*faults, *error.faults))) from None
        if faults:
            raise ConfigurationError(*faults)
        return config

    def instances(self) -> Iterator[InstanceConfig]:
        """Yield every controllet instance: holds first, then as declared, per arm."""
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
                yield InstanceConfig(name=f"{arm}/{name}", arms=(arm,), per_arm=True, **common)


def _with_checked_sections(data: Any, faults: Faults) -> Any:
    """Return a cell whose arms' sections of backends are checked, and in plain types."""
    if not isinstance(data, Mapping) or not isinstance(data.get("arms"), Mapping):
        return data
    known = tuple(ArmConfig.model_fields)
    arms = dict(data["arms"])
    for name, arm in arms.items():
        if not isinstance(arm, Mapping):
            continue
        arms[name] = result = dict(arm)
        extra = {key: value for key, value in arm.items() if key not in known}
        for key, values, found in check_sections(name, extra, known):
            faults.extend(found)
            if values is None:
                del result[key]
            else:
                result[key] = values
    return {**data, "arms": arms}


def _load(path: str | Path) -> dict[str, Any]:
    try:
        data = load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{path}: not valid YAML: {' '.join(str(error).split())}"
        ) from None
    if isinstance(data, dict):
        for name, section in data.items():
            if not _is_node(section) and any(map(_is_node, data.values())):
                raise ConfigurationError(
                    f"{path}: {name!r:.60} has no 'ros__parameters:' below it, and ROS 2 refuses "
                    "the file for it: remove what stands there beside the cell"
                )
        for name, section in data.items():
            if may_reach_node(name) and _has_parameters(section):
                found: dict[str, Any] = section["ros__parameters"]
                return found
        if others := [name for name, section in data.items() if _has_parameters(section)]:
            named = ", ".join(f"{name!r:.60}" for name in others)
            raise ConfigurationError(
                f"{path}: got parameters of {named}, which is not the node of a cell; allowed "
                f"'/**:' or '{NODE}:'"
            )
    raise ConfigurationError(
        f"{path}: not a ROS 2 parameter file: expected '/**:' with 'ros__parameters:' below it"
    )


def _has_parameters(section: object) -> bool:
    return isinstance(section, dict) and isinstance(section.get("ros__parameters"), dict)


def _is_node(section: object) -> bool:
    """Return whether parameters of nodes, perhaps in namespaces, are all that is there."""
    return isinstance(section, dict) and all(
        isinstance(value, dict) if key == "ros__parameters" else _is_node(value)
        for key, value in section.items()
    )
