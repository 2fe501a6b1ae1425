# SPDX-License-Identifier: Apache-2.0
"""Unified force-impedance control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct

from multipanda_py.context import Context, Handover, share_of
from multipanda_py.control.force.force_control import ForceParams
from multipanda_py.control.force.force_impedance import ForceImpedanceArm
from multipanda_py.control.impedance.gains import CartesianGains, RampedGains
from multipanda_py.control.impedance.limit_scaling import BORNE
from multipanda_py.control.impedance.modal_damping import KEPT
from multipanda_py.parameters import number
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import ForceTarget, Report

_pack = Struct("9d").pack_into


@dataclass(frozen=True, eq=False)
class ForceImpedanceParams(ForceParams, CartesianGains):
    """Gains of :class:`ForceImpedance`."""

    tank_start: float = number(
        10.0, unit="J", low=0, high=1000,
        doc="what the tank of the impedance is granted at activation, at most tank_max",
    )  # fmt: skip


class ForceImpedance(RampedGains[ForceTarget, ForceImpedanceParams]):
    r"""Add closed-loop force control to an impedance, with a tank for each.

    .. math::
        \tau = J^T \left( (1 + \alpha_i) P K_c P \tilde x - D_c \dot x + F u \right)

    (multipanda_ros2, section IV, eq. 4). The wrench target sets the direction
    :math:`u = F_d / \|F_d\|` and the size of the force that the tool exerts on the world;
    across it the impedance acts alone, along it force control alone:
    :class:`.ForceSubspace` takes the spring out with
    :math:`P = I - u u^T` and brings it back in relaxed when the force is withdrawn. Force part
    F and its tank: :class:`.ForceController`; impedance tank and
    :math:`x'_d = x_d + \alpha_i (x_d - x)`: :class:`.SpringTank`.

    Every cycle the work that the torques of spring, damper and force have done is booked,
    :math:`W = \tau_k^T (\dot q_k + \dot q_{k+1}) T / 2`; what the dampers took and what overflows
    from one tank goes where more is missing. So the work of all three together never exceeds
    what both tanks were granted, plus the allowance ``tank_power`` of each over time. A tank
    that limits is reported as an event.

    The spring asks of joints what they bear, fades out and is damped where they get fast, and is
    braked where it pulls along a direction that is being lost, as that of
    :class:`.CartesianImpedance`. The same holds
    for the guard near singular configurations.

    A target has no velocity: a damper with a moving reference is a motor. With the acceleration
    and Coriolis terms of eq. 1 left out, as eq. 2 and the paper's code do; the sign is that of
    :math:`\tilde x = x_d - x` in eq. 1.

    Attributes:
        arms: Impedance, force control and tanks of each arm.
    """

    Params, Target = ForceImpedanceParams, ForceTarget
    default_features = ("nullspace", "coriolis", "joint_limits", "collision_avoidance")
    for_features = ("joint",)
    touches = ("things",)
    report_names = (
        Report("force", "N", "that the tool presses with"),
        Report("force error", "N", "of what is asked for"),
        Report("contact", "-", "1 while there is contact"),
        Report("weight", "-", "of the force part"),
        Report("force tank", "J", "energy that the force part may still spend"),
        Report("impedance tank", "J", "energy that the impedance may still spend"),
        Report("impedance scale", "-", "share of the impedance that the tank allows"),
        KEPT,
        BORNE,
    )

    def __init__(self, context: Context, params: ForceImpedanceParams) -> None:
        gains = params.gains()
        self.arms = [ForceImpedanceArm(context, place, gains) for place in range(context.n_arms)]
        self._states: Sequence[ArmState] = ()
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Hand the gains over: at once at rest, else spread over ``gain_time``."""
        p = self.params
        cycles = self.gain_cycles()
        for arm in self.arms:
            arm.spring.set_shape(p.damping_ratio, p.error_clip, p.gain_frame == "tool")
            arm.spring.set_stiffness(p.stiffness, cycles)
            arm.force.set_gains(p.gains())
            arm.tank.limit, arm.tank.power = p.tank_max, p.tank_power

    def on_activate(self, states: Sequence[ArmState], target: ForceTarget) -> None:
        """Hold the measured pose with no force."""
        target.seed(states)
        self.start_gains()
        self._states = states
        for arm, state in zip(self.arms, states):
            arm.start(state, self.params.tank_start)
        self.is_free[:] = [arm.spring.is_free for arm in self.arms]

    def on_handover(
        self, states: Sequence[ArmState], target: ForceTarget, handovers: Sequence[Handover]
    ) -> str:
        """Go on with the force of a contact, until a wrench is asked for; springs take the rest.

        The force is fed forward and fades as on a lost contact. It is not controlled: two arms
        that hold something by their springs would push it about. What is carried unfelt, as a
        payload that was tared, is fed forward for good: a force that is controlled takes the
        spring away that would carry it. It is constant, so what it does on a way it takes back.
        """
        words = []
        for place, (state, handover) in enumerate(zip(states, handovers)):
            held = self.arms[place].hold(state, handover.tau)
            wrench, rest = target.wrench_in_base[place], handover.wrench_in_base - held
            if handover.contact_force > self.params.contact_force:
                wrench[:3] = handover.contact_in_base[:3]
                self.arms[place].resume(state, wrench)
                rest -= wrench
            load = self.arms[place].load
            load[:3] = handover.wrench_in_base[:3] - handover.contact_in_base[:3]
            self.arms[place].carries = bool(load.any())
            rest -= load
            error, share = self.arms[place].spring.error_for(state, rest)
            target.displace(place, error)
            reached = handover.wrench_in_base - (1.0 - share) * rest
            share = share_of(reached, handover.wrench_in_base)
            words.append(handover.words(state.name, share))
        return "; ".join(filter(None, words))

    def free_velocity(self, arm: int, state: ArmState) -> Vector:
        """Return the joint velocity of the motion that the spring leaves free, (n,) [rad/s]."""
        return self.arms[arm].spring.free_velocity(state)

    def requested_force(
        self, arm: int, states: Sequence[ArmState], target: ForceTarget
    ) -> Vector | None:
        """Return the wrench target of an arm, (6,); None before the first target."""
        return target.wrench_in_base[arm] if self.arms[arm].force.is_controlled else None

    def on_target(self, channel: str, place: int, target: ForceTarget) -> None:
        """Take a wrench or a stiffness over."""
        arm = self.arms[place]
        if channel == "stiffness":
            arm.spring.set_stiffness(target.stiffness[place], self.gain_cycles())
        elif channel == "wrench":
            arm.aim(target.wrench_in_base[place], self._states[place])

    def update(self, states: Sequence[ArmState], target: ForceTarget, period: float) -> None:
        """Write the joint torques of every arm."""
        speed = self.params.approach_speed
        for place, arm in enumerate(self.arms):
            arm.update(
                states[place], target.position_ee_in_base[place],
                target.rotation_ee_in_base[place], speed, self.tau[place],
            )  # fmt: skip
            self.is_free[place] = arm.spring.is_free
        self._report()

    def _report(self) -> None:
        """Report on the first arm."""
        arm, force = self.arms[0], self.arms[0].force
        shares = [arm.spring.kept for arm in self.arms]
        least, borne = min(shares), min([arm.borne for arm in self.arms])
        _pack(  # a fifth of what nine assignments cost
            self.report.data, 0, force.measured, force.error, force.contact, force.weight,
            force.tank.energy, arm.tank.free, arm.tank.scale, least, borne,
        )  # fmt: skip
        self.softest = shares.index(least)
