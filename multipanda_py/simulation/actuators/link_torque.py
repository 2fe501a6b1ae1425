# SPDX-License-Identifier: Apache-2.0
"""Torque control of links through springs, by inverting the springs to motor references."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.actuated_joints import OperationMode
from multipanda_py.simulation.actuators.command_dispatcher import ActuatorCommandDispatcher
from multipanda_py.simulation.actuators.joints import CompliantJoints
from multipanda_py.simulation.actuators.motors import Motors
from multipanda_py.state import Matrix, Vector

NOTICE_DELAY = 0.1
"""Time for which motors must be limited before a notice is sent [s]."""
NOTICE_RESET_TIME = 1.0
"""Time without a limit after which the next limit is reported again [s]."""
_LIMIT_FRACTION = 0.9
"""Fraction of the links' torque limits that is used, since motors overshoot when links reverse."""
_PRESET_TOLERANCE = 1e-9
"""Tolerance of presets at the ends of their range, for rounding errors [rad or m]."""
_SLOWDOWN_FRACTIONS = 0.1, 0.8
"""Fractions of the maximum link speed at which the torque limit begins to fall, and is zero."""
_MAX_BANDWIDTH = 200.0
"""Maximum bandwidth of the critically damped motor limit [rad/s]."""
_MAX_BANDWIDTH_RATIO = 0.3
"""Maximum bandwidth of the motor limit, as a multiple of the cycle rate [rad]."""


