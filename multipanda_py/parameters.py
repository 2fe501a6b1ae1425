# SPDX-License-Identifier: Apache-2.0
"""Declaration and check of the parameters of controllets and features, and of backend settings.

A frozen dataclass declares each parameter once. From this declaration follow the checks of the
cell file, the ROS parameters, and the array of numbers that carries new values to the loop.
Example::

    @dataclass(frozen=True)
    class ServoSettings(Settings):
        port: str = text("/dev/ttyACM0", read_only=True, doc="serial port of the servos")
        current: float = number(4.0, unit="A", low=0, high=8, doc="maximum current per motor")
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from multipanda_py.exceptions import ConfigurationError, ParameterRejected
from multipanda_py.registry import default_robot

Bound: TypeAlias = "float | tuple[float, ...]"
"""One bound for all elements, or one per element."""


@dataclass(frozen=True)
class Spec:
    """Type, default and bounds of one parameter.

    Attributes:
        name: Name in files and ROS, with the feature as prefix: ``nullspace.stiffness``.
        kind: Kind of value: ``number``, ``integer``, ``vector``, ``flag``, ``choice`` or ``text``.
        default: Default value.
        unit: SI unit, or an empty string.
        low: Minimum value; for vectors one for all elements, or one per element.
        high: Maximum value; for vectors one for all elements, or one per element.
        options: Allowed values of a choice.
        doc: Description in one line.
        read_only: True if a setting of a backend cannot change after the start.
        exclusive_low: True if values must be above ``low``, not equal to it.
        per_joint: True if the value has one number per joint of the robot.
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
        """Check the number of bounds, and that the default is within them.

        Raises:
            ValueError: If the declaration is invalid.
        """
        for bound in (self.low, self.high):
            if isinstance(bound, tuple) and (self.kind != "vector" or len(bound) != self.width):
                raise ValueError(
                    f"{self.name or self.doc}: got {len(bound)} bounds, allowed {self.width}"
                )
        if self.kind == "text" and not self.read_only:
            raise ValueError(f"{self.name or self.doc}: got text, which needs read_only=True")
        try:
            self.check(self.default)
        except ParameterRejected as error:
            raise ValueError(f"default of {self.doc if not self.name else ''}{error}") from None

    @property
    def width(self) -> int:
        """Number of floats that store the value."""
        return len(self.default) if self.kind == "vector" else 1

    @property
    def allowed(self) -> str:
        """Description of the allowed values, for error messages."""
        if self.kind == "flag":
            return "true or false"
        if self.kind == "choice":
            return "one of " + ", ".join(self.options)
        if self.kind == "text":
            return "text"
        kind = "an integer" if self.kind == "integer" else "a number"
        if self.kind == "vector":
            kind = f"{self.width} numbers{', one per joint,' * self.per_joint}"
        unit = f" {self.unit}" if self.unit else ""
        runs = [(pair, len(list(run))) for pair, run in itertools.groupby(self.bounds)]
        if len(runs) > 1:
            parts = (f"{count} in {self._interval_text(low, high)}" for (low, high), count in runs)
            return f"{kind.rstrip(',')}, {', then '.join(parts)}{unit}"
        low, high = self.bounds[0]
        if math.isinf(low) and math.isinf(high):
            return f"{kind.rstrip(',')}, finite"
        return f"{kind} in {self._interval_text(low, high)}{unit}"

    def _interval_text(self, low: float, high: float) -> str:
        return f"{'(' if self.exclusive_low else '['}{low:g}, {high:g}]"

    @property
    def bounds(self) -> tuple[tuple[float, float], ...]:
        """Minimum and maximum of each element."""
        low, high = (
            bound if isinstance(bound, tuple) else (bound,) * self.width
            for bound in (self.low, self.high)
        )
        return tuple(zip(low, high))

    def check(self, value: object, path: str = "") -> Any:
        """Check a value, and return it as float, integer, boolean, text or array.

        Args:
            value: Value to check.
            path: Location of the value for error messages, such as a section of the cell file.

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
                return frozen_vector(items)
        got = f"{value!r:.80}" if not _is_sequence(value) else f"{list(value)!r:.120}"  # type: ignore[call-overload]
        if self.per_joint and _is_sequence(value) and len(value) != self.width:  # type: ignore[arg-type]
            got = f"{len(value)} numbers"  # type: ignore[arg-type]
        raise ParameterRejected(
            f"{path + ': ' if path else ''}{self.name}: got {got}, allowed {self.allowed}"
        )

    def _is_allowed(self, value: Any, low: float, high: float, whole: bool = False) -> bool:
        if not _is_within(value, low, high) or (whole and value != int(value)):
            return False
        return not (self.exclusive_low and value == low)


def frozen_vector(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers as a read-only array."""
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(value, bool)


