# SPDX-License-Identifier: Apache-2.0
"""The settings of a robot that may change while its arm is in use: checked, sent, received."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import ValidationError

from multipanda_py.config.rules import sentences
from multipanda_py.exceptions import SettingsRejected
from multipanda_py.franka.options import FrankaConfig
from multipanda_py.parameters import Spec
from multipanda_py.state import Vector

_SCHEMA: dict[str, dict[str, Any]] = FrankaConfig.model_json_schema()["properties"]


def _spec(name: str) -> Spec:
    """Return name, bounds, unit and meaning of an option, as it is declared."""
    schema, default = _SCHEMA[name], FrankaConfig.model_fields[name].default
    is_vector = schema["type"] == "array"
    element = schema["items"] if is_vector else schema
    text = " ".join(schema.get("description", "").split()).rstrip(".")
    unit = re.search(r" \[([^]]*)\]$", text)
    return Spec(
        name,
        "vector" if is_vector else "number",
        np.array(default) if is_vector else float(default),
        unit[1] if unit else "",
        float(element.get("minimum", element.get("exclusiveMinimum", -np.inf))),
        float(element.get("maximum", np.inf)),
        doc=text.removesuffix(unit[0]) if unit else text,
    )


LIVE = tuple(list(_SCHEMA)[: list(_SCHEMA).index("tool_in_desk")])
"""Names of the options that a robot takes at rest."""
START_ONLY = tuple(name for name in _SCHEMA if name not in LIVE)
"""Names of the others."""
SPECS = {name: _spec(name) for name in LIVE}
"""What each may be. Thresholds are above their lower bound, and the robot may bound more."""
WIDTH = sum(1 + spec.width for spec in SPECS.values())
"""Floats that carry all of them: for each, whether it was given, and its value."""


def changed(options: FrankaConfig, values: Mapping[str, object], arm: str) -> FrankaConfig:
    """Return settings with some of them changed.

    Args:
        options: The settings.
        values: New values by name.
        arm: Name of the arm, for messages.

    Raises:
        SettingsRejected: With every fault.
    """
    faults = []
    for name in values:
        if name in START_ONLY:
            faults.append(
                f"{arm}: {name} is read at the start only: change it in the cell file "
                f"(arms.{arm}.franka.{name}) and start the cell again"
            )
        elif name not in LIVE:
            faults.append(f"{arm}: setting {name!r} does not exist; known: {', '.join(LIVE)}")
    given = {name: value for name, value in values.items() if name in LIVE}
    plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in given.items()}
    result = options
    try:
        result = FrankaConfig.model_validate(options.model_dump() | plain)
    except ValidationError as error:
        faults.extend(f"{arm}: {fault}" for fault in sentences(error, FrankaConfig))
    if faults:
        raise SettingsRejected("\n".join(faults))
    return result


def encode(options: FrankaConfig) -> Vector:
    """Return the settings that may change as one record, (WIDTH,)."""
    flat: list[float] = []
    for name, spec in SPECS.items():
        value = getattr(options, name)
        flat.append(name in options.model_fields_set)
        flat.extend(value if spec.kind == "vector" else [value])
    return np.array(flat, dtype=np.float64)


def decode(record: Vector, options: FrankaConfig) -> FrankaConfig:
    """Return settings with those replaced that were given when a record was made.

    Args:
        record: Of :func:`encode`.
        options: The settings.
    """
    given: dict[str, Any] = {}
    flat, start = record.tolist(), 0
    for name, spec in SPECS.items():
        if flat[start]:
            values = flat[start + 1 : start + 1 + spec.width]
            given[name] = values if spec.kind == "vector" else values[0]
        start += 1 + spec.width
    return options.model_copy(update=given)
