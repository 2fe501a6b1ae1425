# SPDX-License-Identifier: Apache-2.0
"""Meshes that descriptions name: where they are, and what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import coal
import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files.regular_file import check_regular
from multipanda_py.state import Matrix

Triangles: TypeAlias = NDArray[np.int32]
MAX_MESH = 1 << 28
"""Maximum size of a mesh [bytes]."""


def find_mesh(name: str, description: Path, packages: Sequence[Path] = ()) -> Path:
    """Return the file that a description calls so.

    ``package://NAME/...`` is looked for in folders that are called NAME or have one of that
    name: those that are given, then those above the description. ``file://...`` is an absolute
    path, all else one from the description's folder.

    Args:
        name: As the description has it.
        description: The file that names it.
        packages: Folders of packages, or with packages in them.

    Raises:
        ConfigurationError: If it is not there; says where it was looked for.
    """
    if name.startswith("package://"):
        package, _, rest = name.removeprefix("package://").partition("/")
        folders = [*packages, *description.resolve().parents]
        tried = [folder / rest for folder in folders if folder.name == package]
        tried += [folder / package / rest for folder in folders]
    else:
        tried = [description.parent / name.removeprefix("file://")]
    found = next((path for path in tried if path.is_file()), None)
    if found is None:
        places = " or ".join(str(path) for path in tried[:3])
        hint = "; --package-path says where packages are" if "://" in name else ""
        raise ConfigurationError(
            f"{description}: mesh: got {name!r}, which is not there, allowed a file: "
            f"{places}{hint}"
        )
    return found


def read_mesh(path: Path, scale: Sequence[float]) -> tuple[Matrix, Triangles]:
    """Return vertices, (n, 3) [m], and triangles, (m, 3), of a mesh that assimp reads.

    Raises:
        ConfigurationError: If it cannot be read.
    """
    try:
        check_regular(path, MAX_MESH)
        mesh = coal.MeshLoader(coal.BV_AABB).load(str(path), np.array(scale, dtype=np.float64))
    except (OSError, ValueError, RuntimeError) as error:
        lines = [line for line in str(error).splitlines() if line]
        raise ConfigurationError(f"{path}: cannot be read as a mesh: {lines[-1]}") from None
    faces = [mesh.tri_indices(i) for i in range(mesh.num_tris)]
    triangles = np.array([(face[0], face[1], face[2]) for face in faces], dtype=np.int32)
    return np.array(mesh.vertices()), triangles