def _is_within(value: Any, low: float, high: float) -> bool:
    try:
        return _is_number(value) and math.isfinite(value) and low <= value <= high
    except OverflowError:  # The integer is too large for a float.
        return False


def _is_sequence(value: object) -> bool:
    return (
        hasattr(value, "__len__")
        and hasattr(value, "__iter__")
        and not isinstance(value, (str, bytes, Mapping))
    )


JointVector: TypeAlias = "NDArray[np.float64] | tuple[NDArray[np.float64], ...]"
"""Value of a :func:`joint_vector`: one array for all arms, or a tuple with one per arm if they
differ. :meth:`.Context.per_arm` converts both to one array per arm."""

_KEY = "multipanda"
_FUNCTIONS = (
    "number, integer, vector, joint_vector, flag, choice or text of multipanda_py.parameters"
)


class RobotDefaults(Protocol):
    """Robot that provides defaults and bounds of a :func:`joint_vector`; see :class:`.Robot`."""

    @property
    def n_joints(self) -> int: ...

    def value(self, name: str) -> tuple[float, ...]:
        """Return a quantity of the robot, one number per joint.

        Args:
            name: Name of the quantity, such as ``torque`` for the torque limits.
        """

    def unit(self, of: str) -> str:
        """Return a unit, adapted to prismatic joints if the robot has them.

        Args:
            of: Unit for revolute joints, such as ``Nm/rad``.
        """


Robots: TypeAlias = Mapping[str, RobotDefaults]
"""Robots of an instance by name of the arm, in order."""


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
    """Declare a number with its unit and bounds.

    Args:
        default: Default value.
        unit: Unit, such as ``N/m``; empty for a pure number.
        low: Minimum value.
        high: Maximum value.
        doc: Description without a final period.
        read_only: True if a setting of a backend cannot change after the start.
        exclusive_low: True if ``low`` itself is not allowed.
    """
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
    """Declare an integer parameter; see :func:`number` for the arguments."""
    return _field(Spec("", "integer", default, unit, low, high, (), doc, read_only))


def text(default: str, *, read_only: bool, doc: str = "") -> Any:
    """Declare a text setting, such as an address.

    It must be ``read_only``: later changes reach the loop as numbers only.
    """
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
    """Declare a vector parameter; the number of defaults sets its length.

    ``unit`` is for all elements, or for groups of elements, such as ``N/m, Nm/rad``. ``low`` and
    ``high`` have one bound for all elements or one per element. For other arguments see
    :func:`number`.
    """
    low, high = (tuple(b) if isinstance(b, Sequence) else b for b in (low, high))
    value = frozen_vector(default)
    return _field(Spec("", "vector", value, unit, low, high, (), doc, read_only, exclusive_low))


@dataclass(frozen=True)
class _JointVector:
    """Declared :func:`joint_vector`; a text as default or bound names a quantity of the robot."""

    default: float | str
    low: float | str
    high: float | str
    unit: str
    doc: str
    arm: int | None

    def specs(self, name: str, robots: Robots) -> tuple[Spec, ...]:
        each = [self.of_one(robot) for robot in robots.values()]
        if len({(tuple(spec.default), spec.bounds) for spec in each}) == 1:
            return (dataclasses.replace(each[0], name=name),)
        return tuple(
            dataclasses.replace(spec, name=f"{name}.{arm}") for arm, spec in zip(robots, each)
        )

    def of_one(self, robot: RobotDefaults) -> Spec:
        values = (
            robot.value(self.default)
            if isinstance(self.default, str)
            else ((float(self.default),) * robot.n_joints)
        )
        low, high = (
            robot.value(bound) if isinstance(bound, str) else float(bound)
            for bound in (self.low, self.high)
        )
        default = frozen_vector(values)
        unit = robot.unit(self.unit)
        return Spec("", "vector", default, unit, low, high, (), self.doc, per_joint=True)


