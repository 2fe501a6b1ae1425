# SPDX-License-Identifier: Apache-2.0
"""Bilateral teleoperation: a hand-guided leader arm, and a follower with force reflection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import add, dot, multiply, subtract

from multipanda_py.context import BumplessTransfer, Context
from multipanda_py.control.impedance.brakes import SpeedBrake, bound_speeds
from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.control.impedance.free_motion import ShiftedConfiguration
from multipanda_py.control.impedance.gains import MAX_STIFFNESS, RampedGains
from multipanda_py.control.impedance.joint_spring import ConfigurationSpring
from multipanda_py.control.impedance.limit_scaling import (
    WRENCH_SCALE,
    TorqueSaturation,
    VelocityLimitScaling,
)
from multipanda_py.control.impedance.modal_damping import MIN_DAMPING_RATIO, STIFFNESS_SCALE
from multipanda_py.control.impedance.pose_error import sum_of
from multipanda_py.control.impedance.singularity import SingularityDamping, SingularityHold
from multipanda_py.control.reference.bounded_pose import BoundedPose
from multipanda_py.control.teleoperation import (
    ForceReflection,
    MotionMapping,
    PassivityObserver,
    WrenchTare,
)
from multipanda_py.parameters import flag, joint_vector, number, vector
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Report, Target

LEADER = 0
"""Index of the leader. The other arm is the follower."""
REFLECTION_LATENCY = 0.010
"""Latency from a motion of the leader to the reflected force, without the filter [s]. It contains
two arms with 5 ms of delay and 2 ms of lag each, and the loop."""
MAX_CONTACT_DAMPING = (40.0, 1.0)
"""Maximum damping of the leader's tool [N s/m], [Nm s/rad]."""
MAX_NULLSPACE_TORQUE = 5.0
"""Maximum torque of the follower's configuration spring [Nm]."""


@dataclass(frozen=True, eq=False)
class TeleoperationParams:
    """Parameters of the follower and of the force reflection."""

    engaged: bool = flag(
        True, doc="true couples the arms at their current poses; false decouples the leader"
    )
    scale: float = number(
        1.0, low=0.1, high=10, doc="scale from the leader's to the follower's translation"
    )
    stiffness: Vector = vector(
        800, 800, 800, 40, 40, 40, unit="N/m, Nm/rad", low=0, high=MAX_STIFFNESS,
        doc="stiffness of the follower along the axes of its base",
    )  # fmt: skip
    damping_ratio: Vector = vector(
        *[1.0] * 6,
        low=MIN_DAMPING_RATIO,
        high=5,
        doc="damping ratio of the follower; 1 is critical",
    )
    nullspace_stiffness: float = number(
        10.0, unit="Nm/rad", low=0, high=100, doc="nullspace stiffness of the follower"
    )
    max_linear_speed: float = number(
        0.5, unit="m/s", low=0.01, high=2, doc="maximum speed of the follower's reference"
    )
    max_angular_speed: float = number(
        1.5, unit="rad/s", low=0.01, high=10,
        doc="maximum angular speed of the follower's reference",
    )  # fmt: skip
    max_distance: float = number(
        0.05, unit="m", low=1e-3, high=0.5,
        doc="maximum distance from the follower to its reference",
    )  # fmt: skip
    max_angle: float = number(
        0.4, unit="rad", low=1e-2, high=3, doc="maximum angle from the follower to its reference"
    )
    feedback: float = number(
        0.5, low=0, high=1, doc="gain from the follower's contact force to the leader"
    )
    force_deadband: float = number(
        2.0, unit="N", low=0, high=50,
        doc="deadband of the reflected force; a force below half of it has no effect",
    )  # fmt: skip
    torque_deadband: float = number(
        0.4, unit="Nm", low=0, high=10, doc="deadband of the reflected torque"
    )
    tare_time: float = number(
        0.1, unit="s", low=0, high=5,
        doc="averaging time of the follower's wrench offset, with both arms at rest",
    )  # fmt: skip
    max_tare_force: float = number(
        15.0, unit="N", low=0, high=50, doc="maximum force of the wrench offset"
    )
    max_tare_torque: float = number(
        2.0, unit="Nm", low=0, high=10, doc="maximum torque of the wrench offset"
    )
    max_force: float = number(30.0, unit="N", low=0, high=100, doc="maximum reflected force")
    max_torque: float = number(4.0, unit="Nm", low=0, high=20, doc="maximum reflected torque")
    filter_time: float = number(
        0.002, unit="s", low=0, high=1, doc="time constant of the filter on the reflected wrench"
    )
    leader_damping: Vector = joint_vector(
        "leader_damping", unit="Nm s/rad", low=0, high="most_leader_damping",
        doc="damping of the leader's joints", arm=LEADER,
    )  # fmt: skip
    leader_speed: float = number(
        1.0, unit="rad/s", low=0.1, high=10,
        doc="leader joint speed above which the joint is braked; up to 0.7 of the speed limit",
    )  # fmt: skip
    gain_time: float = number(
        0.1, unit="s", low=0, high=10, doc="duration of a change of stiffness"
    )


