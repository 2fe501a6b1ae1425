# SPDX-License-Identifier: Apache-2.0
"""Online estimation of payload and friction beyond those in the description of an arm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from multipanda_py.identification.arm.estimators import FrictionShape
from multipanda_py.identification.arm.regressor import ArmRegressor
from multipanda_py.identification.monitor.arm_monitor import MonitoredLog
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.inertial import NO_LOAD, Load
from multipanda_py.state import Matrix, Vector

FORGETTING_TIME = 30.0
"""Time constant of exponential forgetting [s]."""
BLOCK_DURATION = 0.02
"""Duration over which samples are averaged [s]."""
MAX_MASS, MAX_COM_DISTANCE = 20.0, 0.5
"""Maximum mass of the estimated payload [kg], and maximum distance of its centre from the flange
along each axis [m]."""
REST_SPEED = 0.02
"""Joint speed below which a joint is at rest, where friction has any value up to its bound
[rad/s]."""
_TORQUE_NOISE = 0.01
"""Assumed standard deviation of a torque, relative to the torque limit of the joint."""
_LOAD_DEVIATIONS = (2.0, 0.3, 0.3, 0.3)
"""Standard deviations of the prior of mass and first moments [kg, kg m]."""
_FRICTION_DEVIATIONS = (0.03, 0.03, 0.01)
"""Standard deviations of the prior of viscous friction, Coulomb friction and offset, relative to
the torque limit."""
# Maximum estimated friction and torque offset, as fractions of the torque limit of a joint.
_MAX_FRICTION, _MAX_OFFSET = 0.3, 0.1


@dataclass(frozen=True, eq=False)
class OnlineEstimate:
    """Estimated payload and friction beyond those described for an arm, with standard deviations.

    Attributes:
        mass: Mass of the additional payload [kg].
        com: Centre of mass of this payload in the flange frame, (3,) [m]. Zero for a mass below
            50 g.
        viscous: Additional viscous friction, (n,) [Nm s/rad].
        coulomb: Additional Coulomb friction, (n,) [Nm].
        offset: Additional torque offset, (n,) [Nm].
        deviations: Standard deviations of mass and three first moments, then of viscous friction,
            Coulomb friction and offset of all joints, (4 + 3 n,).
    """

    mass: float
    com: Vector
    viscous: Vector
    coulomb: Vector
    offset: Vector
    deviations: Vector


class LoadAndFriction:
    r"""Recursive estimator of payload and friction beyond those described for an arm.

    .. math::
        y = -(\tau_c + \tau_{ext}) = Y_{flange}(q, \dot q, \ddot q)\, \pi_L
        + f_v \dot q + f_c\, \mathrm{sgn}\, \dot q + f_o.

    .. math::
        A \leftarrow \lambda A + Y^T W Y, \quad b \leftarrow \lambda b + Y^T W y, \quad
        \theta = (A + A_0)^{-1} b.

    Symbols: unexplained torque y from the correction :math:`\tau_c` of the twin and the estimated
    external torque :math:`\tau_{ext}`. The parameters :math:`\theta` are mass and first moments
    :math:`\pi_L` of the payload and the friction of each joint. Friction consists of viscous
    friction :math:`f_v`, Coulomb friction :math:`f_c` and offset :math:`f_o`. Y is the regressor,
    W the weight of the torques, and :math:`A_0` the prior. A and b forget old samples by
    :math:`\lambda`.

    The arm has to move freely: contact forces count as payload and friction. The estimate is for
    display only and does not affect control.

    Args:
        arm: Description of the arm.
        load: Payload at the flange in the cell file.

    Thread: used by one thread at a time.
    """

    def __init__(self, arm: ArmDescription, load: Load = NO_LOAD) -> None:
        self.arm = arm
        self._regressor = ArmRegressor(arm)
        self._shape = FrictionShape.sharp(arm.n_joints)
        n, torque = arm.n_joints, arm.limits.torque
        self._variance: Vector = (_TORQUE_NOISE * torque) ** 2
        self._stiction: Vector = (_FRICTION_DEVIATIONS[1] * torque) ** 2
        of_joints = np.concatenate([fraction * torque for fraction in _FRICTION_DEVIATIONS])
        self._prior: Matrix = np.diag(np.concatenate([_LOAD_DEVIATIONS, of_joints]) ** -2.0)
        self._information: Matrix = np.zeros((4 + 3 * n, 4 + 3 * n))
        self._sum: Vector = np.zeros(4 + 3 * n)
        lower = np.concatenate([-arm.joint_damping, -arm.joint_frictionloss])
        upper = _MAX_FRICTION * np.tile(torque, 2)
        first = MAX_MASS * MAX_COM_DISTANCE
        offset = _MAX_OFFSET * torque
        self._low = np.concatenate([[-load.mass, -first, -first, -first], lower, -offset])
        self._high = np.concatenate([[MAX_MASS, first, first, first], upper, offset])

    def add(self, monitored: MonitoredLog) -> None:
        """Update the estimate with the evaluated samples of the next chunk of a log."""
        log, evaluated = monitored.log, monitored.evaluated
        width = max(1, round(BLOCK_DURATION / log.period)) if len(log) > 1 else 1
        ddq = np.gradient(monitored.dq, log.time, axis=0) if len(log) > 1 else 0.0 * monitored.dq
        measured = log.columns.get("tau_ext", np.zeros_like(log.q))
        lacking = -(monitored.correction + measured)
        decay = np.exp(-width * log.period / FORGETTING_TIME)
        for start in range(0, len(log) - width + 1, width):
            run = slice(start, start + width)
            if not evaluated[run].all():
                continue
            q, dq, a, y = (x[run].mean(axis=0) for x in (log.q, monitored.dq, ddq, lacking))
            if not np.isfinite((q, dq, a, y)).all():
                continue
            rows = self._payload_and_friction_regressor(q, dq, a)
            weighted = rows.T / (self._variance + (np.abs(dq) < REST_SPEED) * self._stiction)
            self._information *= decay
            self._sum *= decay
            self._information += weighted @ rows
            self._sum += weighted @ y

    def _payload_and_friction_regressor(self, q: Vector, dq: Vector, ddq: Vector) -> Matrix:
        """Return the regressor of payload and friction in one state, (n, 4 + 3 n)."""
        bodies = self._regressor.rows(q[None], dq[None], ddq[None])
        flange = self._regressor.flange_rows(bodies)[0, :, :4]
        return np.hstack([flange, self._shape.rows(dq[None])[0]])

    @property
    def estimate(self) -> OnlineEstimate:
        """Present estimate, with standard deviations."""
        total = self._information + self._prior
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
            mass, np.clip(com, -MAX_COM_DISTANCE, MAX_COM_DISTANCE), of_joints[0], of_joints[1],
            of_joints[2], deviations,
        )  # fmt: skip

    def lines(self) -> Iterator[str]:
        """Yield text lines with the estimate and its standard deviations."""
        result = self.estimate
        mass, centre = (
            _fixed_decimals(result.mass, 2),
            ", ".join(_fixed_decimals(v, 3) for v in result.com),
        )
        yield (
            f"{self.arm.name}: carries {mass} +- {result.deviations[0]:.2f} kg beyond "
            f"its description, at [{centre}] m in its flange frame"
        )
        for description, values, unit in (
            ("viscous friction", result.viscous, "Nm s/rad"),
            ("Coulomb friction", result.coulomb, "Nm"),
            ("offset", result.offset, "Nm"),
        ):
            text = " ".join(_fixed_decimals(v, 2) for v in values)
            yield f"{self.arm.name}: {description} [{unit}]: {text}"


def _fixed_decimals(value: float, count: int) -> str:
    return f"{round(float(value), count) + 0.0:.{count}f}"
