# SPDX-License-Identifier: Apache-2.0
"""The last word on the joint positions of an arm that is not under torque control."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from multipanda_py.context import Handover
from multipanda_py.planning.trajectory.motion_limiter import MotionLimiter
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.safety import StateGuard, TorqueGuard, is_finite
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_model import ArmGravity, ArmModel
from multipanda_py.robots.inertial import Load
from multipanda_py.state import INTERFACES, ArmState, Vector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multipanda_py.realtime.controllet_instance import Instance
    from multipanda_py.robots.dynamics.external_torque import ExternalEstimate, LearnedTorque


PATIENCE = 0.1
"""For so long torques are beyond springs before that is said: not in every jerk [s]."""
FORGETS = 1.0
"""So long within them, and it is said again [s]."""
_BEYOND = 1e-9
_absolute, _subtract, _minimum, _maximum = np.absolute, np.subtract, np.minimum, np.maximum


class SpringBound:
    r"""Keep what an arm on springs is asked for within what they can exert.

    .. math:: -\tau_{whole} - g(q) \le \tau \le \tau_{whole} - g(q)

    So what counts as commanded, and what a law is told of it, is what the springs are asked for,
    and nothing winds up beyond that. Where the weight alone is more than they can exert, they
    exert what they can, and the arm sinks.

    Args:
        arm: The arm, which compensates gravity by its springs.
        state: Its live state, whose ``weight`` this fills.
        period: Cycle time [s].

    Attributes:
        gravity: Computes what carries it.

    Thread: control.
    """

    def __init__(self, arm: ArmDescription, state: ArmState, period: float) -> None:
        state.weight = np.zeros(arm.n_joints)
        self.gravity = ArmGravity(arm, state, period, state.weight)
        self._state, self._whole = state, state.limits.whole_torque
        self._bound, self._asked = np.zeros((2, arm.n_joints))
        self._patience, self._forgets = round(PATIENCE / period), round(FORGETS / period)
        self._beyond = self._within = 0
        self._is_said = False

    def apply(self, tau: Vector) -> None:
        """Bound torques in place, (n,) [Nm]."""
        self.gravity.update()
        self._asked[:] = tau
        bound, weight = self._bound, self._state.weight
        _minimum(tau, _subtract(self._whole, weight, bound), out=tau)
        _maximum(tau, _subtract(-self._whole, weight, bound), out=tau)
        _absolute(_subtract(self._asked, tau, bound), bound)
        if max(bound.tolist()) > _BEYOND:
            self._beyond, self._within = self._beyond + 1, 0
        else:
            self._beyond, self._within = 0, self._within + 1
            self._is_said &= self._within < self._forgets

    def news(self) -> str:
        """Return what is to be said now, once; mostly nothing."""
        if self._is_said or self._beyond < self._patience:
            return ""
        self._is_said = True
        joint, state = int(self._bound.argmax()), self._state
        weight = state.weight[joint]
        return (
            f"springs of joint {joint + 1} can exert {self._whole[joint]:.3g} Nm, got "
            f"{abs(self._asked[joint] + weight):.3g} Nm with {abs(weight):.3g} Nm of the arm's "
            "weight: it gets what they can"
        )


RELEASE_TIME = 0.02
"""Time constant with which the torque of an arm that no law can hold decays to zero [s]."""
SOUND_CYCLES = 5
"""States in a row that have to be numbers before hold brakes an arm that was released."""


class Arm:
    """Who owns an arm, and what torque it gets.

    Attributes:
        index: Position in the cell.
        state: Live state.
        model: Kinematics and dynamics.
        record: Its part of the row, shape ().
        owner: The instance whose torque it follows.
        fault: The latched fault, or ``Event.NONE``.
        first_interface: What it is commanded until a law wants something else.
        motion: Moves its ``joint_command`` on; None under torque control.
        released: Even hold cannot produce a torque; it decays to zero.
        blind: Why: what was measured was no number. Hold begins anew when that is over.
        interrupted: It may not have done what it was told at some time since the fault.
        busy: Why no other law may have it now, or an empty string.
        tare: What is taken off its estimated external torques, (n,) [Nm].
        up_in_base: Against gravity, (3,).
        gravity: What carries it, if it does not do so itself.
        springs: What bounds its torques beside its weight, if springs exert both.
        felt: Estimates external torques, if the robot's own are not to be believed.
        before_loss: What it was pressing with before it lost its torque.

    Thread: control.
    """

    def __init__(
        self,
        index: int,
        state: ArmState,
        model: ArmModel,
        record: NDArray[np.void],
        period: float,
        up_in_base: Vector | None = None,
        motion: ArmMotion | None = None,
        interface: str = INTERFACES[0],
        felt: LearnedTorque | ExternalEstimate | None = None,
    ) -> None:
        self.index, self.state, self.model = index, state, model
        model.attach(state)
        state.actuators.leave_to_laws()
        self.record = record
        self._owner_word, self._fault_word = record["owner"], record["fault"]
        self._wanted = record["tau_wanted"][: state.n_joints]
        self._interface_word = record["interface"]
        self.first_interface, self.felt = interface, felt
        self._own_motion = motion
        self.motion: ArmMotion | None = None
        self._command: Vector | None = None
        self._torque_guard = TorqueGuard(state.limits, period)
        self._state_guard = StateGuard(state.limits)
        own = model.arm.compensates_gravity
        self.gravity = None if own else ArmGravity(model.arm, state, period)
        bears = own and state.limits.bears_weight
        self.springs = SpringBound(model.arm, state, period) if bears else None
        self._sprung = None if self.springs is None else self.springs.gravity
        self._decay = np.exp(-period / RELEASE_TIME)
        self._blended, self._from = np.zeros(state.n_joints), np.zeros(state.n_joints)
        self._blend_cycles = 1
        self.blend_left = 0
        self.owner: Instance
        self.slot = 0
        self._fault = Event.NONE
        self.released = self.blind = self.interrupted = False
        self._sound = 0
        self.busy = ""
        self.tare = np.zeros(state.n_joints)
        self.up_in_base = np.array([0.0, 0.0, 1.0]) if up_in_base is None else up_in_base
        self.before_loss = Handover(np.zeros(state.n_joints))

    @property
    def fault(self) -> Event:
        """The latched fault."""
        return self._fault

    @fault.setter
    def fault(self, event: Event) -> None:
        self._fault = event
        self.interrupted = event is not Event.NONE and (self.interrupted or event.takes_torque)
        self._fault_word[...] = int(event)

    @property
    def interface(self) -> str:
        """What it is commanded, one of :data:`.INTERFACES`."""
        return INTERFACES[int(self._interface_word)]

    def prepare(self, interface: str) -> None:
        """Let ``joint_command`` begin where the arm is, if it is about to count."""
        if interface != self.interface:
            self.state.joint_command[0] = self.state.q
            self.state.joint_command[1:] = 0.0

    def engage(self, interface: str) -> None:
        """Be commanded something else from now on, beginning at rest where the arm is."""
        self._interface_word[...] = INTERFACES.index(interface)
        self.motion = None if interface == INTERFACES[0] else self._own_motion
        if self.motion is not None:
            self.motion.start(interface)

    def give_to(self, instance: Instance, slot: int) -> None:
        """Make ``instance`` the owner; the arm is number ``slot`` of its arms."""
        if instance is not getattr(self, "owner", None):
            self.state.actuators.leave_to_laws()
        self.owner, self.slot = instance, slot
        self._command = instance.command[slot] if instance.command else None
        self._owner_word[...] = instance.spec.index
        self.state.change_law()

    def blend(self, cycles: int) -> None:
        """Blend from the torque commanded last to the owner's, over ``cycles``."""
        self._from[:] = self.state.tau
        self._blend_cycles = self.blend_left = cycles

    def check(self) -> Event:
        """Return a fault of the measured state that is not latched yet."""
        return Event.NONE if self._fault else self._state_guard.check(self.state)

    def explain(self, fault: Event) -> str:
        """Say in a sentence what the state's fault is."""
        return self._state_guard.words_for(self.state, fault)

    def recover(self, handover: Handover | None = None) -> Event:
        """Clear the latched fault and hold; return what it was.

        A hold that has had the arm since the fault goes on as it is: begun anew, it would let a
        load sink that nobody told of, and a hand that pushes would be pushed for good.
        """
        was, anew = self._fault, self.released or self.interrupted
        self.fault, self.released, self.blind = Event.NONE, False, False
        if anew:
            self.start_anew(handover)
        return was

    def release(self) -> None:
        """Let the torque decay, as even hold has none."""
        self.released, self._sound = True, 0
        self.blind = not self._is_seen()

    def load(self, fault: Event, released: bool) -> None:
        """Go back to a saved fault; states count from now on before hold takes over again."""
        self.interrupted = self.released = self.blind = released
        self.fault, self._sound = fault, 0

    def look_again(self) -> None:
        """Have hold brake an arm that was released blindly, and stays faulted, once it is seen.

        Nothing else would: without friction it would glide on, and faster, to its stops.
        """
        if self.blind:
            self._sound = self._sound + 1 if self._is_seen() else 0
            if self._sound >= SOUND_CYCLES:
                self.released = False
                self.start_anew()

    def _is_seen(self) -> bool:
        return is_finite(self.state.q) and is_finite(self.state.dq)

    def start_anew(self, handover: Handover | None = None) -> None:
        """Let the hold begin from the measured state, with a torque if it was not away."""
        self.owner.activate(None if handover is None else [handover])
        self.blend(self._blend_cycles)

    def command(self) -> None:
        """Write this cycle's torque to the state: blended, clamped, rate limited."""
        self._wanted[:] = self.wanted()
        if self.gravity is not None:
            self.take_weight_on()
        self._torque_guard.apply(self._wanted, self.state.tau)
        if self.gravity is not None:
            self.take_weight_off()
        if self.springs is not None:
            self.springs.apply(self.state.tau)

    def take_weight_on(self) -> None:
        """Make what was commanded last and what is wanted now whole torques, gravity included.

        Only those may be bounded; the rest of the loop knows them without gravity.
        """
        if self.gravity is not None:
            self.state.tau += self.state.tau_gravity
            self.gravity.update()
            self._wanted += self.state.tau_gravity

    def take_weight_off(self) -> None:
        """Undo :meth:`take_weight_on` for what is commanded now."""
        self._wanted -= self.state.tau_gravity
        self.state.tau -= self.state.tau_gravity

    def know_weight(self) -> None:
        """Compute what carries it, where it stands."""
        for gravity in (self.gravity, self._sprung):
            if gravity is not None:
                gravity.update()

    def set_load(self, load: Load) -> None:
        """Count what the flange carries, instead of any load before."""
        self.model.set_load(load)
        for of_load in (self.gravity, self._sprung, self.felt):
            if of_load is not None:
                of_load.set_load(load)

    def wanted(self) -> Vector:
        """Return this cycle's torque before it is bounded, (n,) [Nm]; ask once a cycle.

        The torque of an arm that is released decays; that of one that is not under torque control
        is left to its backend.
        """
        if self.motion is not None:
            self.motion.step(None if self.owner.waits else self._command)
            return self.state.tau
        if self.released:  # not in place: how fast it decays is bounded, too
            return np.multiply(self.state.tau, self._decay, out=self._blended)
        tau = self.owner.tau[self.slot]
        if self.blend_left > 0:
            share = self.blend_left / (self._blend_cycles + 1)
            self.blend_left -= 1
            np.multiply(tau, 1.0 - share, out=self._blended)
            self._blended += share * self._from
            tau = self._blended
        return tau


