# SPDX-License-Identifier: Apache-2.0
"""Retreat at the start of a motion, for arms that are too close to other bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.motions.motion_check import Avoidance, NearBodies, check_motion
from multipanda_py.planning.motions.motion_request import MotionRequest
from multipanda_py.planning.motions.path_constraints import required_distances
from multipanda_py.planning.optimiser.free_space import FreeSpace
from multipanda_py.planning.optimiser.path_search import along
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.trajectory.quintic import rest_to_rest
from multipanda_py.state import Matrix, Vector

DISTANCE_STEP = 1.5e-3
"""Increase of the smallest distances per step of a retreat [m]."""
NEAR_PAIR_MARGIN = 0.01
"""Range above the target distance of a retreat in which pairs are checked [m]. Pairs in this range
must not come closer than the target distance."""
MAX_START_OVERLAP = 0.03
"""Maximum overlap of capsules at the start of a retreat [m]. It need not be a collision, because
capsules are larger than links."""
MAX_JOINT_STEP = 0.05
"""Maximum joint motion per step [rad, m]. A pair that needs more counts as not separable."""
MAX_STEPS = 60
"""Maximum number of steps of a retreat."""
_MAX_SWEEPS = 200  # Maximum number of iterations for one step.
_REGULARISATION = 1e-6  # Added to squared gradients, which are divisors.
# Minimum fraction of the required increase of a distance. If a step achieves less, the arms count
# as unable to move apart.
_MIN_GAIN_FRACTION = 0.5
# Gradient of a distance below which the joints count as unable to change it [m/rad].
_MIN_GRADIENT = 1e-7


def retreat_path(
    avoidance: Avoidance,
    start: Vector,
    may_move: Callable[[Vector], Matrix],
    lower: Vector,
    upper: Vector,
    target: float,
) -> Matrix:
    r"""Return configurations along which bodies that are too close move apart.

    Each step increases distances :math:`d_j` below the target :math:`d_{free}` by :math:`\Delta`
    (:data:`DISTANCE_STEP`) with the shortest joint motion s,

    .. math:: \min \|s\|^2 \quad \text{s.t.} \quad g_j^T s \ge \min(\Delta, d_{free} - d_j)

    Here :math:`g_j` is the gradient of :math:`d_j` with respect to the joint positions. Distances
    above the target must stay above it.

    Args:
        avoidance: Collision avoidance of the executing controllets.
        start: Configuration of all arms, (n,) [rad, m].
        may_move: Function from a configuration, (n,), to the projection matrix onto allowed
            joint motions, (n, n).
        lower: Lower joint limits, (n,) [rad, m].
        upper: Upper joint limits, (n,) [rad, m].
        target: Target distance [m].

    Returns:
        Configurations beginning with ``start``, (k, n). Only ``start`` if no pair is closer than
        the target distance, or the arms cannot move apart.
    """
    path, q = [start], start
    for _ in range(MAX_STEPS):
        allowed = may_move(q)
        pairs = [
            (pair, gradient)
            for pair in avoidance.close_pairs(q, target + NEAR_PAIR_MARGIN)
            if not pair.may_touch
            and np.abs(gradient := allowed @ pair.gradient).max() > _MIN_GRADIENT
        ]
        if all(pair.distance >= target for pair, _ in pairs):
            break
        step = _shortest_parting_step(pairs, target, lower - q, upper - q)
        if step is None:
            break
        q = q + step
        path.append(q)
    return np.array(path)


def _shortest_parting_step(
    pairs: Sequence[tuple[NearBodies, Vector]],
    target_distance: float,
    lowest: Vector,
    highest: Vector,
) -> Vector | None:
    """Return the joint step, (n,) [rad, m]; None if no step moves all close bodies apart."""
    # Each pair comes with the gradient of its distance along allowed joint motions, (n,).
    gradients = np.array([gradient for _, gradient in pairs])
    missing = np.array([target_distance - pair.distance for pair, _ in pairs])
    needs = np.where(missing > 0.0, np.minimum(missing + 1e-4, DISTANCE_STEP), missing)
    min_value, max_value = (
        np.maximum(-MAX_JOINT_STEP, np.minimum(lowest, 0.0)),
        np.minimum(MAX_JOINT_STEP, np.maximum(highest, 0.0)),
    )
    squares = (gradients * gradients).sum(axis=1) + _REGULARISATION
    forces, step = np.zeros(len(pairs)), np.zeros(gradients.shape[1])
    for _ in range(_MAX_SWEEPS):  # Hildreth's method solves the dual problem.
        largest = 0.0
        for row, gradient in enumerate(gradients):
            raised = max(forces[row] + (needs[row] - gradient @ step) / squares[row], 0.0)
            change = raised - forces[row]
            if change:
                forces[row] = raised
                step = gradients.T @ forces
                np.clip(step, min_value, max_value, out=step)
                largest = max(largest, abs(change) * float(np.abs(gradient).max()))
        if largest < 1e-6:
            break
    gained = gradients @ step
    is_parting = gained[missing > 0.0] >= _MIN_GAIN_FRACTION * needs[missing > 0.0]
    is_satisfied = gained[missing <= 0.0] >= needs[missing <= 0.0] - 1e-4
    return step if is_parting.all() and is_satisfied.all() else None


RETREAT_POINTS = 9
"""Number of points of a retreat, its ends included."""


class TimedRetreat(NamedTuple):
    """Retreat as a trajectory.

    Attributes:
        rows: Trajectory points from rest to rest, (p, 1 + 3 m): time [s], then positions,
            velocities and accelerations of m joints.
        end: Joint configuration at the end of the retreat by arm, (n,) [rad, m].
        nearest: Minimum distance of bodies along the retreat [m].
    """

    rows: Matrix
    end: dict[str, Vector]
    nearest: float

    def followed_by(self, rows: Matrix) -> Matrix:
        """Return the points of this retreat, followed by the points of another motion.

        Args:
            rows: Trajectory points of the motion, (p, 1 + 3 m). It starts at rest where the
                retreat ends.
        """
        after = rows[1:].copy()
        after[:, 0] += self.rows[-1, 0]
        return np.concatenate([self.rows, after])


def timed_retreat(
    scene: Scene,
    held: Mapping[str, str],
    request: MotionRequest,
    avoidance: Avoidance,
    margin: float,
    timed: Callable[[Scene, Matrix], Matrix],
) -> TimedRetreat | None:
    """Plan a retreat: a short motion of the arms with a goal, away from bodies that are too close.

    Args:
        scene: Arms and objects at the start.
        held: Names of the attached objects, by arm.
        request: Request for the motion after the retreat.
        avoidance: Collision avoidance of the executing controllets.
        margin: Distance that joints keep from their limits [rad, m].
        timed: Function from a scene and a path, (p, m), to the trajectory points.

    Returns:
        Retreat; None if no body is too close, or if no step moves the arms apart.

    Raises:
        PlanRejected: If the retreat comes too close to other bodies.
    """
    led = {arm for goals in request.waypoints for arm in goals}
    # In this scene, an object is movable only if two grippers hold it. These two arms cannot
    # retreat separately.
    led -= {arm for arm, obj in held.items() if obj in scene.movable}
    n = sum(arm.n_joints for arm in scene.arms.values())
    start, target = (
        scene.start[:n],
        min(max(request.clearance, avoidance.free_distance), avoidance.begins_at),
    )
    path = retreat_path(
        avoidance, start, _allowed_motion_projection(scene, led, bool(request.path_constraint)),
        scene.lower[:n] + margin, scene.upper[:n] - margin, target,
    )  # fmt: skip
    if len(path) < 2:
        return None
    postures = along(path, rest_to_rest(np.linspace(0.0, 1.0, RETREAT_POINTS)))
    slices = np.tile(scene.start, (RETREAT_POINTS, 1))
    slices[:, :n] = postures
    space = FreeSpace(
        scene, required_distances(scene, held, request, avoidance, MAX_START_OVERLAP), {}
    )
    checked = check_motion(timed(scene, slices), n, space, avoidance, RETREAT_POINTS)
    if checked.reason:
        raise PlanRejected(f"start: the arms cannot retreat: {checked.reason}")
    end = {arm: slices[-1, scene.columns[arm]] for arm in scene.arms}
    return TimedRetreat(checked.rows, end, checked.nearest)


def _allowed_motion_projection(
    scene: Scene, movable_arms: set[str], keep_orientation: bool
) -> Callable[[Vector], Matrix]:
    """Return a function from a configuration of all arms, (n,), to a projection, (n, n)."""
    n = sum(arm.n_joints for arm in scene.arms.values())

    def projection(q: Vector) -> Matrix:
        result = np.zeros((n, n))
        for arm in movable_arms:
            at = scene.columns[arm]
            own = np.eye(at.stop - at.start)
            if keep_orientation:
                # The tool keeps its orientation, so joint motions that rotate it are not allowed.
                model = scene.model(arm)
                data, frame = model.createData(), model.getFrameId(scene.arms[arm].ee_frame)
                axes = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
                turning = pin.computeFrameJacobian(model, data, q[at], frame, axes)[3:]
                own -= np.linalg.pinv(turning, rcond=1e-3) @ turning
            result[at, at] = own
        return result

    return projection
