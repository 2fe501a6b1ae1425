# SPDX-License-Identifier: Apache-2.0
"""URDF elements of solids, poses and inertias."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.robots.look import COLORS
from multipanda_py.robots.rotations import rotation_of_axis, rpy_from_rotation
from multipanda_py.robots.shapes import (
    Block,
    Capsule,
    Point,
    Turned,
)

Element = ElementTree.Element
add = ElementTree.SubElement


def numbers(values: Iterable[float], digits: int = 12) -> str:
    """Return numbers as URDF writes them; twelve digits come out alike on any machine."""
    return " ".join(format(float(v), f".{digits}g") if abs(v) > 1e-15 else "0" for v in values)


def add_origin(
    parent: Element,
    position: ArrayLike,
    rotation: NDArray[np.float64] | None = None,
    digits: int = 12,
) -> None:
    """Add a pose: position (3,) [m] and rotation matrix (3, 3)."""
    rpy = (0.0, 0.0, 0.0) if rotation is None else rpy_from_rotation(rotation)
    add(parent, "origin", xyz=numbers(np.asarray(position), digits), rpy=numbers(rpy, digits))


def add_joint_origin(
    joint: Element, position: ArrayLike, rotation: NDArray[np.float64] | None = None
) -> None:
    """Add the pose of a joint to 15 digits: errors of angles add up along the arm."""
    add_origin(joint, position, rotation, digits=15)


def add_inertial(link: Element, mass: float, com: ArrayLike, inertia: NDArray[np.float64]) -> None:
    """Add mass [kg], centre of mass (3,) [m] and inertia about it (3, 3) [kg m^2]."""
    inertial = add(link, "inertial")
    add_origin(inertial, com)
    add(inertial, "mass", value=numbers((mass,)))
    names = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    upper = inertia[np.triu_indices(3)]
    add(inertial, "inertia", {n: numbers((v,)) for n, v in zip(names, upper, strict=True)})


def _add_cylinder(link: Element, kind: str, start: Point, end: Point, radius: float) -> Element:
    """Add a cylinder between two points."""
    element = add(link, kind)
    axis = np.subtract(end, start)
    add_origin(element, np.add(start, end) / 2.0, rotation_of_axis(axis))
    size = {"radius": numbers((radius,)), "length": numbers((float(np.linalg.norm(axis)),))}
    add(add(element, "geometry"), "cylinder", size)
    return element


def _add_sphere(link: Element, kind: str, center: Point, radius: float) -> Element:
    """Add a sphere."""
    element = add(link, kind)
    add_origin(element, center)
    add(add(element, "geometry"), "sphere", radius=numbers((radius,)))
    return element


def add_capsule(link: Element, capsule: Capsule) -> None:
    """Add collision geometry of a capsule, which URDF lacks: a cylinder and two spheres."""
    _add_cylinder(link, "collision", capsule.start, capsule.end, capsule.radius)
    _add_sphere(link, "collision", capsule.start, capsule.radius)
    _add_sphere(link, "collision", capsule.end, capsule.radius)


def add_block(link: Element, kind: str, block: Block) -> Element:
    """Add a box."""
    element = add(link, kind)
    add(element, "origin", xyz=numbers(block.center), rpy=numbers((block.roll, 0.0, 0.0)))
    add(add(element, "geometry"), "box", size=numbers(2.0 * s for s in block.half_size))
    return element


def add_visual(link: Element, shape: Turned | Block) -> None:
    """Add a picture: a box, or a cylinder of mean radius with a sphere for each round end."""
    if isinstance(shape, Block):
        elements = [add_block(link, "visual", shape)]
    else:
        unit = np.subtract(shape.end, shape.start) / shape.length
        start, end = np.array(shape.start), np.array(shape.end)
        elements = []
        for center, radius, dome, sign in (
            (start, shape.radius_start, shape.dome_start, -0.5),
            (end, shape.radius_end, shape.dome_end, 0.5),
        ):
            if dome > 0.9 * radius:
                elements.append(_add_sphere(link, "visual", tuple(center), radius))
            else:
                center += sign * dome * unit
        mean = (shape.radius_start + shape.radius_end) / 2.0
        elements.append(_add_cylinder(link, "visual", tuple(start), tuple(end), mean))
    for element in elements:
        material = add(element, "material", name=shape.color)
        add(material, "color", rgba=numbers(COLORS[shape.color]))
