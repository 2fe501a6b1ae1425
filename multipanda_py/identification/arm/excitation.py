# SPDX-License-Identifier: Apache-2.0
"""Motions that show all parameters of an arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm, describe_objects
from multipanda_py.context import Context
from multipanda_py.control.safety.collision_geometry import CollisionGeometry
from multipanda_py.exceptions import IdentificationRefused
from multipanda_py.identification.arm.fourier import FourierMotion
from multipanda_py.identification.arm.regressor import ArmRegressor, base_parameters
from multipanda_py.robots import ArmDescription, SceneObject
from multipanda_py.robots.dynamics.collision_pairs import NONE_HELD
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


CRITERIA = ("condition", "d-optimal")
FREE = 2.0
"""Most that a joint moves to either side, where it could turn further [rad]."""
STEP, SHORTEST_STEP = 0.3, 1e-3
"""Of the search, in units of random coefficients."""
FIRST = 20
"""Random motions of which the best is the beginning."""
TRIES = 50
"""Random motions, each made smaller and smaller, after which none is taken to be allowed."""
SPARSE, DENSE = 2.5, 100.0
"""Samples per second of the search, in shares of the fastest harmonic, and of the last check."""
BETWEEN = 16.0
"""Samples at which a motion that is better keeps its distances, per one of the search: what the
last check finds costs the whole motion some of its size."""
SMALLER = 0.95
"""What is left of a motion each time that the last check finds it too near to something."""


@dataclass(frozen=True)
class Wanted:
    """What a motion is to be.

    Attributes:
        harmonics: L.
        period: Of the slowest harmonic [s].
        ramp: From and to rest [s].
        share: Of the limits of velocity, acceleration and torque that is used.
        inside: Distance from position limits [rad, m].
        criterion: One of :data:`CRITERIA`.
        evaluations: Motions that are tried.
        seed: Of the search.
    """

    harmonics: int = 5
    period: float = 20.0
    ramp: float = 1.0
    share: float = 0.9
    inside: float = 0.09
    criterion: str = "condition"
    evaluations: int = 4000
    seed: int = 0


class Excitation:
    r"""Search for a motion by which the base parameters are told best.

    .. math:: \min \kappa(Y_b) \quad \text{or} \quad \min -\log \det Y_b^T Y_b

    over coefficients and middle of a :class:`.FourierMotion`. Every joint's series is scaled into
    its limits of position, velocity and acceleration, so these hold for whatever is tried; what
    asks for too much torque, or comes too near to anything, is not taken. The search is a (1+1)
    evolution strategy whose step follows its success.

    Args:
        arm: That moves.
        wanted: What the motion is to be.
        clearance: What it keeps away from, or None.
        gravities: In the base, one per mounting; None as the arm stands.

    Attributes:
        best: Condition number of the best motion of the last search, at its samples.
        kept: Share of the size that it has kept: below 1 if it came too near to anything between
            the samples, so that all of it was made smaller and tells less.

    Raises:
        IdentificationRefused: If no motion is possible there at all.

    Source: Swevers et al. 1997; step rule: Rechenberg 1973.
    """

    def __init__(
        self,
        arm: ArmDescription,
        wanted: Wanted,
        clearance: Clearance | None = None,
        gravities: Sequence[Vector | None] = (None,),
    ) -> None:
        self._arm, self._wanted, self._clearance = arm, wanted, clearance
        self._regressor = ArmRegressor(arm)
        self._gravities = gravities
        self._columns = base_parameters(self._regressor, gravities).columns
        n = arm.n_joints
        self._weights = self._regressor.prior.copy()
        self._weights[-10:] += self._regressor.carried
        low, high = arm.limits.span
        ready = np.asarray(arm.robot.ready)
        self._low = np.maximum(low + wanted.inside, ready - FREE)
        self._high = np.minimum(high - wanted.inside, ready + FREE)
        self._ready = np.clip(ready, self._low, self._high)
        blank = np.zeros((n, wanted.harmonics))
        self._blank = FourierMotion(blank, blank, np.zeros(n), wanted.period, wanted.ramp)
        fastest = wanted.harmonics / wanted.period
        self._times = self._blank.times(4.0 * SPARSE * fastest)
        self._between = BETWEEN * SPARSE * fastest
        self._basis = self._blank.basis(self._times)
        self.best, self.kept = np.inf, 1.0

    @property
    def parameters(self) -> int:
        """Number of base parameters."""
        return len(self._columns)

    def motion(self, x: Vector) -> FourierMotion:
        """Return the motion of coefficients, size and middle, ((2 L + 2) n,), within limits."""
        wanted, limits, n = self._wanted, self._arm.limits, self._arm.n_joints
        size = 2 * wanted.harmonics
        direction = x[: n * size].reshape(n, size)
        amplitude = 1.0 / (1.0 + np.exp(-x[n * size : n * size + n] - 2.0))
        middle = np.tanh(x[n * size + n :])
        q, dq, ddq = (basis @ direction.T for basis in self._basis)
        room = self._high - self._low
        spare = 1.02  # what is between the samples
        factor = np.minimum.reduce(
            [
                room / np.ptp(q, axis=0),
                wanted.share * limits.velocity / np.abs(dq).max(axis=0),
                wanted.share * limits.acceleration / np.abs(ddq).max(axis=0),
            ]
        )
        factor *= amplitude / spare
        low, high = q.min(axis=0) * factor * spare, q.max(axis=0) * factor * spare
        least, most = self._low - low, self._high - high
        centre = self._ready - (low + high) / 2.0
        q0 = np.where(
            middle > 0, centre + middle * (most - centre), centre + middle * (centre - least)
        )
        scaled = direction * factor[:, None]
        a, b = scaled[:, : wanted.harmonics], scaled[:, wanted.harmonics :]
        q0 = np.clip(q0, least, most)
        return FourierMotion(a, b, q0, wanted.period, wanted.ramp)

    def cost(self, motion: FourierMotion) -> float:
        """Return the criterion of a motion; inf if it asks for too much torque."""
        stack, torque = self._stack(motion)
        if (torque > self._wanted.share * self._arm.limits.torque).any():
            return np.inf
        sizes = _singular_values(stack)
        if self._wanted.criterion == "condition":
            return float(np.log(sizes[-1] / sizes[0]))
        return float(-2.0 * np.log(sizes).sum())

    def condition(self, motion: FourierMotion) -> float:
        """Return the condition number of the base regressor of a motion."""
        sizes = _singular_values(self._stack(motion)[0])
        return float(sizes[-1] / sizes[0])

    def _stack(self, motion: FourierMotion) -> tuple[Matrix, Vector]:
        """Return the base regressor, and the largest torque of every joint."""
        q, dq, ddq = motion.sample(self._times)
        stacks, torques = [], []
        for gravity in self._gravities:
            rows = self._regressor.rows(q, dq, ddq, gravity)
            rotors = self._arm.robot.armature * ddq
            torques.append(np.abs(rows @ self._weights + rotors).max(axis=0))
            stacks.append(rows[..., self._columns].reshape(-1, len(self._columns)))
        return np.concatenate(stacks), np.max(torques, axis=0)

    def clear(self, motion: FourierMotion, rate: float | None = None) -> bool:
        """Return whether a motion keeps its distances at some samples per second."""
        if self._clearance is None:
            return True
        times = self._times[::2] if rate is None else motion.times(rate)
        return self._clearance.missing(motion.sample(times)[0]) <= 0.0

    def random(self, rng: np.random.Generator) -> Vector:
        """Return coefficients of a random motion that is allowed.

        Raises:
            IdentificationRefused: If there is none near the ready posture.
        """
        n, size = self._arm.n_joints, 2 * self._wanted.harmonics
        if self._clearance is not None and self._clearance.missing(self._ready[None]) > 0.0:
            raise IdentificationRefused(
                f"{self._arm.name}: no room to move: already in the posture "
                f"{np.round(self._ready, 3).tolist()} it is too near to something"
            )
        for _ in range(TRIES):
            x = np.concatenate([rng.normal(size=n * size), np.zeros(n), 0.3 * rng.normal(size=n)])
            for _ in range(12):
                motion = self.motion(x)
                if self.cost(motion) < np.inf and self.clear(motion):
                    return x
                x[n * size : n * size + n] -= 0.7
                x[n * size + n :] *= 0.7
        raise IdentificationRefused(
            f"{self._arm.name}: no motion about the posture {np.round(self._ready, 3).tolist()} "
            f"keeps its distances and {self._wanted.share:g} of the torques that joints have"
        )

    def search(
        self, progress: Callable[[int, float], None] = lambda done, best: None
    ) -> FourierMotion:
        """Return the best motion that was found.

        Args:
            progress: Is told how many were tried, and the condition number so far.

        Raises:
            IdentificationRefused: If no motion is allowed.
        """
        wanted, rng = self._wanted, np.random.default_rng(self._wanted.seed)
        starts = [self.random(rng) for _ in range(FIRST)]
        costs = [self.cost(self.motion(x)) for x in starts]
        best = int(np.argmin(costs))
        x, cost, step = starts[best], costs[best], STEP
        for done in range(FIRST, wanted.evaluations):
            mask = rng.random(x.size) < max(0.1, rng.random() ** 2)
            trial = x + step * mask * rng.normal(size=x.size)
            motion = self.motion(trial)
            new = self.cost(motion)
            if new < cost and self.clear(motion) and self.clear(motion, self._between):
                x, cost, step = trial, new, min(1.0, step * 1.5)
            else:
                step = max(SHORTEST_STEP, step * 1.5**-0.25)
            if done % 200 == 0:
                progress(done, self.condition(self.motion(x)))
        motion = self.motion(x)
        self.best, self.kept = self.condition(motion), 1.0
        return self._checked(motion)

    def _checked(self, motion: FourierMotion) -> FourierMotion:
        """Return a motion that is allowed between the samples too, smaller if need be."""
        for _ in range(20):
            if self.clear(motion, DENSE / 4.0):
                return motion
            self.kept *= SMALLER
            q0 = self._ready + SMALLER * (motion.q0 - self._ready)
            motion = replace(motion, a=SMALLER * motion.a, b=SMALLER * motion.b, q0=q0)
        raise IdentificationRefused(f"{self._arm.name}: no motion found that keeps its distances")


def _singular_values(stack: Matrix) -> Vector:
    """Return them in rising order, by the Gram matrix, which is enough below a million."""
    values = np.linalg.eigvalsh(stack.T @ stack)
    found: Vector = np.sqrt(np.maximum(values, 1e-15 * values[-1]))
    return found
