# SPDX-License-Identifier: Apache-2.0
"""Torque and command pipeline of one arm: ownership, blending, limits, faults."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy import absolute, maximum, minimum, subtract

from multipanda_py.context import BumplessTransfer
from multipanda_py.planning.trajectory.motion_limiter import MotionLimiter
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.torque_guard import StateGuard, TorqueGuard, is_finite
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import ArmGravity, ArmModel
from multipanda_py.robots.inertial import Load
from multipanda_py.state import COMMAND_INTERFACES, ArmState, Vector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multipanda_py.realtime.controllet_instance import ControlletInstance
    from multipanda_py.robots.dynamics.external_torque import ExternalEstimate, ResidualCorrection


WARNING_DELAY = 0.1
"""Time for which desired torques must exceed the limits of the springs before a warning [s]."""
WARNING_RESET_TIME = 1.0
"""Time within the spring limits after which a new excess is reported again [s]."""
_BEYOND = 1e-9  # Excess over the spring limits that may still be a rounding error [Nm].


class SeaTorqueLimit:
    r"""Torque limit of an arm with series elastic actuators (SEA), whose springs carry its weight.

    .. math:: -\tau_{max} - g(q) \le \tau \le \tau_{max} - g(q).

    Here :math:`\tau` is the commanded torque without gravity, :math:`g(q)` the gravity torque and
    :math:`\tau_{max}` the maximum torque of the springs. If gravity alone exceeds the maximum, the
    springs exert the maximum and the arm sinks.

    Args:
        arm: Description of the arm.
        state: State of the arm, updated by the loop. Its ``tau_weight`` receives the gravity
            torques.
        period: Cycle time [s].

    Attributes:
        gravity: Model that computes the gravity torques of the arm.

    Thread: control.
    """

    def __init__(self, arm: ArmDescription, state: ArmState, period: float) -> None:
        state.tau_weight = np.zeros(arm.n_joints)
        self.gravity = ArmGravity(arm, state, period, state.tau_weight)
        self._state, self._whole = state, state.limits.whole_torque
        self._bound, self._desired_torque = np.zeros((2, arm.n_joints))
        self._delay_cycles, self._reset_cycles = (
            round(WARNING_DELAY / period),
            round(WARNING_RESET_TIME / period),
        )
        self._beyond = self._within = 0
        self._is_reported = False

    def apply(self, tau: Vector) -> None:
        """Limit the torques ``tau`` in place, (n,) [Nm]; call it once per cycle."""
        self.gravity.update()
        self._desired_torque[:] = tau
        bound, weight = self._bound, self._state.tau_weight
        minimum(tau, subtract(self._whole, weight, bound), out=tau)
        maximum(tau, subtract(-self._whole, weight, bound), out=tau)
        absolute(subtract(self._desired_torque, tau, bound), bound)
        if max(bound.tolist()) > _BEYOND:
            self._beyond, self._within = self._beyond + 1, 0
        else:
            self._beyond, self._within = 0, self._within + 1
            self._is_reported &= self._within < self._reset_cycles

    def new_warning(self) -> str:
        """Return a warning if desired torques exceed the limit for :data:`WARNING_DELAY`.

        The result is empty without a warning, and if this excess was already reported.
        """
        if self._is_reported or self._beyond < self._delay_cycles:
            return ""
        self._is_reported = True
        joint, state = int(self._bound.argmax()), self._state
        weight = state.tau_weight[joint]
        return (
            f"the springs of joint {joint + 1} exert up to {self._whole[joint]:.3g} Nm, but "
            f"{abs(self._desired_torque[joint] + weight):.3g} Nm are commanded, including "
            f"{abs(weight):.3g} Nm against gravity. The torque is limited. Reduce the stiffness "
            "or the load"
        )


RELEASE_TIME = 0.02
"""Time constant of the torque decay of an arm that no controllet can hold [s]."""
SOUND_CYCLES = 5
"""Number of consecutive finite states after which hold brakes an arm again that was released
because of non-finite states."""


class Arm:
    """Owner, commands, limits and faults of one arm.

    Args:
        index: Index of the arm in the cell.
        state: State of the arm, updated by the loop.
        model: Kinematic and dynamic model of the arm.
        record: Fields of the arm in the cycle record, a structured array of shape ().
        period: Cycle time [s].
        up_in_base: Unit vector against gravity in the base frame, (3,); by default the z axis.
        motion: Motion generator for position and velocity commands; None if the arm executes only
            torques.
        interface: Command interface at the start.
        estimator: Estimator of the external torques; None to use the estimate of the robot.

    Attributes:
        owner: Controllet instance that commands the arm.
        fault: Latched fault, or ``Event.NONE``.
        motion: Motion generator in use; None under torque control.
        released: True after hold has failed to compute a valid torque. The commanded torque then
            decays to zero.
        state_lost: True if the arm was released because of a measured state that was not finite.
        interrupted: True if the latched fault may have stopped the execution of commands. Hold
            then restarts at the recovery.
        busy: Reason why controllets cannot take over the arm now; empty if they can.
        tare: Offset that is subtracted from the estimated external torques, (n,) [Nm].
        gravity: Model of the gravity torques that the loop adds; None if the robot compensates
            gravity itself.
        springs: Torque limit of an arm whose springs carry its weight; None for other arms.
        before_loss: Contact force and joint torques shortly before a fault last interrupted the
            arm.

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
        interface: str = COMMAND_INTERFACES[0],
        estimator: ResidualCorrection | ExternalEstimate | None = None,
    ) -> None:
        self.index, self.state, self.model = index, state, model
        model.attach(state)
        state.actuators.leave_to_controllet()
        self.record = record
        self._owner_word, self._fault_word = record["owner"], record["fault"]
        self._desired_torque = record["tau_desired"][: state.n_joints]
        self._interface_word = record["interface"]
        self.first_interface, self.external_torque_estimator = interface, estimator
        self._own_motion = motion
        self.motion: ArmMotion | None = None
        self._command: Vector | None = None
        self._torque_guard = TorqueGuard(state.limits, period)
        self._state_guard = StateGuard(state.limits)
        own = model.arm.compensates_gravity
        self.gravity = None if own else ArmGravity(model.arm, state, period)
        bears = own and state.limits.bears_weight
        self.springs = SeaTorqueLimit(model.arm, state, period) if bears else None
        self._sprung = None if self.springs is None else self.springs.gravity
        self._decay = np.exp(-period / RELEASE_TIME)
        self._blended, self._from = np.zeros(state.n_joints), np.zeros(state.n_joints)
        self._blend_cycles = 1
        self.blend_left = 0
        self.owner: ControlletInstance
        self.slot = 0
        self._fault = Event.NONE
        self.released = self.state_lost = self.interrupted = False
        self._sound = 0
        self.busy = ""
        self.tare = np.zeros(state.n_joints)
        self.up_in_base = np.array([0.0, 0.0, 1.0]) if up_in_base is None else up_in_base
        self.before_loss = BumplessTransfer(np.zeros(state.n_joints))

    @property
    def fault(self) -> Event:
        return self._fault

    @fault.setter
    def fault(self, event: Event) -> None:
        self._fault = event
        self.interrupted = event is not Event.NONE and (self.interrupted or event.takes_torque)
        self._fault_word[...] = int(event)

    @property
    def interface(self) -> str:
        """Command interface, one of :data:`.COMMAND_INTERFACES`."""
        return COMMAND_INTERFACES[int(self._interface_word)]

    def prepare(self, interface: str) -> None:
        """Set ``joint_command`` to the measured positions before a change of command interface.

        Args:
            interface: New command interface. If the arm uses it already, nothing is set.
        """
        if interface != self.interface:
            self.state.joint_command[0] = self.state.q
            self.state.joint_command[1:] = 0.0

    def engage(self, interface: str) -> None:
        """Change the command interface to ``interface``, one of :data:`.COMMAND_INTERFACES`.

        Under position or velocity control, the commanded motion starts at rest at the measured
        positions.
        """
        self._interface_word[...] = COMMAND_INTERFACES.index(interface)
        self.motion = None if interface == COMMAND_INTERFACES[0] else self._own_motion
        if self.motion is not None:
            self.motion.start(interface)

    def give_to(self, instance: ControlletInstance, slot: int) -> None:
        """Make ``instance`` the owner; ``slot`` is the index of the arm in its ``spec.arms``."""
        if instance is not getattr(self, "owner", None):
            self.state.actuators.leave_to_controllet()
        self.owner, self.slot = instance, slot
        self._command = instance.command[slot] if instance.command else None
        self._owner_word[...] = instance.spec.index
        self.state.change_controllet()

    def blend(self, cycles: int) -> None:
        """Blend from the last commanded torque to that of the owner, in ``cycles`` cycles."""
        self._from[:] = self.state.tau
        self._blend_cycles = self.blend_left = cycles

    def check(self) -> Event:
        """Check the measured state for a new fault.

        Returns:
            New fault; ``Event.NONE`` for a valid state, or while another fault is latched.
        """
        return Event.NONE if self._fault else self._state_guard.check(self.state)

    def explain(self, fault: Event) -> str:
        """Describe a fault that :meth:`check` has returned: joint, value and allowed range."""
        return self._state_guard.words_for(self.state, fault)

    def recover(self, handover: BumplessTransfer | None = None) -> Event:
        """Clear the latched fault and return it; hold stays the owner.

        If the arm was released or :attr:`interrupted`, hold restarts from the measured state.
        Otherwise hold continues unchanged.

        Args:
            handover: Contact force and torque that hold exerts after a restart; None for zero.
        """
        was, restart = self._fault, self.released or self.interrupted
        # A restart without need would let the arm sink under an unknown load.
        self.fault, self.released, self.state_lost = Event.NONE, False, False
        if restart:
            self.restart_hold(handover)
        return was

    def release(self) -> None:
        """Let the commanded torque decay to zero, because hold cannot compute a valid torque."""
        self.released, self._sound = True, 0
        self.state_lost = not self._has_finite_state()

    def load(self, fault: Event, released: bool) -> None:
        """Restore the fault of the arm from a saved state, after a reset of the simulation.

        Args:
            fault: Latched fault.
            released: True if the arm was released in the saved state. Hold then restarts after
                :data:`SOUND_CYCLES` cycles with finite measured states.
        """
        self.interrupted = self.released = self.state_lost = released
        self.fault, self._sound = fault, 0

    def resume_hold(self) -> None:
        """Restart hold after :data:`SOUND_CYCLES` finite states on an arm with :attr:`state_lost`.

        The fault stays latched. Call it once per cycle.
        """
        if self.state_lost:
            self._sound = self._sound + 1 if self._has_finite_state() else 0
            if self._sound >= SOUND_CYCLES:
                self.released = False
                self.restart_hold()

    def _has_finite_state(self) -> bool:
        return is_finite(self.state.q) and is_finite(self.state.dq)

    def restart_hold(self, handover: BumplessTransfer | None = None) -> None:
        """Restart hold from the measured state.

        Args:
            handover: Contact force and torque that hold exerts from the start; None for zero.
        """
        self.owner.activate(None if handover is None else [handover])
        self.blend(self._blend_cycles)

    def command(self) -> None:
        """Write the torque of this cycle to the state, blended and limited in value and rate."""
        self._desired_torque[:] = self.desired_torque()
        if self.gravity is not None:
            self.add_gravity()
        self._torque_guard.apply(self._desired_torque, self.state.tau)
        if self.gravity is not None:
            self.subtract_gravity()
        if self.springs is not None:
            self.springs.apply(self.state.tau)

    def add_gravity(self) -> None:
        """Add the gravity torque to the desired torque and to the last commanded ``state.tau``.

        The limits of torque and torque rate then apply to torques that include gravity. Call
        :meth:`subtract_gravity` after these limits.
        """
        if self.gravity is not None:
            self.state.tau += self.state.tau_gravity
            self.gravity.update()
            self._desired_torque += self.state.tau_gravity

    def subtract_gravity(self) -> None:
        """Undo :meth:`add_gravity` after the torque limits."""
        self._desired_torque -= self.state.tau_gravity
        self.state.tau -= self.state.tau_gravity

    def update_gravity(self) -> None:
        """Compute the gravity torques at the measured positions."""
        for gravity in (self.gravity, self._sprung):
            if gravity is not None:
                gravity.update()

    def set_load(self, load: Load) -> None:
        """Set the load at the flange; it replaces any previous load."""
        self.model.set_load(load)
        for of_load in (self.gravity, self._sprung, self.external_torque_estimator):
            if of_load is not None:
                of_load.set_load(load)

    def desired_torque(self) -> Vector:
        """Return the desired torque before limits, (n,) [Nm]. Call it once per cycle.

        Under torque control, it is the torque of the owner, blended after a change of the owner.
        If hold has failed (:attr:`released`), it decays to zero. Under position or velocity
        control, the call advances ``joint_command`` by one cycle and returns ``state.tau``.
        """
        if self.motion is not None:
            self.motion.step(None if self.owner.is_suspended else self._command)
            return self.state.tau
        # ``state.tau`` must stay the last commanded torque, from which the rate limit starts. The
        # decaying torque is therefore written to a separate array.
        if self.released:
            return np.multiply(self.state.tau, self._decay, out=self._blended)
        tau = self.owner.tau[self.slot]
        if self.blend_left > 0:
            fraction = self.blend_left / (self._blend_cycles + 1)
            self.blend_left -= 1
            np.multiply(tau, 1.0 - fraction, out=self._blended)
            self._blended += fraction * self._from
            tau = self._blended
        return tau


