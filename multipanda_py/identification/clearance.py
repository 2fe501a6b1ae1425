# SPDX-License-Identifier: Apache-2.0
"""Whether a motion keeps clear of the arm itself, its surroundings and other arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm, describe_objects
from multipanda_py.context import Context
from multipanda_py.dynamics.collision_geometry import CollisionGeometry
from multipanda_py.dynamics.collision_groups import NONE_HELD
from multipanda_py.robots import ArmDescription, SceneObject
from multipanda_py.state import Matrix, Vector

OF_ITSELF = 0.03
"""Least distance of links of one arm [m]: from there on ``collision_avoidance`` pushes."""


class Clearance:
    """Measure how much nearer than allowed an arm comes to anything.

    Args:
        arm: That moves.
        margin: Least distance to floor, things and other arms [m].
        others: Arms that stand still, with their postures by name.
        objects: Things of the scene.
    """

    def __init__(
        self,
        arm: ArmDescription,
        margin: float = 0.05,
        others: Sequence[ArmDescription] = (),
        postures: Mapping[str, Vector] | None = None,
        objects: Sequence[SceneObject] = (),
    ) -> None:
        context = Context(1e-3, (arm,), other_arms=tuple(others), objects=tuple(objects))
        self._geometry = geometry = CollisionGeometry(context)
        self._n = arm.n_joints
        for place, other in enumerate(others, start=1):
            begin = geometry.room * place
            q = (postures or {}).get(other.name, other.robot.ready)
            geometry.raw[begin : begin + other.n_joints] = q
        self._groups = [
            (group, OF_ITSELF if group.kind == "self" else margin)
            for group in geometry.groups_with(NONE_HELD)
        ]

    def missing(self, postures: Matrix) -> float:
        """Return by how much the nearest of N postures is too near; negative if none is [m]."""
        geometry, worst = self._geometry, -np.inf
        for q in postures:
            geometry.raw[: self._n] = q
            geometry.place()
            for group, margin in self._groups:
                worst = max(worst, margin - group.measure(geometry.model, geometry.data))
        return float(worst)


def clearance_in(cell: CellConfig, name: str, margin: float) -> Clearance:
    """Return what an arm of a cell keeps away from while all others stand where they start."""
    others = {other: arm for other, arm in cell.arms.items() if other != name}
    return Clearance(
        describe_arm(name, cell.arms[name]),
        margin,
        [describe_arm(other, arm) for other, arm in others.items()],
        {other: np.array(arm.q_start) for other, arm in others.items()},
        describe_objects(cell),
    )
