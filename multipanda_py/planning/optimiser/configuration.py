# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics: joint configurations that reach goals and keep distances."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.optimiser.distance import Distance, clearances
from multipanda_py.planning.optimiser.free_space import FreeSpace
from multipanda_py.planning.optimiser.goals import Axis, Orientation, PoseGoal
from multipanda_py.planning.optimiser.kinematics import Kinematics
from multipanda_py.planning.optimiser.scene import WORLD_FRAME, Scene
from multipanda_py.planning.optimiser.solver import Solution, SolverSettings, processor_time, solve
from multipanda_py.planning.optimiser.term import Near, Objective, Term, WithinLimits, make_term
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

NEARNESS_WEIGHT = 0.1
"""Weight of the distance from the start of the search; constraints begin with a weight of 1e3."""
MAX_TRIES = 1000
"""Maximum of the argument ``tries`` of :func:`inverse_kinematics`."""


def inverse_kinematics(
    scene: Scene,
    goals: Sequence[Objective],
    *,
    near: ArrayLike | None = None,
    apart: Sequence[Objective] | None = None,
    limit_margin: float = 0.0,
    tries: int = 30,
    seed: int = 0,
    settings: SolverSettings | None = None,
) -> Vector:
    r"""Find a configuration that reaches goals within joint limits, and keeps bodies apart.

    .. math:: \min_x |x - x_0|^2 \quad \text{with} \quad \phi_{goal}(x) = 0, \;
        q_l \le q \le q_u, \; \delta(x) \ge \delta_{min}.

    x are the d variables of all arms and objects, and q the joint positions in x with their limits
    :math:`q_l, q_u`. :math:`\phi_{goal}` are the errors of the goals. The distances of bodies
    :math:`\delta` stay above :math:`\delta_{min}`. The search starts at :math:`x_0`, then at
    random joint positions. A movable object stays at its pose, unless a goal places it.

    Args:
        scene: Arms and objects.
        goals: Goals of one or several arms. Goals for velocities are not allowed.
        near: Start of the search :math:`x_0`, (d,); ``scene.start`` by default.
        apart: Distances to keep; all :func:`.clearances` by default.
        limit_margin: Distance that joints keep from their limits [rad, m].
        tries: Maximum number of starts.
        seed: Random seed. Equal seeds give equal configurations.
        settings: Tolerance, iterations per start, and time of the whole search.

    Returns:
        Variables x, (d,), read-only. ``scene.arm_configuration(x, arm)`` returns the joint
        positions of an arm, and ``scene.pose(x, object_name)`` the pose of an object.

    Raises:
        PlanRejected: If no configuration was found, or an argument is invalid. The message
            contains the violations of the best configuration.
        UnknownName: If the frame of a goal is not in the scene.

    Thread: any; it takes up to ``settings.time`` seconds of processor time.
    """
    if not goals:
        raise PlanRejected("goals: got none, allowed one or more")
    if not 1 <= tries <= MAX_TRIES:
        raise PlanRejected(f"tries: got {tries}, allowed 1 to {MAX_TRIES}")
    start = scene.start if near is None else np.array(near, dtype=np.float64)
    if start.shape != scene.start.shape or not np.isfinite(start).all():
        raise PlanRejected(f"near: got shape {start.shape}, allowed {scene.size} finite numbers")
    for goal in goals:
        if goal.order:
            raise PlanRejected(
                f"goals: {type(goal).__name__} constrains a velocity. Give goals on poses only"
            )
        goal.check(scene)
    placed = {scene.body(goal.frames[0]) for goal in goals if goal.frames}
    resting = [name for name in scene.movable if name not in placed]
    settings = settings or SolverSettings(iterations=60, time=2.0)
    objectives: list[Objective] = [
        *goals,
        WithinLimits(margin=limit_margin + settings.violation),
        *(Near(name, start[scene.columns[name]]) for name in resting),
        *(clearances(scene, goals) if apart is None else apart),
    ]
    terms = [make_term(scene, one, "equal", (0, 1), 1.0) for one in objectives]
    result = find_configuration(scene, terms, start, np.random.default_rng(seed), tries, settings)
    if not result.is_feasible:
        missed = "; ".join(violation.missed for violation in result.violations[:3])
        raise PlanRejected(f"no configuration found; violations of the best one: {missed}")
    step: Vector = result.path[0]
    return step


