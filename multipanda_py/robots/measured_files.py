# SPDX-License-Identifier: Apache-2.0
"""Files with identified parameters: inertia and friction of a robot, or springs of actuators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from multipanda_py import registry
from multipanda_py.actuator import Actuator
from multipanda_py.exceptions import ActuatorRejected, ConfigurationError
from multipanda_py.robots.extra_data import Overrides, read_extra
from multipanda_py.robots.inertial import Load, inertia_matrix, inertial_of, moments_of
from multipanda_py.robots.robot import FIGURES, FRICTION_PARAMETERS, Robot
from multipanda_py.robots.tree import check_body

ROBOT_KEYS = ("robot", "links", "armature", *FRICTION_PARAMETERS, "figures", "identified")
_BODY = {"mass": 1, "com": 3, "inertia": 6}


def with_parameters(robot: Robot, path: Path) -> Robot:
    """Return a robot with masses, inertias and friction from a file of :func:`parameters_text`.

    Values that the file lacks stay unchanged.

    Raises:
        ConfigurationError: The file cannot be read, is of another robot, names an unknown link or
            joint, or has values that no body or joint can have.
    """
    data = read_extra(path, ROBOT_KEYS)
    if data.get("robot", robot.name) != robot.name:
        raise ConfigurationError(
            f"{path}: robot: got {data['robot']!r:.60}, allowed {robot.name!r}, the arm's model"
        )
    extra = Overrides(path, data, [joint.name for joint in robot.joints])
    result: dict[str, Any] = {
        name: extra.per_joint(name, getattr(robot, name).tolist())
        for name in ("armature", *FRICTION_PARAMETERS)
    }
    for name, values in result.items():
        bad = ~np.isfinite(values) | ((values < 0.0) & (name != "torque_offset"))
        if bad.any():
            joint = int(bad.argmax())
            raise ConfigurationError(
                f"{path}: {name}: joint {robot.joints[joint].name}: got {values[joint]:g}, "
                "allowed a finite number"
                f"{'' if name == 'torque_offset' else ' that is not negative'}"
            )
    bodies = _bodies(robot, path, data.get("links", {}))
    return replace(
        robot,
        links=tuple(
            replace(link, inertial=inertial_of(bodies[link.name])) if link.name in bodies else link
            for link in robot.links
        ),
        figures=extra.figures(robot.figures),
        **result,
    )


def _bodies(robot: Robot, path: Path, links: Any) -> dict[str, Load]:
    if not isinstance(links, Mapping):
        raise ConfigurationError(f"{path}: links: got {links!r:.60}, allowed a map of links")
    known = [link.name for link in robot.links]
    bodies = {}
    for name, value in links.items():
        location = f"{path}: links: {name}"
        if name not in known:
            raise ConfigurationError(f"{location}: unknown link; known: {', '.join(known)}")
        if not isinstance(value, Mapping) or set(value) != set(_BODY):
            raise ConfigurationError(f"{location}: got {value!r:.80}, allowed {', '.join(_BODY)}")
        numbers = {
            key: _finite_numbers(f"{location}: {key}", value[key], n) for key, n in _BODY.items()
        }
        body = Load(
            numbers["mass"][0], np.array(numbers["com"]), inertia_matrix(numbers["inertia"])
        )
        check_body(location, body)
        bodies[name] = body
    return bodies


def _finite_numbers(location: str, value: Any, count: int) -> list[float]:
    values = value if isinstance(value, list) else [value]
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    if not numbers or len(values) != count or not np.isfinite(values).all():
        raise ConfigurationError(f"{location}: got {value!r:.80}, allowed {count} finite numbers")
    return [float(v) for v in values]


def parameters_text(robot: Robot, notes: Mapping[str, Any]) -> str:
    """Return masses, inertias and friction of a robot as YAML, for :func:`with_parameters`.

    Args:
        robot: Robot with these values. The parameters of its friction sigmoid are written if it
            has them.
        notes: Notes on the identification, for users.
    """
    links = {}
    for link in robot.links[1:]:
        body = link.inertial
        links[link.name] = {
            "mass": float(body.mass),
            "com": [float(v) for v in body.com],
            "inertia": list(moments_of(body.inertia)),
        }
    names = [joint.name for joint in robot.joints]
    data: dict[str, Any] = {"robot": robot.name, "links": links}
    for key in ("armature", *FRICTION_PARAMETERS):
        data[key] = dict(zip(names, getattr(robot, key).tolist()))
    if set(FIGURES) <= set(robot.figures):
        data["figures"] = {name: list(map(float, robot.value(name))) for name in FIGURES}
    data["identified"] = dict(notes)
    head = (
        "# Inertia and friction of a robot. com [m] and inertia xx yy zz xy xz yz [kg m^2] about\n"
        "# it, both in the link's frame; armature [kg m^2], damping [Nm s/rad], friction and\n"
        "# torque_offset [Nm]. In a cell file, `perturbation: {parameters: FILE}` of an arm\n"
        "# gives them to the simulated arm, `identified: FILE` to controllets and estimates.\n"
    )
    return head + yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=99)


ACTUATOR_KEYS = ("type", "params", "identified")


def read_actuator(path: Path) -> tuple[str, dict[str, Any]]:
    """Read the type and parameters of an actuator from a file as in :func:`actuator_text`.

    Raises:
        ConfigurationError: The file cannot be read, has unknown keys, or has no type.
    """
    data = read_extra(path, ACTUATOR_KEYS)
    kind, params = data.get("type"), data.get("params", {})
    if not isinstance(kind, str):
        raise ConfigurationError(f"{path}: type: got {kind!r:.60}, allowed an actuator type")
    if not isinstance(params, dict):
        raise ConfigurationError(f"{path}: params: got {params!r:.60}, allowed a map of numbers")
    return kind, params


def actuator_from(path: Path, n_joints: int) -> Actuator[Any]:
    """Return the actuators of ``n_joints`` joints from a file of :func:`actuator_text`.

    A parameter in the file is a list of this length, or one number for all joints.

    Raises:
        ConfigurationError: The file is invalid, or its parameters are rejected.
    """
    kind, params = read_actuator(path)
    try:
        actuator: Actuator[Any] = registry.find("actuators", kind)(n_joints, params)
    except ActuatorRejected as error:
        raise ConfigurationError(f"{path}: params: {error}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: type: {error}") from None
    return actuator


def actuator_text(
    kind: str, params: Mapping[str, float | list[float]], notes: Mapping[str, Any]
) -> str:
    """Return the parameters of an actuator as YAML, for :func:`read_actuator`.

    Args:
        kind: Type of the actuator.
        params: Parameters, one number each, or one for each joint.
        notes: Notes on the identification, for users.
    """
    data = {"type": kind, "params": dict(params), "identified": dict(notes)}
    head = (
        "# Springs of compliant joints: `type` and `params` of a group under `actuators` of an\n"
        "# arm in a cell file. Units: `multipanda list actuators`.\n"
    )
    return head + yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=99)
