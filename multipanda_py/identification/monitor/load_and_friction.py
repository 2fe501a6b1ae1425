# SPDX-License-Identifier: Apache-2.0
"""What an arm seems to carry and to rub beyond its description, from one second to the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from multipanda_py.identification.arm.friction import FrictionShape
from multipanda_py.identification.arm.regressor import ArmRegressor
from multipanda_py.identification.monitor.arm_monitor import Shadowed
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.inertial import NO_LOAD, Load
from multipanda_py.state import Matrix, Vector

FORGETS = 30.0
"""In which what was seen counts e times less [s]."""
BLOCK = 0.02
"""Over which samples are averaged before they are taken [s]."""
HEAVIEST, FARTHEST = 20.0, 0.5
"""Bounds of a load and of its centre from the flange [kg, m]."""
RESTS = 0.02
"""Speed of a joint below which its static friction is unknown within its bound [rad/s]."""
_NOISE = 0.01
"""Of a torque, as a share of the joint's largest."""
_SPREAD_OF_LOAD = (2.0, 0.3, 0.3, 0.3)
"""What is expected of mass and first moments, where nothing is seen [kg, kg m]."""
_SPREAD_OF_FRICTION = (0.03, 0.03, 0.01)
"""Likewise of viscous and Coulomb friction and offset, as a share of the largest torque."""
_MOST_FRICTION, _MOST_OFFSET = 0.3, 0.1


@dataclass(frozen=True, eq=False)
class OnlineEstimate:
    """What is there beyond the description of an arm, each with its standard deviation.

    Attributes:
        mass: Of the load [kg].
        com: Its centre in the flange's frame, (3,) [m]; zero below 50 g.
        viscous: (n,) [Nm s/rad].
        coulomb: (n,) [Nm].
        offset: (n,) [Nm].
        deviations: Of mass, three first moments, then viscous, Coulomb and offset of all joints,
            (4 + 3 n,).
    """

    mass: float
    com: Vector
    viscous: Vector
    coulomb: Vector
    offset: Vector
    deviations: Vector