class MotorLimiter:
    r"""Limiter of motors that keeps spring torques within the torque limits of links.

    The torque that springs exert on a link is limited to

    .. math::
        \tau^\pm = \hat g \pm 0.9\, \tau_{max}\,
        \mathrm{clip}\!\left(\frac{0.8\, \dot q_{max} \mp \dot q}{0.7\, \dot q_{max}}, -1, 1\right)

    Here :math:`\hat g` is the gravity torque, :math:`\tau_{max}` the torque limit and :math:`\dot
    q_{max}` the maximum speed of the link. Let :math:`\theta^\pm` be the motor positions at which
    springs exert :math:`\tau^\pm`. The motor torque is limited to

    .. math::
        u^\pm = \tau_{spring}^\pm + J \left(\omega^2 (\theta^\pm - \theta)
        - 2 \omega (\dot\theta - \dot q)\right) .

    Here :math:`\tau_{spring}^\pm` is the load of the motor at :math:`\theta^\pm`, J the motor
    inertia and :math:`\omega` the bandwidth of the limiter. With the damping d between motor and
    link, a second limit is
    :math:`\tau_{spring} + 2 \omega J (\dot q + (\tau^\pm - \tau) / d - \dot\theta)`. Here
    :math:`\tau` and :math:`\tau_{spring}` are the current spring torques on link and motor.

    Args:
        joints: Compliant joints, m of them.
        motors: Motors of the joints.
        speed: Maximum joint speeds, (m,) [rad/s].
        period: Cycle time [s].

    Thread: control.
    """

    def __init__(
        self, joints: CompliantJoints, motors: Motors, speed: Vector, period: float
    ) -> None:
        self._joints, self._motors, self._speed = joints, motors, speed
        n, springs = joints.n_joints, joints.springs
        bandwidth = min(_MAX_BANDWIDTH, _MAX_BANDWIDTH_RATIO / period)
        self._damper, self._spring = (
            2.0 * bandwidth * motors.inertia,
            bandwidth**2 * motors.inertia,
        )
        both = springs.is_antagonistic
        # Motors that load the link through a spring. Pivot motors only change the stiffness.
        self._loads_link: NDArray[np.bool_] = np.array([np.ones(n, bool), both])
        largest = np.maximum(np.abs(springs.preset_low), np.abs(springs.preset_high))
        self._preset_range = (  # Antagonistic motors can have presets of either sign.
            np.where(both, -largest, springs.preset_low),
            np.where(both, largest, springs.preset_high),
        )
        self._modes: tuple[OperationMode, ...] = ()
        self._with_motors, self._with_pid = np.zeros((2, n), bool)
        self._was_limited = False
        self._notice_cycles, self._reset_cycles = (
            round(NOTICE_DELAY / period),
            round(NOTICE_RESET_TIME / period),
        )
        self._limited_cycles, self._free_cycles = np.zeros((2, n), np.int64)
        self._is_reported = np.zeros(n, bool)

    def apply(
        self, q: Vector, dq: Vector, bounds: Matrix, actuator_commanded: NDArray[np.bool_]
    ) -> None:
        """Limit references and torques of the motors of joints with actuator commands.

        Args:
            q: Link angles in the middle of the cycle, (m,) [rad].
            dq: Link velocities, (m,) [rad/s].
            bounds: Minimum and maximum torques of links, (2, m) [Nm].
            actuator_commanded: True for joints with actuator commands, (m,).
        """
        joints = self._joints
        if joints.modes is not self._modes:
            self._modes, self._was_limited = joints.modes, True
            self._with_motors = np.array([mode.has_motors for mode in self._modes])
            self._with_pid = np.array([mode.has_motor_pid for mode in self._modes])
        at = actuator_commanded & self._with_motors
        if not (at.any() or self._was_limited):
            return
        aims, torques = joints.references, joints.motor_commands
        result = self._limit_motors(q, dq, self._torque_window(dq, bounds), at, aims, torques)
        limited = ((result[0] != aims) | (result[1] != torques)).any(axis=0)
        is_limited = bool(limited.any())
        if is_limited or self._was_limited:
            joints.limit(*result)
        self._was_limited = is_limited
        self._limited_cycles = np.where(limited, self._limited_cycles + 1, 0)
        self._free_cycles = np.where(limited, 0, self._free_cycles + 1)

    def newly_limited(self) -> list[int]:
        """Return indices of joints whose motors have been limited for :data:`NOTICE_DELAY`.

        A joint is returned again after :data:`NOTICE_RESET_TIME` without a limit.
        """
        self._is_reported &= self._free_cycles < self._reset_cycles
        result = (self._limited_cycles >= self._notice_cycles) & ~self._is_reported
        self._is_reported |= result
        joints: list[int] = np.flatnonzero(result).tolist()
        return joints

    def _torque_window(self, dq: Vector, bounds_at_rest: Matrix) -> Matrix:
        """Return minimum and maximum spring torques at given link velocities, (2, m) [Nm]."""
        middle, reach = (
            0.5 * (bounds_at_rest[0] + bounds_at_rest[1]),
            0.5 * _LIMIT_FRACTION * (bounds_at_rest[1] - bounds_at_rest[0]),
        )
        speed_ratio, width = dq / self._speed, _SLOWDOWN_FRACTIONS[1] - _SLOWDOWN_FRACTIONS[0]
        up = np.clip((_SLOWDOWN_FRACTIONS[1] - speed_ratio) / width, -1.0, 1.0)
        down = np.clip((_SLOWDOWN_FRACTIONS[1] + speed_ratio) / width, -1.0, 1.0)
        result: Matrix = np.array([middle - reach * down, middle + reach * up])
        return result

    def _limit_motors(
        self, q: Vector, dq: Vector, window: Matrix, limited_joints: NDArray[np.bool_],
        aims: Matrix, torques: Matrix,
    ) -> tuple[Matrix, Matrix]:  # fmt: skip
        """Return motor references and torques that keep spring torques in ``window``, (2, m)."""
        joints, springs, motors = self._joints, self._joints.springs, self._motors
        theta, rate = joints.theta, joints.dtheta
        own = joints.integrated - motors.d * rate
        motor_torque = np.where(self._with_pid, motors.p * (aims - theta) + own, torques)
        motor_torque = np.clip(motor_torque, -motors.max_torque, motors.max_torque)
        now = springs.torque(q, theta)
        loads = np.array(now[1:])
        predicted = theta + (self._damper * rate + motor_torque - loads) / self._spring
        torque = springs.torque(q, predicted).link
        damping = springs.damping(theta) if springs.are_damped else np.zeros_like(q)
        near = limited_joints & ((torque < window[0]) | (torque > window[1]) | (damping > 0.0))
        preset = springs.preset_of(theta)
        ranged = np.clip(preset, *self._preset_range)
        near |= limited_joints & (np.abs(preset - ranged) > _PRESET_TOLERANCE)
        if not near.any():
            return aims, torques
        is_high = torque > 0.5 * (window[0] + window[1])
        end = np.where(near, np.where(is_high, window[1], window[0]), now.link)
        start = springs.equilibrium_of(theta)
        stands = springs.references(springs.nearest_equilibrium(q, end, ranged, start), ranged)
        held = np.array(springs.torque(q, stands)[1:])
        limit = held + self._spring * (stands - theta) - self._damper * rate
        limits = [np.where(is_high, -np.inf, limit), np.where(is_high, limit, np.inf)]
        if springs.are_damped:
            for side, torque_bound, bound in zip(limits, window, (np.fmax, np.fmin)):
                # fmax and fmin ignore the NaN of joints without damping.
                with np.errstate(divide="ignore", invalid="ignore"):
                    fastest = dq + (torque_bound - now.link) / damping
                    bound(side, loads + self._damper * (fastest - rate), out=side)
        limited = np.minimum(np.maximum(motor_torque, limits[0]), limits[1])
        bounded = near & self._loads_link & (limited != motor_torque)
        aimed = theta + np.divide(
            limited - own, motors.p, out=np.zeros_like(limited), where=motors.p > 0.0
        )
        return (
            np.where(bounded & self._with_pid, aimed, aims),
            np.where(bounded & ~self._with_pid, limited, torques),
        )


