# SPDX-License-Identifier: Apache-2.0
"""Section ``model`` of an arm: the name of a robot model, or the files that describe one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, Discriminator, Field, Tag, ValidationError

from multipanda_py.config.actuator_section import Mode
from multipanda_py.config.section import Section
from multipanda_py.exceptions import ConfigurationError, UnknownName
from multipanda_py.robots import MODELS, Robot
from multipanda_py.robots.extra_data import read_extra
from multipanda_py.robots.measured_files import with_parameters
from multipanda_py.robots.parallel_gripper import ParallelGripper
from multipanda_py.robots.read_gazebo import GazeboActuator, read_gazebo
from multipanda_py.robots.read_gripper import read_gripper
from multipanda_py.robots.read_robot import read_robot

PATH_KEYS = ("urdf", "mjcf", "extra", "parameters")
"""Keys of a model or gripper whose values are file paths."""
FILE_SECTIONS = ("model", "gripper")
"""Keys of an arm whose values can be mappings with file paths."""
ARM_FILE_KEYS = (
    ("", "identified"),
    ("perturbation", "parameters"),
    ("residual", "state"),
    ("residual", "wrench"),
    ("residual", "torque"),
)
"""Sections and keys of an arm that name files of identified parameters or trained residuals."""


def resolved(section: type[Section], value: Any) -> Any:
    """Convert the value of the key ``model`` or ``gripper`` of an arm.

    Args:
        section: Class ``ModelConfig`` or ``GripperConfig``.
        value: Value of the key. A mapping with file paths becomes an instance of ``section`` with
            absolute paths. Any other value, such as the name of a model, is returned unchanged.
    """
    paths = _absolute(value)
    # An invalid value is returned unchanged; the validation of the arm's section reports it.
    with contextlib.suppress(ValidationError):
        return section.model_validate(paths) if isinstance(paths, Mapping) else value
    return value


def _absolute(files: Any) -> Any:
    if not isinstance(files, Mapping):
        return files
    if not all(isinstance(files.get(key, ""), str) for key in PATH_KEYS):
        return files
    return {
        key: str(Path(value).absolute()) if key in PATH_KEYS and value else value
        for key, value in files.items()
    }


def with_absolute_paths(arm: Mapping[str, Any]) -> dict[str, Any]:
    """Return an arm's section with absolute paths at the keys in ``ARM_FILE_KEYS``."""
    return _with_paths(arm, lambda path: str(Path(path).absolute()))


def _with_paths(arm: Mapping[str, Any], resolve_path: Callable[[str], str]) -> dict[str, Any]:
    result = dict(arm)
    for section, key in ARM_FILE_KEYS:
        own = result.get(section) if section else result
        if isinstance(own, Mapping) and isinstance(own.get(key), str) and own[key]:
            values = {**own, key: resolve_path(own[key])}
            result = {**result, section: values} if section else values
    groups = result.get("actuators")
    if isinstance(groups, Mapping):
        result["actuators"] = {
            name: _placed(group, resolve_path) for name, group in groups.items()
        }
    return result


def _placed(group: Any, resolve_path: Callable[[str], str]) -> Any:
    path = group.get("identified") if isinstance(group, Mapping) else None
    return {**group, "identified": resolve_path(path)} if isinstance(path, str) and path else group


def relative_to(folders: Sequence[Path], data: Any) -> Any:
    """Return the data of a cell with absolute paths of all files of its arms.

    Args:
        folders: Folders to search. A relative path refers to the first folder that contains the
            file, or to the first folder if none does.
        data: Data of a cell file, valid or not.
    """
    arms = data.get("arms") if isinstance(data, Mapping) else None
    if not isinstance(arms, Mapping):
        return data
    return {**data, "arms": {name: _arm_relative_to(folders, arm) for name, arm in arms.items()}}


def _arm_relative_to(folders: Sequence[Path], arm: Any) -> Any:
    result = dict(arm) if isinstance(arm, Mapping) else {}
    for part in FILE_SECTIONS:
        files = result.get(part)
        if not isinstance(files, Mapping):
            continue
        paths = {key: files[key] for key in PATH_KEYS if isinstance(files.get(key), str)}
        result[part] = {
            **files,
            **{key: _resolve_path(folders, path) for key, path in paths.items()},
        }
    return _with_paths(result, lambda path: _resolve_path(folders, path)) or arm


def _resolve_path(folders: Sequence[Path], path: str) -> str:
    paths = [folder.absolute() / path for folder in folders]
    is_there = (path for path in paths if path.is_file())
    # A path that no folder contains refers to the first folder.
    return str(next(is_there, paths[0])) if path else path


_PRESETS = {"awas2": 0.005}
"""Stiffness presets of actuator types that have no stiffness at the toolbox's default of 0. For
AwAS-II it is the soft preset of its paper [m]."""


def actuators_of(urdf: Path, joints: Sequence[str]) -> dict[str, Any]:
    """Convert the compliant actuators in a URDF to a section ``actuators``; empty without any.

    :func:`.read_gazebo` defines the Gazebo plug-in tags that are converted. Joints with equal
    actuator type, mode and names of parameters form one group, named after the type.

    Args:
        urdf: Path of the URDF.
        joints: Joint names of the arm. Other joints in the URDF are skipped.

    Raises:
        ConfigurationError: If a plug-in tag is invalid.
    """
    mine = [actuator for actuator in read_gazebo(urdf) if actuator.joint in joints]
    alike: dict[tuple[Any, ...], list[GazeboActuator]] = {}
    for actuator in mine:
        parameters = (tuple(actuator.params), *(tuple(motor) for motor in actuator.motors))
        alike.setdefault((actuator.type, actuator.mode, parameters), []).append(actuator)
    groups: dict[str, Any] = {}
    for members in alike.values():
        first = members[0]
        name = next(text for text in _names(first.type) if text not in groups)
        motors = [
            {key: [member.motors[k][key] for member in members] for key in first.motors[k]}
            for k in range(len(first.motors))
        ]
        groups[name] = {
            "type": first.type,
            "joints": [member.joint for member in members],
            "params": {key: [member.params[key] for member in members] for key in first.params},
            "mode": get_args(Mode)[first.mode],
            "motor": motors[0],
            **({"preset": _PRESETS[first.type]} if first.type in _PRESETS else {}),
            **({"motor_2": motors[1]} if len(motors) > 1 else {}),
        }
    return groups


