# SPDX-License-Identifier: Apache-2.0
"""Operational-space control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.context import Context, Handover, bounded_error, share_of
from multipanda_py.control.impedance.cartesian_spring import ConservativeSpring
from multipanda_py.control.impedance.free_motion import SLOW_MODE, projected_inertia
from multipanda_py.control.impedance.gains import CartesianGains, Ramp, RampedGains
from multipanda_py.control.impedance.limit_scaling import (
    BORNE,
    MAX_BRAKING_SPEED_FRACTION,
    BearableShare,
    StoppableSpeed,
)
from multipanda_py.control.impedance.pose_error import PoseError
from multipanda_py.parameters import vector
from multipanda_py.robots.dynamics.task_inertia import fade
from multipanda_py.state import ArmState, Matrix, TaskSpaceDynamics, Vector
from multipanda_py.targets import CartesianTarget

_dot, _add, _multiply, _subtract = np.dot, np.add, np.multiply, np.subtract
_minimum, _maximum = np.minimum, np.maximum
SOFT = 1.0
"""Stiffness too small to press with [1/s^2]."""
_TINY = 1e-6
"""Inertia that free axes have beside their own, which may vanish [kg, kg m^2]."""
_SLOWER = 0.25
"""Bandwidth of the posture along what is lost, as a share of the task's."""


MAX_DAMPING = 80.0
"""Fastest that the tool is braked: critical damping of the stiffest spring allowed [1/s]."""
CLEARLY = 1.05
"""How much more has to be asked for to be told."""


@dataclass(frozen=True, eq=False)
class OperationalSpaceParams(CartesianGains):
    """Gains of :class:`OperationalSpace`."""

    stiffness: Vector = vector(
        400, 400, 400, 400, 400, 400, unit="1/s^2", low=0, high=1600,
        doc="acceleration per error along the axes of gain_frame; its root is the bandwidth",
    )  # fmt: skip
    damping_ratio: Vector = vector(
        *[1.0] * 6, low=0.5, high=5,
        doc="1 is critically damped; less than 0.5 swings at the torque rate limit",
    )  # fmt: skip


