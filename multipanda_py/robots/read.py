# SPDX-License-Identifier: Apache-2.0
"""Read a robot from data: a chain of its URDF, and a YAML with what URDF lacks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import yaml

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.limits import ArmLimits
from multipanda_py.robots.inertial import Inertial
from multipanda_py.robots.robot import Flange, Joint, Link, Origin, Robot
from multipanda_py.robots.rotations import rotation_from_rpy
from multipanda_py.robots.shapes import Capsule, Point, Turned

_FROM_YAML = ("acceleration", "jerk", "torque_rate")
_FROM_URDF = ("lower", "upper", "velocity", "effort")


def read_robot(
    extra: Path | None = None,
    *,
    urdf: Path | None = None,
    base: str = "",
    tip: str = "",
    name: str = "",
) -> Robot:
    """Return the robot that a URDF and a YAML with what that lacks describe.

    The chain of joints from ``base`` to ``tip`` is taken from the URDF, which may have more than
    that. Its last joint is fixed and carries the flange; all others are revolute and turn about
    the z axis of their frame. Pictures are those of the capsules.

    Args:
        extra: The YAML; it may name ``urdf`` (relative to it), ``base`` and ``tip``, too.
        urdf: The URDF.
        base: Link that is fixed to the world.
        tip: Link that carries things.
        name: By default that of the YAML's file, else of the URDF's.

    Raises:
        ConfigurationError: If a file or key is missing, there is no such chain, a joint is of
            another kind, or there is not one number per joint; says where.
    """
    path = extra or urdf
    if path is None:
        raise ConfigurationError("got neither urdf nor extra, allowed a robot's URDF at least")
    try:
        data: dict[str, Any] = {}
        if extra is not None:
            data = yaml.safe_load(extra.read_text(encoding="utf-8"))
            if not isinstance(data, dict):
                raise ConfigurationError(f"{extra}: got {data!r:.60}, allowed a map of keys")
        given = {"urdf": urdf and urdf.absolute(), "base": base, "tip": tip}
        data |= {key: value for key, value in given.items() if value}
        return _robot(data, path, name or re.sub(r"\W", "_", path.stem))
    except KeyError as error:
        raise ConfigurationError(f"{path}: {error.args[0]}: missing") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ElementTree.ParseError) as error:
        text = " ".join(str(error).split())
        raise ConfigurationError(f"{path}: cannot be read: {text}") from None


def _robot(data: dict[str, Any], path: Path, name: str) -> Robot:
    tree = ElementTree.parse(path.parent / data["urdf"]).getroot()
    chain = _chain(tree, data["base"], data["tip"], path)
    names = [data["base"], *(_end(joint, "child") for joint in chain[:-1])]
    parts = [_link(tree, link, data["capsules"].get(link, ()), path) for link in names]
    bounds = [[_number(joint, "limit", key, path) for joint in chain[:-1]] for key in _FROM_URDF]
    lower, upper, velocity, torque = (np.array(values) for values in bounds)
    acceleration, jerk, torque_rate = (np.array(data[key]) for key in _FROM_YAML)
    return Robot(
        name=name,
        limits=ArmLimits(lower, upper, velocity, acceleration, jerk, torque, torque_rate),
        joints=tuple(_joint(joint, path) for joint in chain[:-1]),
        links=tuple(parts),
        flange=Flange(data["tip"], str(chain[-1].get("name")), _origin(chain[-1])),
        armature=np.array(data["armature"]),
        ready=np.array(data["ready"]),
        sections=tuple(tuple(section) for section in data["sections"]),
        overlapping=tuple((first, second) for first, second in data["overlapping"]),
        compensates_gravity=bool(data.get("compensates_gravity", True)),
        figures={key: tuple(values) for key, values in data["figures"].items()},
    )


def _chain(
    tree: ElementTree.Element, base: str, tip: str, path: Path
) -> list[ElementTree.Element]:
    """Return the joints from base to tip."""
    above = {_end(joint, "child"): joint for joint in tree.findall("joint")}
    chain: list[ElementTree.Element] = []
    link = tip
    while link != base:
        if link not in above or len(chain) > len(above):
            raise ConfigurationError(
                f"{path}: tip: got {tip!r}, allowed a link on a chain that begins with {base!r}"
            )
        chain.insert(0, above[link])
        link = _end(above[link], "parent")
    kinds = [str(joint.get("type")) for joint in chain]
    for joint, kind, allowed in zip(chain, kinds, ["revolute"] * (len(chain) - 1) + ["fixed"]):
        if kind != allowed:
            raise ConfigurationError(
                f"{path}: joint {joint.get('name')}: got type {kind!r}, allowed {allowed!r}"
            )
    return chain


def _end(joint: ElementTree.Element, which: str) -> str:
    found = joint.find(which)
    return "" if found is None else str(found.get("link"))


def _joint(joint: ElementTree.Element, path: Path) -> Joint:
    axis = joint.find("axis")
    xyz = "1 0 0" if axis is None else str(axis.get("xyz"))
    if _point(xyz) != (0.0, 0.0, 1.0):
        raise ConfigurationError(
            f"{path}: joint {joint.get('name')}: got axis {xyz!r}, allowed '0 0 1': turn its frame"
        )
    return Joint(str(joint.get("name")), _origin(joint))


def _origin(element: ElementTree.Element) -> Origin:
    found = element.find("origin")
    if found is None:
        return Origin()
    return Origin(_point(found.get("xyz", "0 0 0")), _point(found.get("rpy", "0 0 0")))


def _link(
    tree: ElementTree.Element, name: str, capsules: list[tuple[Point, Point, float]], path: Path
) -> Link:
    element = tree.find(f"link[@name='{name}']/inertial")
    if element is None:
        raise ConfigurationError(
            f"{path}: link {name}: got no inertial, allowed one for each link"
        )
    keys = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
    xx, yy, zz, xy, xz, yz = (_number(element, "inertia", key, path) for key in keys)
    origin = _origin(element)
    turn = rotation_from_rpy(*origin.rpy)
    i = turn @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ turn.T
    moments = (i[0, 0], i[1, 1], i[2, 2], i[0, 1], i[0, 2], i[1, 2])
    mass = _number(element, "mass", "value", path)
    least, middle, most = np.linalg.eigvalsh(i)
    if mass <= 0.0 or least <= 0.0 or least + middle < most:
        raise ConfigurationError(
            f"{path}: link {name}: got mass {mass:g} kg and principal moments {least:g}, "
            f"{middle:g}, {most:g} kg m^2, allowed those of a body: positive, any two up to the "
            "third"
        )
    shapes = tuple(Capsule(_three(start), _three(end), radius) for start, end, radius in capsules)
    return Link(
        name,
        Inertial(mass, origin.position, moments),
        shapes,
        tuple(Turned(c.start, c.end, c.radius, c.radius, c.radius, c.radius) for c in shapes),
    )


def _number(parent: ElementTree.Element, tag: str, key: str, path: Path) -> float:
    found = parent.find(tag)
    text = None if found is None else found.get(key)
    if text is None:
        where = parent.get("name", parent.tag)
        raise ConfigurationError(f"{path}: {where}: {tag} {key}: missing")
    return float(text)


def _three(values: Point) -> Point:
    x, y, z = (float(value) for value in values)
    return x, y, z


def _point(text: str) -> Point:
    x, y, z = map(float, text.split())
    return x, y, z
