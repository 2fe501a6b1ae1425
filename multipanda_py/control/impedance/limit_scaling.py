# SPDX-License-Identifier: Apache-2.0
"""How much of a spring's approach an arm can move at, and stop from."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.control.impedance.modal_damping import LEAST_RATIO
from multipanda_py.robots import ArmDescription
from multipanda_py.state import MAX_TORQUE_FRACTION, ArmLimits, ArmState, Vector
from multipanda_py.targets import Report

LEAST = 0.1
"""Share of a limit that is reckoned with whatever a joint carries: a law that asked for nothing
would not even brake."""


class TorqueRoom:
    r"""Know the torques that laws may ask for beside what carries the arm.

    .. math:: \tau_{room} = \max(\min(\tau_{max}, \tau_{whole} - |g(q)|),\; 0.1\, \tau_{max})

    with :math:`\tau_{whole} = \tau_{max}` for an arm that does not compensate gravity by itself,
    and what springs can exert for one on springs; tool and load are in g. It is
    :math:`\tau_{max}` for any other.

    Args:
        arm: The arm.

    Attributes:
        torque: :math:`\tau_{room}` of the last :meth:`update`, (n,) [Nm].
        shrinks: Whether it differs from the limits: else nobody has to update it.

    Thread: control.
    """

    def __init__(self, arm: ArmDescription) -> None:
        self._limit = np.array(arm.limits.torque)
        self._least = LEAST * self._limit
        self.torque: Vector = self._limit.copy()
        self.shrinks = not arm.compensates_gravity or arm.limits.bears_weight
        self._whole = arm.limits.whole_torque if arm.compensates_gravity else self._limit

    def update(self, state: ArmState) -> Vector:
        r"""Take this cycle's weight into account; return :math:`\tau_{room}`."""
        room = np.absolute(state.weight, self.torque)
        np.minimum(np.subtract(self._whole, room, room), self._limit, out=room)
        return np.maximum(room, self._least, out=room)


_multiply, _absolute = np.multiply, np.absolute
_norm = math.hypot
SURE = 5.0
"""Norm of a wrench that every joint can take, whatever its lever [N, Nm]."""
BORNE = Report("pull kept", "-", "least share of the spring's wrench that torque limits leave")
"""What laws that scale their spring down by this share call it."""


class BearableShare:
    r"""Find the share of a wrench on the tool that leaves every joint below what it may exert.

    .. math::
        s = \min\left(1, \min_i \frac{\sigma\, \tau_{room,i}}{|(J^T F)_i|} \right), \qquad
        \sigma = 0.9

    where :math:`\sigma` is :data:`.MAX_TORQUE_FRACTION`.

    A wrench beyond it would lose its direction at the clamp of the torques: an FR3 that presses
    with 140 N at 9 cm from its sixth axis asks 12.3 of 12 Nm there, that joint gives way while
    the others go on pressing, and the wrist is thrown aside within a second. What carries the
    arm is not there to press with (:class:`.TorqueRoom`).

    Args:
        arm: The arm.

    Thread: control.
    """

    def __init__(self, arm: ArmDescription) -> None:
        self._room = TorqueRoom(arm)
        self._per_torque = 1.0 / (MAX_TORQUE_FRACTION * self._room.torque)
        self._load = np.zeros(arm.n_joints)

    def of(self, wrench: Vector, state: ArmState) -> float:
        """Return s for a wrench along the axes of the base, (6,) [N, Nm]."""
        if _norm(*wrench.tolist()) <= SURE:
            return 1.0
        if self._room.shrinks:
            np.divide(1.0 / MAX_TORQUE_FRACTION, self._room.update(state), self._per_torque)
        load = wrench.dot(state.jacobian, self._load)
        _absolute(_multiply(load, self._per_torque, load), load)
        hardest: float = max(load.tolist())
        return 1.0 / max(hardest, 1.0)


FAST, FASTEST = 0.35, 0.65
"""Shares of a joint's speed limit between which a damper becomes critical."""
FADING = 0.72
"""Share from which a spring fades out; a governed reference asks for up to 0.7."""


class SpeedMargin:
    r"""Keep a spring from drawing joints beyond their speed limits, and leave it alone at rest.

    With the largest share :math:`u = \max_i |\dot q_i| / \dot q_{max,i}`, the spring is scaled by
    s and the damper, of the ratio :math:`\zeta`, by d:

    .. math::
        s = \mathrm{clip}\left(\frac{1 - u}{1 - 0.72}, 0, 1\right), \qquad
        d = 1 + \mathrm{clip}\left(\frac{u - 0.35}{0.65 - 0.35}, 0, 1\right)
        \left( \max\left(1, \frac{\sqrt{\kappa}}{\zeta}\right) - 1 \right)

    Close to a singular posture the joints move fast for little motion of the tool, which stays
    behind its reference and is drawn by more and more, while a damper that fits the task
    vanishes there: nothing else bounds the speed. Fading alone comes too late for the torque
    rate limit where :math:`\zeta < 1`. :math:`\kappa` is the share of the stiffness that the
    bandwidth leaves (:class:`.ModalDamping`): with it no damper brakes faster than that.
    Neither stops a torque that the model lacks; the feature ``joint_limits`` does, above 0.8.

    Args:
        limits: Of the arm.

    Attributes:
        slow: :math:`\|\dot q\|` up to which u is below 0.35 whatever joints move.

    Thread: control.
    """

    def __init__(self, limits: ArmLimits) -> None:
        self._per_speed = 1.0 / limits.velocity
        self.slow = FAST * float(limits.velocity.min())
        self._shares = np.zeros_like(limits.velocity)

    def used(self, state: ArmState) -> float:
        """Return u, or 0 where no joint can be faster than 0.35 of its limit."""
        if not _norm(*state.dq.tolist()) > self.slow:
            return 0.0
        shares = _multiply(state.dq, self._per_speed, self._shares)
        most: float = max(_absolute(shares, shares).tolist())
        return most

    @staticmethod
    def spring(used: float) -> float:
        """Return s for a u."""
        return min(1.0, max(0.0, (1.0 - used) / (1.0 - FADING)))

    @staticmethod
    def damper(used: float, ratio: float, kept: float) -> float:
        r"""Return d for a u, the largest :math:`\zeta` of all axes, and :math:`\kappa`."""
        missing = max(0.0, math.sqrt(kept) / max(ratio, LEAST_RATIO) - 1.0)
        return 1.0 + missing * min(1.0, max(0.0, (used - FAST) / (FASTEST - FAST)))


