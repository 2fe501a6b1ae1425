# SPDX-License-Identifier: Apache-2.0
"""Base class, value types and error messages of all sections of a cell file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from multipanda_py.config.renamed_keys import renamed_key


def in_plain_types(section: Any) -> Any:
    """Convert tuples, arrays and numpy numbers of a section to lists and Python numbers."""
    if not isinstance(section, Mapping):
        return section
    # Strict validation, which rejects ``true`` and ``"0.5"`` as numbers, rejects these types, too.
    return {key: _plain(value) for key, value in section.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    return value.tolist() if hasattr(value, "tolist") else value


def without_placeholder(value: object) -> object:
    """Convert ``['']``, which stands for an empty list in ROS 2 parameter files, to ``[]``."""
    return [] if value == [""] else value


Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
"""Name of a cell, arm, object or controllet. 64 characters leave space in file and ROS names,
which allow 255."""

_Coordinate = Annotated[float, Field(ge=-100, le=100)]
_Angle = Annotated[float, Field(ge=-6.2832, le=6.2832)]
_Offset = Annotated[float, Field(ge=-2, le=2)]
_Moment = Annotated[float, Field(ge=-20, le=20)]
_Torque = Annotated[float, Field(ge=-100, le=100)]
_Extent = Annotated[float, Field(ge=1e-4, le=100)]
_Fraction = Annotated[float, Field(ge=0, le=1)]
_UpTo100 = Annotated[float, Field(ge=0, le=100)]
_UpTo1000 = Annotated[float, Field(ge=0, le=1000)]
_UpTo100000 = Annotated[float, Field(ge=0, le=100_000)]
_JointAngle = Annotated[float, Field(ge=-10, le=10)]
MIN_OBJECT_MASS = 1e-6
"""Minimum mass of a movable object [kg]. The smallest object then has an inertia of 4e-15 kg m^2.
MuJoCo rejects inertias below 1e-15 kg m^2."""


def _fixed_or_heavy_enough(mass: float) -> float:
    if 0.0 < mass < MIN_OBJECT_MASS:
        raise ValueError(f"should be 0 for a fixed object, or {MIN_OBJECT_MASS:g} to 1000")
    return mass


_PerJoint = Field(min_length=1, max_length=64)  # ``check_cell`` checks the number of joints.

Position = Annotated[list[_Coordinate], Field(min_length=3, max_length=3)]
"""Position of an arm or an object in the world frame [m]."""
Rpy = Annotated[list[_Angle], Field(min_length=3, max_length=3)]
"""Roll, pitch, yaw, each within one revolution [rad]."""
Offset = Annotated[list[_Offset], Field(min_length=3, max_length=3)]
"""Vector in the frame of a link, flange or tool of an arm [m]."""
Inertia = Annotated[list[_Moment], Field(min_length=6, max_length=6)]
"""Inertia xx yy zz xy xz yz, up to that of 20 kg at a distance of 1 m [kg m^2]."""
Size = Annotated[list[_Extent], Field(min_length=1, max_length=3)]
"""Half lengths and radii of an object [m]."""
ObjectMass = Annotated[float, Field(ge=0, le=1000), AfterValidator(_fixed_or_heavy_enough)]
"""Mass of an object in the scene; 0 fixes it to the world [kg]."""
Color = Annotated[list[_Fraction], Field(min_length=4, max_length=4)]
"""Red, green, blue and opacity, each in [0, 1]."""
JointConfiguration = Annotated[list[_JointAngle], _PerJoint]
"""Joint positions [rad]; the limits of the robot, which are narrower, are checked later."""
JointTorques = Annotated[list[_Torque], _PerJoint]
"""Joint torques, with bounds above the torque limit of any joint [Nm]."""
JointFriction = Annotated[list[_UpTo100], _PerJoint]
"""Friction, drifts and amplitudes per joint, bounded above any joint torque [Nm, Nm s/rad]."""
SpringDamping = Annotated[list[_UpTo1000], _PerJoint]
"""Damping per joint, up to overcritical damping of the stiffest spring [Nm s/rad]."""
JointStiffness = Annotated[list[_UpTo100000], _PerJoint]
"""Stiffness per joint [Nm/rad]; also the type of the ripple periods per revolution."""


def messages(error: ValidationError, cell: type[BaseModel]) -> Iterator[str]:
    """Yield one message per error that pydantic found: path, given value, allowed values.

    Args:
        error: Error of the validation.
        cell: Class that was validated, whose keys are listed in messages on unknown keys.
    """
    for fault in error.errors(include_url=False):
        # Parts that begin with "[" are tags of unions. pydantic adds them, but they are no keys.
        loc = [part for part in fault["loc"] if not str(part).startswith("[")]
        path = ".".join(map(str, loc))
        if fault["type"] == "extra_forbidden":
            if new := renamed_key(loc):
                yield f"{path}: renamed to {new}"
            else:
                yield f"{path}: unknown key; known: {', '.join(_valid_keys(cell, loc))}"
        elif fault["type"] == "missing":
            yield f"{path}: missing"
        else:
            # pydantic adds this prefix to messages of validators.
            text = fault["msg"].removeprefix("Value error, ")
            message = text[0].lower() + text[1:]
            yield f"{path}: got {fault['input']!r:.80}; {message}"


def _valid_keys(cell: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    section, keys = cell, iter(path[:-1])
    for key in keys:
        annotation = section.model_fields[str(key)].annotation
        if get_origin(annotation) in (dict, list):
            next(keys, None)  # The key is a name chosen by the user, or a list index.
        section = next(_section_classes_in(annotation))
    return list(section.model_fields)


def _section_classes_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _section_classes_in(part)


class Section(BaseModel):
    """Base class of all sections: immutable, with strict types, without unknown keys.

    Integers are accepted where floats are expected.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _in_plain_types(cls, data: Any) -> Any:
        return in_plain_types(data)

    @property
    def is_default(self) -> bool:
        """True if all values equal their defaults.

        A list equals its default if all its numbers do, whatever its length.
        """
        return all(
            value == default
            or (isinstance(value, list) and [*value[:1]] * len(default) == default
                and len(set(value)) == 1)
            for name, field in type(self).model_fields.items()
            for value, default in [(getattr(self, name), field.default)]
        )  # fmt: skip