def find_configuration(
    scene: Scene,
    terms: Sequence[Term],
    start: Vector,
    rng: np.random.Generator,
    tries: int,
    settings: SolverSettings,
) -> Solution:
    """Search for a configuration near ``start`` that fulfils terms, from several starts.

    Args:
        scene: Arms and objects.
        terms: Costs and constraints of the configuration.
        start: Variables at which the first search starts, (d,).
        rng: Random generator for further starts.
        tries: Maximum number of searches.
        settings: Tolerance, iterations per search, and time of all searches.

    Returns:
        First feasible solution, otherwise the one with the smallest violation. Solutions that
        violate only distances are preferred.
    """
    until = processor_time() + settings.time
    nearness = [
        make_term(scene, Near(name, start[at]), "cost", (0, 1), 1.0, NEARNESS_WEIGHT)
        for name, at in scene.columns.items()
    ]
    first = [*nearness, *(term for term in terms if not isinstance(term.objective, Distance))]
    every = [*nearness, *terms]
    best: tuple[bool, float, Solution] | None = None
    x = start
    for _ in range(tries):
        left = replace(settings, time=max(until - processor_time(), 0.0))
        result = solve(scene, first, x[None], 1.0, 1, left)
        is_reached = result.is_feasible
        if is_reached and len(every) > len(first):
            result = _solve_with_distances(scene, every, result, left)
        if best is None or (not is_reached, result.worst) < best[:2]:
            best = (not is_reached, result.worst, result)
        if result.is_feasible or processor_time() > until:
            break
        x = _next_start(scene, result, start, rng)
    if best is None:
        raise PlanRejected(f"tries: got {tries}, allowed 1 or more")
    return best[2]


def _solve_with_distances(
    scene: Scene, terms: Sequence[Term], result: Solution, settings: SolverSettings
) -> Solution:
    near, far = _split_off_far_distances(scene, terms, result)
    if not far:
        return solve(scene, terms, result.path, 1.0, 1, settings)
    result = solve(scene, near, result.path, 1.0, 1, settings)
    if not result.is_feasible or not _split_off_far_distances(scene, far, result)[0]:
        return result
    return solve(scene, terms, result.path, 1.0, 1, settings)


def _split_off_far_distances(
    scene: Scene, terms: Sequence[Term], result: Solution
) -> tuple[list[Term], list[Term]]:
    distances = {
        k: one for k, term in enumerate(terms) if isinstance(one := term.objective, Distance)
    }
    frames = dict.fromkeys(name for one in distances.values() for name in one.frames)
    placed = Kinematics(scene, frames).forward_kinematics(result.path)
    far = {k for k, one in distances.items() if not one.is_near(placed)}
    return (
        [term for k, term in enumerate(terms) if k not in far],
        [terms[k] for k in sorted(far)],
    )


def _next_start(
    scene: Scene, last_result: Solution, start: Vector, rng: np.random.Generator
) -> Vector:
    bodies = {body for violation in last_result.violations for body in violation.bodies}
    drawn = random_slice(scene, rng)
    x = start.copy()
    for arm in scene.arms:
        at = scene.columns[arm]
        # Only arms that violate constraints get random joint positions.
        is_off = arm in bodies or bodies.isdisjoint(scene.arms)
        x[at] = drawn[at] if is_off else last_result.path[0, at]
    return x


def random_slice(scene: Scene, rng: np.random.Generator) -> Vector:
    """Return random joint positions within limits, with objects at their initial poses, (d,).

    Joints without position limits are within +-pi.
    """
    x = scene.start.copy()
    for arm in scene.arms:
        at = scene.columns[arm]
        lower, upper = scene.lower[at], scene.upper[at]
        endless = ~np.isfinite(upper - lower)
        x[at] = rng.uniform(np.where(endless, -np.pi, lower), np.where(endless, np.pi, upper))
    return x


