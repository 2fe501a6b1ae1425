# SPDX-License-Identifier: Apache-2.0
"""Read links and joints of a URDF."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files import MAX_DESCRIPTION_SIZE, open_regular
from multipanda_py.robots.geometry import rotation_from_rpy
from multipanda_py.robots.inertial import NO_LOAD, Load
from multipanda_py.robots.tree import MOVING_TYPES, Tree, TreeJoint, moved, pose_from


def read_xml(path: Path) -> ElementTree.Element:
    """Return the root of an XML file.

    Raises:
        ConfigurationError: The file cannot be read, is too large, or is not well formed.
    """
    try:
        with open_regular(path, MAX_DESCRIPTION_SIZE) as file:
            return ElementTree.parse(file).getroot()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        # A LookupError means an unknown encoding.
        raise ConfigurationError(f"{path}: cannot be read: {error}") from None


Element = ElementTree.Element
Matrix = NDArray[np.float64]
_TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")
_LIMITS = {"lower": "lower", "upper": "upper", "velocity": "velocity", "effort": "torque"}
_MOMENTS = ("ixx", "ixy", "ixz", "ixy", "iyy", "iyz", "ixz", "iyz", "izz")


def read_urdf(path: Path) -> Tree:
    """Return the links and joints of a URDF file, in which xacro macros are expanded.

    Raises:
        ConfigurationError: The file is not a URDF, or has an invalid value.
    """
    root = read_xml(path)
    if root.tag != "robot":
        raise ConfigurationError(f"{path}: got <{root.tag}>, allowed <robot>, the root of a URDF")
    bodies: dict[str, Load] = {}
    for link in root.findall("link"):
        name = _name(link, path)
        if name in bodies:
            raise ConfigurationError(f"{path}: link {name}: this name is used twice")
        bodies[name] = _body(link, f"{path}: link {name}")
    return Tree(path, bodies, [_joint(joint, path) for joint in root.findall("joint")])


def _body(link: Element, path: str) -> Load:
    inertial = link.find("inertial")
    if inertial is None:
        return NO_LOAD
    mass = _number(inertial, "mass", "value", path)
    moments = [_number(inertial, "inertia", key, path) for key in _MOMENTS]
    if mass == 0.0 and not any(moments):
        return NO_LOAD
    return moved(Load(mass, np.zeros(3), np.reshape(moments, (3, 3))), _pose(inertial, path))


def _joint(joint: Element, path: Path) -> TreeJoint:
    name = _name(joint, path)
    location = f"{path}: joint {name}"
    kind = joint.get("type", "")
    if kind not in _TYPES:
        raise ConfigurationError(
            f"{location}: type: got {kind!r:.60}, allowed {', '.join(map(repr, _TYPES))}"
        )
    mimics = _mimicked(joint, location)
    if mimics is not None:
        kind = f"{kind} that mimics another one"
    ends = [joint.find(end) for end in ("parent", "child")]
    parent, child = ("" if end is None else str(end.get("link")) for end in ends)
    axis = joint.find("axis")
    value = "1 0 0" if axis is None else axis.get("xyz", "1 0 0")
    direction = _numbers(value, 3, f"{location}: axis")
    length = float(np.linalg.norm(direction))
    if kind in MOVING_TYPES and length < 1e-6:
        raise ConfigurationError(f"{location}: got axis {value!r}, allowed a nonzero vector")
    limit = joint.find("limit")
    limits = {
        name: _numbers(str(limit.get(key)), 1, f"{location}: limit {key}")[0]
        for key, name in _LIMITS.items()
        if limit is not None and limit.get(key) is not None
    }
    if kind == "continuous":
        limits |= {"lower": -np.inf, "upper": np.inf}
    return TreeJoint(
        name, kind, parent, child, _pose(joint, location), direction / max(length, 1e-6), limits,
        mimics,
    )  # fmt: skip


def _mimicked(joint: Element, path: str) -> tuple[str, float, float] | None:
    result = joint.find("mimic")
    if result is None:
        return None
    multiplier, offset = (
        float(_numbers(result.get(key, otherwise), 1, f"{path}: mimic {key}")[0])
        for key, otherwise in (("multiplier", "1"), ("offset", "0"))
    )
    return str(result.get("joint")), multiplier, offset


def read_boxes(path: Path, links: Collection[str]) -> dict[str, list[tuple[Matrix, Matrix]]]:
    """Return the collision boxes of links by name: pose in the link, (4, 4), and edges, (3,) [m].

    Raises:
        ConfigurationError: One of these links has collision geometry that is not a box.
    """
    boxes: dict[str, list[tuple[Matrix, Matrix]]] = {}
    for link in read_xml(path).findall("link"):
        name = _name(link, path)
        location = f"{path}: link {name}: collision"
        for collision in link.findall("collision") if name in links else ():
            shapes = [shape.tag for shape in collision.findall("geometry/*")]
            box = collision.find("geometry/box")
            if box is None:
                raise ConfigurationError(
                    f"{location}: got {', '.join(shapes) or 'no geometry'}, allowed box. For "
                    f"other "
                    f"geometry, give capsules of {name} in the YAML file."
                )
            edges = _numbers(str(box.get("size")), 3, f"{location}: box size")
            if (edges <= 0.0).any():
                raise ConfigurationError(
                    f"{location}: box size: got {edges}, allowed more than 0 m"
                )
            boxes.setdefault(name, []).append((_pose(collision, location), edges))
    return boxes


def _name(element: Element, path: Path) -> str:
    name = element.get("name")
    if not name:
        raise ConfigurationError(f"{path}: got a <{element.tag}> without a name")
    return name


def _pose(element: Element, path: str) -> NDArray[np.float64]:
    result = element.find("origin")
    if result is None:
        return np.eye(4)
    position, angles = (
        _numbers(result.get(key, "0 0 0"), 3, f"{path}: origin {key}") for key in ("xyz", "rpy")
    )
    return pose_from(rotation_from_rpy(*angles), position)


def _number(parent: Element, tag: str, key: str, path: str) -> float:
    result = parent.find(tag)
    text = None if result is None else result.get(key)
    if text is None:
        raise ConfigurationError(f"{path}: {tag} {key}: missing")
    return float(_numbers(text, 1, f"{path}: {tag} {key}")[0])


def _numbers(text: str, count: int, path: str) -> NDArray[np.float64]:
    try:
        numbers = np.array([float(part) for part in text.split()])
    except ValueError:
        numbers = np.zeros(0)
    if len(numbers) != count or not np.isfinite(numbers).all():
        hint = "; expand xacro first" if "${" in text else ""
        raise ConfigurationError(
            f"{path}: got {text!r:.60}, allowed {count} finite number{'s' * (count > 1)}{hint}"
        )
    return numbers
