# SPDX-License-Identifier: Apache-2.0
"""What a backend can be told about one arm: declared once, as a law's parameters are.

A frozen dataclass is the only declaration. From it come the checks of the cell file, the ROS
parameters of the arm's robot, and the flat record that carries new values to the loop::

    @dataclass(frozen=True)
    class ServoSettings(Settings):
        port: str = text("/dev/ttyACM0", read_only=True, doc="where the servos are")
        current: float = number(4.0, unit="A", low=0, high=8, doc="largest per motor")
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from multipanda_py.parameter_spec import Spec
from multipanda_py.parameters import is_declared, specs_of


@dataclass(frozen=True)
class Settings:
    """Settings of one arm; this one has none. Vectors are lists of floats.

    What is declared ``read_only`` is read at the start; everything else may change while the arm
    holds.

    Attributes:
        given: Names of the settings that were given, not taken from the defaults.
    """

    def __new__(cls, **values: object) -> Self:
        """Remember what was given."""
        self = super().__new__(cls)
        object.__setattr__(self, "given", frozenset(values))
        return self

    def __post_init__(self) -> None:
        """Make lists of floats of all vectors."""
        for spec in declared(type(self)):
            if spec.kind == "vector":
                numbers = [float(element) for element in getattr(self, spec.name)]
                object.__setattr__(self, spec.name, numbers)

    if TYPE_CHECKING:
        given: frozenset[str] = dataclasses.field(init=False)

    @property
    def load(self) -> Any:
        """Load that the arm carries beyond its tool, a :class:`.Load`; None for none.

        The model of the controllets includes it; see :func:`.load_of`.
        """
        return None

    @classmethod
    def refusal(cls, name: str, value: Any) -> str:
        """Return why a value within its bounds is not allowed, or an empty string."""
        return ""

    def encode(self) -> NDArray[np.float64]:
        """Return what may change as one record: for each, whether it was given, and its value."""
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
        """Return these settings with those replaced that were given in a record."""
        given: dict[str, Any] = {}
        flat, start = record.tolist(), 0
        for spec in live(type(self)):
            if flat[start]:
                values = flat[start + 1 : start + 1 + spec.width]
                given[spec.name] = _setting_value(spec, values)
            start += 1 + spec.width
        return self.replace(given)

    def replace(self, values: Mapping[str, Any]) -> Self:
        """Return these settings with some replaced, which count as given."""
        return type(self)(**{name: getattr(self, name) for name in self.given} | dict(values))


_F = TypeVar("_F", bound=Callable[..., Any])


def by_class(function: _F) -> _F:
    """Remember results by class; mypy takes a dataclass's own hash for that of its class."""
    return cast(_F, cache(function))


@by_class
def declared(settings: type[Settings]) -> tuple[Spec, ...]:
    """Return the specs of all settings, in the order of the fields."""
    return specs_of(settings)


@by_class
def live(settings: type[Settings]) -> tuple[Spec, ...]:
    """Return the specs of what may change while the arm holds."""
    return tuple(spec for spec in declared(settings) if not spec.read_only)


def record_width(settings: type[Settings]) -> int:
    """Return the floats of a record of :meth:`Settings.encode`."""
    return sum(1 + int(spec.width) for spec in live(settings))


def declaration_fault(settings: object) -> str:
    """Return what is wrong with the declaration of a backend's settings, or an empty string."""
    allowed = "allowed a frozen dataclass derived from multipanda_py.settings.Settings"
    if not (isinstance(settings, type) and issubclass(settings, Settings)):
        return f"got {settings!r:.80}, {allowed}"
    if settings is not Settings and "__dataclass_fields__" not in vars(settings):
        return f"got class {settings.__qualname__} that is no dataclass, {allowed}"
    functions = "number, vector, flag, choice, integer or text of multipanda_py.parameters"
    for field in dataclasses.fields(settings):
        if not is_declared(field):
            return f"{field.name}: got a plain field, allowed one declared with {functions}"
        if hasattr(Settings, field.name) or field.name == "given":
            return f"{field.name}: this name is taken by multipanda_py.settings.Settings"
    return ""


def _setting_value(spec: Spec, values: list[float]) -> Any:
    if spec.kind == "vector":
        return values
    if spec.kind == "choice":
        return spec.options[int(values[0])]
    kinds = {"flag": bool, "integer": int}
    return kinds.get(spec.kind, float)(values[0])
