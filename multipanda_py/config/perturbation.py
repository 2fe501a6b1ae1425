# SPDX-License-Identifier: Apache-2.0
"""Perturbed copies of a cell, with values drawn at random from given ranges."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from multipanda_py.config.arm_section import JointsConfig, NoiseConfig, PerturbationConfig
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.parameter_file import read
from multipanda_py.config.renamed_keys import renamed_key
from multipanda_py.config.rules import Faults, check_cell
from multipanda_py.config.section import Section, messages
from multipanda_py.exceptions import ConfigurationError

DISTRIBUTIONS = ("range", "normal", "log_range", "factor", "offset")
"""Names of the distributions.

``range``: uniform in [low, high]; ``normal``: with mean and standard deviation; ``log_range``:
log-uniform in [low, high]; ``factor`` and ``offset``: the cell's value multiplied or increased by
a number that is uniform in [low, high]."""
_ALLOWED = (
    "a number, a list with as many items as in the cell, or one of {range: [low, high]}, "
    "{normal: [mean, deviation]}, {log_range: [low, high]}, {factor: [low, high]} and "
    "{offset: [low, high]}"
)


def check_value(path: str, value: Any) -> list[str]:
    """Return error messages on a value in a perturbation file.

    A valid value is a number, a distribution (see :data:`DISTRIBUTIONS`), or a list of both.

    Args:
        path: Path of the value, for messages.
        value: Value to check.
    """
    if isinstance(value, list):
        return [
            fault for index, item in enumerate(value)
            for fault in check_value(f"{path}[{index}]", item)
        ] or ([] if value else [f"{path}: got an empty list, allowed {_ALLOWED}"])  # fmt: skip
    if _is_number(value):
        return []
    if isinstance(value, Mapping) and len(value) == 1:
        ((form, bounds),) = value.items()
        if (
            form in DISTRIBUTIONS
            and isinstance(bounds, list)
            and len(bounds) == 2
            and all(map(_is_number, bounds))
        ):
            if form == "normal" and bounds[1] < 0:
                return [f"{path}: got a deviation of {bounds[1]}, allowed 0 or more"]
            if form != "normal" and bounds[0] > bounds[1]:
                return [f"{path}: got {bounds}, allowed the lower bound first"]
            if form == "log_range" and bounds[0] <= 0:
                return [f"{path}: got {bounds}, allowed positive bounds"]
            return []
    return [f"{path}: got {value!r:.80}, allowed {_ALLOWED}"]


def draw_like(path: str, value: Any, nominal: float | list[float], seed: int) -> Any:
    """Draw a random value for a key of a cell: a number, or a list of numbers.

    Each number has a separate random generator, seeded by ``seed`` and the path of the number.

    Args:
        path: Path of the key, such as ``arms.left.noise.tau``.
        value: Number, distribution or list that :func:`check_value` accepts.
        nominal: Value in the unperturbed cell. If it is a list, the result has the same length.
        seed: Seed shared by all keys.

    Raises:
        ConfigurationError: If ``value`` is a list of another length than ``nominal``.
    """
    if not isinstance(nominal, list):
        if isinstance(value, list):
            raise ConfigurationError(f"{path}: got a list, allowed one number or distribution")
        return _draw(path, value, nominal, seed)
    items = value if isinstance(value, list) else [value] * len(nominal)
    if len(items) != len(nominal):
        raise ConfigurationError(
            f"{path}: got {len(items)} items, allowed {len(nominal)} as in the cell"
        )
    return [
        _draw(f"{path}[{index}]", item, nominal_item, seed)
        for index, (item, nominal_item) in enumerate(zip(items, nominal))
    ]


def _draw(path: str, value: Any, nominal: float, seed: int) -> float:
    if not isinstance(value, Mapping):
        return float(value)
    ((form, (low, high)),) = value.items()
    rng = np.random.default_rng((seed, zlib.crc32(path.encode())))
    if form == "normal":
        drawn = rng.normal(low, high)
    elif form == "log_range":
        drawn = math.exp(rng.uniform(math.log(low), math.log(high)))
    else:
        drawn = rng.uniform(low, high)
    if form == "factor":
        drawn *= nominal
    elif form == "offset":
        drawn += nominal
    return float(f"{drawn:.6g}")  # Rounded, so that writing it to a file does not change it.


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


TYPICAL_ERRORS_FILE = Path(__file__).parent / "data" / "typical.yaml"
"""File with typical model errors of a carefully built arm."""
FR3_GEARS = TYPICAL_ERRORS_FILE.with_name("fr3_gears.yaml")
"""File with typical model errors and assumed gear errors of a Panda or FR3: hysteresis, and more
ripple at joints 1 to 4."""
ALL = "all"
_SECTIONS: dict[str, type[Section]] = {
    "perturbation": PerturbationConfig,
    "noise": NoiseConfig,
    "transmission": JointsConfig,
}
_FILE_KEYS = ("parameters",)
_ARM_SECTION_KEYS = {
    name: tuple(key for key in section.model_fields if key not in _FILE_KEYS)
    for name, section in _SECTIONS.items()
}
_ARM_KEYS = ("joint_damping", "joint_friction")
_OBJECT_KEYS = ("friction", "contact_time", "contact_damping", "mass")
Values = dict[str, dict[str, Any]]
"""Keys and values by section path, such as ``arms.left.noise``."""


@dataclass(frozen=True)
class PerturbationSpec:
    """Perturbations of the values in a cell file, per arm and per object.

    Attributes:
        values: New value of each key, or distribution to draw it from (:data:`DISTRIBUTIONS`), by
            section path and key. ``arms.all`` and ``objects.all`` apply to every arm or object.
            Sections with the name of an arm or object override them.
        seed: Default seed.

    Example, as a file::

        seed: 3
        arms:
          all:
            perturbation: {link_mass: {range: [0.8, 1.2]}, command_delay: 0.001}
          left:
            noise: {tau: 0.05}
        objects:
          table: {friction: {factor: [0.5, 1.0]}}
    """

    values: Values
    seed: int = 0

    @classmethod
    def from_yaml(cls, path: str | Path) -> PerturbationSpec:
        """Read a perturbation file.

        Raises:
            ConfigurationError: If the file cannot be read or is faulty; the error lists all
                faults.
        """
        return cls.from_dict(read(path), str(path))

    @classmethod
    def from_dict(cls, data: Any, source: str = "perturbation") -> PerturbationSpec:
        """Check a nested dictionary and build the specification; messages begin with ``source``.

        Raises:
            ConfigurationError: If the data are faulty; the error lists all faults.
        """
        faults: list[str] = []
        values: Values = {}
        if not isinstance(data, Mapping):
            raise ConfigurationError(
                f"{source}: got {data!r:.60}, allowed a map with keys arms, objects, seed"
            )
        seed = data.get("seed", 0)
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            faults.append(f"seed: got {seed!r:.60}, allowed an integer of 0 or more")
        faults += [
            f"{key}: unknown key; known: arms, objects, seed"
            for key in data
            if key not in ("arms", "objects", "seed")
        ]
        for section, known, given in _allowed_and_given_keys(data, faults):
            for key, value in given.items():
                path = f"{section}.{key}"
                if key not in known:
                    new = renamed_key(path.split("."))
                    description = f"renamed to {new}" if new else "unknown key"
                    faults.append(f"{path}: {description}; known: {', '.join(known)}")
                    continue
                faults += check_value(path, value)
                values.setdefault(section, {})[key] = value
        if faults:
            raise ConfigurationError(*(f"{source}: {fault}" for fault in faults))
        return cls(values, seed)

    def values_for(self, config: CellConfig, seed: int | None = None) -> Values:
        """Draw perturbed values for the keys of a cell, by section path and key.

        Args:
            config: Cell without perturbation.
            seed: Seed; None for ``seed`` of this object.

        Raises:
            ConfigurationError: If the cell lacks an arm or object, or a list has another length.
        """
        seed = self.seed if seed is None else seed
        drawn: Values = {}
        for kind, parts in (("arms", config.arms), ("objects", config.objects)):
            for path in self.values:
                name = path.split(".")[1]
                if path.startswith(kind) and name != ALL and name not in parts:
                    raise ConfigurationError(
                        f"{path}: got {name!r}, allowed {ALL} or one of {', '.join(parts)}"
                    )
            for name, part in parts.items():
                for section in ("", *_SECTIONS) if kind == "arms" else ("",):
                    rest = f".{section}" if section else ""
                    is_elastic = section == "transmission"
                    has_springs = is_elastic and bool(getattr(part, "actuators", None))
                    values = {
                        **({} if has_springs else self.values.get(f"{kind}.{ALL}{rest}", {})),
                        **self.values.get(f"{kind}.{name}{rest}", {}),
                    }
                    path = f"{kind}.{name}{rest}"
                    # The path seeds the random numbers. Keep the name ``joints`` in it:
                    # recorded seeds must give the same robots again.
                    stream = f"{kind}.{name}.joints" if is_elastic else path
                    nominal = getattr(part, section) if section else part
                    for key, value in values.items():
                        drawn.setdefault(path, {})[key] = draw_like(
                            f"{stream}.{key}", value, getattr(nominal, key), seed
                        )
        return drawn

    def draw(self, config: CellConfig, seed: int | None = None) -> CellConfig:
        """Return a perturbed copy of a cell.

        Args:
            config: Cell without perturbation.
            seed: Seed; None for ``seed`` of this object.

        Raises:
            ConfigurationError: If the cell lacks an arm or object, a list has another length, or a
                number is outside the bounds of the cell file.
        """
        faults: Faults = []
        arms, objects = dict(config.arms), dict(config.objects)
        for path, values in self.values_for(config, seed).items():
            kind, name, *section = path.split(".")
            parts: dict[str, Any] = arms if kind == "arms" else objects
            try:
                if section:
                    old = getattr(parts[name], section[0])
                    new = type(old).model_validate({**old.model_dump(), **values})
                    parts[name] = parts[name].model_copy(update={section[0]: new})
                else:
                    checked = type(parts[name]).model_validate(
                        {**_as_written(parts[name]), **values}
                    )
                    parts[name] = parts[name].model_copy(
                        update={key: getattr(checked, key) for key in values}
                    )
            except ValidationError as error:
                faults += [f"{path}.{fault}" for fault in messages(error, CellConfig)]
        twin = config.model_copy(update={"arms": arms, "objects": objects})
        if not faults:
            check_cell(twin, faults)
        if faults:
            raise ConfigurationError(*faults)
        return twin


def _as_written(part: Section) -> dict[str, Any]:
    return {name: getattr(part, name) for name in type(part).model_fields}


def _allowed_and_given_keys(
    data: Mapping[str, Any], faults: list[str]
) -> Iterator[tuple[str, tuple[str, ...], Mapping[str, Any]]]:
    for kind in ("arms", "objects"):
        parts = data.get(kind, {})
        if not isinstance(parts, Mapping):
            faults.append(f"{kind}: got {parts!r:.60}, allowed sections by name, or {ALL}")
            continue
        for name, value in parts.items():
            path = f"{kind}.{name}"
            if not isinstance(value, Mapping):
                faults.append(f"{path}: got {value!r:.60}, allowed keys and their values")
                continue
            if kind == "objects":
                yield path, _OBJECT_KEYS, value
                continue
            yield (
                path,
                (*_ARM_KEYS, *_SECTIONS),
                {k: v for k, v in value.items() if k not in _SECTIONS},
            )
            for section, known in _ARM_SECTION_KEYS.items():
                inner = value.get(section, {})
                if isinstance(inner, Mapping):
                    yield f"{path}.{section}", known, inner
                else:
                    faults.append(f"{path}.{section}: got {inner!r:.60}, allowed keys and values")


__all__ = ["FR3_GEARS", "TYPICAL_ERRORS_FILE", "PerturbationSpec"]