_NO_JOINTS = np.zeros(0, np.intp)


def torque_mode(mode: OperationMode) -> OperationMode:
    """Return the mode in which a joint executes torques of effort controllets.

    Args:
        mode: Mode of the joint in the cell file.
    """
    if mode.is_rigid:
        return OperationMode.LINK_TORQUE
    return OperationMode.MOTOR_PID if mode.has_motors else OperationMode.SPRING_REFERENCES


class LinkTorque:
    r"""Torque control of links: commands motors such that springs exert the desired torques.

    .. math::
        \tau_{link}(q + \tfrac T2 \dot q,\, \theta^*) = \tau, \qquad
        r = \theta^* + \frac{\tau_{motor}(\theta^*) + (D + D_{pid})\, \dot\theta^*}{P} .

    The first equation gives the motor positions :math:`\theta^*` at the stiffness preset, for the
    joint angle in the middle of the cycle time T. The second gives the reference r of motors with
    inertia and PID controllers, under the load :math:`\tau_{motor}`. P, D and :math:`D_{pid}` are
    parameters of :class:`.Motors`.

    Args:
        joints: Compliant joints, m of them; :meth:`start` sets their modes.
        modes: Modes of the joints in the cell file.
        motors: Motors of the joints; None without motor parameters.
        preset: Stiffness presets, (m,) [rad or m].
        period: Cycle time T [s].
        limiter: Limiter of motors with actuator commands; None: no limit.

    Attributes:
        command_dispatcher: Dispatcher of the actuator commands of controllets.

    Thread: control.
    """

    def __init__(
        self,
        joints: CompliantJoints,
        modes: Sequence[OperationMode],
        motors: Motors | None,
        preset: Vector,
        period: float,
        limiter: MotorLimiter | None = None,
    ) -> None:
        self.joints, self._period, self._preset, self.limiter = joints, period, preset, limiter
        self._modes = [torque_mode(mode) for mode in modes]
        self.command_dispatcher = ActuatorCommandDispatcher(joints, self._modes)
        self._rigid = [j for j, mode in enumerate(self._modes) if mode.is_rigid]
        self._torque_joints = (
            list(self._rigid),
            [j for j in range(len(modes)) if j not in self._rigid],
        )
        moved = np.array([mode.has_motors for mode in self._modes])
        self._offset_per_load, self._offset_per_speed = np.zeros((2, 2, len(preset)))
        max_motor_torque = np.full((2, len(preset)), np.inf)
        self._motors = motors
        self._has_motors = motors is not None and bool(moved.any())
        if motors is not None:
            has = moved & (motors.p > 0.0)
            max_motor_torque = np.where(
                moved, np.maximum(motors.max_torque - motors.friction, 0.0), np.inf
            )
            np.divide(1.0, motors.p, out=self._offset_per_load, where=has)
            np.divide(motors.damping + motors.d, motors.p, out=self._offset_per_speed, where=has)
        self._max_torque = joints.springs.exertable(preset, max_motor_torque)
        self._deflection: Vector = np.zeros(len(preset))
        self._last_positions: Matrix = np.zeros((2, len(preset)))
        self._resumed: NDArray[np.intp] = _NO_JOINTS

    def save(self) -> tuple[Vector, Matrix, Matrix]:
        return self._deflection.copy(), self._last_positions.copy(), self.command_dispatcher.save()

    def restore(self, saved: tuple[Vector, Matrix, Matrix]) -> None:
        self._deflection, self._last_positions = saved[0].copy(), saved[1].copy()
        self.command_dispatcher.restore(saved[2])
        self._update_active_joints()

    def limited_torque(self, q: Vector, torque: Vector) -> Vector:
        """Return torques limited to those that springs and motors can exert, (m,) [Nm].

        Args:
            q: Link angles, (m,) [rad].
            torque: Torques on links, (m,) [Nm].
        """
        springs = self.joints.springs
        equilibrium = springs.nearest_equilibrium(q, torque, self._preset, q)
        exerted: Vector = springs.torque(q, springs.references(equilibrium, self._preset)).link
        result = np.minimum(np.maximum(exerted, -self._max_torque), self._max_torque)
        result[self._rigid] = torque[self._rigid]
        return result

    def beyond_stops(self, q: Vector, torque: Vector) -> dict[int, tuple[float, float, float]]:
        """Return the joints whose motors would need positions beyond a stop to exert ``torque``.

        Args:
            q: Link angles, (m,) [rad].
            torque: Torques on links, (m,) [Nm].

        Returns:
            Required motor position, lower and upper stop [rad or m], by joint.
        """
        if self._motors is None:
            return {}
        springs, low, high = (
            self.joints.springs,
            self._motors.min_position,
            self._motors.max_position,
        )
        equilibrium = springs.nearest_equilibrium(q, torque, self._preset, q)
        theta = springs.references(equilibrium, self._preset)
        beyond = (theta < low) | (theta > high)
        beyond[1] &= springs.has_second
        beyond[:, self._rigid] = False
        return {
            joint: (theta[motor, joint], low[motor, joint], high[motor, joint])
            for motor, joint in np.argwhere(beyond)[::-1].tolist()
        }

    def start(self, q: Vector, torque: Vector) -> None:
        """Set motors to rest at the positions at which springs exert ``torque`` on links.

        Args:
            q: Link angles, (m,) [rad].
            torque: Torques on links, (m,) [Nm].

        Raises:
            ActuatorRejected: If springs cannot exert the torques.
        """
        joints = self.joints
        joints.set_mode(OperationMode.EQUILIBRIUM)
        joints.reset(q, torque, self._preset)
        self._deflection, self._last_positions = joints.equilibrium - q, joints.theta
        for mode in {*self._modes}:
            joints.set_mode(mode, [j for j, own in enumerate(self._modes) if own is mode])
        self.command(q, np.zeros_like(q), torque)

    def stiffness(self, q: Vector, torque: Vector) -> Vector:
        """Return the maximum spring stiffness at link torques 0, ``torque`` and ``-torque``.

        Args:
            q: Link angles, (m,) [rad].
            torque: Torques on links, (m,) [Nm].

        Returns:
            Stiffness of each joint, (m,) [Nm/rad]; 0 for joints without springs.
        """
        springs, stiffness = self.joints.springs, np.zeros(len(q))
        for desired in (torque, -torque, np.zeros_like(q)):
            equilibrium = springs.nearest_equilibrium(q, desired, self._preset, q)
            motors = springs.references(equilibrium, self._preset)
            np.maximum(stiffness, springs.largest_stiffness(q, motors), out=stiffness)
        stiffness[self._rigid] = 0.0
        return stiffness

    def command(
        self,
        q: Vector,
        dq: Vector,
        torque: Vector,
        command: Matrix | None = None,
        bounds: Matrix | None = None,
    ) -> None:
        """Command torques on links, and send actuator commands to joints that have one.

        Joints with an actuator command ignore ``torque``, except in mode ``link_torque``. Inputs
        that are not finite change nothing.

        Args:
            q: Link angles, (m,) [rad].
            dq: Link velocities, (m,) [rad/s].
            torque: Torques that springs must exert, (m,) [Nm].
            command: Actuator commands as in :meth:`.ActuatorCommandDispatcher.receive`, (3, m);
                None: no change.
            bounds: Minimum and maximum torques of links, (2, m) [Nm]; None: unlimited.
        """
        if not math.isfinite(sum((q + dq + torque).tolist())):
            return
        if command is not None:
            self._apply_actuator_commands(q, dq, command, bounds)
        self._exert(q, dq, torque)
        if (
            self.limiter is not None
            and bounds is not None
            and self.command_dispatcher.any_commanded
        ):
            actuator_commanded = (
                self.command_dispatcher.actuator_commanded
                & ~self.command_dispatcher.in_link_torque_mode
            )
            self.limiter.apply(q + 0.5 * self._period * dq, dq, bounds, actuator_commanded)

    def _exert(self, q: Vector, dq: Vector, torque: Vector) -> None:
        joints, springs = self.joints, self.joints.springs
        rigid, sprung = self._torque_joints
        if rigid:
            joints.command("torque_command", torque[rigid], rigid)
        if not sprung:
            return
        ahead = q + 0.5 * self._period * dq
        equilibrium = springs.nearest_equilibrium(
            ahead, torque, self._preset, ahead + self._deflection
        )
        self._deflection = equilibrium - ahead
        motors = springs.references(equilibrium, self._preset)
        if self._has_motors:
            loads = np.array(springs.torque(ahead, motors)[1:])
            rate = (motors - self._last_positions) / self._period
            rate[:, self._resumed] = 0.0
            self._resumed = _NO_JOINTS
            self._last_positions = motors
            motors = motors + self._offset_per_load * loads + self._offset_per_speed * rate
        joints.set_references(motors, sprung)

    def _apply_actuator_commands(
        self, q: Vector, dq: Vector, actuator_commands: Matrix, torque_bounds: Matrix | None
    ) -> None:
        resumed = self.command_dispatcher.receive(q, dq, actuator_commands, torque_bounds)
        if resumed is None:
            return
        if len(resumed):
            self._deflection[resumed] = (self.joints.equilibrium - q)[resumed]
            self._resumed = resumed
        self._update_active_joints()

    def _update_active_joints(self) -> None:
        actuator_commanded, direct = (
            self.command_dispatcher.actuator_commanded,
            self.command_dispatcher.in_link_torque_mode,
        )
        has_springs = np.array([not mode.is_rigid for mode in self._modes])
        rigid, sprung = (
            direct | ~(has_springs | actuator_commanded),
            has_springs & ~actuator_commanded,
        )
        self._torque_joints = np.flatnonzero(rigid).tolist(), np.flatnonzero(sprung).tolist()