class LoadAndFriction:
    r"""Estimate load and friction by recursive least squares with bounds.

    .. math::
        -(\tau_c + \tau_{ext}) = Y_{flange}(q, \dot q, \ddot q)\, \pi_L
        + f_v \dot q + f_c\, \mathrm{sgn}\, \dot q + f_o, \qquad
        A \leftarrow \lambda A + Y^T W Y, \quad b \leftarrow \lambda b + Y^T W y, \quad
        \theta = (A + A_0)^{-1} b

    with all that the description lacks on the left: what the twin was corrected by and what the
    arm felt. So it counts contact for load and friction: it is meant for free motion. The prior
    :math:`A_0` keeps it bounded where nothing is seen, :math:`\lambda` forgets in 30 s, and
    parameters that leave their bounds (a mass of 0 to 20 kg with its centre within 0.5 m, friction
    that is not negative and below 0.3 of the largest torque) are put there, and the others are
    found anew. The static friction of a joint at rest is unknown, so it has a lower weight,
    by the expected variance of Coulomb friction. Nobody acts on it: it is for people.

    Args:
        arm: As it is described.
        load: What its flange carries according to its cell.

    Thread: one at a time.
    """

    def __init__(self, arm: ArmDescription, load: Load = NO_LOAD) -> None:
        self.arm = arm
        self._regressor = ArmRegressor(arm)
        self._shape = FrictionShape.sharp(arm.n_joints)
        n, torque = arm.n_joints, arm.limits.torque
        self._variance: Vector = (_NOISE * torque) ** 2
        self._stiction: Vector = (_SPREAD_OF_FRICTION[1] * torque) ** 2
        of_joints = np.concatenate([share * torque for share in _SPREAD_OF_FRICTION])
        self._prior: Matrix = np.diag(np.concatenate([_SPREAD_OF_LOAD, of_joints]) ** -2.0)
        self._seen: Matrix = np.zeros((4 + 3 * n, 4 + 3 * n))
        self._sum: Vector = np.zeros(4 + 3 * n)
        least = np.concatenate([-arm.joint_damping, -arm.joint_frictionloss])
        most = _MOST_FRICTION * np.tile(torque, 2)
        first = HEAVIEST * FARTHEST
        offset = _MOST_OFFSET * torque
        self._low = np.concatenate([[-load.mass, -first, -first, -first], least, -offset])
        self._high = np.concatenate([[HEAVIEST, first, first, first], most, offset])

    def add(self, shadowed: Shadowed) -> None:
        """Take what was shadowed next; what was not judged does not count."""
        log, judged = shadowed.log, shadowed.judged
        width = max(1, round(BLOCK / log.period)) if len(log) > 1 else 1
        ddq = np.gradient(shadowed.dq, log.time, axis=0) if len(log) > 1 else 0.0 * shadowed.dq
        felt = log.columns.get("tau_ext", np.zeros_like(log.q))
        lacking = -(shadowed.correction + felt)
        kept = np.exp(-width * log.period / FORGETS)
        for begin in range(0, len(log) - width + 1, width):
            run = slice(begin, begin + width)
            if not judged[run].all():
                continue
            q, dq, a, y = (x[run].mean(axis=0) for x in (log.q, shadowed.dq, ddq, lacking))
            if not np.isfinite((q, dq, a, y)).all():
                continue
            rows = self._rows(q, dq, a)
            weighted = rows.T / (self._variance + (np.abs(dq) < RESTS) * self._stiction)
            self._seen *= kept
            self._sum *= kept
            self._seen += weighted @ rows
            self._sum += weighted @ y

    def _rows(self, q: Vector, dq: Vector, ddq: Vector) -> Matrix:
        """Return the regressors of all parameters in one state, (n, 4 + 3 n)."""
        bodies = self._regressor.rows(q[None], dq[None], ddq[None])
        flange = self._regressor.flange_rows(bodies)[0, :, :4]
        return np.hstack([flange, self._shape.rows(dq[None])[0]])

    @property
    def estimate(self) -> OnlineEstimate:
        """What is there now."""
        total = self._seen + self._prior
        held = np.zeros(len(self._sum), bool)
        values = np.zeros(len(self._sum))
        for _ in range(3):
            free = ~held
            values[free] = np.linalg.solve(
                total[np.ix_(free, free)],
                self._sum[free] - total[np.ix_(free, held)] @ values[held],
            )
            outside = (values < self._low) | (values > self._high)
            values = np.clip(values, self._low, self._high)
            if not (outside & ~held).any():
                break
            held |= outside
        n = self.arm.n_joints
        mass = float(values[0])
        com = values[1:4] / mass if mass > 0.05 else np.zeros(3)
        deviations = np.sqrt(np.linalg.inv(total).diagonal())
        of_joints = values[4:].reshape(3, n)
        return OnlineEstimate(
            mass, np.clip(com, -FARTHEST, FARTHEST), of_joints[0], of_joints[1], of_joints[2],
            deviations,
        )  # fmt: skip

    def lines(self) -> Iterator[str]:
        """Say it in words."""
        found = self.estimate
        mass, centre = _decimals(found.mass, 2), ", ".join(_decimals(v, 3) for v in found.com)
        yield (
            f"{self.arm.name}: carries {mass} +- {found.deviations[0]:.2f} kg beyond "
            f"its description, at [{centre}] m in its flange"
        )
        for what, values, unit in (
            ("viscous friction", found.viscous, "Nm s/rad"),
            ("Coulomb friction", found.coulomb, "Nm"),
            ("offset", found.offset, "Nm"),
        ):
            said = " ".join(_decimals(v, 2) for v in values)
            yield f"{self.arm.name}: {what} [{unit}]: {said}"


def _decimals(value: float, count: int) -> str:
    """Return a number with so many decimals, and zero without a sign."""
    return f"{round(float(value), count) + 0.0:.{count}f}"
