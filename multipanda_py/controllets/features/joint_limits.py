# SPDX-License-Identifier: Apache-2.0
"""Keep the joints off their stops and off their speed limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import eigenpy
import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.impedance.brakes import SpeedBrake
from multipanda_py.control.impedance.gains import share_within
from multipanda_py.control.impedance.modal_damping import LEAST_RATIO
from multipanda_py.feature import Feature
from multipanda_py.parameters import JointVector, joint_vector, number
from multipanda_py.state import ArmLimits, ArmState, Vector
from multipanda_py.targets import Target

_multiply, _subtract, _absolute = np.multiply, np.subtract, np.absolute
_minimum, _maximum = np.minimum, np.maximum


class BarrierStart:
    r"""Subtract a decaying offset from barrier torques, so that joints leave a barrier slowly.

    With the torque :math:`T(q)` of a joint's barrier, and the part :math:`\tau_0` of it that was
    commanded in the last cycle,

    .. math::
        \tau = T - \mathrm{sgn}(T) \max(0, o - k\, x), \qquad
        o = |T| - \mathrm{clip}(\mathrm{sgn}(T)\, \tau_0, 0, |T|) \text{ at the start}, \qquad
        \dot o = -c \sqrt{o}, \qquad 0 \le o \le |T|

    For :math:`T = \tau_{max} s^2` and :math:`c = 2 v \sqrt{\tau_{max}} / r` the depth at which
    the barrier begins, :math:`s r`, decreases at the speed v. A free joint moves out at this
    speed. If a joint moves out faster, the offset decreases with it. The distance x is measured
    from the smallest depth since the start towards the limit. The stiffness k resists a push in
    that direction.

    Args:
        joints: Number of joints, n.

    Attributes:
        holds: Whether there is an offset, or may be one in the next cycle.
        is_idle: Whether :meth:`end` has no effect.
        holding: Mask of the joints with an offset, (n,), 1 or 0.

    Thread: control.
    """

    def __init__(self, joints: int) -> None:
        self._offset, self._last, self._place = np.zeros((3, joints))
        self._rate, self.holding = np.zeros(joints), np.zeros(joints)
        self.holds = self._is_due = self._runs = self.is_idle = False

    def set_speed(self, rate: Vector) -> None:
        """Set c, (n,) [sqrt(Nm)/s]."""
        self._rate = rate

    def begin(self, torque: Vector) -> None:
        r"""Begin in this cycle, with :math:`\tau_0`, (n,) [Nm]."""
        self._last[:] = torque
        self.holds = self._is_due = True
        self.is_idle = False

    def resume(self) -> None:
        """Begin in the next cycle, with the torque of the last one, if there was any cycle."""
        self.holds = self._is_due = self._runs
        self.is_idle = False

    def end(self) -> None:
        """Reset, as no joint is inside a barrier."""
        self._is_due = self.holds = False
        self._runs = self.is_idle = True
        self._last[:] = 0.0

    def lead_out(self, torque: Vector, q: Vector, stiffness: Vector, period: float) -> None:
        """Subtract the remaining offsets from the barrier torques, in place.

        Args:
            torque: Barrier torques T, (n,) [Nm].
            q: Joint positions, (n,) [rad].
            stiffness: Stiffness k against motion towards the limits, (n,) [Nm/rad].
            period: Cycle time [s].
        """
        if self._is_due:
            self._is_due = False
            whole = np.absolute(torque)
            self._offset[:] = whole - np.clip(np.sign(torque) * self._last, 0.0, whole)
            self._place[:] = q
        offset, place, side = self._offset, self._place, np.sign(torque)
        offset -= period * self._rate * np.sqrt(offset)
        _minimum(_maximum(offset, 0.0, out=offset), _absolute(torque), out=offset)
        place[:] = np.where(side > 0.0, _maximum(place, q), _minimum(place, q))
        nearer = side * (place - q)
        torque -= side * _maximum(offset - stiffness * nearer, 0.0)
        np.sign(offset, self.holding)
        self.holds = bool(offset.any())

    def remember(self, torque: Vector) -> None:
        """Store the torques of this cycle, (n,) [Nm], for the next start."""
        self._last[:], self._runs, self.is_idle = torque, True, False


_multiply, _subtract, _add, _sqrt = np.multiply, np.subtract, np.add, np.sqrt
_minimum, _maximum, _dot = np.minimum, np.maximum, np.dot
_norm = math.hypot

_TINY = 1e-12
SPRING_RATE, BANDWIDTH = 3600.0, 40.0
"""Most stiffness over inertia of any motion, and by which it is braked at most, beside what a law
does [1/s^2, 1/s]."""
LEAD_OUT = 0.05
"""Largest speed at which a barrier leads a joint out that began inside it [rad/s, m/s]."""
FAST, SPEED_RATE = 0.8, 60.0
"""Fraction of a speed limit from which a joint is braked, and decay rate of its excess speed
[1/s]."""


@dataclass(frozen=True, eq=False)
class JointLimitsParams:
    """Barrier of :class:`JointLimits`."""

    range: JointVector = joint_vector(
        0.1, unit="rad", low=1e-3, high=1.0, doc="from a limit to where it acts"
    )
    max_torque: JointVector = joint_vector(
        "barrier_torque", unit="Nm", low=0, high="torque", doc="barrier torque at the limit"
    )
    damping_ratio: float = number(
        1.0, low=LEAST_RATIO, high=5,
        doc="of the barrier's local stiffness and the joint's inertia",
    )  # fmt: skip


class _Barriers:
    """Barriers and dampers of one arm's joints."""

    def __init__(self, limits: ArmLimits) -> None:
        n = limits.n_joints
        self._limits = limits
        self._low, self._high, self._depth = (np.zeros(n) for _ in range(3))
        self._brake, self._most, self._soft = (np.zeros(n) for _ in range(3))
        self._mass, self._unit = eigenpy.LLT(np.eye(n)), np.eye(n)
        self._start, self._is_new = BarrierStart(n), False

    def set(self, width: Vector, max_torque: Vector, damping_ratio: float) -> None:
        """Begin at a distance (n,) [rad] from the limits, and end with a torque (n,) [Nm]."""
        self._lower, self._upper = self._limits.lower + width, self._limits.upper - width
        self._slope, self._max_torque = 1.0 / width, max_torque
        self._stiffness = 2.0 * max_torque / width
        self._damping = 2.0 * damping_ratio * np.sqrt(self._stiffness)
        self._softest = SPRING_RATE / np.maximum(self._stiffness, _TINY)
        self._start.set_speed(LEAD_OUT * 2.0 * np.sqrt(max_torque) / width)

    def start(self) -> None:
        """Start to lead joints out in the next cycle, from the torque commanded now."""
        self._is_new = True

    def change(self) -> None:
        """Continue from the torque of the last cycle after a change of parameters."""
        self._start.resume()

    def add(self, state: ArmState, tau: Vector, period: float) -> None:
        """Add the torques of joints near a limit."""
        low, high, depth, slope = self._low, self._high, self._depth, self._slope
        _multiply(_subtract(self._lower, state.q, low), slope, low)
        _multiply(_subtract(state.q, self._upper, high), slope, high)
        _maximum(low, high, out=depth)
        if max(depth.tolist()) <= 0.0:
            if not self._start.is_idle:
                self._start.end()
            self._is_new = False
            return
        for part in (low, high, depth):
            _minimum(part, 1.0, out=part)
            _maximum(part, 0.0, out=part)
        self._add_near(state, tau, period)

    def _add_near(self, state: ArmState, tau: Vector, period: float) -> None:
        """Add both parts, for depths of 0 to 1."""
        low, high, depth, brake, most = self._low, self._high, self._depth, self._brake, self._most
        max_torque, start = self._max_torque, self._start
        if self._is_new:
            self._is_new = False
            start.begin(state.tau - tau)
        inverse = self._mass.compute(state.mass).solve(self._unit)
        mobility = inverse.diagonal()
        soft = _minimum(depth, self._softest / mobility, out=self._soft)
        stiffness = soft * self._stiffness
        share = share_within(stiffness, inverse, SPRING_RATE)
        _multiply(_sqrt(soft / mobility, brake), self._damping, brake)
        if start.holds:
            _maximum(brake, start.holding * BANDWIDTH / mobility, out=brake)
        _multiply(brake, share_within(brake, inverse, BANDWIDTH), brake)
        _multiply(brake, state.dq, brake)
        _multiply(max_torque, depth, most)
        _minimum(brake, most, out=brake)
        _maximum(brake, _multiply(most, -1.0, most), out=brake)
        for side in (low, high):
            linear = _minimum(side, soft, out=most)
            _multiply(_subtract(_multiply(side, 2.0, side), linear, side), linear, side)
        _multiply(_subtract(low, high, low), share * max_torque, low)
        if start.holds:
            stiffest = share_within(1.0 / mobility, inverse, 1.0) * SPRING_RATE / mobility
            start.lead_out(low, state.q, _maximum(stiffest - stiffness, 0.0), period)
        start.remember(low)
        _add(tau, _subtract(low, brake, low), tau)