_ACCELERATION, _JERK = 0.93, 0.77
"""Fractions of the limits of acceleration and jerk that commands use. They are below those of the
drivers of real arms, so that these pass commands unchanged. Robots judge rounded positions."""


class ArmMotion:
    """Take commands of positions or velocities to ``joint_command``, or brake without any.

    Args:
        state: Of the arm.
        period: Cycle time [s].

    Thread: control.
    """

    def __init__(self, state: ArmState, period: float) -> None:
        self._state, self._period = state, period
        limits = state.limits
        kept = replace(
            limits, acceleration=_ACCELERATION * limits.acceleration, jerk=_JERK * limits.jerk
        )
        self._limiter = MotionLimiter(kept, period, state.joint_command)
        self._follow = self._limiter.follow
        self._resting_cycles = 0

    @property
    def rest_time(self) -> float:
        """Time since which no motion has been commanded [s]."""
        return self._resting_cycles * self._period

    def start(self, interface: str) -> None:
        """Begin at the measured positions, at rest."""
        limiter = self._limiter
        is_rate = interface == INTERFACES[2]
        self._follow = limiter.follow_rate if is_rate else limiter.follow
        limiter.start(self._state.q)

    def resume(self) -> None:
        """Go on from commands that were put back to what they had been."""
        q, dq, ddq = self._state.joint_command.copy()
        self._limiter.start(q, dq - 0.5 * self._period * ddq, ddq)

    def step(self, wanted: Vector | None) -> None:
        """Move the command on by one period, towards what is wanted or to rest.

        Args:
            wanted: Positions (n,) [rad] or velocities (n,) [rad/s], finite; None to stop.
        """
        limiter = self._limiter
        if not limiter.is_untouched:  # the arm does not execute it, but is there
            limiter.start(limiter.q)
        if wanted is None:
            limiter.brake()
        else:
            self._follow(wanted)
        self._resting_cycles = self._resting_cycles + 1 if limiter.at_rest else 0
