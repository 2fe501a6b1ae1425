# SPDX-License-Identifier: Apache-2.0
"""Optimisation of excitation motions that make all parameters of an arm observable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm, describe_objects
from multipanda_py.context import Context
from multipanda_py.control.safety.collision_geometry import CollisionGeometry
from multipanda_py.exceptions import IdentificationRejected
from multipanda_py.identification.arm.fourier import FourierMotion
from multipanda_py.identification.arm.regressor import ArmRegressor, base_parameters
from multipanda_py.robots import ArmDescription, SceneObject
from multipanda_py.robots.collision_pairs import NO_GRASPS
from multipanda_py.state import Matrix, Vector

MIN_SELF_DISTANCE = 0.03
"""Minimum distance between links of one arm [m]. The feature ``collision_avoidance`` acts below
it."""


class Clearance:
    """Distance check of one arm against itself, floor, objects and other arms.

    Args:
        arm: Moving arm.
        margin: Minimum distance to floor, objects and other arms [m]. The minimum distance between
            links of the arm is :data:`MIN_SELF_DISTANCE`.
        others: Other arms, which stand still.
        configurations: Joint positions of the other arms by name [rad, m]. By default, they stand
            in their ready configurations.
        objects: Objects of the scene.
    """

    def __init__(
        self,
        arm: ArmDescription,
        margin: float = 0.05,
        others: Sequence[ArmDescription] = (),
        configurations: Mapping[str, Vector] | None = None,
        objects: Sequence[SceneObject] = (),
    ) -> None:
        context = Context(1e-3, (arm,), other_arms=tuple(others), objects=tuple(objects))
        self._geometry = geometry = CollisionGeometry(context)
        self._n = arm.n_joints
        for index, other in enumerate(others, start=1):
            start = geometry.joint_count * index
            q = (configurations or {}).get(other.name, other.robot.ready)
            geometry.raw[start : start + other.n_joints] = q
        self._groups = [
            (group, MIN_SELF_DISTANCE if group.kind == "self" else margin)
            for group in geometry.groups_with(NO_GRASPS)
        ]

    def violation(self, configurations: Matrix) -> float:
        """Return the largest amount by which a distance is below its minimum [m].

        It is 0 or less if all distances are large enough.

        Args:
            configurations: Joint configurations of the arm, (N, n) [rad, m].
        """
        geometry, worst = self._geometry, -np.inf
        for q in configurations:
            geometry.raw[: self._n] = q
            geometry.update_placements()
            for group, margin in self._groups:
                worst = max(worst, margin - group.measure(geometry.model, geometry.data))
        return float(worst)


def clearance_in(cell: CellConfig, name: str, margin: float) -> Clearance:
    """Return the distance check of one arm of a cell.

    The other arms stand in their start configurations, ``q_start`` of the cell file.

    Args:
        cell: Description of the cell.
        name: Name of the moving arm.
        margin: Minimum distance to floor, objects and other arms [m].
    """
    others = {other: arm for other, arm in cell.arms.items() if other != name}
    return Clearance(
        describe_arm(name, cell.arms[name]),
        margin,
        [describe_arm(other, arm) for other, arm in others.items()],
        {other: np.array(arm.q_start) for other, arm in others.items()},
        describe_objects(cell),
    )


CRITERIA = ("condition", "d-optimal")
MAX_DISPLACEMENT = 2.0
"""Maximum displacement of a joint to either side of its ready position [rad]."""
INITIAL_STEP, MIN_STEP = 0.3, 1e-3
"""Initial and minimum step size of the search, relative to the standard deviation of the random
coefficients."""
RANDOM_MOTIONS = 20
"""Number of random motions. The search starts from the best of them."""
MAX_TRIES = 50
"""Number of random motions, each scaled down repeatedly, before the search gives up."""
SEARCH_SAMPLES, FINAL_CHECK_RATE = 2.5, 100.0
"""Sample rates of the search (samples per period of the fastest harmonic) and of the final check
[Hz]."""
CHECK_DENSITY = 16.0
"""Sampling density of the collision check of an improved motion, relative to the search. A
violation that only the final check detects scales down the whole motion."""
SHRINK_FACTOR = 0.95
"""Scale factor applied to a motion each time the final check finds a violation."""


@dataclass(frozen=True)
class ExcitationOptions:
    """Requirements of an excitation motion.

    Attributes:
        harmonics: Number L of harmonics.
        period: Period of the slowest harmonic [s].
        ramp: Duration of the transitions from and to rest [s].
        limit_scale: Fraction of the velocity, acceleration and torque limits that may be used.
        limit_margin: Distance from the joint position limits [rad, m].
        criterion: Cost function, one of :data:`CRITERIA`.
        evaluations: Number of motions to evaluate.
        seed: Random seed of the search.
    """

    harmonics: int = 5
    period: float = 20.0
    ramp: float = 1.0
    limit_scale: float = 0.9
    limit_margin: float = 0.09
    criterion: str = "condition"
    evaluations: int = 4000
    seed: int = 0


class Excitation:
    r"""Search for a motion in which the dynamic parameters of an arm are best observable.

    .. math:: \min \kappa(Y_b) \quad \text{or} \quad \min -\log \det Y_b^T Y_b.

    Symbols: regressor :math:`Y_b` of the base parameters (the identifiable combinations of dynamic
    parameters) and its condition number :math:`\kappa`. Unknowns are coefficients and centre of a
    :class:`.FourierMotion` within the limits of the arm. The search is a (1+1) evolution strategy.

    Args:
        arm: Moving arm.
        options: Requirements of the motion.
        clearance: Distance check of the arm. None: distances are not checked.
        gravities: Gravity in the base frame for each orientation in which the base is mounted,
            (3,) each [m/s^2]. None: gravity by the mounting in the description of the arm.

    Attributes:
        best: Condition number of the motion found by :meth:`search`, before the final check.
        scale: Factor by which the final distance check scaled down the motion of :meth:`search`.
            It is 1 without violations.

    Raises:
        IdentificationRejected: If no motion satisfies the limits.

    Source: Swevers et al. 1997; step rule: Rechenberg 1973.
    """

    def __init__(
        self,
        arm: ArmDescription,
        options: ExcitationOptions,
        clearance: Clearance | None = None,
        gravities: Sequence[Vector | None] = (None,),
    ) -> None:
        self._arm, self._options, self._clearance = arm, options, clearance
        self._regressor = ArmRegressor(arm)
        self._gravities = gravities
        self._columns = base_parameters(self._regressor, gravities).columns
        n = arm.n_joints
        self._weights = self._regressor.prior.copy()
        self._weights[-10:] += self._regressor.carried
        low, high = arm.limits.span
        ready = np.asarray(arm.robot.ready)
        self._low = np.maximum(low + options.limit_margin, ready - MAX_DISPLACEMENT)
        self._high = np.minimum(high - options.limit_margin, ready + MAX_DISPLACEMENT)
        self._ready = np.clip(ready, self._low, self._high)
        blank = np.zeros((n, options.harmonics))
        self._blank = FourierMotion(blank, blank, np.zeros(n), options.period, options.ramp)
        fastest = options.harmonics / options.period
        self._times = self._blank.times(4.0 * SEARCH_SAMPLES * fastest)
        self._check_rate = CHECK_DENSITY * SEARCH_SAMPLES * fastest
        self._basis = self._blank.basis(self._times)
        self.best, self.scale = np.inf, 1.0

    @property
    def parameters(self) -> int:
        """Number of base parameters."""
        return len(self._columns)

    def motion(self, x: Vector) -> FourierMotion:
        """Convert a search vector to a motion within the joint limits.

        Args:
            x: Unbounded search vector for L harmonics and n joints, ((2 L + 2) n,): Fourier
                coefficients, then one amplitude per joint, then one centre per joint.
        """
        desired, limits, n = self._options, self._arm.limits, self._arm.n_joints
        size = 2 * desired.harmonics
        direction = x[: n * size].reshape(n, size)
        amplitude = 1.0 / (1.0 + np.exp(-x[n * size : n * size + n] - 2.0))
        middle = np.tanh(x[n * size + n :])
        q, dq, ddq = (basis @ direction.T for basis in self._basis)
        available_range = self._high - self._low
        spare = 1.02  # Assumed ratio of a peak between samples to the largest sample.
        factor = np.minimum.reduce(
            [
                available_range / np.ptp(q, axis=0),
                desired.limit_scale * limits.velocity / np.abs(dq).max(axis=0),
                desired.limit_scale * limits.acceleration / np.abs(ddq).max(axis=0),
            ]
        )
        factor *= amplitude / spare
        low, high = q.min(axis=0) * factor * spare, q.max(axis=0) * factor * spare
        lowest, highest = self._low - low, self._high - high
        centre = self._ready - (low + high) / 2.0
        q0 = np.where(
            middle > 0,
            centre + middle * (highest - centre),
            centre + middle * (centre - lowest),
        )
        scaled = direction * factor[:, None]
        a, b = scaled[:, : desired.harmonics], scaled[:, desired.harmonics :]
        q0 = np.clip(q0, lowest, highest)
        return FourierMotion(a, b, q0, desired.period, desired.ramp)

    def cost(self, motion: FourierMotion) -> float:
        """Return the cost of a motion, inf if a torque exceeds its limit."""
        stack, torque = self._base_regressor_and_torques(motion)
        if (torque > self._options.limit_scale * self._arm.limits.torque).any():
            return np.inf
        sizes = _ascending_singular_values(stack)
        if self._options.criterion == "condition":
            return float(np.log(sizes[-1] / sizes[0]))
        return float(-2.0 * np.log(sizes).sum())

    def condition(self, motion: FourierMotion) -> float:
        """Return the condition number of the base regressor of a motion."""
        sizes = _ascending_singular_values(self._base_regressor_and_torques(motion)[0])
        return float(sizes[-1] / sizes[0])

    def _base_regressor_and_torques(self, motion: FourierMotion) -> tuple[Matrix, Vector]:
        """Return the base regressor of a motion and the maximum absolute torques, (n,) [Nm]."""
        q, dq, ddq = motion.sample(self._times)
        stacks, torques = [], []
        for gravity in self._gravities:
            rows = self._regressor.rows(q, dq, ddq, gravity)
            rotors = self._arm.robot.armature * ddq
            torques.append(np.abs(rows @ self._weights + rotors).max(axis=0))
            stacks.append(rows[..., self._columns].reshape(-1, len(self._columns)))
        return np.concatenate(stacks), np.max(torques, axis=0)

    def is_collision_free(self, motion: FourierMotion, rate: float | None = None) -> bool:
        """Return True if a motion keeps the minimum distances.

        Args:
            motion: Motion to check.
            rate: Checked configurations per second [Hz]. Default: about five per period of the
                fastest harmonic.
        """
        if self._clearance is None:
            return True
        times = self._times[::2] if rate is None else motion.times(rate)
        return self._clearance.violation(motion.sample(times)[0]) <= 0.0

    def random(self, rng: np.random.Generator) -> Vector:
        """Return the search vector of a random motion that satisfies all limits.

        Raises:
            IdentificationRejected: If none is found near the ready configuration.
        """
        n, size = self._arm.n_joints, 2 * self._options.harmonics
        if self._clearance is not None and self._clearance.violation(self._ready[None]) > 0.0:
            raise IdentificationRejected(
                f"{self._arm.name}: the ready configuration {np.round(self._ready, 3).tolist()} "
                "is too close to an obstacle. Move the obstacle or reduce the minimum distance."
            )
        for _ in range(MAX_TRIES):
            x = np.concatenate([rng.normal(size=n * size), np.zeros(n), 0.3 * rng.normal(size=n)])
            for _ in range(12):
                motion = self.motion(x)
                if self.cost(motion) < np.inf and self.is_collision_free(motion):
                    return x
                x[n * size : n * size + n] -= 0.7
                x[n * size + n :] *= 0.7
        raise IdentificationRejected(
            f"{self._arm.name}: no motion about {np.round(self._ready, 3).tolist()} keeps the "
            f"minimum distances and stays within {self._options.limit_scale:g} of the torque "
            "limits. Remove obstacles or reduce the minimum distance."
        )

    def search(
        self, progress: Callable[[int, float], None] = lambda done, best: None
    ) -> FourierMotion:
        """Search for the motion with the smallest cost as defined by the option ``criterion``.

        Args:
            progress: Callback with the number of evaluated motions and the best condition number.

        Raises:
            IdentificationRejected: If no motion satisfies the limits.
        """
        desired, rng = self._options, np.random.default_rng(self._options.seed)
        starts = [self.random(rng) for _ in range(RANDOM_MOTIONS)]
        costs = [self.cost(self.motion(x)) for x in starts]
        best = int(np.argmin(costs))
        x, cost, step = starts[best], costs[best], INITIAL_STEP
        for done in range(RANDOM_MOTIONS, desired.evaluations):
            mask = rng.random(x.size) < max(0.1, rng.random() ** 2)
            trial = x + step * mask * rng.normal(size=x.size)
            motion = self.motion(trial)
            new = self.cost(motion)
            if (
                new < cost
                and self.is_collision_free(motion)
                and self.is_collision_free(motion, self._check_rate)
            ):
                x, cost, step = trial, new, min(1.0, step * 1.5)
            else:
                step = max(MIN_STEP, step * 1.5**-0.25)
            if done % 200 == 0:
                progress(done, self.condition(self.motion(x)))
        motion = self.motion(x)
        self.best, self.scale = self.condition(motion), 1.0
        return self._scaled_to_keep_distances(motion)

    def _scaled_to_keep_distances(self, motion: FourierMotion) -> FourierMotion:
        for _ in range(20):
            if self.is_collision_free(motion, FINAL_CHECK_RATE / 4.0):
                return motion
            self.scale *= SHRINK_FACTOR
            q0 = self._ready + SHRINK_FACTOR * (motion.q0 - self._ready)
            motion = replace(motion, a=SHRINK_FACTOR * motion.a, b=SHRINK_FACTOR * motion.b, q0=q0)
        raise IdentificationRejected(
            f"{self._arm.name}: no motion found that keeps the minimum distances. Remove "
            "obstacles or reduce the minimum distance."
        )


def _ascending_singular_values(stack: Matrix) -> Vector:
    # The Gram matrix is accurate enough for condition numbers below 1e6.
    values = np.linalg.eigvalsh(stack.T @ stack)
    singular_values: Vector = np.sqrt(np.maximum(values, 1e-15 * values[-1]))
    return singular_values
