# SPDX-License-Identifier: Apache-2.0
"""Simulation of joints that motors drive through springs, step by step with a simulated world."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.actuator import whole_number
from multipanda_py.exceptions import ActuatorRejected, BackendError
from multipanda_py.robots.actuated_joints import OperationMode
from multipanda_py.simulation.actuators.integrator import (
    MAX_SUBSTEPS,
    STABLE_STEP_RATIO,
    QuasiStaticTerm,
    SpringIntegrator,
    choose_substeps,
)
from multipanda_py.simulation.actuators.motors import LinkPid, Motors
from multipanda_py.simulation.actuators.operation_modes import CommandedJoints, ModeName
from multipanda_py.simulation.actuators.springs import Actuators
from multipanda_py.state import Matrix, Vector


def toolbox_step(flow: SpringIntegrator, duration: float) -> Vector:
    r"""Advance motors by one step with the integration scheme of Mengacci et al., 2021.

    During the step links do not move, and controllers and springs use the initial motor positions:

    .. math::
        \dot\theta \leftarrow \dot\theta + h \ddot\theta, \qquad
        \theta \leftarrow \theta + h \dot\theta .

    Unlike the paper, it limits motor speeds. It is only for comparisons: with steps of 1 ms, stiff
    springs gain or lose energy.

    Args:
        flow: Integrator with the state of links and motors.
        duration: Step length h [s].

    Returns:
        Torques on links at the new motor positions, (n,) [Nm].
    """
    n = len(flow.impulse)
    flow.start_step()
    flow.change[:] = 0.0
    flow.change[4 * n : 6 * n] = duration * flow.rates[4 * n : 6 * n]
    flow.v[1:] += flow.change[4 * n : 6 * n].reshape(2, n)
    flow.change[n : 3 * n] = duration * flow.v[1:].ravel()
    flow.x[1:] += flow.change[n : 3 * n].reshape(2, n)
    flow.enforce_limits(duration)
    torque: Vector = flow.evaluate()[6 * n :].copy()
    return torque


SCHEMES = ("accurate", "original")


class SpringEffect(NamedTuple):
    """Effect of springs on joints during a step of the simulated world, (n,) each.

    Attributes:
        torque: Torque to apply during the whole step [Nm].
        shift: Joint positions after the substeps of the springs, minus those to which the world
            moves the joints with :attr:`velocity` [rad].
        velocity: Joint velocities at the end of the step without contacts and friction [rad/s].
        duration: Length of the step [s].
    """

    torque: Vector
    shift: Vector
    velocity: Vector
    duration: float

    def position_correction(self, dq: Vector) -> Vector:
        r"""Return the correction of the joint positions after the world's step, (n,) [rad].

        It is :math:`\mathtt{shift} - \tfrac h2 \Delta`, limited to values between zero and
        ``shift``. :math:`\Delta` is the velocity change by contacts and friction in the step h.

        Args:
            dq: Joint velocities after the world's step, (n,) [rad/s].
        """
        less = 0.5 * self.duration * (dq - self.velocity)
        low, high = np.minimum(self.shift, 0.0), np.maximum(self.shift, 0.0)
        result: Vector = np.minimum(np.maximum(self.shift - less, low), high)
        return result


class Saved(NamedTuple):
    """Saved state of :class:`CompliantJoints`, for :meth:`CompliantJoints.restore`."""

    modes: tuple[OperationMode, ...]
    commands: dict[str, Vector]
    state: Vector
    memory: Matrix
    slow: tuple[Vector, ...]
    spring_outputs: tuple[Matrix, Matrix]
    damper_scale: float


class CompliantJoints(CommandedJoints):
    r"""Motors, springs and controllers of n joints, coupled to a simulated world.

    In each step h of the world, springs and motors take many substeps (r-RESPA; Tuckerman, Berne
    and Martyna, Reversible multiple time scale molecular dynamics, 1992). Let r be the
    accelerations of links without springs and joint damping, and :math:`\bar r` their low-pass
    filtered values (:class:`.QuasiStaticTerm`). A step consists of

    1. a kick, which is the velocity change :math:`\tfrac h2 (r - \bar r)`,
    2. the motion under springs and :math:`\bar r` for the time h, with constant inertia,
    3. the same kick again.

    The world then steps with the mean spring torque. :meth:`SpringEffect.position_correction`
    corrects the positions of its links.

    Before step k, the program that steps the world must add :math:`\tfrac h2 (r_k - r_{k-1})` to
    the velocities of joints whose :attr:`is_substepped` is 1. Otherwise vibrations gain energy.

    Args:
        actuators: Actuators, each with the indices of its joints.
        n_joints: Number of joints, n.
        motors: Motors of the joints; required in modes 4 to 6 of :class:`.OperationMode`.
        mode: Initial mode of all joints, or one per joint; see :class:`.OperationMode`.
        link_pid: PID controllers of links for mode ``link_pid``; None: default gains of
            :meth:`.LinkPid.from_config`.
        scheme: ``accurate``, or ``original`` for one step of motors by :func:`toolbox_step`.
        max_substeps: Maximum number of substeps per step of the world. Springs that need more are
            softened.

    Attributes:
        accuracy_warning: Reason why the last step was inaccurate; empty if it was accurate.
        n_inaccurate: Number of steps with an accuracy warning.

    Raises:
        ActuatorRejected: If arguments do not fit together.

    Thread: control.
    """

    def __init__(
        self,
        actuators: Actuators,
        n_joints: int,
        motors: Motors | None = None,
        mode: ModeName | Sequence[ModeName] = OperationMode.EQUILIBRIUM,
        *,
        link_pid: LinkPid | None = None,
        scheme: str = "accurate",
        max_substeps: int = MAX_SUBSTEPS,
    ) -> None:
        if scheme not in SCHEMES:
            raise ActuatorRejected(f"scheme: got {scheme!r:.40}, allowed {', '.join(SCHEMES)}")
        self._max_substeps = whole_number("max_substeps", max_substeps)
        n_joints = whole_number("joints", n_joints)
        self._slow, self.scheme = QuasiStaticTerm.zero(n_joints), scheme
        super().__init__(actuators, n_joints, motors, mode, link_pid=link_pid)
        self.accuracy_warning, self.n_inaccurate = "", 0
        self._empty, self._velocity = np.zeros(n_joints), np.zeros(n_joints)
        self._torque, self._shift = np.zeros(n_joints), np.zeros(n_joints)

    def reset(
        self, q: ArrayLike, torque: ArrayLike = 0.0, preset: ArrayLike | None = None
    ) -> None:
        """Set links and motors to rest, with springs that exert given torques.

        Args:
            q: Joint angles, (n,) [rad].
            torque: Spring torques on links, such as the gravity torques, (n,) [Nm].
            preset: Stiffness preset, one number or (n,); None: the last commanded preset.

        Raises:
            ActuatorRejected: If a number is not finite or out of range, or springs cannot exert
                the torques. Nothing changes then.
        """
        super().reset(q, torque, preset)
        self._slow = QuasiStaticTerm.zero(self.n_joints)

    def advance(
        self,
        q: Vector,
        dq: Vector,
        rest_acceleration: Vector,
        compliance: Matrix,
        duration: float,
        damping: Vector | None = None,
    ) -> SpringEffect:
        """Advance motors and springs by a step, and return their effect on the joints.

        Args:
            q: Joint angles at the beginning, (n,) [rad].
            dq: Joint velocities at the beginning, (n,) [rad/s].
            rest_acceleration: Accelerations of the links without springs, but with joint damping,
                (n,) [rad/s^2].
            compliance: Block of the inverse mass matrix for these joints, (n, n) [1/(kg m^2)].
            duration: Step length h [s].
            damping: Joint damping that the world integrates implicitly, (n,) [Nm s/rad]; None for
                zero.

        Returns:
            Effect on the joints, in arrays that the next call overwrites.

        Raises:
            ActuatorRejected: If the step length is not positive and finite. Nothing changes then.
            BackendError: If the result is not finite. Motors keep their state then.
        """
        if not 0.0 < duration < math.inf:
            raise ActuatorRejected(f"step: got {duration!r:.40}, allowed more than 0 s")
        flow, damping = self.flow, self._empty if damping is None else damping
        before = flow.state.copy()
        flow.x[0], flow.v[0] = q, dq
        try:
            if self.scheme == "original":
                if self.springs.are_damped:
                    self.equations.set_damping(self.springs.damping(flow.x[1:]))
                self.equations.set_links(compliance, damping, rest_acceleration)
                np.copyto(self._torque, toolbox_step(flow, duration))
                # Links do not move within a step of this scheme, so their positions need no
                # correction.
                self._shift[:], self._velocity[:] = 0.0, dq
            else:
                rest = rest_acceleration + compliance.dot(damping * dq)
                self._advance_accurately(q, rest, compliance, damping, duration)
            if not math.isfinite(flow.state.dot(flow.state)):
                raise BackendError(
                    f"springs: got torques {self._torque.tolist()!r:.200} from q "
                    f"{q.tolist()!r:.200} and dq {dq.tolist()!r:.200}, allowed finite torques only"
                )
        except BackendError:
            flow.state[:] = before
            raise
        return SpringEffect(self._torque, self._shift, self._velocity, duration)

    def _advance_accurately(
        self, q: Vector, rest: Vector, compliance: Matrix, damping: Vector, duration: float
    ) -> None:
        flow, equations = self.flow, self.equations
        own = self.springs.damping(flow.x[1:]) if self.springs.are_damped else self._empty
        if equations.fastest * duration > 1.001 * STABLE_STEP_RATIO * self._max_substeps:
            equations.slow_down(STABLE_STEP_RATIO * self._max_substeps / duration)
        plan = choose_substeps(
            self.springs, equations, flow.x, compliance, damping, own, duration, self._max_substeps
        )
        if self.springs.are_damped:
            equations.set_damping(plan.damper_scale * own)
        self._damper_scale, self.accuracy_warning = plan.damper_scale, plan.accuracy_warning
        self.n_inaccurate += bool(plan.accuracy_warning)
        self._slow.update(flow.v[0], self._velocity, rest, self.is_substepped, duration)
        slow = self._slow.acceleration
        equations.set_links(
            compliance,
            damping,
            slow + self._slow.held,
            plan.spring_scale,
            min(plan.spring_scale, plan.damper_scale),
        )
        kick = 0.5 * duration * (rest - slow)
        flow.v[0] += kick
        flow.impulse[:] = 0.0
        flow.advance(duration, plan.substeps)
        flow.v[0] += kick
        np.subtract(flow.x[0], q, out=self._shift)
        self._shift -= duration * flow.v[0]
        self._velocity[:] = flow.v[0]
        self._shift *= self.is_substepped
        np.divide(flow.impulse, duration, out=self._torque)
        self._torque -= damping * self._shift / duration

    def set_warning(self, message: str) -> None:
        """Store the reason why the last step was inaccurate, unless one is already stored."""
        self.n_inaccurate += not self.accuracy_warning
        self.accuracy_warning = self.accuracy_warning or message

    def _take_modes(self, modes: Sequence[OperationMode]) -> None:
        super()._take_modes(modes)
        # The original scheme applies all accelerations in the world's step. The code that steps
        # the world must then correct no velocities.
        if self.scheme == "original":
            self.is_substepped = np.zeros(self.n_joints)

    def set_link_state(self, q: Vector, dq: Vector) -> None:
        """Set link angles, (n,) [rad], and velocities, (n,) [rad/s], to those of the world."""
        self.flow.x[0], self.flow.v[0] = q, dq

    def save(self) -> Saved:
        """Return a copy of the state for :meth:`restore`."""
        commands = {name: values.copy() for name, values in self._commands.values.items()}
        memory, slow = self.equations.memory, (self._velocity.copy(), *self._slow.copied())
        last_state = self.flow.loads.copy(), self.flow.torques.copy()
        return Saved(
            self.modes,
            commands,
            self.flow.state.copy(),
            memory,
            slow,
            last_state,
            self._damper_scale,
        )

    def restore(self, saved: Saved) -> None:
        """Restore a state from :meth:`save`."""
        self._take_modes(saved.modes)
        for name, values in saved.commands.items():
            self._commands.values[name][:] = values
        self.flow.state[:] = saved.state
        self.equations.memory = saved.memory
        self._velocity[:], self._damper_scale = saved.slow[0], saved.damper_scale
        self._slow = QuasiStaticTerm(*(part.copy() for part in saved.slow[1:]))
        self.flow.recheck_limits()
        self._send_commands()
        self.flow.loads[:], self.flow.torques[:] = saved.spring_outputs