def _names(kind: str) -> list[str]:
    return [kind, *(f"{kind}_{number}" for number in range(2, 65))]


class GripperConfig(Section):
    """Files that describe a parallel gripper; see :func:`.read_gripper`.

    Paths in a cell file are relative to its folder, paths in Python to the current folder.
    """

    urdf: str = ""
    extra: str = ""
    """YAML file with data that the URDF lacks."""

    @cached_property
    def gripper(self) -> ParallelGripper:
        """Gripper that the files describe; the files are read once.

        Raises:
            ConfigurationError: If the files do not describe a gripper.
        """
        urdf, extra = (Path(path) if path else None for path in (self.urdf, self.extra))
        return read_gripper(extra, urdf=urdf)


def _read_gripper_files(files: GripperConfig) -> GripperConfig:
    # The files are read during validation, so that errors name the key ``gripper`` of the arm.
    files.gripper  # noqa: B018 - The property reads the files.
    return files


def _kind_of_hand(value: object) -> str:
    return "[files]" if isinstance(value, Mapping | GripperConfig) else "[switch]"


Hand = Annotated[
    Annotated[bool, Tag("[switch]")]
    | Annotated[GripperConfig, AfterValidator(_read_gripper_files), Tag("[files]")],
    Discriminator(_kind_of_hand),
]
"""True, false, or the files of a gripper. The tags in brackets are omitted in messages."""


class ModelConfig(Section):
    """Files that describe a robot; see :func:`.read_robot`.

    Values given here override those of the YAML file ``extra``. Paths in a cell file are relative
    to its folder, paths in Python to the current folder.
    """

    urdf: str = ""
    mjcf: str = ""
    """MJCF file, instead of a URDF."""
    parameters: str = ""
    """YAML file of ``multipanda identify`` with identified inertias and friction."""
    base: str = ""
    """Link that is fixed to the world. With ``parameters`` and no other file: name of the robot
    that the parameters belong to."""
    tip: str = ""
    """Link that carries gripper, tool and load."""
    extra: str = ""
    """YAML file with data that the URDF lacks."""
    name: Annotated[str, Field(pattern=r"^([A-Za-z][A-Za-z0-9_]*)?$", max_length=64)] = ""
    """Name of the robot; by default that of the YAML file, else that of the URDF."""

    @cached_property
    def robot(self) -> Robot:
        """Robot that the files describe; the files are read once.

        Raises:
            ConfigurationError: If the files do not describe a robot.
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
            values = {"base": self.base, "tip": self.tip, "name": self.name}
            robot = read_robot(extra, urdf=urdf, mjcf=mjcf, **values)
        return with_parameters(robot, Path(self.parameters)) if self.parameters else robot

    @cached_property
    def actuators(self) -> dict[str, Any]:
        """Section ``actuators`` for the compliant actuators in the URDF; empty without actuators.

        :func:`.read_gazebo` defines the Gazebo plug-in tags that are converted.

        Raises:
            ConfigurationError: If a plug-in tag is invalid.
        """
        urdf = Path(self.urdf) if self.urdf else None
        if urdf is None and self.extra and not self.mjcf:
            value = read_extra(Path(self.extra)).get("urdf")
            urdf = Path(self.extra).parent / value if value else None
        if urdf is None:
            return {}
        return actuators_of(urdf, [joint.name for joint in self.robot.joints])


def robot_of(model: Any) -> Robot | None:
    """Return the robot for a value of the key ``model``; None for an invalid value."""
    with contextlib.suppress(ConfigurationError):
        return model.robot if isinstance(model, ModelConfig) else MODELS.get(str(model))
    return None


def tags_of(model: Any) -> dict[str, Any]:
    """Return a section ``actuators`` for the compliant actuators in the URDF of a model.

    It is empty if the URDF declares no actuators, or invalid ones.
    """
    with contextlib.suppress(ConfigurationError):
        return model.actuators if isinstance(model, ModelConfig) else {}
    return {}


def _known(name: str) -> str:
    if name not in MODELS:
        raise ValueError(f"should be one of {', '.join(MODELS)}")
    MODELS[name]  # Loading raises an error if the file of a plug-in cannot be read.
    return name


def _read_model_files(files: ModelConfig) -> ModelConfig:
    # The files are read during validation, so that errors name the key ``model`` of the arm.
    files.robot  # noqa: B018 - The property reads the files.
    files.actuators  # noqa: B018 - The property reads the files.
    return files


def _kind_of_model(value: object) -> str:
    return "[files]" if isinstance(value, Mapping | ModelConfig) else "[name]"


Model = Annotated[
    Annotated[str, AfterValidator(_known), Tag("[name]")]
    | Annotated[ModelConfig, AfterValidator(_read_model_files), Tag("[files]")],
    Discriminator(_kind_of_model),
]
"""Name of a model, or its files. The tags in brackets are omitted in messages."""
