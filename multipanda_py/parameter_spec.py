# SPDX-License-Identifier: Apache-2.0
"""What one parameter may be, and whether a value is that."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ParameterRejected

Bound: TypeAlias = "float | tuple[float, ...]"
"""One for all elements, or one for each."""


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
        """Refuse bounds of another length than the vector, and a default that is not allowed.

        Raises:
            ValueError: With what was got, and what is allowed.
        """
        for bound in (self.low, self.high):
            if isinstance(bound, tuple) and (self.kind != "vector" or len(bound) != self.width):
                raise ValueError(
                    f"{self.name or self.doc}: got {len(bound)} bounds, allowed {self.width}"
                )
        if self.kind == "text" and not self.read_only:
            raise ValueError(f"{self.name or self.doc}: got text, allowed only with read_only")
        try:
            self.check(self.default)
        except ParameterRejected as error:
            raise ValueError(f"default of {self.doc if not self.name else ''}{error}") from None

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
            parts = (f"{count} in {self._range(low, high)}" for (low, high), count in runs)
            return f"{kind.rstrip(',')}, {', then '.join(parts)}{unit}"
        low, high = self.bounds[0]
        if math.isinf(low) and math.isinf(high):
            return f"{kind.rstrip(',')}, finite"
        return f"{kind} in {self._range(low, high)}{unit}"

    def _range(self, low: float, high: float) -> str:
        """Say what is allowed, as intervals are written: without the end of a round bracket."""
        return f"{'(' if self.exclusive_low else '['}{low:g}, {high:g}]"

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
                return frozen_vector(items)
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


def frozen_vector(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a copy that nobody can write to."""
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
