# SPDX-License-Identifier: Apache-2.0
"""A piece of a link's geometry, as descriptions have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from multipanda_py.importing.cloud import Cloud, box, capsule, corners, cylinder, sphere
from multipanda_py.importing.mesh import Triangles
from multipanda_py.state import Matrix, Vector

Mesh: TypeAlias = tuple[Matrix, Triangles]
"""Vertices, (n, 3) [m], and triangles, (m, 3)."""
_CLOUDS: dict[str, Callable[..., Cloud]] = {
    "box": box,
    "sphere": sphere,
    "cylinder": cylinder,
    "capsule": capsule,
}


@dataclass(frozen=True, eq=False)
class Shape:
    """A solid at a place in the frame of its link.

    Attributes:
        kind: ``box``, ``sphere``, ``cylinder``, ``capsule`` or ``mesh``.
        size: Edges; radius; radius and length (of a capsule without its ends); of a mesh nothing.
        position: Of its centre or origin, (3,) [m].
        rotation: Of its axes, (3, 3); cylinders and capsules are about z.
        mesh: Reads the vertices and triangles of a mesh.
        rgba: Its colour, if the description says one.
    """

    kind: str
    size: tuple[float, ...]
    position: Vector
    rotation: Matrix
    mesh: Callable[[], Mesh] | None = None
    rgba: tuple[float, ...] | None = None

    def cloud(self) -> Cloud:
        """Return what a capsule around it has to contain, in the frame of the link.

        Raises:
            ConfigurationError: If a mesh cannot be read.
        """
        own = corners(self.mesh()[0]) if self.mesh else _CLOUDS[self.kind](*self.size)
        return own.placed(self.position, self.rotation)
