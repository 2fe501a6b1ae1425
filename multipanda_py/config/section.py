# SPDX-License-Identifier: Apache-2.0
"""What all sections of a cell file have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator


def in_plain_types(section: Any) -> Any:
    """Return a section with lists for its tuples and arrays, and numbers for those of numpy.

    What checks a section is strict, so that ``true`` and ``"0.5"`` are no numbers, and would
    refuse these too.
    """
    if not isinstance(section, Mapping):
        return section
    return {key: _plain(value) for key, value in section.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    return value.tolist() if hasattr(value, "tolist") else value


Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
"""Of a cell, an arm, an object or a controllet; files and ROS names take 255 characters."""

_Place = Annotated[float, Field(ge=-100, le=100)]
_Angle = Annotated[float, Field(ge=-6.2832, le=6.2832)]
_Offset = Annotated[float, Field(ge=-2, le=2)]
_Moment = Annotated[float, Field(ge=-20, le=20)]
_Torque = Annotated[float, Field(ge=-100, le=100)]
_Extent = Annotated[float, Field(ge=1e-4, le=100)]
_Share = Annotated[float, Field(ge=0, le=1)]
_UpTo100 = Annotated[float, Field(ge=0, le=100)]
_UpTo1000 = Annotated[float, Field(ge=0, le=1000)]
_UpTo100000 = Annotated[float, Field(ge=0, le=100_000)]
_JointAngle = Annotated[float, Field(ge=-10, le=10)]
LIGHTEST = 1e-6
"""Mass of the lightest thing that moves [kg]: at the smallest size its inertia is 4e-15 kg m^2,
and MuJoCo refuses less than 1e-15."""


def _fixed_or_heavy_enough(mass: float) -> float:
    if 0.0 < mass < LIGHTEST:
        raise ValueError(f"should be 0 for a thing that is fixed, or {LIGHTEST:g} to 1000")
    return mass


_PerJoint = Field(min_length=1, max_length=64)  # as many as the arm's model has, see the rules

Position = Annotated[list[_Place], Field(min_length=3, max_length=3)]
"""Of an arm or an object in the world [m]."""
Rpy = Annotated[list[_Angle], Field(min_length=3, max_length=3)]
"""Roll, pitch, yaw, a full turn at most [rad]."""
Offset = Annotated[list[_Offset], Field(min_length=3, max_length=3)]
"""Within an arm or its tool [m]."""
Inertia = Annotated[list[_Moment], Field(min_length=6, max_length=6)]
"""xx yy zz xy xz yz; 20 kg at an arm's length [kg m^2]."""
Size = Annotated[list[_Extent], Field(min_length=1, max_length=3)]
"""Half lengths and radii of things [m]."""
ThingMass = Annotated[float, Field(ge=0, le=1000), AfterValidator(_fixed_or_heavy_enough)]
"""Of a thing in the scene; 0 fixes it to the world [kg]."""
Color = Annotated[list[_Share], Field(min_length=4, max_length=4)]
"""Red, green, blue, opacity."""
Posture = Annotated[list[_JointAngle], _PerJoint]
"""Joint positions; the robot's own limits are narrower [rad]."""
JointTorques = Annotated[list[_Torque], _PerJoint]
"""More than any joint has [Nm]."""
JointFriction = Annotated[list[_UpTo100], _PerJoint]
"""Losses, drifts and amplitudes per joint; more than any joint's torque [Nm, Nm s/rad]."""
SpringDamping = Annotated[list[_UpTo1000], _PerJoint]
"""Of a spring of the largest stiffness, overdamped [Nm s/rad]."""
JointStiffness = Annotated[list[_UpTo100000], _PerJoint]
"""[Nm/rad], or any other large number per joint."""


def sentences(error: ValidationError, cell: type[BaseModel]) -> Iterator[str]:
    """Word every fault that pydantic found: path, what was got, what is allowed."""
    for fault in error.errors(include_url=False):
        loc = [part for part in fault["loc"] if not str(part).startswith("[")]  # of pydantic's own
        path = ".".join(map(str, loc))
        if fault["type"] == "extra_forbidden":
            yield f"{path}: unknown key; known: {', '.join(_siblings(cell, loc))}"
        elif fault["type"] == "missing":
            yield f"{path}: missing"
        else:
            text = fault["msg"].removeprefix("Value error, ")  # raised by a check of ours
            message = text[0].lower() + text[1:]
            yield f"{path}: got {fault['input']!r:.80}; {message}"


def _siblings(cell: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    """List the keys that exist beside an unknown one."""
    section, keys = cell, iter(path[:-1])
    for key in keys:
        annotation = section.model_fields[str(key)].annotation
        if get_origin(annotation) in (dict, list):
            next(keys, None)  # a name that the user has given, or a number
        section = next(_sections_in(annotation))
    return list(section.model_fields)


def _sections_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the sections that a type is made of: a mapping, an optional section."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _sections_in(part)


class Section(BaseModel):
    """One section: it refuses keys that it does not know, and stays as it was read.

    Values have the type that is asked for, as those of laws' parameters; a whole number is a
    number too.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _in_plain_types(cls, data: Any) -> Any:
        return in_plain_types(data)

    @property
    def is_default(self) -> bool:
        """Whether nothing is other than by default, for any number of joints."""
        return all(
            value == default
            or (isinstance(value, list) and [*value[:1]] * len(default) == default
                and len(set(value)) == 1)
            for name, field in type(self).model_fields.items()
            for value, default in [(getattr(self, name), field.default)]
        )  # fmt: skip
