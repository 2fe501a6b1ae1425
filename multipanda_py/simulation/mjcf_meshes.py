# SPDX-License-Identifier: Apache-2.0
"""Pictures from a user's own copy of MuJoCo Menagerie."""

from __future__ import annotations

from pathlib import Path

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.extras import extras_named
from multipanda_py.robots.franka import LINK_CAPSULES
from multipanda_py.simulation.mjcf_elements import VISUAL_GROUP, put

with extras_named():
    import mujoco


class MeshLibrary:
    """The files ``link<i>.obj`` or ``link<i>_<part>.obj`` of ``franka_fr3/assets``."""

    def __init__(self, folder: Path) -> None:
        """Find the files of link 0 to link 7.

        Args:
            folder: The folder ``assets``.

        Raises:
            ConfigurationError: If a link has no file.
        """
        self._files: list[list[Path]] = []
        self._known: set[str] = set()
        for i in range(len(LINK_CAPSULES)):
            parts = sorted(folder.glob(f"link{i}.obj")) + sorted(folder.glob(f"link{i}_*.obj"))
            if not parts:
                raise ConfigurationError(
                    f"meshes: {folder} has neither link{i}.obj nor link{i}_0.obj; "
                    "give the folder franka_fr3/assets of mujoco_menagerie"
                )
            self._files.append(parts)

    def add_visuals(self, spec: mujoco.MjSpec, body: mujoco.MjsBody, index: int) -> None:
        """Add the meshes of a link, by its index, to its body."""
        for path in self._files[index]:
            name = f"mesh_{path.stem}"
            if name not in self._known:
                self._known.add(name)
                put(spec.add_mesh(), name=name, file=str(path.resolve()))
            geom = put(body.add_geom(), type=mujoco.mjtGeom.mjGEOM_MESH, meshname=name)
            put(geom, contype=0, conaffinity=0, group=VISUAL_GROUP, mass=0.0, material="shell")