MAX_STEPS = 40
"""Maximum number of Gauss-Newton steps from one start of the inverse kinematics of an arm."""
POSE_TOLERANCE = 1e-6
"""Pose error below which the Gauss-Newton steps have converged [m, rad]."""
ORIENTATION_TOLERANCE = 1e-5
"""Tolerance of additional orientation constraints of a tool with a pose goal [rad]."""
MIN_DAMPING = 1e-6
"""Minimum damping of the Gauss-Newton steps, added to the diagonal of J J^T."""
MAX_JOINT_STEP = 0.6
"""Maximum change of a joint position per step [rad, m]."""
SEARCH_STARTS = 48
"""Number of starts of the search for each arm."""
BATCH_SIZE = 8
"""Number of starts per arm after which combinations of the arms are tested for collisions."""
MAX_STORED_CONFIGURATIONS = 12
"""Maximum number of stored configurations of an arm."""
_EQUALITY_TOLERANCE = 0.05  # Difference up to which two configurations count as equal [rad, m].


def tool_goals(scene: Scene, terms: Sequence[Term]) -> Mapping[str, Pose] | None:
    """Return the goal poses of tools in the world, by arm; None without such goals.

    It is also None if arms have other goals, such as a joint configuration. Goals of movable
    objects are ignored.

    Args:
        scene: Arms and objects.
        terms: Terms with the goals.
    """
    goals: dict[str, Pose] = {}
    turned: list[Axis | Orientation] = []
    for term in terms:
        one = term.objective
        if term.is_cost or isinstance(one, (WithinLimits, Distance)):
            continue
        if isinstance(one, (Axis, Orientation)) and one.frames[1] == WORLD_FRAME:
            turned.append(one)
            continue
        if not isinstance(one, PoseGoal):
            return None
        frame, base = one.frames
        arm, _, link = frame.partition("/")
        if base == WORLD_FRAME and link == "tool" and arm in scene.arms and arm not in goals:
            goals[arm] = one.pose
        elif frame not in scene.movable:
            return None
    for one in turned:  # The pose goal of the tool must fulfil its orientation constraint.
        goal = goals.get(one.frames[0].removesuffix("/tool"))
        if goal is None or one.off(goal.rotation) > ORIENTATION_TOLERANCE:
            return None
    return goals or None


def sample_phase_end(
    scene: Scene,
    space: FreeSpace,
    terms: Sequence[Term],
    goals: Mapping[str, Pose],
    stays: Vector,
    start: Vector,
    rng: np.random.Generator,
) -> Vector | None:
    """Find variables at which tools reach goal poses and bodies keep their distances.

    Args:
        scene: Arms and objects.
        space: Test of distances, and poses of attached objects.
        terms: Terms of a path problem. Only the margin of :class:`.WithinLimits` has an effect.
        goals: Goal poses of the tools in the world, by arm.
        stays: Variables with the joint positions that arms without a goal keep, (d,).
        start: Variables at which the search for arms with a goal starts, (d,).
        rng: Random generator for further starts.

    Returns:
        Variables, (d,). None if none were found.
    """
    margins = [t.objective.margin for t in terms if isinstance(t.objective, WithinLimits)]
    x = stays.copy()
    for arm in goals:
        x[scene.columns[arm]] = start[scene.columns[arm]]
    result = free_postures(scene, space, goals, x[: space.n], max(margins, default=0.0), rng)
    return None if result is None else space.with_attached_objects(result[None])[0]


