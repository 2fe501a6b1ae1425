# SPDX-License-Identifier: Apache-2.0
"""One arm leads, led by hand; another one follows, and lets it feel what it touches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.context import Context, Handover
from multipanda_py.control.impedance.brakes import SpeedBrake, bound_speeds
from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.control.impedance.free_motion import GuidedPosture
from multipanda_py.control.impedance.gains import MAX_STIFFNESS, RampedGains
from multipanda_py.control.impedance.joint_spring import PostureSpring
from multipanda_py.control.impedance.limit_scaling import BORNE, BearableShare, SpeedMargin
from multipanda_py.control.impedance.modal_damping import KEPT, LEAST_RATIO
from multipanda_py.control.impedance.singularity import LostModes, SingularityGuard
from multipanda_py.control.reference.reference_limits import BoundedPose
from multipanda_py.control.teleoperation import (
    ForceReflection,
    MotionMapping,
    ReflectionAccount,
    WrenchTare,
)
from multipanda_py.parameters import flag, joint_vector, number, vector
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Report, Target

_add, _dot, _multiply, _subtract = np.add, np.dot, np.multiply, np.subtract

LEADER = 0
"""Number of the arm that is led; the other one follows."""
LATENCY = 0.010
"""From a motion of the leader to the force that answers it, but for the filter: two arms, 5 ms
of delay and 2 ms of lag, and the loop [s]."""
MOST_BRAKE = (40.0, 1.0)
"""By which the tool of the leader is braked at most [N s/m], [Nm s/rad]."""
MAX_POSTURE_TORQUE = 5.0
"""Clamp of what holds the follower's posture [Nm]."""


@dataclass(frozen=True, eq=False)
class TeleoperationParams:
    """How the follower follows, and what the leader feels."""

    engaged: bool = flag(
        True, doc="false lets the leader move on its own; true couples the arms as they are then"
    )
    scale: float = number(
        1.0, low=0.1, high=10, doc="translation of the follower per translation of the leader"
    )
    stiffness: Vector = vector(
        800, 800, 800, 40, 40, 40, unit="N/m, Nm/rad", low=0, high=MAX_STIFFNESS,
        doc="with which the follower follows, along the axes of its base",
    )  # fmt: skip
    damping_ratio: Vector = vector(
        *[1.0] * 6, low=LEAST_RATIO, high=5, doc="of the follower; 1 is critically damped"
    )
    posture_stiffness: float = number(
        10.0, unit="Nm/rad", low=0, high=100, doc="of the follower's posture in the nullspace"
    )
    max_speed: float = number(0.5, unit="m/s", low=0.01, high=2, doc="of the follower's target")
    max_turn: float = number(1.5, unit="rad/s", low=0.01, high=10, doc="of the follower's target")
    max_distance: float = number(
        0.05, unit="m", low=1e-3, high=0.5, doc="of the target from the follower"
    )
    max_angle: float = number(
        0.4, unit="rad", low=1e-2, high=3, doc="of the target from the follower"
    )
    feedback: float = number(
        0.5, low=0, high=1, doc="share of the follower's contact force that the leader feels"
    )
    force_deadband: float = number(
        2.0, unit="N", low=0, high=50, doc="taken off the size of the force; half of it is nothing"
    )
    torque_deadband: float = number(
        0.4, unit="Nm", low=0, high=10, doc="taken off the size of the torque, likewise"
    )
    tare_time: float = number(
        0.1, unit="s", low=0, high=5,
        doc="what the follower seems to feel over this time, both arms at rest, counts as nothing",
    )  # fmt: skip
    max_tare_force: float = number(
        15.0, unit="N", low=0, high=50, doc="largest force that may count as nothing"
    )
    max_tare_torque: float = number(
        2.0, unit="Nm", low=0, high=10, doc="largest torque that may count as nothing"
    )
    max_force: float = number(30.0, unit="N", low=0, high=100, doc="that the leader may feel")
    max_torque: float = number(4.0, unit="Nm", low=0, high=20, doc="that the leader may feel")
    filter_time: float = number(
        0.002, unit="s", low=0, high=1, doc="time constant of the filter of what is felt"
    )
    leader_damping: Vector = joint_vector(
        "leader_damping",
        unit="Nm s/rad",
        low=0,
        high="most_leader_damping",
        doc="of the leader's joints",
        arm=LEADER,
    )
    leader_speed: float = number(
        1.0, unit="rad/s", low=0.1, high=10,
        doc="of the leader's joints, beyond which their motion is braked; at most 0.7 of a limit",
    )  # fmt: skip
    gain_time: float = number(
        0.1, unit="s", low=0, high=10, doc="over which a change of stiffness is spread"
    )