def joint_vector(
    default: float | str,
    *,
    unit: str = "",
    low: float | str = -math.inf,
    high: float | str = math.inf,
    doc: str = "",
    arm: int | None = None,
) -> Any:
    """Declare a vector with one number per joint of the controlled robots.

    The value is a :data:`JointVector`: one array for all arms, or one per arm if robots differ.

    Args:
        default: One number for all joints, or the name of a robot quantity: a key of
            :attr:`.Robot.figures`, or a joint limit such as ``torque``.
        unit: SI unit.
        low: Minimum value, a number or the name of a quantity.
        high: Maximum value, a number or the name of a quantity.
        doc: Description in one line.
        arm: Index of the only arm that has the parameter; None for all arms.
    """
    declared = _JointVector(default, low, high, unit, doc, arm)

    return dataclasses.field(
        default_factory=lambda: declared.of_one(default_robot()).default,
        metadata={_KEY: declared},
    )


def flag(default: bool, *, doc: str = "", read_only: bool = False) -> Any:
    """Declare a boolean parameter."""
    return _field(Spec("", "flag", default, doc=doc, read_only=read_only))


def choice(default: str, *, options: Sequence[str], doc: str = "", read_only: bool = False) -> Any:
    """Declare a parameter with a fixed set of allowed texts."""
    return _field(
        Spec("", "choice", default, options=tuple(options), doc=doc, read_only=read_only)
    )


@dataclass(frozen=True)
class NoParams:
    """``Params`` class of a controllet or feature without parameters."""


def specs_by_field(
    params: type, prefix: str = "", robots: Robots | None = None
) -> dict[str, tuple[Spec, ...]]:
    """Return the specs of a ``Params`` dataclass by name of the field.

    A field has one spec, but a joint vector has one spec per arm if the robots differ.

    Args:
        params: Dataclass of the parameters.
        prefix: Prefix of every name, such as ``nullspace.`` for a feature.
        robots: Robots by name of the arm; None for one default robot.

    Raises:
        ConfigurationError: If ``params`` is not a dataclass, or has an undeclared field.
    """
    path = f"{params.__module__}.{params.__qualname__}" if isinstance(params, type) else "Params"
    _refuse_undeclared(params, path)
    specs: dict[str, tuple[Spec, ...]] = {}
    for field in dataclasses.fields(params):
        declared, name = field.metadata[_KEY], prefix + field.name
        if not isinstance(declared, _JointVector):
            specs[field.name] = (dataclasses.replace(declared, name=name),)
            continue
        try:
            specs[field.name] = declared.specs(name, _robots_of_arm(robots, declared.arm))
        except ValueError as error:  # Bounds or default do not fit this robot.
            raise ConfigurationError(f"{path}: {field.name}: {error}") from error
    return specs


def specs_of(params: type, prefix: str = "", robots: Robots | None = None) -> tuple[Spec, ...]:
    """Return the specs of a ``Params`` dataclass in one tuple; see :func:`specs_by_field`."""
    return tuple(spec for own in specs_by_field(params, prefix, robots).values() for spec in own)


def is_declared(field: dataclasses.Field[Any]) -> bool:
    """Return True if a field was declared by a function of this module."""
    return _KEY in field.metadata


def _refuse_undeclared(params: object, path: str) -> None:
    if not (isinstance(params, type) and dataclasses.is_dataclass(params)):
        raise ConfigurationError(f"{path}: got {params!r:.80}, allowed a frozen dataclass")
    for field in dataclasses.fields(params):
        if not is_declared(field):
            raise ConfigurationError(
                f"{path}: {field.name}: got a plain field, allowed one declared with {_FUNCTIONS}"
            )


