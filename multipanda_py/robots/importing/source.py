# SPDX-License-Identifier: Apache-2.0
"""Reading of descriptions in URDF or MJCF format: links, joints and geometry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files import MAX_DESCRIPTION, open_regular
from multipanda_py.robots.geometry import rotation_from_rpy
from multipanda_py.robots.importing.geometry import Shape, find_mesh, read_mesh
from multipanda_py.robots.read_urdf import read_urdf, read_xml
from multipanda_py.robots.tree import Tree
from multipanda_py.state import Vector

KINDS = ("collision", "visual")
_SIZES = {"box": {"size": 3}, "sphere": {"radius": 1}, "cylinder": {"radius": 1, "length": 1}}


def link_shapes(
    urdf: Path, links: Sequence[str], packages: Sequence[Path] = ()
) -> dict[str, dict[str, list[Shape]]]:
    """Return the collision and visual geometry of some links of a URDF.

    Args:
        urdf: Path of the URDF.
        links: Names of the links.
        packages: Folders of packages, or folders that contain packages, for meshes.

    Returns:
        Shapes by link, and by ``collision`` and ``visual``.

    Raises:
        ConfigurationError: A shape is unknown, a number is missing, or a mesh does not exist.
    """
    root = read_xml(urdf)
    materials = {str(material.get("name")): material for material in root.findall("material")}
    link_shapes: dict[str, dict[str, list[Shape]]] = {}
    for link in root.findall("link"):
        name = str(link.get("name"))
        if name in links:
            link_shapes[name] = {
                kind: [
                    replace(
                        _shape(element, f"{urdf}: link {name}: {kind}", urdf, packages),
                        rgba=_element_color(element, materials),
                    )
                    for element in link.findall(kind)
                ]
                for kind in KINDS
            }
    return link_shapes


def _element_color(
    element: ElementTree.Element, materials: Mapping[str, ElementTree.Element]
) -> tuple[float, ...] | None:
    """Return the colour of an element, from itself or a material of the file; None without one."""
    own = element.find("material")
    if own is None:
        return None
    color = own.find("color")
    if color is None:
        color = materials.get(str(own.get("name")), own).find("color")
    if color is None:
        return None
    rgba = _numbers(color, "rgba", "material", 4)
    return tuple(np.clip(rgba, 0.0, 1.0).tolist())


def _shape(
    element: ElementTree.Element, location: str, urdf: Path, packages: Sequence[Path]
) -> Shape:
    solid = next(iter(element.findall("geometry/*")), None)
    kind = "nothing" if solid is None else solid.tag
    if solid is None or kind not in (*_SIZES, "mesh"):
        raise ConfigurationError(f"{location}: got {kind}, allowed {', '.join(_SIZES)}, mesh")
    position, rpy = np.zeros(3), np.zeros(3)
    if (origin := element.find("origin")) is not None:
        position = _numbers(origin, "xyz", location, 3, "0 0 0")
        rpy = _numbers(origin, "rpy", location, 3, "0 0 0")
    rotation = rotation_from_rpy(*rpy)
    if kind == "mesh":
        scale = _numbers(solid, "scale", location, 3, "1 1 1")
        path = find_mesh(str(solid.get("filename")), urdf, packages)
        return Shape(kind, (), position, rotation, partial(read_mesh, path, tuple(scale)))
    size = [_numbers(solid, key, location, count) for key, count in _SIZES[kind].items()]
    if min(size[0]) <= 0.0:
        raise ConfigurationError(
            f"{location}: {kind}: got size {min(size[0]):g} m, allowed above 0 m"
        )
    return Shape(kind, tuple(np.concatenate(size)), position, rotation)


def _numbers(
    element: ElementTree.Element, key: str, path: str, count: int, default: str = ""
) -> Vector:
    text = element.get(key, default)
    try:
        values = np.array([float(word) for word in text.split()])
    except ValueError:
        values = np.zeros(0)
    if values.shape != (count,) or not np.isfinite(values).all():
        numbers = "a number" if count == 1 else f"{count} numbers"
        raise ConfigurationError(f"{path}: {element.tag} {key}: got {text!r}, allowed {numbers}")
    return values


Shapes: TypeAlias = Mapping[str, Mapping[str, Sequence[Shape]]]
"""Shapes by link, and by ``collision`` or ``visual``."""


def kind_of(source: Path) -> str:
    """Return ``urdf`` or ``mjcf``; a file that cannot be read counts as URDF."""
    try:
        with open_regular(source, MAX_DESCRIPTION) as file:
            tag = next(ElementTree.iterparse(file, events=("start",)))[1].tag
    except (OSError, ElementTree.ParseError, StopIteration):
        return "urdf"
    return "mjcf" if tag == "mujoco" else "urdf"


def tree_of(source: Path) -> Tree:
    """Return links and joints; raises the errors of :func:`.read_urdf` and :func:`.read_mjcf`."""
    if kind_of(source) == "urdf":
        return read_urdf(source)
    # Imported here, because loading MuJoCo takes half a second.
    from multipanda_py.robots.read_mjcf import read_mjcf

    return read_mjcf(source)


def shapes_of(source: Path, links: Sequence[str], packages: Sequence[Path] = ()) -> Shapes:
    """Return the geometry of some links; raises the errors of :func:`.link_shapes`."""
    if kind_of(source) == "urdf":
        return link_shapes(source, links, packages)
    from multipanda_py.robots.importing.geometry_mjcf import body_shapes

    return body_shapes(source, links)
