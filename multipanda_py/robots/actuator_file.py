# SPDX-License-Identifier: Apache-2.0
"""The springs of compliant joints in a file of their own, as they were measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from multipanda_py import registry
from multipanda_py.actuator import Actuator
from multipanda_py.exceptions import ActuatorRefused, ConfigurationError
from multipanda_py.robots.extra import read_extra

ACTUATOR_KEYS = ("type", "params", "identified")


def read_actuator(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the kind and the parameters that a file says; ``identified`` is for people.

    Raises:
        ConfigurationError: If it cannot be read, or has other keys.
    """
    data = read_extra(path, ACTUATOR_KEYS)
    kind, params = data.get("type"), data.get("params", {})
    if not isinstance(kind, str):
        raise ConfigurationError(f"{path}: type: got {kind!r:.60}, allowed a kind of actuator")
    if not isinstance(params, dict):
        raise ConfigurationError(f"{path}: params: got {params!r:.60}, allowed a map of numbers")
    return kind, params


def actuator_from(path: Path, n_joints: int) -> Actuator[Any]:
    """Return the springs of ``n`` joints that a file says.

    Args:
        path: What :func:`actuator_text` writes.
        n_joints: Number of the joints: as many as the file has numbers, or any if it has one.

    Raises:
        ConfigurationError: If the file is none, or its parameters are refused.
    """
    kind, params = read_actuator(path)
    try:
        found: Actuator[Any] = registry.find("actuators", kind)(n_joints, params)
    except ActuatorRefused as error:
        raise ConfigurationError(f"{path}: params: {error}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: type: {error}") from None
    return found


def actuator_text(
    kind: str, params: Mapping[str, float | list[float]], notes: Mapping[str, Any]
) -> str:
    """Return the file of springs, which :func:`read_actuator` reads.

    Args:
        kind: Of the actuator.
        params: One number each, or one for each joint.
        notes: How they were found, for people.
    """
    data = {"type": kind, "params": dict(params), "identified": dict(notes)}
    head = (
        "# Springs of compliant joints: type and params of a group under `actuators` of an arm\n"
        "# in a cell file. Units: `multipanda list actuators`.\n"
    )
    return head + yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=99)
