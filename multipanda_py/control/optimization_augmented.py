# SPDX-License-Identifier: Apache-2.0
"""The integral part of a joint PID that does not wind up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.control.force.force_control import TANK_LOW, ForceGains
from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.control.impedance.limit_scaling import FAST, BearableShare, SpeedMargin
from multipanda_py.control.impedance.singularity import LostModes
from multipanda_py.parameters import choice, number, vector
from multipanda_py.robots import ArmDescription
from multipanda_py.state import ArmLimits, ArmState, Vector

MODES = ("optimization", "force", "hybrid")
"""What counts: the plan, a pose and forces, or the plan and forces."""

MOST = (3000.0,) * 3 + (200.0,) * 3
"""Stiffest spring across a force: stiffer ones shake a late hand on what is hard
[N/m, Nm/rad]."""


@dataclass(frozen=True, eq=False)
class AugmentedParams:
    """Mode, integral of the plan, force part, and impedance of the pose."""

    mode: str = choice(
        "optimization", options=MODES,
        doc="optimization: the plan; hybrid: plan and forces; force: pose and forces",
    )  # fmt: skip
    blend_time: float = number(
        0.3, unit="s", low=0.05, high=5,
        doc="in which a mode goes over into another, and the plan gives up or takes back the "
        "direction of a force",
    )  # fmt: skip
    integral_rate: float = number(
        1.0, unit="1/s", low=0, high=3,
        doc="gain of the plan's integral over its stiffness; 0 leaves it as it is",
    )  # fmt: skip
    integral_share: float = number(
        0.1, low=0, high=0.3, doc="share of the torque limits that the integral may have"
    )
    # Bounds of the force part as of the other laws: stable on 1e3 to 1e5 N/m on a late arm.
    force_kp: float = number(0.2, low=0, high=0.5, doc="proportional gain on the force error")
    force_ki: float = number(10.0, unit="1/s", low=0, high=15, doc="integral gain of the force")
    force_filter_time: float = number(
        0.02, unit="s", low=0.02, high=0.03, doc="time constant of the force measurement"
    )
    force_integral_limit: float = number(
        20.0, unit="N", low=0, high=100, doc="of the integral part of the force"
    )
    touch_force: float = number(
        1.5, unit="N", low=0.05, high=50,
        doc="measured force from which a hand counts as touching; all have to before any presses",
    )  # fmt: skip
    approach_speed: float = number(
        0.01, unit="m/s", low=1e-4, high=0.03, doc="with which contact is looked for"
    )
    loss_distance: float = number(
        0.05, unit="m", low=0.001, high=0.5,
        doc="contact is looked for within twice that along the force",
    )  # fmt: skip
    release_time: float = number(
        0.01, unit="s", low=0.001, high=0.05, doc="with which forces fade when a contact is lost"
    )
    tank_gain: float = number(
        200.0, low=0, high=1e4, doc="K_p of the initial energy K_p F_d^2 / 2 of a force"
    )
    tank_max: float = number(100.0, unit="J", low=0, high=1000, doc="upper limit of that")
    tank_power: float = number(
        2.0, unit="W", low=0, high=100, doc="allowance of a force for work on friction"
    )
    position_stiffness: Vector = vector(
        600, 600, 600, 30, 30, 30, unit="N/m, Nm/rad", low=0, high=MOST,
        doc="of the pose, in mode force, along the axes of the base",
    )  # fmt: skip
    position_damping_ratio: Vector = vector(
        1, 1, 1, 1, 1, 1, low=0.5, high=5, doc="of the same; 1 is critically damped"
    )
    position_clip: Vector = vector(
        0.1, 0.1, 0.1, 0.4, 0.4, 0.4, unit="m, rad", low=1e-4, high=10,
        doc="largest error per axis that its spring acts on",
    )  # fmt: skip
    position_speed: float = number(
        0.1, unit="m/s", low=0.001, high=1, doc="with which it goes to a pose that is asked for"
    )
    turn_speed: float = number(0.5, unit="rad/s", low=0.005, high=3, doc="with which it turns")

    def gains(self) -> ForceGains:
        """Return what a force controller takes; who loses a contact here does not search on."""
        return ForceGains(
            self.force_kp, self.force_ki, 0.0, self.force_filter_time,
            self.force_integral_limit, self.touch_force, self.approach_speed,
            self.loss_distance, self.release_time, 0.0, self.tank_gain, self.tank_max,
            self.tank_power, tank_low=TANK_LOW,
        )  # fmt: skip


class BoundedPull:
    r"""Bound a spring by torque and speed limits, and damp it where a direction is lost.

    .. math::
        F = s_v s_\tau K e + d\, D (\dot x_d - \dot x) + F_d

    with :math:`s_\tau` of :class:`.BearableShare`, :math:`s_v` and *d* of :class:`.SpeedMargin`,
    and :math:`F_d` of :class:`.LostModes`.

    Args:
        arm: The arm.

    Thread: control.
    """

    def __init__(self, arm: ArmDescription) -> None:
        self._bearable, self._lost = BearableShare(arm), LostModes()
        self._margin = SpeedMargin(arm.limits)

    def of(self, spring: CartesianSpring, state: ArmState) -> Vector:
        """Return F of a spring measured in this cycle, whose gains are along the base, (6,)."""
        pull = spring.spring * self._bearable.of(spring.spring, state)
        lost = self._lost.damp(state, pull, spring.damping_along)
        brake, used = spring.damper, self._margin.used(state)
        if used > FAST:
            pull *= self._margin.spring(used)
            brake = brake * self._margin.damper(used, spring.ratio, spring.kept)
        wrench: Vector = pull + brake
        if lost is not None:
            wrench += lost
        return wrench


_add, _dot, _multiply = np.add, np.dot, np.multiply
SATURATED = 0.95
"""Share of a torque limit from which a joint counts as giving all it has."""


class PlanIntegral:
    r"""Integrate the error of joints behind a plan, where the plan is to be reached.

    .. math::
        \dot I = k_i \beta K (e - s\, M^{-1} J_u^T \Lambda_u J_u e), \qquad |I_j| \le I_{max,j},
        \qquad \beta_j = \min(1, \zeta_j) \min(1, \sqrt{K_j / K_{0,j}})

    with the share *s* that a controlled force has of its direction *u*: there, where a contact
    keeps the tool from the plan for good, the integral would grow without an end and fight the
    one of the force. Springs softer than the default :math:`K_0`, or less damped, bear only an
    integral that is as much slower, by :math:`\beta`; else they swing. A joint that gives all its
    torque integrates only back.

    Args:
        limits: Of the joints.
        period: Cycle time [s].
        usual: Default stiffness K_0, (n,) [Nm/rad].

    Attributes:
        torque: I, (n,) [Nm].

    Thread: control.
    """

    def __init__(self, limits: ArmLimits, period: float, usual: Vector) -> None:
        n = limits.n_joints
        self._period, self._full = period, SATURATED * limits.torque
        self._torque_limit, self._usual = limits.torque, usual
        self.torque, self._step = np.zeros(n), np.zeros(n)
        self._gain, self._most = np.zeros(n), np.zeros(n)

    def set_gains(self, rate: float, stiffness: Vector, ratio: Vector, share: float) -> None:
        """Set k_i [1/s], K (n,) [Nm/rad], its damping ratios, and the share that I may have."""
        slow = np.minimum(ratio, 1.0) * np.minimum(np.sqrt(stiffness / self._usual), 1.0)
        _multiply(stiffness, rate * self._period * slow, self._gain)
        _multiply(self._torque_limit, share, self._most)

    def reset(self) -> None:
        """Forget."""
        self.torque[:] = 0.0

    def begin(self, torque: Vector) -> None:
        """Start with a torque, (n,) [Nm], clipped to the bounds of I."""
        np.minimum(np.maximum(torque, -self._most), self._most, out=self.torque)

    def step(self, state: ArmState, error: Vector, direction: Vector, share: float) -> Vector:
        """Take one cycle's error in, (n,) [rad]; return I.

        Args:
            state: The arm.
            error: From the measured positions to the plan.
            direction: u, along the axes of the base, (6,).
            share: s, 0 to 1.
        """
        step = self._step
        if share > 0.0:
            ways = state.operational_space().minv_jt.dot(direction)
            along = _dot(direction, state.jacobian)
            mobility = float(_dot(along, ways))
            if mobility > 0.0:
                part = share * float(_dot(along, error)) / mobility
                error = error - part * ways
        _multiply(self._gain, error, step)
        pushes = (np.abs(state.tau) > self._full) & (state.tau * step > 0.0)
        if pushes.any():
            step[pushes] = 0.0
        torque = _add(self.torque, step, self.torque)
        np.maximum(torque, -self._most, out=torque)
        return np.minimum(torque, self._most, out=torque)
