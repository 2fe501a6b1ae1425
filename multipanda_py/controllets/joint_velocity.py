# SPDX-License-Identifier: Apache-2.0
"""Move the joints at velocities that somebody keeps asking for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from multipanda_py.context import Context, Handover
from multipanda_py.control.impedance.modal_damping import KEPT
from multipanda_py.controllets.joint_impedance import JointImpedanceLaw, JointImpedanceParams
from multipanda_py.parameters import number
from multipanda_py.state import ArmLimits, ArmState, Vector
from multipanda_py.targets import RateTarget, Report

_add, _multiply, _subtract, _sqrt = np.add, np.multiply, np.subtract, np.sqrt
_minimum, _maximum = np.minimum, np.maximum


@dataclass(frozen=True, eq=False)
class JointVelocityParams(JointImpedanceParams):
    """Gains and bounds of :class:`JointVelocity`."""

    timeout: float = number(
        0.1, unit="s", low=0.002, high=10, doc="after which a velocity not renewed is zero"
    )
    speed: float = number(0.8, low=0.01, high=1, doc="share of the joints' speed limits")
    acceleration: float = number(
        0.3, low=0.01, high=1, doc="share of the acceleration limits to speed up and slow down"
    )
    margin: float = number(
        0.05, unit="rad", low=0, high=1, doc="how far before a position limit a joint stops"
    )
    leash: float = number(
        0.05, unit="rad", low=1e-3, high=0.5,
        doc="how far the reference may be from the measured position; bounds the spring's torque",
    )  # fmt: skip


class _Reference:
    r"""Integrate one arm's velocities to a posture that its joints can follow.

    In every cycle of length T, for each joint with acceleration a and room d to its limits:

    .. math::
        \dot q_r {+}= \mathrm{clip}(\mathrm{clip}(\dot q_d, \pm \dot q_{max}) - \dot q_r,
        \pm a T), \qquad
        \dot q_r \le v(d) = a \left( \sqrt{T^2 + 2 d / a} - T \right), \qquad
        q_r {+}= \dot q_r T

    v(d) is the largest velocity at which one more cycle and then braking with a do not need
    more than d; kept once, it can be kept by braking with a. Last, :math:`q_r` is brought
    within the leash of the measured position.

    Attributes:
        q: Reference position, (n,) [rad].
        dq: Reference velocity, (n,) [rad/s].
        age: Since the newest target [s].
    """

    def __init__(self, limits: ArmLimits) -> None:
        self._limits = limits
        n = limits.n_joints
        self.q, self.dq, self._still = (np.zeros(n) for _ in range(3))
        self._step, self._low, self._high = (np.zeros(n) for _ in range(3))
        self._room = np.zeros((2, n))
        self._up, self._down = self._room
        self.age = np.inf

    def set_bounds(self, params: JointVelocityParams) -> None:
        """Take the parameters over."""
        limits, self._timeout, self._leash = self._limits, params.timeout, params.leash
        self._fastest = params.speed * limits.velocity
        self._slowest = -self._fastest
        self._braking = params.acceleration * limits.acceleration
        self._per_braking = 2.0 / self._braking
        self._lower, self._upper = limits.lower + params.margin, limits.upper - params.margin

    def start(self, state: ArmState) -> None:
        """Begin at a measured state, with nothing asked for."""
        self.q[:], self.dq[:] = state.q, state.dq
        self.age = np.inf

    def advance(
        self, wanted: Vector, measured: Vector, period: float, pace: Callable[[Vector], float]
    ) -> None:
        """Move on by one period towards the wanted velocities, (n,) [rad/s].

        Args:
            wanted: Velocities asked for.
            measured: Measured position, (n,) [rad].
            period: Cycle time [s].
            pace: Returns the share of a velocity that is allowed.
        """
        self.age += period
        goal = wanted if self.age <= self._timeout else self._still
        q, dq, low, high = self.q, self.dq, self._low, self._high
        step = _multiply(self._braking, period, self._step)
        _subtract(dq, step, low)
        _add(dq, step, high)
        _minimum(goal, self._fastest, out=dq)
        _maximum(dq, self._slowest, out=dq)
        _maximum(dq, low, out=dq)
        _minimum(dq, high, out=dq)
        self._find_fastest(period)
        _minimum(dq, self._up, out=dq)
        _maximum(dq, np.negative(self._down, self._down), out=dq)
        if (share := pace(dq)) < 1.0:
            _multiply(dq, share, dq)
        _add(q, _multiply(dq, period, step), q)
        _minimum(q, _add(measured, self._leash, high), out=q)
        _maximum(q, _subtract(measured, self._leash, low), out=q)

    def _find_fastest(self, period: float) -> None:
        """Compute v(d) for the room up and down, in one array for both."""
        room = self._room
        _subtract(self._upper, self.q, self._up)
        _subtract(self.q, self._lower, self._down)
        _multiply(_maximum(room, 0.0, out=room), self._per_braking, room)
        _sqrt(_add(room, period * period, room), room)
        _multiply(_subtract(room, period, room), self._braking, room)


class JointVelocity(JointImpedanceLaw[RateTarget]):
    r"""Track joint velocities with a spring and a damper around an integrated posture.

    .. math::
        \tau = K (q_r - q) + D (\dot q_r - \dot q)

    with the damping of :class:`.JointImpedanceLaw`
    and a reference that keeps to limits of velocity and acceleration, slows down before joint
    limits, and before obstacles by the feature for them, and does not run away from an arm that
    is held. A target with positions is
    refused. Velocities must be renewed within ``timeout``, else the arm brakes and holds.

    Attributes:
        references: Integrated reference of each arm.
    """

    Params, Target = JointVelocityParams, RateTarget
    plans_motion = True
    default_features: ClassVar[tuple[str, ...]] = ("coriolis", "collision_avoidance")
    report_names = (
        Report("largest lag", "rad", "of a joint behind its reference"),
        Report("age of target", "s", "since the last velocity came"),
        KEPT,
    )
    params: JointVelocityParams

    def __init__(self, context: Context, params: JointVelocityParams) -> None:
        self.references = [_Reference(arm.limits) for arm in context.arms]
        self._followed = RateTarget(context.n_arms, n_joints=context.joints)
        self._followed.q = [reference.q for reference in self.references]
        self._followed.dq = [reference.dq for reference in self.references]
        self._lags = context.joint_zeros()
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Prepare damping and bounds."""
        super().on_parameters()
        self.max_lead = self.params.leash  # beyond it, the reference would not stay there
        for reference in self.references:
            reference.set_bounds(self.params)

    def on_activate(self, states: Sequence[ArmState], target: RateTarget) -> None:
        """Brake from the measured velocity, and hold."""
        super().on_activate(states, target)
        for reference, state in zip(self.references, states):
            reference.start(state)

    def on_handover(
        self, states: Sequence[ArmState], target: RateTarget, handovers: Sequence[Handover]
    ) -> str:
        """Begin where the joint springs press as before, as far as the leash allows."""
        return super().on_handover(states, self._followed, handovers)

    def on_target(self, channel: str, place: int, target: RateTarget) -> None:
        """Count from when the velocities came."""
        self.references[place].age = 0.0

    def update(self, states: Sequence[ArmState], target: RateTarget, period: float) -> None:
        """Write the joint torques of every arm."""
        largest = age = 0.0
        for arm, (reference, state, wanted) in enumerate(zip(self.references, states, target.dq)):
            reference.advance(wanted, state.q, period, partial(self.pace, arm))
            lag = _subtract(reference.q, state.q, self._lags[arm]).tolist()
            largest = max(largest, max(lag), -min(lag))
            age = max(age, min(reference.age, 999.0))
        self.report[0], self.report[1] = largest, age
        super().update(states, self._followed, period)
