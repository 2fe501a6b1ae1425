# SPDX-License-Identifier: Apache-2.0
"""Timed retreat: first part of a motion that starts too near to something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from multipanda_py.exceptions import PlanRejected
from multipanda_py.moves.avoidance import Avoidance
from multipanda_py.moves.kept_apart import kept_apart
from multipanda_py.moves.motion_check import check_motion
from multipanda_py.moves.move_request import MoveRequest
from multipanda_py.moves.retreat import DEEPEST, retreat
from multipanda_py.optimiser.free_space import FreeSpace
from multipanda_py.optimiser.sampled_way import along
from multipanda_py.optimiser.scene import Scene
from multipanda_py.planning.quintic import rest_to_rest
from multipanda_py.state import Matrix, Vector

POINTS = 9
"""Number of points of a retreat, its ends included."""


class WayOut(NamedTuple):
    """Timed retreat.

    Attributes:
        rows: Points from rest to rest, (p, 1 + 3 m).
        end: Configuration at its end by arm, (n,) [rad, m].
        nearest: Smallest distance of bodies on it [m].
    """

    rows: Matrix
    end: dict[str, Vector]
    nearest: float

    def followed_by(self, rows: Matrix) -> Matrix:
        """Return the points of this retreat and of a motion that begins at rest at its end."""
        after = rows[1:].copy()
        after[:, 0] += self.rows[-1, 0]
        return np.concatenate([self.rows, after])


def way_out(
    scene: Scene,
    held: Mapping[str, str],
    request: MoveRequest,
    law: Avoidance,
    margin: float,
    timed: Callable[[Scene, Matrix], Matrix],
) -> WayOut | None:
    """Return the retreat of the arms that are to move; None if they are near nothing.

    Args:
        scene: Arms and things at the start.
        held: Objects in grippers, by arm.
        request: Request for the motion.
        law: Collision avoidance of the executing controllets.
        margin: Margin of joint limits [rad, m].
        timed: Function that returns the timing of a path, (p, m).

    Raises:
        PlanRejected: If they cannot retreat without coming near to something else.
    """
    led = {arm for places in request.stops for arm in places}
    led -= {arm for arm, thing in held.items() if thing in scene.movable}  # in two grippers
    n = sum(arm.n_joints for arm in scene.arms.values())
    start, target = scene.start[:n], min(max(request.clearance, law.passes_at), law.begins_at)
    path = retreat(
        law, start, _may_move(scene, led, bool(request.keep)),
        scene.lower[:n] + margin, scene.upper[:n] - margin, target,
    )  # fmt: skip
    if len(path) < 2:
        return None
    postures = along(path, rest_to_rest(np.linspace(0.0, 1.0, POINTS)))
    slices = np.tile(scene.start, (POINTS, 1))
    slices[:, :n] = postures
    space = FreeSpace(scene, kept_apart(scene, held, request, law, DEEPEST), {})
    checked = check_motion(timed(scene, slices), n, space, law, POINTS)
    if checked.reason:
        raise PlanRejected(f"start: no retreat was found: {checked.reason}")
    end = {arm: slices[-1, scene.columns[arm]] for arm in scene.arms}
    return WayOut(checked.rows, end, checked.nearest)


def _may_move(scene: Scene, led: set[str], keep: bool) -> Callable[[Vector], Matrix]:
    """Return the function from a configuration to the projection on the allowed motions."""
    n = sum(arm.n_joints for arm in scene.arms.values())

    def projection(q: Vector) -> Matrix:
        found = np.zeros((n, n))
        for arm in led:
            at = scene.columns[arm]
            own = np.eye(at.stop - at.start)
            if keep:  # the tool does not rotate
                model = scene.model(arm)
                data, frame = model.createData(), model.getFrameId(scene.arms[arm].ee_frame)
                axes = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
                turning = pin.computeFrameJacobian(model, data, q[at], frame, axes)[3:]
                own -= np.linalg.pinv(turning, rcond=1e-3) @ turning
            found[at, at] = own
        return found

    return projection