_dot, _multiply, _abs, _maximum = np.dot, np.multiply, np.abs, np.maximum

MAX_BRAKING_SPEED_FRACTION = 0.6
"""Share of a joint's speed limit that the spring may ask for; a posture moves joints as well."""
HARDEST = 0.6
"""Share of the limits of torque and torque rate that braking may ask for."""
SLOW = 0.03
"""Size of a twist that takes no joint to its share in any posture [m/s, rad/s]."""
GENTLE = 0.15
"""Size of an acceleration that takes no joint to its share in any posture [m/s^2, rad/s^2]."""


class StoppableSpeed:
    r"""Bound a spring that would draw its tool at :math:`v = D^{-1} K e` and brake it by as much.

    The joints move at :math:`M^{-1} J^T \Lambda_s v` and brake the tool, on its exponential way
    into the target, with :math:`J^T \Lambda_d D^{-1} K v`. Both grow with e and towards singular
    postures. With

    .. math::
        \nu_v = \min_i \frac{\sigma\, \dot q_{max,i}}{|(M^{-1} J^T \Lambda_s v)_i|}, \qquad
        \rho = \max_i \frac{|(J^T \Lambda_d D^{-1} K v)_i|}
        {\sigma \min(\tau_{room,i}, \dot\tau_{max,i} / \max_j d_j)}

    the spring is scaled by

    .. math:: \nu = \min\left(1,\; \nu_v,\; \frac{\sqrt{2 \rho - 1}}{\rho}
        \text{ where } \rho > 1\right), \qquad \sigma = 0.6

    The last is the speed from which a constant deceleration, at :math:`\rho = 1`, ends where the
    exponential way does, and meets it without a kink. A bound of the speed alone asks for all of
    the braking at once when it ends: 100 Nm within 40 ms, of which the torque rate limit makes
    a limit cycle. A velocity follows with the rate D, so its torques change within 1 / D.

    Near the speed limit of a measured joint the spring fades out as in :class:`.SpeedMargin`: what
    is not the spring's moves joints as well.

    Args:
        arm: The arm; what carries it is not there to brake with (:class:`.TorqueRoom`).
        slower: Share of :math:`\lambda^2` in :math:`\Lambda_s`, see
            :meth:`.slowed_inertia`.

    Thread: control.
    """

    def __init__(self, arm: ArmDescription, slower: float) -> None:
        limits, self._room = arm.limits, TorqueRoom(arm)
        self._per_speed = 1.0 / (MAX_BRAKING_SPEED_FRACTION * limits.velocity)
        self._per_torque = 1.0 / (HARDEST * limits.torque)
        self._per_rate = 1.0 / (HARDEST * limits.torque_rate)
        self._per_brake, self._per_change = self._per_torque.copy(), self._per_rate
        self._slower, self._margin = slower, SpeedMargin(limits)
        self._speed, self._torque = (np.zeros_like(limits.velocity) for _ in range(2))

    def set_damping(self, fastest: float) -> None:
        """Take over the largest element of D [1/s]."""
        self._per_change = self._per_rate * fastest
        _maximum(self._per_torque, self._per_change, out=self._per_brake)

    @staticmethod
    def negligible(steepest: float) -> float:
        """Return the size of v that needs no bound for the largest element of K / D [1/s]."""
        return min(SLOW, GENTLE / max(steepest, 1e-9))

    def share(self, state: ArmState, twist: Vector, braking: Vector) -> float:
        r"""Return :math:`\nu`.

        Args:
            state: The arm.
            twist: v, along the axes of the base, (6,) [m/s, rad/s].
            braking: :math:`D^{-1} K v`, likewise, (6,) [m/s^2, rad/s^2].
        """
        space, speed, torque = state.operational_space(), self._speed, self._torque
        if self._room.shrinks:
            np.divide(1.0 / HARDEST, self._room.update(state), self._per_torque)
            _maximum(self._per_torque, self._per_change, out=self._per_brake)
        _dot(_dot(space.inertia, braking), state.jacobian, torque)
        harder: float = max(_abs(_multiply(torque, self._per_brake, torque), torque).tolist())
        _dot(space.minv_jt, _dot(space.slowed_inertia(self._slower), twist), speed)
        faster: float = max(_abs(_multiply(speed, self._per_speed, speed), speed).tolist())
        left = self._margin.spring(self._margin.used(state))
        if faster > 1.0:
            left /= faster
        return min(left, math.sqrt(2.0 * harder - 1.0) / harder) if harder > 1.0 else left