_ACCELERATION_FRACTION, _JERK_FRACTION = 0.93, 0.77
"""Maximum acceleration and jerk of commands, as fractions of the limits. Fractions below 1 allow
for rounding of positions. They are smaller than those of the drivers of real arms, so that drivers
pass commands unchanged."""


class ArmMotion:
    """Motion generator that follows position or velocity commands, or brakes without commands.

    It writes ``joint_command`` of the arm within the limits of velocity, acceleration and jerk.

    Args:
        state: State of the arm, updated by the loop.
        period: Cycle time [s].

    Thread: control.
    """

    def __init__(self, state: ArmState, period: float) -> None:
        self._state, self._period = state, period
        limits = state.limits
        held_limits = replace(
            limits,
            acceleration=_ACCELERATION_FRACTION * limits.acceleration,
            jerk=_JERK_FRACTION * limits.jerk,
        )
        self._limiter = MotionLimiter(held_limits, period, state.joint_command)
        self._follow = self._limiter.follow
        self._resting_cycles = 0

    @property
    def rest_time(self) -> float:
        """Time since the commanded motion has come to rest [s]; 0 while it moves."""
        return self._resting_cycles * self._period

    def start(self, interface: str) -> None:
        """Start to follow commands of an ``interface``, at rest at the measured positions."""
        limiter = self._limiter
        is_rate = interface == COMMAND_INTERFACES[2]
        self._follow = limiter.follow_rate if is_rate else limiter.follow
        limiter.start(self._state.q)

    def resume(self) -> None:
        """Continue the motion of ``joint_command`` after a reset has restored this command."""
        q, dq, ddq = self._state.joint_command.copy()
        self._limiter.start(q, dq - 0.5 * self._period * ddq, ddq)

    def step(self, desired: Vector | None) -> None:
        """Advance ``joint_command`` by one period towards the desired command, or brake.

        Args:
            desired: Desired positions (n,) [rad] or velocities (n,) [rad/s], finite; None to
                brake.
        """
        limiter = self._limiter
        # While an arm executes no commands, its backend overwrites ``joint_command`` with the
        # measured state. The limiter then restarts there, at rest.
        if not limiter.is_untouched:
            limiter.start(limiter.q)
        if desired is None:
            limiter.brake()
        else:
            self._follow(desired)
        self._resting_cycles = self._resting_cycles + 1 if limiter.at_rest else 0