class JointLimits(Feature[JointLimitsParams]):
    r"""Add a barrier and a damper near the limit of each joint, and a brake near its speed limit.

    .. math::
        s = \min(\max(\tfrac{q - (q_{max} - r)}{r}, \tfrac{(q_{min} + r) - q}{r}, 0), 1),
        \qquad U = \tfrac{1}{3} \tau_{max} r\, s^3, \\
        \tau = \mp\, \tau_{max} s^2
        - \mathrm{clamp}(2 \zeta \sqrt{k(s)\, m_i}\; \dot q, \pm\tau_{max} s), \qquad
        k(s) = 2 \tau_{max} s / r, \qquad m_i = 1 / (M^{-1})_{ii}

    The barrier is the gradient of U, so that it stores energy and gives it back, but no more;
    the damper only takes energy. m is what a joint weighs while the others are free to give way;
    all dampers together are scaled down where they would brake any motion by more than 40 1/s,
    which with a law's own would be too much for an arm that answers late. For its sake, too, the
    barrier goes on as a line where k is more than 3600 1/s^2 times m, and all of them are scaled
    down where they act together (:mod:`~multipanda_py.control.impedance.gains`): never with the
    default gains, unless many joints are at their limits. Torque and its
    derivative are zero where the range begins. Beyond the limit the barrier stays at
    :math:`\tau_{max}` or less, and both together never exceed twice that. Positions of the limits:
    :class:`.ArmLimits`.

    A joint that is in its range when the law is activated, when the feature is enabled or when
    the range grows is not thrown out of it. The torque begins at the part of the last command
    that the law does not exert, which is zero at rest. It grows so that the joint leaves the
    range at 0.05 rad/s at most (:class:`.BarrierStart`). It resists motion towards the limit as
    in any other case.

    Joints faster than 0.8 of their speed limit are braked in both directions, with 60 1/s of the
    excess (:class:`.SpeedBrake`), up to the fault at 1.1 of the limit. This slows down a person
    who pushes or leads the arm. A push beyond the torque limits of the joints ends in that fault.
    Without this feature nothing else brakes joints that torques outside the model drive.

    The range is CRISP's, so that it leaves as much of the workspace alone. Its 5 Nm, linear and
    without a damper, are not: they store 0.25 J, so joint 1 of a stretched arm (2 kg m^2) goes
    through at 0.5 rad/s, and a push of 5 Nm holds a joint at its stop.
    """

    Params = JointLimitsParams

    def __init__(self, context: Context, params: JointLimitsParams) -> None:
        self._barriers = [_Barriers(arm.limits) for arm in context.arms]
        speeds = [FAST * arm.limits.velocity for arm in context.arms]
        self._fast = [(speed, float(speed.min())) for speed in speeds]
        self._brakes = [
            SpeedBrake(arm.n_joints, SPEED_RATE, np.array(arm.limits.torque))
            for arm in context.arms
        ]
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Prepare where the barriers begin."""
        p, per_arm = self.params, self.context.per_arm
        for own, width, torque in zip(self._barriers, per_arm(p.range), per_arm(p.max_torque)):
            own.set(width, torque, p.damping_ratio)
            own.change()

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        """Start to lead out the joints that are in their ranges."""
        for barriers in self._barriers:
            barriers.start()

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add barriers and dampers of every arm with a joint near a limit."""
        for arm, (barriers, state, torque) in enumerate(zip(self._barriers, states, tau)):
            barriers.add(state, torque, period)
            speed, slow = self._fast[arm]
            if _norm(*state.dq.tolist()) > slow:
                self._brakes[arm].add(state, speed, torque)
