# SPDX-License-Identifier: Apache-2.0
"""What an arm is: a model by its name, or the files that describe one."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Discriminator, Field, Tag

from multipanda_py.config.gazebo_actuators import actuators_of
from multipanda_py.config.section import Section
from multipanda_py.exceptions import ConfigurationError, UnknownName
from multipanda_py.robots import MODELS, Robot
from multipanda_py.robots.extra import read_extra
from multipanda_py.robots.parameter_file import with_parameters
from multipanda_py.robots.read import read_robot


class ModelConfig(Section):
    """The files of a robot that is data; see :func:`.read_robot`.

    What is given here goes before what ``extra`` says of the same. Paths in a cell file are
    relative to it, others to the current folder.
    """

    urdf: str = ""
    mjcf: str = ""
    """MuJoCo's format, instead of a URDF."""
    parameters: str = ""
    """YAML of ``multipanda identify``: inertia and friction as they were measured."""
    base: str = ""
    """Link that is fixed to the world; with ``parameters`` and no other file, name of the robot
    that those are of."""
    tip: str = ""
    """Link that carries hand, tool and load."""
    extra: str = ""
    """YAML with what the URDF lacks."""
    name: Annotated[str, Field(pattern=r"^([A-Za-z][A-Za-z0-9_]*)?$", max_length=64)] = ""
    """By default that of the YAML, else of the URDF."""

    @cached_property
    def robot(self) -> Robot:
        """The robot, read once.

        Raises:
            ConfigurationError: If the files describe none.
        """
        urdf, mjcf, extra = (
            Path(path) if path else None for path in (self.urdf, self.mjcf, self.extra)
        )
        if self.parameters and not (urdf or mjcf or extra):
            if self.base not in MODELS:
                raise UnknownName("base of the model", self.base, tuple(MODELS))
            robot = MODELS[self.base]
            robot = replace(robot, name=self.name) if self.name else robot
        else:
            given = {"base": self.base, "tip": self.tip, "name": self.name}
            robot = read_robot(extra, urdf=urdf, mjcf=mjcf, **given)
        return with_parameters(robot, Path(self.parameters)) if self.parameters else robot

    @cached_property
    def actuators(self) -> dict[str, Any]:
        """The compliant actuators that its URDF declares for the ROS-Gazebo toolbox, read once.

        Raises:
            ConfigurationError: If that is not what it has to be.
        """
        urdf = Path(self.urdf) if self.urdf else None
        if urdf is None and self.extra and not self.mjcf:
            given = read_extra(Path(self.extra)).get("urdf")
            urdf = Path(self.extra).parent / given if given else None
        if urdf is None:
            return {}
        return actuators_of(urdf, [joint.name for joint in self.robot.joints])


def robot_of(model: Any) -> Robot | None:
    """Return the robot of a value for a model, or None if that is none."""
    with contextlib.suppress(ConfigurationError):
        return model.robot if isinstance(model, ModelConfig) else MODELS.get(str(model))
    return None


def tags_of(model: Any) -> dict[str, Any]:
    """Return the actuators that a value for a model says, empty if it says none, or wrongly."""
    with contextlib.suppress(ConfigurationError):
        return model.actuators if isinstance(model, ModelConfig) else {}
    return {}


def _known(name: str) -> str:
    if name not in MODELS:
        raise ValueError(f"should be one of {', '.join(MODELS)}")
    MODELS[name]  # refused here if a plug-in's cannot be read
    return name


def _readable_model(files: ModelConfig) -> ModelConfig:
    """Refuse files that describe no robot here, where it is said of the model."""
    files.robot  # noqa: B018 - reads it
    files.actuators  # noqa: B018 - likewise
    return files


def _kind_of_model(value: object) -> str:
    return "[files]" if isinstance(value, Mapping | ModelConfig) else "[name]"


Model = Annotated[
    Annotated[str, AfterValidator(_known), Tag("[name]")]
    | Annotated[ModelConfig, AfterValidator(_readable_model), Tag("[files]")],
    Discriminator(_kind_of_model),
]
"""A name or the files; tags in brackets are left out of messages."""