def _field(spec: Spec) -> Any:
    if spec.kind == "vector":
        return dataclasses.field(default_factory=lambda: spec.default, metadata={_KEY: spec})
    return dataclasses.field(default=spec.default, metadata={_KEY: spec})


def _robots_of_arm(robots: Robots | None, arm: int | None) -> Robots:
    if robots is None:
        return {"": default_robot()}
    return robots if arm is None else dict([[*robots.items()][arm]])


_P = TypeVar("_P")


class ParameterSet(Generic[_P]):
    """Parameters of one ``Params`` class, with conversion to and from one array of floats.

    Args:
        params: Dataclass of the parameters.
        prefix: Prefix of every name, such as ``nullspace.`` for a feature.
        robots: Robots by name of the arm; None for one default robot.

    Attributes:
        params: Dataclass of the parameters.
        specs: Specs of all parameters, in the order of the array.
        names: Names of all parameters, in the order of the array.
        width: Number of floats in the array.
    """

    def __init__(self, params: type[_P], prefix: str = "", robots: Robots | None = None) -> None:
        self.params = params
        self._fields = specs_by_field(params, prefix, robots)
        self.specs = tuple(spec for specs in self._fields.values() for spec in specs)
        self.names = tuple(spec.name for spec in self.specs)
        self.width = sum(spec.width for spec in self.specs)

    def encode(self, values: Mapping[str, Any]) -> NDArray[np.float64]:
        """Return the checked values of all parameters as one array, (width,)."""
        flat: list[float] = []
        for spec in self.specs:
            value = values[spec.name]
            if spec.kind == "vector":
                flat.extend(value)
            else:
                flat.append(spec.options.index(value) if spec.kind == "choice" else float(value))
        return np.array(flat, dtype=np.float64)

    def decode(self, flat: NDArray[np.float64]) -> _P:
        """Return an object of the ``Params`` class from an array of :meth:`encode`, (width,)."""
        arguments, start = {}, 0
        for field, specs in self._fields.items():
            values = []
            for spec in specs:
                values.append(_typed_value(spec, flat[start : start + spec.width]))
                start += spec.width
            arguments[field] = values[0] if len(values) == 1 else tuple(values)
        return self.params(**arguments)


def _typed_value(spec: Spec, part: NDArray[np.float64]) -> Any:
    if spec.kind == "vector":
        return frozen_vector(part)
    if spec.kind == "choice":
        return spec.options[int(part[0])]
    return {"flag": bool, "integer": int}.get(spec.kind, float)(part[0])


def check_values(
    specs: Sequence[Spec], values: Mapping[str, object], path: str
) -> tuple[dict[str, Any], list[str]]:
    """Check parameter values, and collect all faults.

    Args:
        specs: Specs of the parameters that exist.
        values: Values to check, by name of the parameter.
        path: Location of the values for messages, such as a section of the cell file.

    Returns:
        Accepted values by name, and one message per fault.
    """
    known = {spec.name: spec for spec in specs}
    accepted: dict[str, Any] = {}
    faults: list[str] = []
    for name, value in values.items():
        if name not in known:
            faults.append(f"{path}: {_unknown_message(name, value, known)}")
            continue
        try:
            accepted[name] = known[name].check(value, path)
        except ParameterRejected as error:
            faults.append(str(error))
    return accepted, faults


def _unknown_message(name: str, value: object, known: Mapping[str, Spec]) -> str:
    own = [spec for spec in known.values() if spec.per_joint and spec.name.startswith(f"{name}.")]
    if not own:
        return f"parameter {name!r} does not exist; known: {', '.join(known) or 'none'}"
    got = f"{len(value)} numbers" if isinstance(value, (list, tuple, np.ndarray)) else repr(value)
    each = ", ".join(f"{spec.name} with {spec.width} numbers" for spec in own)
    return f"{name}: got {got:.80} for all arms, but these differ. Set one value per arm: {each}"


