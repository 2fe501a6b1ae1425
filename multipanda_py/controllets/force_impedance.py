# SPDX-License-Identifier: Apache-2.0
"""Unified force and impedance control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct

from multipanda_py.context import BumplessTransfer, Context, fraction_of
from multipanda_py.control.force.force_control import ForceParams
from multipanda_py.control.force.force_impedance import ForceImpedanceArm
from multipanda_py.control.impedance.gains import CartesianGains, RampedGains
from multipanda_py.control.impedance.limit_scaling import WRENCH_SCALE
from multipanda_py.control.impedance.modal_damping import STIFFNESS_SCALE
from multipanda_py.parameters import number
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import ForceTarget, Report

_pack = Struct("9d").pack_into


@dataclass(frozen=True, eq=False)
class ForceImpedanceParams(ForceParams, CartesianGains):
    """Gains of ``ForceImpedance``."""

    tank_start: float = number(
        10.0, unit="J", low=0, high=1000,
        doc="energy granted to the tank of the impedance at activation, up to tank_max",
    )  # fmt: skip


class ForceImpedance(RampedGains[ForceTarget, ForceImpedanceParams]):
    """Cartesian impedance with closed-loop force control, and an energy tank for each.

    Equation (paper on multipanda_ros2, section IV, eq. 4)::

        tau = J^T ((1 + alpha_i) P K_c P e - D_c dx + F u)

    - tau: Joint torques, (n,) [Nm].
    - J: Jacobian along the base axes, (6, n).
    - alpha_i: Reduction of the spring by its energy tank, -1 to 0.
    - P: Projector I - u u^T, (6, 6).
    - K_c, D_c: Stiffness and damping of the impedance, (6, 6).
    - e: Pose error x_d - x, (6,) [m, rad].
    - dx: Twist of the tool, (6,) [m/s, rad/s].
    - F: Controlled force [N].
    - u: Unit direction ``F_d / |F_d|`` of the target wrench F_d, (6,).

    Force control acts along the target wrench, and the impedance acts across it.
    ``ForceController`` computes F, and ``ForceSubspace`` removes the spring along u.
    ``ForceImpedanceArm`` has the equation with all terms.

    *Energy.* Force control and impedance have one energy tank each, which the power ``tank_power``
    recharges. Their total work never exceeds ``tank_start``, the energy granted for the desired
    force, and the recharged energy. An event reports a tank that limits its force or spring.

    The target has no velocity, because a damper with a moving reference would not be passive.

    Attributes:
        arms: Impedance, force control and tanks of each arm.
    """

    Params, Target = ForceImpedanceParams, ForceTarget
    default_features = ("nullspace", "coriolis", "joint_limits", "collision_avoidance")
    feature_channels = ("joint",)
    contact_classes = ("objects",)
    report_names = (
        Report("force", "N", "measured force of the tool"),
        Report("force error", "N", "filtered desired minus measured force"),
        Report("contact", "-", "contact state; 1 in contact"),
        Report("weight", "-", "scale of the desired force after a loss of contact"),
        Report("force tank", "J", "remaining energy of force control"),
        Report("impedance tank", "J", "remaining energy of the impedance"),
        Report("impedance scale", "-", "scale of the spring by its energy tank"),
        STIFFNESS_SCALE,
        WRENCH_SCALE,
    )

    def __init__(self, context: Context, params: ForceImpedanceParams) -> None:
        gains = params.gains()
        self.arms = [ForceImpedanceArm(context, index, gains) for index in range(context.n_arms)]
        self._states: Sequence[ArmState] = ()
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Set the gains. The stiffness changes in a ramp over ``gain_time`` while active."""
        p = self.params
        cycles, is_new = self.gain_cycles(), self.remember_stiffness(p.stiffness)
        for arm in self.arms:
            arm.spring.set_shape(p.damping_ratio, p.error_clip, p.gain_frame == "tool")
            if is_new:
                arm.spring.set_stiffness(p.stiffness, cycles)
            arm.force.set_gains(p.gains())
            arm.tank.limit, arm.tank.power = p.tank_max, p.tank_power

    def on_activate(self, states: Sequence[ArmState], target: ForceTarget) -> None:
        """Hold the measured pose without force."""
        target.seed(states)
        self.start_gains()
        self._states = states
        for arm, state in zip(self.arms, states):
            arm.start(state, self.params.tank_start)
        self.is_free[:] = [arm.spring.is_free for arm in self.arms]

    def on_transfer(
        self,
        states: Sequence[ArmState],
        target: ForceTarget,
        transfers: Sequence[BumplessTransfer],
    ) -> str:
        """Continue the contact force of the previous controllet until a target wrench is received.

        The contact force is fed forward, and fades after a loss of contact. A force that sensors
        do not measure, such as the weight of a tared payload, is fed forward permanently. The
        springs exert the remaining wrench.

        Returns:
            Message about the preserved force; empty if no force acted before the switch.
        """
        words = []
        for index, (state, handover) in enumerate(zip(states, transfers)):
            held = self.arms[index].hold(state, handover.tau)
            wrench, rest = target.wrench_in_base[index], handover.wrench_in_base - held
            if handover.contact_force > self.params.contact_force:
                wrench[:3] = handover.contact_in_base[:3]
                self.arms[index].resume(state, wrench)
                rest -= wrench
            load = self.arms[index].load
            load[:3] = handover.wrench_in_base[:3] - handover.contact_in_base[:3]
            self.arms[index].carries = bool(load.any())
            rest -= load
            error, fraction = self.arms[index].spring.error_for(state, rest)
            target.displace(index, error)
            reached = handover.wrench_in_base - (1.0 - fraction) * rest
            fraction = fraction_of(reached, handover.wrench_in_base)
            words.append(handover.describe(state.name, fraction))
        return "; ".join(filter(None, words))

    def free_velocity(self, arm: int, state: ArmState) -> Vector:
        """Return the joint velocity of the tool in directions without stiffness, (n,) [rad/s]."""
        return self.arms[arm].spring.free_velocity(state)

    def requested_force(
        self, arm: int, states: Sequence[ArmState], target: ForceTarget
    ) -> Vector | None:
        """Return the target wrench of an arm, (6,) [N, Nm]; None before the first target."""
        return target.wrench_in_base[arm] if self.arms[arm].force.is_controlled else None

    def on_target(self, channel: str, arm_index: int, target: ForceTarget) -> None:
        """Apply a target wrench or stiffness."""
        arm = self.arms[arm_index]
        if channel == "stiffness":
            arm.spring.set_stiffness(target.stiffness[arm_index], self.gain_cycles())
        elif channel == "wrench":
            arm.set_direction(target.wrench_in_base[arm_index], self._states[arm_index])

    def update(self, states: Sequence[ArmState], target: ForceTarget, period: float) -> None:
        """Write the joint torques of all arms."""
        speed = self.params.approach_speed
        for index, arm in enumerate(self.arms):
            arm.update(
                states[index], target.position_ee_in_base[index],
                target.rotation_ee_in_base[index], speed, self.tau[index],
            )  # fmt: skip
            self.is_free[index] = arm.spring.is_free
        self._write_report()

    def _write_report(self) -> None:
        arm, force = self.arms[0], self.arms[0].force
        fractions = [arm.spring.stiffness_scale for arm in self.arms]
        min_value, supported = min(fractions), min([arm.wrench_scale for arm in self.arms])
        _pack(  # Packing into the buffer is faster than nine assignments.
            self.report.data, 0, force.measured, force.error, force.contact, force.weight,
            force.tank.energy, arm.tank.free, arm.tank.scale, min_value, supported,
        )  # fmt: skip
        self.min_scale_arm = fractions.index(min_value)
