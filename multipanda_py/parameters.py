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
works on. Where the arms of one law differ in these, each arm has a vector of its own, named
``friction.left`` after the arm.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.parameter_spec import Spec, frozen_vector
from multipanda_py.registry import default_robot

JointVector: TypeAlias = "NDArray[np.float64] | tuple[NDArray[np.float64], ...]"
"""Value of a :func:`joint_vector`: for all arms, or a tuple with one per arm where these differ;
:meth:`.Context.per_arm` makes one per arm of both."""

_KEY = "multipanda"
_FUNCTIONS = (
    "number, integer, vector, joint_vector, flag, choice or text of multipanda_py.parameters"
)


class Jointed(Protocol):
    """What a vector of joints has to know of a robot; see :class:`.Robot`."""

    @property
    def n_joints(self) -> int:
        """Number of its joints."""

    def figure(self, name: str) -> tuple[float, ...]:
        """Return a number of every joint."""

    def unit(self, of: str) -> str:
        """Return a unit of joints that turn, such as Nm/rad, as it is for all of its own."""


Robots: TypeAlias = Mapping[str, Jointed]
"""What the arms of an instance are, by the arms' names, in order."""


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
    value = frozen_vector(default)
    return _field(Spec("", "vector", value, unit, low, high, (), doc, read_only, exclusive_low))


@dataclass(frozen=True)
class _JointVector:
    """A vector of joints before the robot is known; texts are names of its figures."""

    default: float | str
    low: float | str
    high: float | str
    unit: str
    doc: str
    arm: int | None

    def of(self, name: str, robots: Robots) -> tuple[Spec, ...]:
        """Return what it is for all arms, or for each if it is not the same for them."""
        each = [self.of_one(robot) for robot in robots.values()]
        if len({(tuple(spec.default), spec.bounds) for spec in each}) == 1:
            return (dataclasses.replace(each[0], name=name),)
        return tuple(
            dataclasses.replace(spec, name=f"{name}.{arm}") for arm, spec in zip(robots, each)
        )

    def of_one(self, robot: Jointed) -> Spec:
        """Return what it is for a robot."""
        values = (
            robot.figure(self.default)
            if isinstance(self.default, str)
            else ((float(self.default),) * robot.n_joints)
        )
        low, high = (
            robot.figure(bound) if isinstance(bound, str) else float(bound)
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
    """Declare a vector with a number for every joint of the robot that the law works on.

    Its value is a :data:`JointVector`.

    Args:
        default: One for all joints, or the name of a figure of the robot
            (:attr:`.Robot.figures`), which has one for each.
        unit: SI unit.
        low: Smallest value, likewise.
        high: Largest value, likewise.
        doc: One line on what it does.
        arm: Number of the one arm of the law that it is for; by default it is for each of them.
    """
    declared = _JointVector(default, low, high, unit, doc, arm)

    return dataclasses.field(
        default_factory=lambda: declared.of_one(default_robot()).default,
        metadata={_KEY: declared},
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


def specs_by_field(
    params: type, prefix: str = "", robots: Robots | None = None
) -> dict[str, tuple[Spec, ...]]:
    """Return the specs of a ``Params`` dataclass by field, in order; mostly one for each.

    Args:
        params: The dataclass.
        prefix: Put before every name.
        robots: Arms that vectors of joints are for; by default one of :data:`.DEFAULT_MODEL`.

    Raises:
        ConfigurationError: If it is no dataclass, or a field is not declared as it should be.
    """
    where = f"{params.__module__}.{params.__qualname__}" if isinstance(params, type) else "Params"
    _refuse_undeclared(params, where)
    found: dict[str, tuple[Spec, ...]] = {}
    for field in dataclasses.fields(params):
        declared, name = field.metadata[_KEY], prefix + field.name
        if not isinstance(declared, _JointVector):
            found[field.name] = (dataclasses.replace(declared, name=name),)
            continue
        try:
            found[field.name] = declared.of(name, _of_some(robots, declared.arm))
        except ValueError as error:  # of bounds or figures that do not fit the robot
            raise ConfigurationError(f"{where}: {field.name}: {error}") from error
    return found


def specs_of(params: type, prefix: str = "", robots: Robots | None = None) -> tuple[Spec, ...]:
    """Return the specs of :func:`specs_by_field` one after the other."""
    return tuple(spec for own in specs_by_field(params, prefix, robots).values() for spec in own)


def is_declared(field: dataclasses.Field[Any]) -> bool:
    """Return whether a field was made by one of the functions above."""
    return _KEY in field.metadata


def _refuse_undeclared(params: object, where: str) -> None:
    if not (isinstance(params, type) and dataclasses.is_dataclass(params)):
        raise ConfigurationError(f"{where}: got {params!r:.80}, allowed a frozen dataclass")
    for field in dataclasses.fields(params):
        if not is_declared(field):
            raise ConfigurationError(
                f"{where}: {field.name}: got a plain field, allowed one declared with {_FUNCTIONS}"
            )


def _field(spec: Spec) -> Any:
    if spec.kind == "vector":
        return dataclasses.field(default_factory=lambda: spec.default, metadata={_KEY: spec})
    return dataclasses.field(default=spec.default, metadata={_KEY: spec})


def _of_some(robots: Robots | None, arm: int | None) -> Robots:
    """Return the arms, or the one that a vector is for, or the default one."""
    if robots is None:
        return {"": default_robot()}
    return robots if arm is None else dict([[*robots.items()][arm]])
