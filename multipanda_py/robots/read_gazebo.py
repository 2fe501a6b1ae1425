# SPDX-License-Identifier: Apache-2.0
"""Compliant actuators of a URDF with plug-ins of the ROS-Gazebo toolbox.

Source: Mengacci et al., Frontiers in Robotics and AI 8, 2021. The toolbox declares each joint by a
``<gazebo><plugin>`` element::

    <plugin name="any" filename="libqbmove_plugin.so">
      <joint>joint_1</joint> <operation_mode>6</operation_mode> <pub_eltau>true</pub_eltau>
      <pub_state>true</pub_state> <sub_ext_tau>false</sub_ext_tau>
      <spring_a1>8.9992</spring_a1> <mot_1_J>0.0233</mot_1_J> <ctrl_1_P>125</ctrl_1_P>
    </plugin>
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from multipanda_py import registry
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.read_urdf import read_xml

REQUIRED_TAGS = ("joint", "operation_mode", "pub_eltau", "pub_state", "sub_ext_tau")
ACTUATOR_TYPES = {"sea": "sea", "qbmove": "qbmove", "bavs": "bavs", "awas_ii": "awas2"}
"""Types in the names ``lib<TYPE>_plugin.so``, and their names here; others keep their name."""
SPRING_TAGS = {
    "sea": {"spring_k": "stiffness"},
    "qbmove": {"spring_a1": "a_1", "spring_k1": "k_1", "spring_a2": "a_2", "spring_k2": "k_2"},
    "bavs": {"spring_a": "a", "spring_b": "b", "spring_k": "k", "spring_k_e": "exponent"},
    "awas2": {"spring_Ks": "spring_stiffness", "spring_L": "lever", "spring_r_t": "radius"},
}
WITHOUT_EFFECT = {"awas2": ("spring_l_0",)}
"""Tags that the toolbox reads but does not use."""
MOTOR_TAGS = {
    "J": "inertia", "D": "damping", "tauMax": "max_torque", "maxVel": "max_velocity",
    "minPos": "min_position", "maxPos": "max_position", "tauFric": "friction",
}  # fmt: skip
PID_TAGS = {"P": "p", "I": "i", "D": "d"}
TWO_MOTORS = ("qbmove", "bavs")
_PLUGIN = re.compile(r"^lib(\w+)_plugin\.so$")
_POWER = re.compile(r"^([-+.\deE]+)\s*\*\s*pow\(\s*10\s*,\s*([-+]?\d+)\s*\)$")


@dataclass(frozen=True)
class GazeboActuator:
    """Compliant actuator of a joint in a URDF for the ROS-Gazebo toolbox (Mengacci et al., 2021).

    Attributes:
        joint: Name of the joint.
        type: Actuator type, as in cell files.
        mode: Operation mode, 0 to 6, as in :class:`.OperationMode`.
        params: Parameters of the springs, by their names in cell files.
        motors: Parameters of the one or two motors, by their names in cell files.
    """

    joint: str
    type: str
    mode: int
    params: dict[str, float]
    motors: tuple[dict[str, float], ...]


def read_gazebo(path: Path) -> list[GazeboActuator]:
    """Return the compliant actuators that a URDF declares, in order; other plug-ins are ignored.

    Raises:
        ConfigurationError: A tag is unknown, missing or has an invalid value.
    """
    root = read_xml(path)
    joints = [joint.get("name") for joint in root.iterfind("joint")]
    result: list[GazeboActuator] = []
    for plugin in root.iterfind("gazebo/plugin"):
        if plugin.find("operation_mode") is None and _type(plugin) is None:
            continue
        actuator = _actuator(plugin, path)
        if actuator.joint not in joints:
            raise ConfigurationError(
                f"{path}: plugin {plugin.get('name')}: joint: got {actuator.joint!r:.80}, allowed "
                f"{', '.join(map(str, joints))}"
            )
        if any(actuator.joint == other.joint for other in result):
            raise ConfigurationError(
                f"{path}: joint {actuator.joint}: has two compliant actuators, allowed one"
            )
        result.append(actuator)
    return result


def _type(plugin: ElementTree.Element) -> str | None:
    match = _PLUGIN.match(Path(plugin.get("filename", "")).name)
    name = match.group(1) if match else ""
    return ACTUATOR_TYPES.get(name) or (name if name in registry.names("actuators") else None)


def _actuator(plugin: ElementTree.Element, path: Path) -> GazeboActuator:
    kind = _type(plugin)
    tags = {}
    for tag in plugin:
        if tag.tag in tags:
            raise ConfigurationError(
                f"{path}: plugin {plugin.get('name')}: {tag.tag}: given twice"
            )
        tags[tag.tag] = (tag.text or "").strip()
    location = f"{path}: plugin {plugin.get('name')} of joint {tags.get('joint', '?')}"
    if kind is None:
        known = ", ".join(f"lib{name}_plugin.so" for name in ACTUATOR_TYPES)
        raise ConfigurationError(
            f"{location}: filename: got {plugin.get('filename')!r:.80}, allowed {known}, or "
            "lib<TYPE>_plugin.so with a type of `multipanda list actuators`"
        )
    if missing := [name for name in REQUIRED_TAGS if not tags.get(name)]:
        raise ConfigurationError(*(f"{location}: {name}: missing" for name in missing))
    for name in REQUIRED_TAGS[2:]:
        if tags[name].lower() not in ("true", "false", "0", "1"):
            raise ConfigurationError(
                f"{location}: {name}: got {tags[name]!r:.40}, allowed true, false"
            )
    if tags["operation_mode"] not in tuple("0123456"):
        got = tags["operation_mode"]
        raise ConfigurationError(f"{location}: operation_mode: got {got!r:.40}, allowed 0 to 6")
    params, motors = _spring_and_motor_params(kind, tags, location)
    return GazeboActuator(tags["joint"], kind, int(tags["operation_mode"]), params, motors)


def _spring_and_motor_params(
    kind: str, tags: dict[str, str], path: str
) -> tuple[dict[str, float], tuple[dict[str, float], ...]]:
    """Return the spring parameters, then those of each motor, by their names in cell files."""
    springs = {"max_def": "max_deflection", **SPRING_TAGS.get(kind, _params_as_tags(kind))}
    names: dict[str, tuple[int, str]] = {tag: (0, own) for tag, own in springs.items()}
    sides = ("1_", "2_") if kind in TWO_MOTORS else ("",)
    for motor, side in enumerate(sides, start=1):
        names |= {f"mot_{side}{tag}": (motor, own) for tag, own in MOTOR_TAGS.items()}
        names |= {f"ctrl_{side}{tag}": (motor, own) for tag, own in PID_TAGS.items()}
    ignored = (*REQUIRED_TAGS, *WITHOUT_EFFECT.get(kind, ()))
    parts: list[dict[str, float]] = [{} for _ in (0, *sides)]
    for tag, text in tags.items():
        if tag in ignored:
            continue
        if tag not in names:
            raise ConfigurationError(
                f"{path}: {tag}: unknown tag; known: {', '.join((*ignored, *names))}"
            )
        part, own = names[tag]
        value = _parse_number(text, f"{path}: {tag}")
        if math.isfinite(value):
            parts[part][own] = value
        elif own not in (
            "min_position",
            "max_position",
        ):  # An infinite limit means that there is no limit.
            raise ConfigurationError(f"{path}: {tag}: got {text!r:.40}, allowed a finite number")
    return parts[0], tuple(parts[1:])


def _params_as_tags(kind: str) -> dict[str, str]:
    # Actuators that the toolbox lacks use the names of their parameters as tags.
    return {name: name for name in registry.find("actuators", kind).Params.__dataclass_fields__}


def _parse_number(text: str, path: str) -> float:
    power = _POWER.match(text)  # For example 1.21*pow(10,-6).
    try:
        return float(f"{power.group(1)}e{power.group(2)}") if power else float(text)
    except ValueError:
        raise ConfigurationError(f"{path}: got {text!r:.40}, allowed a number") from None