def free_postures(
    scene: Scene,
    space: FreeSpace,
    goals: Mapping[str, Pose],
    start: Vector,
    margin: float,
    rng: np.random.Generator,
) -> Vector | None:
    """Find a collision-free configuration of all arms that reaches tool poses.

    Args:
        scene: Arms and objects.
        space: Test of distances.
        goals: Goal poses of the tools in the world, by arm. Arms without a goal stay.
        start: Configuration of all arms at which the search starts, (n,).
        margin: Distance that joints keep from their limits [rad, m].
        rng: Random generator for further starts.

    Returns:
        Joint configuration of all arms, (n,). None if none was found.
    """
    searches = {
        arm: _reaching_configurations(scene, arm, pose, start[scene.columns[arm]], margin, rng)
        for arm, pose in goals.items()
    }
    known: dict[str, list[Vector]] = {arm: [] for arm in goals}
    tried: set[tuple[int, ...]] = set()
    for _ in range(SEARCH_STARTS // BATCH_SIZE):
        for arm, search in searches.items():
            for q in itertools.islice(search, BATCH_SIZE):
                if (
                    q is not None
                    and len(known[arm]) < MAX_STORED_CONFIGURATIONS
                    and _is_new(q, known[arm])
                ):
                    known[arm].append(q)
        for chosen in _combinations_by_travel_time(scene, known, start):
            if chosen in tried:
                continue
            tried.add(chosen)
            x = start.copy()
            for arm, number in zip(known, chosen):
                x[scene.columns[arm]] = known[arm][number]
            if space.is_free(x):
                return x
    return None


def _is_new(q: Vector, known: Sequence[Vector]) -> bool:
    return all(float(np.abs(q - other).max()) > _EQUALITY_TOLERANCE for other in known)


def _combinations_by_travel_time(
    scene: Scene, known: Mapping[str, Sequence[Vector]], start: Vector
) -> list[tuple[int, ...]]:
    """Return indices into the configurations of each arm, shortest travel time first."""
    times = []
    for arm, postures in known.items():
        at = scene.columns[arm]
        times.append([float((np.abs(q - start[at]) / scene.velocity[at]).max()) for q in postures])
    choices = itertools.product(*(range(len(postures)) for postures in known.values()))
    return sorted(choices, key=lambda chosen: sum(t[k] for t, k in zip(times, chosen)))


def _reaching_configurations(
    scene: Scene, arm: str, pose: Pose, start: Vector, margin: float, rng: np.random.Generator
) -> Iterator[Vector | None]:
    """Yield the results of endless searches: a configuration, (n,) [rad, m], or None."""
    model = scene.model(arm)
    data, frame = model.createData(), model.getFrameId(scene.arms[arm].ee_frame)
    at, goal = scene.columns[arm], pin.SE3(pose.rotation, pose.position)
    lower, upper = scene.lower[at] + margin, scene.upper[at] - margin
    low, high = np.clip(lower, -np.pi, None), np.clip(upper, None, np.pi)
    q = start
    while True:
        yield _reach_by_gauss_newton(
            model, data, frame, goal, np.clip(q, lower, upper), lower, upper
        )
        q = rng.uniform(low, high)


def _reach_by_gauss_newton(
    model: pin.Model, data: pin.Data, frame: int, goal: pin.SE3, q: Vector, lower: Vector,
    upper: Vector,
) -> Vector | None:  # fmt: skip
    # Damped Gauss-Newton steps: dq = J^T (J J^T + lambda I)^-1 log(T^-1 T_goal).
    for _ in range(MAX_STEPS):
        # This call also updates the joint poses that updateFramePlacement needs.
        pin.computeJointJacobians(model, data, q)
        error = pin.log6(pin.updateFramePlacement(model, data, frame).actInv(goal)).vector
        size = float(np.abs(error).max())
        if size < POSE_TOLERANCE:
            return q
        jacobian = pin.getFrameJacobian(model, data, frame, pin.ReferenceFrame.LOCAL)
        damping = (MIN_DAMPING + 1e-2 * min(size, 1.0) ** 2) * np.eye(6)
        step = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + damping, error)
        step *= min(1.0, MAX_JOINT_STEP / max(float(np.abs(step).max()), 1e-12))
        q = np.clip(q + step, lower, upper)
    return None