class OperationalSpace(RampedGains[CartesianTarget, OperationalSpaceParams]):
    r"""Give the tool the same second-order motion towards its target in every posture.

    .. math::
        \tau = J^T \Lambda_d \left( \nu K\,\mathrm{clip}(e) - D J \dot q \right)
        + J^T (\Lambda - \Lambda_d) J \left( k_s (q_n - q) - d_s \dot q \right), \\
        e = \begin{bmatrix} p_d - p \\ \log(R_d R^T)^\vee \end{bmatrix}, \qquad
        D = \min(2 Z K^{1/2}, b), \qquad k_s = \tfrac{1}{16} \min_i k_i, \qquad
        d_s = \tfrac14 \min_i d_i

    K and D are accelerations per error [1/s^2] and per velocity [1/s], b a bound: heavy
    directions, too, are braked at this rate, and torques can change only so fast. Where
    :math:`\Lambda_d = \Lambda` the axes are decoupled and follow
    :math:`\ddot e + D \dot e + K e = 0` whatever the posture: :math:`K^{1/2}` is the bandwidth
    [rad/s]. The stiffness that a contact feels is :math:`\Lambda K` and changes with the
    posture; use ``cartesian_impedance`` where it matters. With ``gain_frame: tool``
    error and velocity are turned into the tool's axes and the acceleration is turned back. The
    velocity product :math:`\dot J \dot q` is not compensated, and Coriolis torques by the
    feature of that name.

    An axis without stiffness is free: the law exerts no wrench along it, except the torques that
    make the spring's wrench a gradient (:class:`.ConservativeSpring`). The other axes are
    decoupled as before.

    A target that stays ahead is followed at :math:`\dot x = D^{-1} K\,\mathrm{clip}(e)`, which
    could be more than joints stand, or stop from. The whole spring is scaled by :math:`\nu \le 1`
    of :class:`.StoppableSpeed` in every cycle, so that the
    path stays straight; :math:`\Lambda_s` there is :math:`\Lambda_d` for
    :math:`\tfrac14 \lambda^2`, where it ends as the posture brakes less. The posture's pull is
    bounded to the speed :math:`0.6\, \dot q_{max}`. Nor does the spring ask more of any joint
    than it bears (:class:`.BearableShare`, ``pull kept``): a wrist that gives way while the others
    press on is thrown aside. Like the clip, all this bounds what a large error presses with.

    Near singular postures (:math:`w_{min} < 0.02` 1/kg) the inertia is damped, see
    :class:`multipanda_py.robots.dynamics.task_inertia.OperationalSpace`. What the damping takes
    from a direction that is being lost goes to the posture, at a quarter of the bandwidth: the arm
    slows down before it is stretched, and finds back. The price is that a tool may stop short
    of its target there: by less than 1 % of a 3 cm step in most such postures, by 7 % in some.

    Sources: Khatib, IEEE J. Robotics and Automation 1987 (:math:`\nu` there is a bound of the
    tool's speed); CRISP, section III-A2.
    """

    Params, Target = OperationalSpaceParams, CartesianTarget
    default_features = ("nullspace", "coriolis", "joint_limits", "collision_avoidance")
    touches = ("things",)
    report_names = (BORNE,)

    def __init__(self, context: Context, params: OperationalSpaceParams) -> None:
        self._bearable = [BearableShare(arm) for arm in context.arms]
        self._pull = np.zeros(6)
        self._error, self._acceleration, self._wrench = PoseError(), np.zeros(6), np.zeros(6)
        self._twist, self._brake = np.zeros(6), np.zeros(6)
        self._root = Ramp(np.sqrt(params.stiffness))
        self._stiffness, self._damping = np.zeros(6), np.zeros(6)
        self._drift, self._wanted = np.zeros(6), np.zeros(6)
        self._pulls, self._slows = context.joint_zeros(), context.joint_zeros()
        self._braking = np.zeros(6)
        self._bounds = [StoppableSpeed(arm, _SLOWER) for arm in context.arms]
        self._said_damping, self._conservative = 0.0, ConservativeSpring()
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Head for the new gains: at once at rest, else within ``gain_time``."""
        p = self.params
        self._root.go(np.sqrt(p.stiffness), self.gain_cycles())
        self._rate = 2.0 * p.damping_ratio
        self._error.set_bounds(p.error_clip)
        self._in_tool = p.gain_frame == "tool"
        self._set_gains()
        self._asked_damping = float((self._rate * np.sqrt(p.stiffness)).max())
        self._say_damping()

    def _say_damping(self) -> None:
        """Give notice of a damping that is not what is asked for, when it begins."""
        asked = self._asked_damping
        if asked > CLEARLY * MAX_DAMPING and asked != self._said_damping:
            self.context.notify(
                f"operational_space brakes at {MAX_DAMPING:g} 1/s, where stiffness and "
                f"damping_ratio ask for {asked:.0f} 1/s: more would swing with latency; the "
                "stiffness is what is asked for"
            )
        self._said_damping = asked

    def _set_gains(self) -> None:
        root = self._root.value
        _multiply(root, root, self._stiffness)
        _minimum(_multiply(self._rate, root, self._damping), MAX_DAMPING, out=self._damping)
        np.divide(self._stiffness, np.maximum(self._damping, 1e-9), self._drift)
        for bound in self._bounds:
            bound.set_damping(max(self._damping.tolist()))
        self._free = 1.0 - self._stiffness * fade(self._stiffness, SLOW_MODE)
        self._freedom: float = max(self._free.tolist())
        self.is_free[:] = [bool(self._free.any())] * len(self.is_free)
        self._slow2 = StoppableSpeed.negligible(max(self._drift.tolist())) ** 2
        self._posture_rate2 = _SLOWER**2 * min(self._stiffness.tolist())
        self._posture_damping = _SLOWER * min(self._damping.tolist())

    def on_activate(self, states: Sequence[ArmState], target: CartesianTarget) -> None:
        """Hold the measured pose, and prefer the measured posture."""
        target.seed(states)
        self._said_damping = 0.0
        self.start_gains()
        self._say_damping()

    def on_handover(
        self, states: Sequence[ArmState], target: CartesianTarget, handovers: Sequence[Handover]
    ) -> str:
        r"""Put the targets where :math:`\Lambda_d K e` is the wrench of before."""
        words = []
        soft = self._stiffness < SOFT
        for arm, (state, handover) in enumerate(zip(states, handovers)):
            turn = np.kron(np.eye(2), state.rotation_ee_in_base) if self._in_tool else np.eye(6)
            inertia = state.operational_space().inertia
            wanted = np.linalg.pinv(inertia, rcond=1e-9) @ handover.wrench_in_base @ turn
            error: Vector = np.where(soft, 0.0, wanted / np.where(soft, 1.0, self._stiffness))
            bounded_error(error, self._error.bounds)
            reached = inertia @ turn @ (self._stiffness * error)
            target.displace(arm, np.dot(turn, error))
            words.append(handover.words(state.name, share_of(reached, handover.wrench_in_base)))
        return "; ".join(filter(None, words))

    def free_velocity(self, arm: int, state: ArmState) -> Vector:
        """Return the joint velocity of the motion along axes without stiffness, (n,) [rad/s]."""
        twist, rotation = state.twist_ee_in_base.copy(), state.rotation_ee_in_base
        if self._in_tool:
            self._turn(twist, rotation)
        twist *= self._free
        if self._in_tool:
            self._turn(twist, rotation.T)
        space = state.operational_space()
        velocity: Vector = space.minv_jt.dot(projected_inertia(space).dot(twist))
        return velocity

    def update(self, states: Sequence[ArmState], target: CartesianTarget, period: float) -> None:
        """Write the joint torques of every arm."""
        if self._root.step():
            self._set_gains()
        acceleration, brake, kept = self._acceleration, self._brake, 1.0
        for arm, state in enumerate(states):
            error = self._error.measure(
                state.position_ee_in_base, state.rotation_ee_in_base,
                target.position_ee_in_base[arm], target.rotation_ee_in_base[arm],
            )  # fmt: skip
            twist = state.twist_ee_in_base
            if self._in_tool:
                twist = self._twist
                twist[:] = state.twist_ee_in_base
                self._turn(error, state.rotation_ee_in_base)
                self._turn(twist, state.rotation_ee_in_base)
            if self.is_free[arm]:
                self._conservative.project(error, 0.0)
            self._error.clip()
            _multiply(self._stiffness, error, acceleration)
            wanted = _multiply(self._drift, error, self._wanted)
            if _dot(wanted, wanted) > self._slow2:
                _multiply(acceleration, self._share_of(arm, state, wanted), acceleration)
            _multiply(self._damping, twist, brake)
            if self._in_tool:
                self._turn(acceleration, state.rotation_ee_in_base.T)
                self._turn(brake, state.rotation_ee_in_base.T)
            space = state.operational_space()
            if self.is_free[arm]:
                for asked in (acceleration, brake):
                    self._release(space.inertia, state.rotation_ee_in_base, asked)
            pull = space.apply_inertia(acceleration, self._pull)
            if self.is_free[arm]:
                if self._in_tool:
                    self._turn(pull, state.rotation_ee_in_base)
                self._conservative.correct(pull, self._freedom, self._in_tool)
                if self._in_tool:
                    self._turn(pull, state.rotation_ee_in_base.T)
            share = self._bearable[arm].of(pull, state)
            if share < 1.0:
                _multiply(pull, share, pull)
                kept = min(kept, share)
            wrench = _subtract(pull, space.apply_inertia(brake, self._wrench), self._wrench)
            if space.damping > 0.0:
                _add(wrench, self._rest_of(space, arm, state, target.posture[arm]), wrench)
            _dot(wrench, state.jacobian, self.tau[arm])
        self.report[0] = kept

    def _release(self, inertia: Matrix, rotation: Matrix, acceleration: Vector) -> None:
        r"""Remove in place the accelerations that would take a wrench along free axes.

        .. math::
            a \leftarrow a - G (G \Lambda G + I - G^2)^{-1} G \Lambda a

        with the share G by which each axis is free. A wrench along a free axis would do work while
        the tool moves there.
        """
        free = np.diag(self._free)
        if self._in_tool:
            turn = np.kron(np.eye(2), rotation)
            free = turn @ free @ turn.T
        held = (1.0 + _TINY) * np.eye(6) - free @ free
        rest = np.linalg.solve(free @ inertia @ free + held, free @ (inertia @ acceleration))
        acceleration -= free @ rest

    def _share_of(self, arm: int, state: ArmState, twist: Vector) -> float:
        r"""Return :math:`\nu` for a twist, (6,), along the axes of the gains; turns it."""
        braking = _multiply(self._drift, twist, self._braking)
        if self._in_tool:
            self._turn(twist, state.rotation_ee_in_base.T)
            self._turn(braking, state.rotation_ee_in_base.T)
        return self._bounds[arm].share(state, twist, braking)

    def _rest_of(
        self, space: TaskSpaceDynamics, arm: int, state: ArmState, posture: Vector
    ) -> Vector:
        """Return the wrench that pulls what is lost towards the posture, (6,) [N, Nm]."""
        pull, brake = self._pulls[arm], self._slows[arm]
        _multiply(_subtract(posture, state.q, pull), self._posture_rate2, pull)
        most = _multiply(
            state.limits.velocity, MAX_BRAKING_SPEED_FRACTION * self._posture_damping, brake
        )
        _minimum(pull, most, out=pull)
        _maximum(pull, np.negative(most, most), out=pull)
        _subtract(pull, _multiply(state.dq, self._posture_damping, brake), pull)
        wrench: Vector = _dot(space.lost_inertia(), _dot(state.jacobian, pull))
        return wrench

    @staticmethod
    def _turn(pair: Vector, rotation: Matrix) -> None:
        """Turn two stacked vectors in place: each is multiplied by ``rotation`` from the right."""
        pair[:3], pair[3:] = _dot(pair[:3], rotation), _dot(pair[3:], rotation)
