# SPDX-License-Identifier: Apache-2.0
"""The whole state of a simulated world, saved and loaded."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.extras import extras_named
from multipanda_py.state import Matrix, Vector

with extras_named():
    import mujoco


@dataclass(frozen=True)
class WorldState:
    """All of MuJoCo's data, and where things stand that have no joint.

    More than MuJoCo's integration state: also what was computed last, so that the forces that
    laws feel in the next cycle are those that they would have felt.

    Attributes:
        data: A copy of MuJoCo's data.
        body_pos: Positions of bodies in their parents (n, 3) [m].
        body_quat: Their orientations, (n, 4).
        presence: Of bodies, how much of their weight is compensated; of geoms, what they touch.
    """

    data: mujoco.MjData
    body_pos: Matrix
    body_quat: Matrix
    presence: tuple[Vector, NDArray[np.int32], NDArray[np.int32]]

    @classmethod
    def of(cls, model: mujoco.MjModel, data: mujoco.MjData) -> WorldState:
        """Return a copy of the state of now."""
        presence = (
            model.body_gravcomp.copy(), model.geom_contype.copy(), model.geom_conaffinity.copy(),
        )  # fmt: skip
        return cls(copy.copy(data), model.body_pos.copy(), model.body_quat.copy(), presence)

    def load(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Put a world into this state; arrays of ``data`` that others view stay where they are."""
        mujoco.mj_copyData(data, model, self.data)
        model.body_pos[:], model.body_quat[:] = self.body_pos, self.body_quat
        compensated, contype, conaffinity = self.presence
        model.body_gravcomp[:] = compensated
        model.geom_contype[:], model.geom_conaffinity[:] = contype, conaffinity
