# SPDX-License-Identifier: Apache-2.0
"""Descriptions in either format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree

from multipanda_py.files.regular_file import MAX_DESCRIPTION, open_regular
from multipanda_py.importing.geometry import link_shapes
from multipanda_py.importing.shape import Shape
from multipanda_py.robots.read_urdf import read_urdf
from multipanda_py.robots.tree import Tree

Shapes: TypeAlias = Mapping[str, Mapping[str, Sequence[Shape]]]
"""Of a link, and of ``collision`` or ``visual``."""


def kind_of(source: Path) -> str:
    """Return ``urdf`` or ``mjcf``; what cannot be read is taken for a URDF."""
    try:
        with open_regular(source, MAX_DESCRIPTION) as file:
            tag = next(ElementTree.iterparse(file, events=("start",)))[1].tag
    except (OSError, ElementTree.ParseError, StopIteration):
        return "urdf"
    return "mjcf" if tag == "mujoco" else "urdf"


def tree_of(source: Path) -> Tree:
    """Return links and joints; errors as of :func:`.read_urdf` and :func:`.read_mjcf`."""
    if kind_of(source) == "urdf":
        return read_urdf(source)
    from multipanda_py.robots.read_mjcf import read_mjcf  # MuJoCo takes half a second

    return read_mjcf(source)


def shapes_of(source: Path, links: Sequence[str], packages: Sequence[Path] = ()) -> Shapes:
    """Return the geometry of some links; errors as of :func:`.link_shapes`."""
    if kind_of(source) == "urdf":
        return link_shapes(source, links, packages)
    from multipanda_py.importing.geometry_mjcf import body_shapes

    return body_shapes(source, links)