class Teleoperation(RampedGains[Target, TeleoperationParams]):
    """Bilateral teleoperation of a follower by a hand-guided leader.

    Equations::

        tau_L = J_L^T (s F_fb - b t J_L dq_L) - D_L dq_L
        tau_F = J_F^T (K e + D (dx_d - J_F dq_F)) + N tau_0

    - tau_L, tau_F: Joint torques of leader and follower, (n,) [Nm].
    - J_L, J_F: Jacobians; dq_L, dq_F: joint velocities [rad/s].
    - F_fb: Wrench of ``ForceReflection``, (6,) [N, Nm]; s: its scale by ``PassivityObserver``.
    - b: Damping in contact, (6,) [N s/m, Nm s/rad]; t: contact strength, 0 to 1.
    - D_L: Joint damping of the leader [Nm s/rad].
    - K, D: Stiffness and damping of ``CartesianSpring``, (6, 6).
    - e: Error to the follower's reference, (6,) [m, rad]; dx_d: reference twist, (6,).
    - N tau_0: Projected torques of the follower's configuration spring, (n,) [Nm].

    *Motion.* The first arm is the leader, the second the follower. The follower repeats the motion
    of the leader since the arms were coupled (``MotionMapping``), along the world axes.
    ``BoundedPose`` limits the speed of the reference and its distance from the tool.

    *Limits of the follower.* As in ``CartesianImpedance``, ``TorqueSaturation``,
    ``VelocityLimitScaling``, ``SingularityDamping`` and ``SingularityHold`` act on the spring.

    *Force reflection.* The leader floats and receives the external wrench of the follower
    (``WrenchTare`` subtracts its offset). The gain of forces is g min(1, alpha), with g =
    ``feedback`` and the motion scale alpha = ``scale``. Source: paper on the CRISP controllers,
    section III-H.

    *Stability.* Three measures keep teleoperation stable with a delayed force:

    - ``PassivityObserver`` fades a force that has released more energy to the leader than it has
      received.
    - In contact, the tool of the leader is damped by ``b = kappa T_d``. kappa = g min(1, alpha)
      alpha K is the stiffness that the leader feels. T_d is 10 ms plus ``filter_time``.
    - If b exceeds the maximum damping of an arm, the gain g is reduced.

    A leader that nobody holds drifts by errors of its sensors and its payload. Its joints are
    braked above ``leader_speed`` (``SpeedBrake``).
    """

    Params = TeleoperationParams
    min_arms, max_arms = 2, 2
    default_features = ("coriolis", "joint_limits", "collision_avoidance")
    contact_classes = ("objects",)
    leader_arms = (LEADER,)
    report_names = (
        Report("reflected force", "N", "force on the leader"),
        Report("reflected torque", "Nm", "torque on the leader"),
        Report("lag", "m", "distance of the follower from its reference"),
        Report("lag", "rad", "angle of the follower from its reference"),
        Report("engaged", "", "1 while the arms are coupled"),
        STIFFNESS_SCALE,
        Report(
            "wrench fade factor",
            "",
            "scale of the reflected wrench by the passivity observer",
        ),
        WRENCH_SCALE,
    )

    def __init__(self, context: Context, params: TeleoperationParams) -> None:
        self._mapping = MotionMapping(*context.rotations_base_in_world)
        self._reference, self._spring = BoundedPose(), CartesianSpring()
        self._torque_saturation = TorqueSaturation(context.arms[1])
        self._velocity_scaling, self._singularity_damping = (
            VelocityLimitScaling(context.arms[1].limits),
            SingularityDamping(),
        )
        self._hold = SingularityHold(context.arms[1], context.period, self._spring.stiffness_along)
        self._spring.set_shape(params.damping_ratio, np.full(6, math.inf), False)
        self._tare, self._reflection = WrenchTare(context.period), ForceReflection()
        self._passivity_observer = PassivityObserver()
        self._brake, self._braked = np.zeros(6), np.zeros(6)
        leader, follower = context.joints
        self._speed_brake, self._reflected_torque = SpeedBrake(leader), np.zeros(leader)
        self._nullspace_spring = ConfigurationSpring(context.arms[1].robot)
        self._configuration = np.zeros(follower)
        self._shifted_configuration = ShiftedConfiguration(follower, context.period)
        self._no_wrench = np.zeros(6)
        self._is_decoupled, self._coupling = True, (params.engaged, params.scale)
        super().__init__(context, params)
        # The stiffness report always refers to the follower, arm 1, which has the only spring.
        self.min_scale_arm = 1

    def on_parameters(self) -> None:
        """Set gains and bounds. Couple the arms again if ``engaged`` or ``scale`` has changed."""
        p = self.params
        self._spring.set_shape(p.damping_ratio, np.full(6, math.inf), False)
        self._spring.set_stiffness(p.stiffness, self.gain_cycles())
        each = np.ones(self.context.joints[1])
        self._nullspace_spring.set_gains(
            p.nullspace_stiffness * each, each, MAX_NULLSPACE_TORQUE * each, "dynamic"
        )
        self._reference.set_bounds(
            p.max_linear_speed, p.max_angular_speed, p.max_distance, p.max_angle
        )
        self._reflection.set_filter(p.filter_time, self.context.period)
        self._leader_speeds = bound_speeds(p.leader_speed, self.context.arms[LEADER].limits)
        reflection = self._set_contact_damping()
        self._reflection.set_shape(
            (p.force_deadband, p.max_force, p.feedback * min(1.0, p.scale) * reflection[0]),
            (p.torque_deadband, p.max_torque, p.feedback * reflection[1]),
        )
        coupling = (p.engaged, p.scale)
        self._is_decoupled = self._is_decoupled or coupling != self._coupling
        self._coupling = coupling

    def _set_contact_damping(self) -> tuple[float, float]:
        """Return factors on the gains of force and torque, 0 to 1."""
        p = self.params
        delay, reflection, stiffnesses = REFLECTION_LATENCY + p.filter_time, [], []
        for part, gain, max_value in (
            (p.stiffness[:3], p.feedback * min(1.0, p.scale) * p.scale, MAX_CONTACT_DAMPING[0]),
            (p.stiffness[3:], p.feedback, MAX_CONTACT_DAMPING[1]),
        ):
            measured = gain * float(part.max())
            reflection.append(min(1.0, max_value / max(measured * delay, 1e-9)))
            stiffnesses.append(measured * reflection[-1])
        self._brake[:3], self._brake[3:] = (stiffness * delay for stiffness in stiffnesses)
        self._passivity_observer.set_stiffness(max(stiffnesses[0], 50.0), max(stiffnesses[1], 2.0))
        return reflection[0], reflection[1]

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        """Couple the arms at their current poses."""
        self.start_gains()
        self.is_free[1] = self._spring.is_free
        self._reference.start(states[1])
        self._couple_at(states[0])
        self._reflection.reset()
        self._passivity_observer.reset()
        self._hold.reset()
        p = self.params
        self._tare.start(p.tare_time, p.max_tare_force, p.max_tare_torque)
        self._configuration[:] = states[1].q
        self._shifted_configuration.reset()

    def on_transfer(
        self, states: Sequence[ArmState], target: Target, transfers: Sequence[BumplessTransfer]
    ) -> str:
        """Release the torques from before the switch.

        The torques of the follower along singular directions continue (``SingularityHold``).

        Returns:
            Message about the preserved force; empty if no force acted before the switch.
        """
        self._hold.resume(states[1], transfers[1].tau)
        return super().on_transfer(states, target, transfers)

    def update(self, states: Sequence[ArmState], target: Target, period: float) -> None:
        """Write the joint torques of both arms."""
        leader, follower = states
        reference, mapping, engaged = self._reference, self._mapping, self.params.engaged
        twist = None
        if engaged:
            if self._is_decoupled:
                self._couple_at(leader)
            mapping.follow(
                leader.position_ee_in_base, leader.rotation_ee_in_base, leader.twist_ee_in_base
            )
            reference.advance(mapping.position, mapping.rotation, period)
        reference.tie(follower)
        used = self._velocity_scaling.limit_fraction(follower)
        slower = self._velocity_scaling.spring(used)
        if engaged:
            twist = mapping.twist
            reference.limit(twist)
            if slower < 1.0:
                multiply(twist, slower, twist)
        spring = self._spring
        spring.measure(follower, reference.position, reference.rotation, twist)
        self.is_free[1] = spring.is_free
        wrench_scale = slower * self._torque_saturation.spring_scale(spring, follower)
        impedance = spring.wrench(wrench_scale)
        singularity_damping = self._singularity_damping.damp_spring(follower, spring, wrench_scale)
        tau = dot(sum_of(impedance, singularity_damping), follower.jacobian, self.tau[1])
        add(tau, self._configuration_torque(follower), tau)
        self._hold.add(follower, tau)
        sensed = self._tare.update(follower.wrench_ext_in_base, leader, follower)
        scale = self._write_leader_torque(leader, sensed if engaged else self._no_wrench, period)
        report = self.report
        report[0], report[1] = scale * self._reflection.force, scale * self._reflection.torque
        report[2], report[3], report[4] = reference.distance, reference.angle, engaged
        report[5], report[6], report[7] = spring.stiffness_scale, scale, wrench_scale

    def free_velocity(self, arm: int, state: ArmState) -> Vector:
        """Return the joint velocity of the tool in directions without stiffness, (n,) [rad/s]."""
        return self._spring.free_velocity(state)

    def _configuration_torque(self, follower: ArmState) -> Vector:
        """Return the projected torques of the follower's configuration spring, (n,) [Nm]."""
        configuration, velocity, shifted = self._configuration, None, self._shifted_configuration
        if self._spring.is_free or shifted.is_shifted:
            free = self._spring.free_velocity(follower) if self._spring.is_free else None
            configuration, velocity = shifted.step(follower, free, configuration, None)
        return self._nullspace_spring.torque(follower, configuration, velocity)

    def _write_leader_torque(self, leader: ArmState, sensed: Vector, period: float) -> float:
        """Return the scale s of the reflected wrench."""
        reflection, twist, tau = self._reflection, leader.twist_ee_in_base, self.tau[0]
        wrench = reflection.filter(sensed, self._mapping.axes_rotation)
        multiply(leader.dq, self.params.leader_damping, tau)
        braked = multiply(self._brake, twist, self._braked)
        multiply(braked, reflection.contact_strength, braked)
        dissipated = float(dot(tau, leader.dq)) + float(dot(braked, twist))
        scale = self._passivity_observer.update(
            reflection.force, reflection.torque, wrench, twist, dissipated, period
        )
        multiply(wrench, scale, wrench)
        measured = dot(subtract(wrench, braked, wrench), leader.jacobian, self._reflected_torque)
        subtract(measured, tau, tau)
        self._speed_brake.add(leader, self._leader_speeds, tau)
        return scale

    def _couple_at(self, leader: ArmState) -> None:
        reference = self._reference
        self._mapping.couple(
            leader.position_ee_in_base, leader.rotation_ee_in_base,
            reference.position, reference.rotation, self.params.scale,
        )  # fmt: skip
        self._is_decoupled = False