class Teleoperation(RampedGains[Target, TeleoperationParams]):
    r"""Lead an arm by hand, and have another one do the same and feel for it.

    .. math::
        \tau_L = J_L^T (s\,F_{fb} - b\,t\,J_L \dot q_L) - D_L \dot q_L, \qquad
        \tau_F = J_F^T \left( K e + D (\dot x_d - J_F \dot q_F) \right) + N \tau_0

    The first arm leads, the second follows. The follower's pose is the leader's motion since
    both were coupled (:class:`.MotionMapping`), in the axes of the world, bounded
    in speed and in its distance from the tool (:class:`.BoundedPose`);
    spring and damper are :class:`.CartesianSpring`, of which the spring asks of no joint more
    than it bears (:class:`.BearableShare`): a wrist that gives way while the others go on
    pressing is thrown aside. Spring and :math:`\dot x_d` fade out where a joint of the
    follower comes near its speed limit (:class:`.SpeedMargin`): in another posture than the
    leader's it may need more speed for the same motion. Where it is led to the end of its reach,
    :class:`.LostModes` brakes the swing that the spring drives there, and
    :class:`.SingularityGuard` holds it against torques that the model lacks. The leader floats,
    and feels the wrench that the world exerts on the follower
    (:class:`.ForceReflection`), with gain
    :math:`g \min(1, \alpha)` for forces: where the follower moves less than the leader
    (:math:`\alpha < 1`), forces are scaled like motion. Source: CRISP section III-H, where
    the sign of F is that of the robot on the world.

    Errors of the estimate. What the follower seems to feel while both arms stand still after the
    activation is taken off (:class:`.WrenchTare`); a deadband leaves
    out what comes back with other postures.

    Energy. Position goes one way and force the other; this is not passive by construction. The
    follower's inertia delays the contact force, most behind soft things, and so do loop, filter
    and drives. Three things keep it calm without a model of the contact. The leader's account
    (:class:`.ReflectionAccount`) fades a force out that gives
    the leader more than it got, which also ends a drift by an error of the estimate. Latency,
    which the account does not see, is what damping answers for: with
    :math:`\kappa = g \min(1, \alpha)\, \alpha\, K` the stiffness that the leader may feel and
    :math:`T_d` the latency, a spring of it gives :math:`\pi \kappa X^2 \omega T_d` per cycle of
    amplitude X and frequency :math:`\omega`, and a damper takes :math:`\pi b X^2 \omega`, so in
    contact, and only there, the tool of the leader is braked by

    .. math:: b = \kappa\, T_d, \qquad T_d = 10\,\mathrm{ms} + T_f

    And where that is more than an arm can be braked by, the gain g is less than what is asked
    for. A follower that lags behind in free motion, and does not touch anything, is not felt.

    A leader that nobody holds floats with what its sensors and its load are wrong by: beyond
    ``leader_speed`` its joints are braked (:class:`.SpeedBrake`).
    """

    Params = TeleoperationParams
    min_arms, max_arms = 2, 2
    default_features = ("coriolis", "joint_limits", "collision_avoidance")
    touches = ("things",)
    led = (LEADER,)
    report_names = (
        Report("reflected force", "N", "that the leader is given"),
        Report("reflected torque", "Nm", "that the leader is given"),
        Report("lag", "m", "of the follower behind the leader"),
        Report("lag", "rad", "of the follower behind the leader"),
        Report("engaged", "", "1 while the follower follows"),
        KEPT,
        Report(
            "share of what is felt that is not faded out",
            "",
            "by the account of what the leader got",
        ),
        BORNE,
    )

    def __init__(self, context: Context, params: TeleoperationParams) -> None:
        self._mapping = MotionMapping(*context.rotations_base_in_world)
        self._reference, self._spring = BoundedPose(), CartesianSpring()
        self._bearable = BearableShare(context.arms[1])
        self._margin, self._lost = SpeedMargin(context.arms[1].limits), LostModes()
        self._guard = SingularityGuard(context.arms[1], context.period)
        self._spring.set_shape(params.damping_ratio, np.full(6, math.inf), False)
        self._tare, self._reflection = WrenchTare(context.period), ForceReflection()
        self._account = ReflectionAccount()
        self._brake, self._braked = np.zeros(6), np.zeros(6)
        leader, follower = context.joints
        self._speed_brake, self._felt = SpeedBrake(leader), np.zeros(leader)
        self._posture_spring = PostureSpring(context.arms[1].robot)
        self._posture = np.zeros(follower)
        self._guided = GuidedPosture(follower, context.period)
        self._nothing, self._excess = np.zeros(6), np.zeros(6)
        self._open, self._coupling = True, (params.engaged, params.scale)
        super().__init__(context, params)
        self.softest = 1  # only the follower has a spring

    def on_parameters(self) -> None:
        """Hand the parameters to the parts; couple anew if what couples has changed."""
        p = self.params
        self._spring.set_shape(p.damping_ratio, np.full(6, math.inf), False)
        self._spring.set_stiffness(p.stiffness, self.gain_cycles())
        each = np.ones(self.context.joints[1])
        self._posture_spring.set_gains(
            p.posture_stiffness * each, each, MAX_POSTURE_TORQUE * each, "dynamic"
        )
        self._reference.set_bounds(p.max_speed, p.max_turn, p.max_distance, p.max_angle)
        self._reflection.set_filter(p.filter_time, self.context.period)
        self._leader_speeds = bound_speeds(p.leader_speed, self.context.arms[LEADER].limits)
        kept = self._set_reflection()
        self._reflection.set_shape(
            (p.force_deadband, p.max_force, p.feedback * min(1.0, p.scale) * kept[0]),
            (p.torque_deadband, p.max_torque, p.feedback * kept[1]),
        )
        coupling = (p.engaged, p.scale)
        self._open = self._open or coupling != self._coupling
        self._coupling = coupling

    def _set_reflection(self) -> tuple[float, float]:
        """Choose the brakes of the contact; return which share of the gains they allow."""
        p = self.params
        delay, kept, stiffnesses = LATENCY + p.filter_time, [], []
        for part, gain, most in (
            (p.stiffness[:3], p.feedback * min(1.0, p.scale) * p.scale, MOST_BRAKE[0]),
            (p.stiffness[3:], p.feedback, MOST_BRAKE[1]),
        ):
            felt = gain * float(part.max())
            kept.append(min(1.0, most / max(felt * delay, 1e-9)))
            stiffnesses.append(felt * kept[-1])
        self._brake[:3], self._brake[3:] = (stiffness * delay for stiffness in stiffnesses)
        self._account.set_stiffness(max(stiffnesses[0], 50.0), max(stiffnesses[1], 2.0))
        return kept[0], kept[1]

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        """Couple the arms where they are."""
        self.start_gains()
        self.is_free[1] = self._spring.is_free
        self._reference.start(states[1])
        self._close(states[0])
        self._reflection.reset()
        self._account.reset()
        self._guard.reset()
        p = self.params
        self._tare.start(p.tare_time, p.max_tare_force, p.max_tare_torque)
        self._posture[:] = states[1].q
        self._guided.reset()

    def on_handover(
        self, states: Sequence[ArmState], target: Target, handovers: Sequence[Handover]
    ) -> str:
        """Keep the follower's torques along singular motions; release the others."""
        self._guard.resume(states[1], self._spring.stiffness_along, handovers[1].tau)
        return super().on_handover(states, target, handovers)

    def update(self, states: Sequence[ArmState], target: Target, period: float) -> None:
        """Write the joint torques of both arms."""
        leader, follower = states
        reference, mapping, engaged = self._reference, self._mapping, self.params.engaged
        twist = None
        if engaged:
            if self._open:
                self._close(leader)
            mapping.follow(
                leader.position_ee_in_base, leader.rotation_ee_in_base, leader.twist_ee_in_base
            )
            reference.advance(mapping.position, mapping.rotation, period)
        reference.tie(follower)
        used = self._margin.used(follower)
        slower = self._margin.spring(used)
        if engaged:
            twist = mapping.twist
            reference.limit(twist)
            if slower < 1.0:
                _multiply(twist, slower, twist)
        wrench = self._spring.wrench(follower, reference.position, reference.rotation, twist)
        self.is_free[1] = self._spring.is_free
        pull = self._spring.spring_in_base()
        pulled = slower * self._bearable.of(pull, follower)
        if pulled < 1.0:
            _add(wrench, _multiply(pull, pulled - 1.0, self._excess), wrench)
        if follower.operational_space().damping > 0.0:  # a direction is being lost
            brake = self._lost.damp(follower, pulled * pull, self._spring.damping_along)
            if brake is not None:
                _add(wrench, brake, wrench)
        tau = _dot(wrench, follower.jacobian, self.tau[1])
        _add(tau, self._hold_posture(follower), tau)
        self._guard.add(follower, self._spring.stiffness_along, tau)
        sensed = self._tare.take(follower.wrench_ext_in_base, leader, follower)
        share = self._reflect(leader, sensed if engaged else self._nothing, period)
        report = self.report
        report[0], report[1] = share * self._reflection.force, share * self._reflection.torque
        report[2], report[3], report[4] = reference.distance, reference.angle, engaged
        report[5], report[6], report[7] = self._spring.kept, share, pulled

    def free_velocity(self, arm: int, state: ArmState) -> Vector:
        """Return the joint velocity of the motion that the spring leaves free, (n,) [rad/s]."""
        return self._spring.free_velocity(state)

    def _hold_posture(self, follower: ArmState) -> Vector:
        """Return the projected torques of the follower's posture, (n,) [Nm]."""
        posture, velocity, guided = self._posture, None, self._guided
        if self._spring.is_free or guided.is_shifted:
            free = self._spring.free_velocity(follower) if self._spring.is_free else None
            posture, velocity = guided.step(follower, free, posture, None)
        return self._posture_spring.torque(follower, posture, velocity)

    def _reflect(self, leader: ArmState, sensed: Vector, period: float) -> float:
        """Write what the leader feels to its torques; return the share that is not faded out."""
        reflection, twist, tau = self._reflection, leader.twist_ee_in_base, self.tau[0]
        wrench = reflection.feel(sensed, self._mapping.turn)
        _multiply(leader.dq, self.params.leader_damping, tau)
        braked = _multiply(self._brake, twist, self._braked)
        _multiply(braked, reflection.touch, braked)
        taken = float(_dot(tau, leader.dq)) + float(_dot(braked, twist))
        share = self._account.pass_on(
            reflection.force, reflection.torque, wrench, twist, taken, period
        )
        _multiply(wrench, share, wrench)
        felt = _dot(_subtract(wrench, braked, wrench), leader.jacobian, self._felt)
        _subtract(felt, tau, tau)
        self._speed_brake.add(leader, self._leader_speeds, tau)
        return share

    def _close(self, leader: ArmState) -> None:
        """Couple the arms: motion counts from here, and the follower's reference stays."""
        reference = self._reference
        self._mapping.couple(
            leader.position_ee_in_base, leader.rotation_ee_in_base,
            reference.position, reference.rotation, self.params.scale,
        )  # fmt: skip
        self._open = False
