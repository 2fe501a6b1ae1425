# SPDX-License-Identifier: Apache-2.0
"""Postures of arms whose tools have one pose each, by arm: many in the time of one for all."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pinocchio as pin

from multipanda_py.optimiser.distance import Distance
from multipanda_py.optimiser.free_space import FreeSpace
from multipanda_py.optimiser.goals import Axis, Orientation, PoseGoal
from multipanda_py.optimiser.motion import WithinLimits
from multipanda_py.optimiser.scene import WORLD, Scene
from multipanda_py.optimiser.term import Term
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

STEPS = 40
"""Most of a search from one posture."""
CLOSE = 1e-6
"""To the pose [m, rad]."""
TURNED = 1e-5
"""By which a pose may miss how its tool is to be turned besides [rad]."""
DAMPING = 1e-6
LONGEST = 0.6
"""Longest step of a joint [rad, m]."""
SEEDS = 48
"""Postures that searches begin with, of each arm."""
BATCH = 8
"""Seeds after which postures of the arms are put together."""
KNOWN = 12
"""Most postures of an arm that are kept."""
_ALIKE = 0.05


def tool_goals(scene: Scene, terms: Sequence[Term]) -> Mapping[str, Pose] | None:
    """Return the pose of each tool in the world; None if anything else is asked of a slice.

    Args:
        scene: Arms and things; what is in hands does not count.
        terms: Of the slice.
    """
    goals: dict[str, Pose] = {}
    turned: list[Axis | Orientation] = []
    for term in terms:
        one = term.objective
        if term.is_cost or isinstance(one, (WithinLimits, Distance)):
            continue
        if isinstance(one, (Axis, Orientation)) and one.frames[1] == WORLD:
            turned.append(one)
            continue
        if not isinstance(one, PoseGoal):
            return None
        frame, base = one.frames
        arm, _, link = frame.partition("/")
        if base == WORLD and link == "tool" and arm in scene.arms and arm not in goals:
            goals[arm] = one.pose
        elif frame not in scene.movable:
            return None
    for one in turned:  # which a pose that is turned so has, too
        goal = goals.get(one.frames[0].removesuffix("/tool"))
        if goal is None or one.off(goal.rotation) > TURNED:
            return None
    return goals or None


def quick_end(
    scene: Scene,
    space: FreeSpace,
    terms: Sequence[Term],
    goals: Mapping[str, Pose],
    stays: Vector,
    begin: Vector,
    rng: np.random.Generator,
) -> Vector | None:
    """Return a free slice that meets poses of tools; None if none was found.

    Args:
        scene: Arms and things.
        space: Says what is free, and where things are that hands carry.
        terms: Of the slice, for limits.
        goals: See :func:`tool_goals`.
        stays: Slice with the postures of arms that nothing is asked of, (d,).
        begin: Slice to be near to, (d,).
        rng: Of postures that searches begin with.
    """
    margins = [t.objective.margin for t in terms if isinstance(t.objective, WithinLimits)]
    x = stays.copy()
    for arm in goals:
        x[scene.columns[arm]] = begin[scene.columns[arm]]
    found = free_postures(scene, space, goals, x[: space.n], max(margins, default=0.0), rng)
    return None if found is None else space.with_things(found[None])[0]


def free_postures(
    scene: Scene,
    space: FreeSpace,
    goals: Mapping[str, Pose],
    begin: Vector,
    margin: float,
    rng: np.random.Generator,
) -> Vector | None:
    """Find postures of all arms that reach poses and are free, near to where they begin.

    Args:
        scene: Arms and things.
        space: Says what is free.
        goals: Of tools in the world; other arms stay.
        begin: Postures of all arms, (n,).
        margin: From joint limits [rad, m].
        rng: Of postures that searches begin with.

    Returns:
        Postures of all arms, (n,); None if none was found.
    """
    searches = {
        arm: _postures(scene, arm, pose, begin[scene.columns[arm]], margin, rng)
        for arm, pose in goals.items()
    }
    known: dict[str, list[Vector]] = {arm: [] for arm in goals}
    tried: set[tuple[int, ...]] = set()
    for _ in range(SEEDS // BATCH):
        for arm, search in searches.items():
            for q in itertools.islice(search, BATCH):
                if q is not None and len(known[arm]) < KNOWN and _is_new(q, known[arm]):
                    known[arm].append(q)
        for chosen in _nearest_first(scene, known, begin):
            if chosen in tried:
                continue
            tried.add(chosen)
            x = begin.copy()
            for arm, number in zip(known, chosen):
                x[scene.columns[arm]] = known[arm][number]
            if space.is_free(x):
                return x
    return None


def _is_new(q: Vector, known: Sequence[Vector]) -> bool:
    return all(float(np.abs(q - other).max()) > _ALIKE for other in known)


def _nearest_first(
    scene: Scene, known: Mapping[str, Sequence[Vector]], begin: Vector
) -> list[tuple[int, ...]]:
    """Return all choices of a posture for each arm, by how long the slowest joint takes."""
    times = []
    for arm, postures in known.items():
        at = scene.columns[arm]
        times.append([float((np.abs(q - begin[at]) / scene.velocity[at]).max()) for q in postures])
    choices = itertools.product(*(range(len(postures)) for postures in known.values()))
    return sorted(choices, key=lambda chosen: sum(t[k] for t, k in zip(times, chosen)))


def _postures(
    scene: Scene, arm: str, pose: Pose, begin: Vector, margin: float, rng: np.random.Generator
) -> Iterator[Vector | None]:
    """Yield a posture for each beginning, None where the search has failed."""
    model = scene.model(arm)
    data, frame = model.createData(), model.getFrameId(scene.arms[arm].ee_frame)
    at, goal = scene.columns[arm], pin.SE3(pose.rotation, pose.position)
    lower, upper = scene.lower[at] + margin, scene.upper[at] - margin
    low, high = np.clip(lower, -np.pi, None), np.clip(upper, None, np.pi)
    q = begin
    while True:
        yield _reach(model, data, frame, goal, np.clip(q, lower, upper), lower, upper)
        q = rng.uniform(low, high)


def _reach(
    model: pin.Model, data: pin.Data, frame: int, goal: pin.SE3, q: Vector, lower: Vector,
    upper: Vector,
) -> Vector | None:  # fmt: skip
    r"""Return a posture with a frame at its goal, by damped Gauss-Newton steps within limits.

    .. math:: \Delta q = J^T (J J^T + \lambda I)^{-1} e, \qquad e = \log (T^{-1} T^*)
    """
    for _ in range(STEPS):
        pin.computeJointJacobians(model, data, q)  # places the joints, too
        error = pin.log6(pin.updateFramePlacement(model, data, frame).actInv(goal)).vector
        size = float(np.abs(error).max())
        if size < CLOSE:
            return q
        jacobian = pin.getFrameJacobian(model, data, frame, pin.ReferenceFrame.LOCAL)
        damping = (DAMPING + 1e-2 * min(size, 1.0) ** 2) * np.eye(6)
        step = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + damping, error)
        step *= min(1.0, LONGEST / max(float(np.abs(step).max()), 1e-12))
        q = np.clip(q + step, lower, upper)
    return None