@dataclass(frozen=True)
class Settings:
    """Base class of the settings that a backend has for one arm.

    A vector is a list of floats. Settings declared ``read_only`` are fixed at the start. Others
    may change while the arm holds.

    Attributes:
        given: Names of the settings that were set explicitly, not taken from the defaults.
    """

    def __new__(cls, **values: object) -> Self:
        self = super().__new__(cls)
        object.__setattr__(self, "given", frozenset(values))
        return self

    def __post_init__(self) -> None:
        for spec in declared(type(self)):
            if spec.kind == "vector":
                numbers = [float(element) for element in getattr(self, spec.name)]
                object.__setattr__(self, spec.name, numbers)

    if TYPE_CHECKING:
        given: frozenset[str] = dataclasses.field(init=False)

    @property
    def load(self) -> Any:
        """Payload of the arm in addition to its tool, a :class:`.Load`; None without payload.

        The dynamic model includes it. Override this property in settings with a payload.
        """
        return None

    @classmethod
    def refusal(cls, name: str, value: Any) -> str:
        """Return the reason why a value within its bounds is not allowed, or an empty string.

        Args:
            name: Name of the setting.
            value: Value that has passed the check of type and bounds.
        """
        return ""

    def encode(self) -> NDArray[np.float64]:
        """Return all settings that are not ``read_only`` as one array.

        Each value is preceded by a flag: 1 if it was set explicitly, 0 if it is a default.
        """
        flat: list[float] = []
        for spec in live(type(self)):
            value = getattr(self, spec.name)
            flat.append(spec.name in self.given)
            if spec.kind == "vector":
                flat.extend(value)
            else:
                flat.append(spec.options.index(value) if spec.kind == "choice" else value)
        return np.array(flat, dtype=np.float64)

    def decode(self, record: NDArray[np.float64]) -> Self:
        """Return a copy with the explicitly set values of an array from :meth:`encode`."""
        overrides: dict[str, Any] = {}
        flat, start = record.tolist(), 0
        for spec in live(type(self)):
            if flat[start]:
                values = flat[start + 1 : start + 1 + spec.width]
                overrides[spec.name] = _setting_value(spec, values)
            start += 1 + spec.width
        return self.replace(overrides)

    def replace(self, values: Mapping[str, Any]) -> Self:
        """Return a copy with some settings replaced. The new values count as explicit."""
        return type(self)(**{name: getattr(self, name) for name in self.given} | dict(values))


_F = TypeVar("_F", bound=Callable[..., Any])


def by_class(function: _F) -> _F:
    """Cache the results of a function whose argument is a class."""
    return cast(_F, cache(function))


@by_class
def declared(settings: type[Settings]) -> tuple[Spec, ...]:
    """Return the specs of all settings, in the order of the fields."""
    return specs_of(settings)


@by_class
def live(settings: type[Settings]) -> tuple[Spec, ...]:
    """Return the specs of settings that may change while the arm holds."""
    return tuple(spec for spec in declared(settings) if not spec.read_only)


def record_width(settings: type[Settings]) -> int:
    """Return the number of floats in the array of :meth:`Settings.encode`."""
    return sum(1 + int(spec.width) for spec in live(settings))


def declaration_fault(settings: object) -> str:
    """Return the fault in the declaration of a backend's settings, or an empty string."""
    allowed = "allowed a frozen dataclass derived from multipanda_py.parameters.Settings"
    if not (isinstance(settings, type) and issubclass(settings, Settings)):
        return f"got {settings!r:.80}, {allowed}"
    if settings is not Settings and "__dataclass_fields__" not in vars(settings):
        return f"got class {settings.__qualname__} that is not a dataclass, {allowed}"
    functions = "number, vector, flag, choice, integer or text of multipanda_py.parameters"
    for field in dataclasses.fields(settings):
        if not is_declared(field):
            return f"{field.name}: got a plain field, allowed one declared with {functions}"
        if hasattr(Settings, field.name) or field.name == "given":
            return f"{field.name}: this name is reserved by multipanda_py.parameters.Settings"
    return ""


def _setting_value(spec: Spec, values: list[float]) -> Any:
    if spec.kind == "vector":
        return values
    if spec.kind == "choice":
        return spec.options[int(values[0])]
    kinds = {"flag": bool, "integer": int}
    return kinds.get(spec.kind, float)(values[0])
