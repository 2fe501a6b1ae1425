# SPDX-License-Identifier: Apache-2.0
"""Parameters declared once: default, unit and bounds beside the field.

A law's frozen ``Params`` dataclass is the only declaration. From it come the
checks of the cell file, the ROS parameters with their descriptors, and the flat
vector that carries a new set of values to the loop in one piece::

    @dataclass(frozen=True, eq=False)
    class Params:
        stiffness: Vector = vector(
            400, 400, 400, 20, 20, 20, unit="N/m, Nm/rad", low=0, high=(5000,) * 3 + (300,) * 3
        )
        friction: Vector = joint_vector(0.0, unit="Nm", low=0, high=20)  # one per joint

Vectors of joints have the length, and may have defaults and bounds, of the robot that the law
works on.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ParameterRejected

_KEY = "multipanda"
_P = TypeVar("_P")
Bound: TypeAlias = "float | tuple[float, ...]"
"""One for all elements, or one for each."""


class Jointed(Protocol):
    """What a vector of joints has to know of a robot; see :class:`.Robot`."""

    @property
    def n_joints(self) -> int:
        """Number of its joints."""

    def figure(self, name: str) -> tuple[float, ...]:
        """Return a number of every joint."""


@dataclass(frozen=True)
class Spec:
    """What one parameter may be.

    Attributes:
        name: Name as users type it, with a feature's prefix where it has one.
        kind: ``number``, ``integer``, ``vector``, ``flag``, ``choice`` or ``text``.
        default: Value when nothing is given.
        unit: SI unit, or an empty string.
        low: Smallest value allowed; for vectors of each element, or one per element.
        high: Largest value allowed.
        options: Values of a choice.
        doc: One line on what it does.
        read_only: Whether it is read at the start only; for the settings of backends.
        exclusive_low: Whether values must be above ``low``.
        per_joint: Whether it has a number for every joint of the robot.
    """

    name: str
    kind: str
    default: Any
    unit: str = ""
    low: Bound = -math.inf
    high: Bound = math.inf
    options: tuple[str, ...] = ()
    doc: str = ""
    read_only: bool = False
    exclusive_low: bool = False
    per_joint: bool = False

    def __post_init__(self) -> None:
        """Refuse a declaration whose bounds are of another length than the vector."""
        for bound in (self.low, self.high):
            if isinstance(bound, tuple) and (self.kind != "vector" or len(bound) != self.width):
                raise ValueError(
                    f"{self.name or self.doc}: got {len(bound)} bounds, allowed {self.width}"
                )
        if self.kind == "text" and not self.read_only:
            raise ValueError(f"{self.name or self.doc}: got text, allowed only with read_only")

    @property
    def width(self) -> int:
        """Number of floats that carry the value."""
        return len(self.default) if self.kind == "vector" else 1

    @property
    def allowed(self) -> str:
        """Say in words what is allowed."""
        if self.kind == "flag":
            return "true or false"
        if self.kind == "choice":
            return "one of " + ", ".join(self.options)
        if self.kind == "text":
            return "text"
        kind = "a whole number" if self.kind == "integer" else "a number"
        if self.kind == "vector":
            kind = f"{self.width} numbers{', one per joint,' * self.per_joint}"
        unit = f" {self.unit}" if self.unit else ""
        runs = [(pair, len(list(run))) for pair, run in itertools.groupby(self.bounds)]
        if len(runs) > 1:
            parts = (f"{count} in [{low:g}, {high:g}]" for (low, high), count in runs)
            return f"{kind.rstrip(',')}, {', then '.join(parts)}{unit}"
        low, high = self.bounds[0]
        if math.isinf(low) and math.isinf(high):
            return f"{kind.rstrip(',')}, finite"
        return f"{kind} in [{low:g}, {high:g}]{unit}"

    @property
    def bounds(self) -> tuple[tuple[float, float], ...]:
        """Smallest and largest value of each element."""
        low, high = (
            bound if isinstance(bound, tuple) else (bound,) * self.width
            for bound in (self.low, self.high)
        )
        return tuple(zip(low, high))

    def check(self, value: object, where: str = "") -> Any:
        """Return the value in its canonical type.

        Raises:
            ParameterRejected: If its type, length, bounds or finiteness do not fit.
        """
        if self.kind == "flag" and isinstance(value, bool):
            return value
        if self.kind == "choice" and isinstance(value, str) and value in self.options:
            return value
        if self.kind == "text" and isinstance(value, str):
            return value
        if self.kind == "number" and self._is_allowed(value, *self.bounds[0]):
            return float(value)  # type: ignore[arg-type]
        if self.kind == "integer" and self._is_allowed(value, *self.bounds[0], whole=True):
            return int(value)  # type: ignore[call-overload]
        if self.kind == "vector" and _is_sequence(value):
            items = list(value)  # type: ignore[call-overload]
            if len(items) == self.width and all(
                self._is_allowed(item, *pair) for item, pair in zip(items, self.bounds)
            ):
                return _frozen(items)
        got = f"{value!r:.80}" if not _is_sequence(value) else f"{list(value)!r:.120}"  # type: ignore[call-overload]
        if self.per_joint and _is_sequence(value) and len(value) != self.width:  # type: ignore[arg-type]
            got = f"{len(value)} numbers"  # type: ignore[arg-type]
        raise ParameterRejected(
            f"{where + ': ' if where else ''}{self.name}: got {got}, allowed {self.allowed}"
        )

    def _is_allowed(self, value: Any, low: float, high: float, whole: bool = False) -> bool:
        if not _is_within(value, low, high) or (whole and value != int(value)):
            return False
        return not (self.exclusive_low and value == low)


def number(
    default: float,
    *,
    unit: str = "",
    low: float = -math.inf,
    high: float = math.inf,
    doc: str = "",
    read_only: bool = False,
    exclusive_low: bool = False,
) -> Any:
    """Declare a number with its unit and bounds."""
    value = float(default)
    return _field(Spec("", "number", value, unit, low, high, (), doc, read_only, exclusive_low))


def integer(
    default: int,
    *,
    unit: str = "",
    low: float = -math.inf,
    high: float = math.inf,
    doc: str = "",
    read_only: bool = False,
) -> Any:
    """Declare a whole number."""
    return _field(Spec("", "integer", default, unit, low, high, (), doc, read_only))


def text(default: str, *, read_only: bool, doc: str = "") -> Any:
    """Declare text, such as an address; no record carries it, so it must be ``read_only``."""
    return _field(Spec("", "text", default, doc=doc, read_only=read_only))


def vector(
    *default: float,
    unit: str = "",
    low: float | Sequence[float] = -math.inf,
    high: float | Sequence[float] = math.inf,
    doc: str = "",
    read_only: bool = False,
    exclusive_low: bool = False,
) -> Any:
    """Declare a vector of fixed length; a bound holds for each element, or has one for each."""
    low, high = (tuple(b) if isinstance(b, Sequence) else b for b in (low, high))
    value = _frozen(default)
    return _field(Spec("", "vector", value, unit, low, high, (), doc, read_only, exclusive_low))


@dataclass(frozen=True)
class _JointVector:
    """A vector of joints before the robot is known; texts are names of its figures."""

    default: float | str
    low: float | str
    high: float | str
    unit: str
    doc: str

    def of(self, robot: Jointed | None) -> Spec:
        """Return what it is for a robot, or for the default one."""
        robot = robot or _default_robot()
        values = (
            robot.figure(self.default)
            if isinstance(self.default, str)
            else ((float(self.default),) * robot.n_joints)
        )
        low, high = (
            robot.figure(bound) if isinstance(bound, str) else float(bound)
            for bound in (self.low, self.high)
        )
        default = _frozen(values)
        return Spec("", "vector", default, self.unit, low, high, (), self.doc, per_joint=True)


def joint_vector(
    default: float | str,
    *,
    unit: str = "",
    low: float | str = -math.inf,
    high: float | str = math.inf,
    doc: str = "",
) -> Any:
    """Declare a vector with a number for every joint of the robot that the law works on.

    Args:
        default: One for all joints, or the name of a figure of the robot
            (:attr:`.Robot.figures`), which has one for each.
        unit: SI unit.
        low: Smallest value, likewise.
        high: Largest value, likewise.
        doc: One line on what it does.
    """
    declared = _JointVector(default, low, high, unit, doc)
    return dataclasses.field(
        default_factory=lambda: declared.of(None).default, metadata={_KEY: declared}
    )


def flag(default: bool, *, doc: str = "", read_only: bool = False) -> Any:
    """Declare a switch."""
    return _field(Spec("", "flag", default, doc=doc, read_only=read_only))


def choice(default: str, *, options: Sequence[str], doc: str = "", read_only: bool = False) -> Any:
    """Declare one of a few named options."""
    return _field(
        Spec("", "choice", default, options=tuple(options), doc=doc, read_only=read_only)
    )


@dataclass(frozen=True)
class NoParams:
    """Parameters of something that has none."""


def specs_of(params: type, prefix: str = "", robot: Jointed | None = None) -> tuple[Spec, ...]:
    """Return the specs of a ``Params`` dataclass, in field order.

    Args:
        params: The dataclass.
        prefix: Put before every name.
        robot: That vectors of joints are for; by default that of :data:`.DEFAULT_MODEL`.
    """
    found = []
    for field in dataclasses.fields(params):
        declared = field.metadata[_KEY]
        spec = declared.of(robot) if isinstance(declared, _JointVector) else declared
        found.append(dataclasses.replace(spec, name=prefix + field.name))
    return tuple(found)


def is_declared(field: dataclasses.Field[Any]) -> bool:
    """Return whether a field was made by one of the functions above."""
    return _KEY in field.metadata


class ParameterSet(Generic[_P]):
    """The named parameters of one ``Params`` class, and their flat form.

    Args:
        params: The dataclass.
        prefix: Put before every name (``nullspace.`` for a feature).
        robot: That vectors of joints are for.
    """

    def __init__(self, params: type[_P], prefix: str = "", robot: Jointed | None = None) -> None:
        self.params = params
        self.specs = specs_of(params, prefix, robot)
        self.names = tuple(spec.name for spec in self.specs)
        self.width = sum(spec.width for spec in self.specs)

    def encode(self, values: Mapping[str, Any]) -> NDArray[np.float64]:
        """Return checked values as one flat vector, (width,)."""
        flat: list[float] = []
        for spec in self.specs:
            value = values[spec.name]
            if spec.kind == "vector":
                flat.extend(value)
            else:
                flat.append(spec.options.index(value) if spec.kind == "choice" else float(value))
        return np.array(flat, dtype=np.float64)

    def decode(self, flat: NDArray[np.float64]) -> _P:
        """Return the dataclass that a flat vector describes."""
        arguments, start = {}, 0
        for spec, field in zip(self.specs, dataclasses.fields(self.params)):  # type: ignore[arg-type]
            part = flat[start : start + spec.width]
            start += spec.width
            if spec.kind == "vector":
                value: Any = _frozen(part)
            elif spec.kind == "flag":
                value = bool(part[0])
            else:
                value = spec.options[int(part[0])] if spec.kind == "choice" else float(part[0])
            if spec.kind == "integer":
                value = int(part[0])
            arguments[field.name] = value
        return self.params(**arguments)


def check_values(
    specs: Sequence[Spec], values: Mapping[str, object], where: str
) -> tuple[dict[str, Any], list[str]]:
    """Check values against specs and collect every fault.

    Returns:
        The accepted values by name, and one sentence per fault.
    """
    known = {spec.name: spec for spec in specs}
    accepted: dict[str, Any] = {}
    faults: list[str] = []
    for name, value in values.items():
        if name not in known:
            names = ", ".join(known) or "none"
            faults.append(f"{where}: parameter {name!r} does not exist; known: {names}")
            continue
        try:
            accepted[name] = known[name].check(value, where)
        except ParameterRejected as error:
            faults.append(str(error))
    return accepted, faults


def _field(spec: Spec) -> Any:
    if spec.kind == "vector":
        return dataclasses.field(default_factory=lambda: spec.default, metadata={_KEY: spec})
    return dataclasses.field(default=spec.default, metadata={_KEY: spec})


def _default_robot() -> Jointed:
    """Return what an arm is if nobody says."""
    models = import_module("multipanda_py.robots.models")
    found: Jointed = models.MODELS[models.DEFAULT_MODEL]
    return found


def _frozen(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(value, bool)


def _is_within(value: Any, low: float, high: float) -> bool:
    try:
        return _is_number(value) and math.isfinite(value) and low <= value <= high
    except OverflowError:  # an integer that no float can hold
        return False


def _is_sequence(value: object) -> bool:
    return (
        hasattr(value, "__len__")
        and hasattr(value, "__iter__")
        and not isinstance(value, (str, bytes, Mapping))
    )
