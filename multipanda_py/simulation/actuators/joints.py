# SPDX-License-Identifier: Apache-2.0
"""Joints that motors drive through springs: what they do in one step of the world."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.actuator import whole_number
from multipanda_py.exceptions import ActuatorRefused, BackendError
from multipanda_py.robots.actuated_joints import OperationMode
from multipanda_py.simulation.actuators.command_modes import CommandedJoints, ModeName
from multipanda_py.simulation.actuators.integrator import (
    HELD_SHARE,
    MOST,
    Flow,
    SlowPart,
    choose_substeps,
)
from multipanda_py.simulation.actuators.motors import LinkPid, Motors
from multipanda_py.simulation.actuators.springs import Actuators
from multipanda_py.state import Matrix, Vector


def original_step(flow: Flow, duration: float) -> Vector:
    r"""Move motors on by one step while links stand still, and return torques on links, (n,) [Nm].

    Controllers and springs see the old positions of motors; then

    .. math::
        \dot\theta \leftarrow \dot\theta + h \ddot\theta, \qquad
        \theta \leftarrow \theta + h \dot\theta

    and links get the torque of springs at the new positions (Mengacci et al., 2021). Unlike there,
    the largest velocity is kept to. It is first order: a 1 ms step gains or loses energy
    where springs are stiff, and is there to compare with.

    Args:
        flow: With the state of links and motors.
        duration: h [s].
    """
    n = len(flow.impulse)
    flow.begin()
    flow.change[:] = 0.0
    flow.change[4 * n : 6 * n] = duration * flow.rates[4 * n : 6 * n]
    flow.v[1:] += flow.change[4 * n : 6 * n].reshape(2, n)
    flow.change[n : 3 * n] = duration * flow.v[1:].ravel()
    flow.x[1:] += flow.change[n : 3 * n].reshape(2, n)
    flow.keep_limits(duration)
    torque: Vector = flow.look()[6 * n :].copy()
    return torque


SCHEMES = ("accurate", "original")


class Push(NamedTuple):
    """What a step of the world is to do to joints, (n,) each.

    Attributes:
        torque: To apply for the whole of it [Nm].
        shift: To add to the joints' positions at its end if nothing touches them [rad]; see
            :meth:`shift_for`.
        velocity: That they have at its end then [rad/s].
        duration: Length of the step [s].
    """

    torque: Vector
    shift: Vector
    velocity: Vector
    duration: float

    def shift_for(self, dq: Vector) -> Vector:
        r"""Return what to add to positions after a step that may have met contacts or friction.

        A constant force for the whole step, which changes the velocity by :math:`\Delta`, changes
        the shift by :math:`-\tfrac h2 \Delta`. As far as that makes the shift smaller it is done:
        links that friction or a contact holds stay where they are, and after an impact the
        world's own step counts.

        Args:
            dq: Velocities of joints after the world's step, (n,) [rad/s].
        """
        less = 0.5 * self.duration * (dq - self.velocity)
        low, high = np.minimum(self.shift, 0.0), np.maximum(self.shift, 0.0)
        found: Vector = np.minimum(np.maximum(self.shift - less, low), high)
        return found


class Saved(NamedTuple):
    """A state of :class:`CompliantJoints`."""

    modes: tuple[OperationMode, ...]
    commands: dict[str, Vector]
    state: Vector
    memory: Matrix
    slow: tuple[Vector, ...]
    seen: tuple[Matrix, Matrix]
    ease: float


class CompliantJoints(CommandedJoints):
    r"""Motors, springs and controllers of n joints, beside a simulated world.

    A step h of the world and many small ones of springs and motors are put together as impulses
    (r-RESPA; Tuckerman, Berne and Martyna, Reversible multiple time scale molecular dynamics,
    1992). With the accelerations r of links by everything but springs and their slow part
    :math:`\bar r`, a step is: half a kick :math:`\tfrac h2 (r - \bar r)`; springs, motors and the
    constant :math:`\bar r` with the inertia of now, for h; half a kick again. Links at rest
    so do not move within it either, nor do those that something holds (:class:`.SlowPart`). The
    world gets the mean torque of the springs, and afterwards the difference between where springs
    have brought the links and where its own step has, which knows the velocity of the end only.

    The second half kick goes by the r of the next step; whoever steps the world therefore adds
    :math:`\tfrac h2 (r_k - r_{k-1})` to the velocities before step k, where :attr:`inner` is 1.
    Without it vibrations gain energy. The joints' own damping has no part in r here.

    Args:
        actuators: Springs, with the joints that each drives, counted from 0.
        n_joints: Number of joints, n.
        motors: Their motors; modes from 4 on need them.
        mode: What is commanded at first, of all joints or of each; see :class:`.OperationMode`.
        link_pid: Controllers of links, for mode 1; the toolbox's by default.
        scheme: ``accurate``, or ``original``: one explicit step of motors in the toolbox's order.
        most_substeps: In a step of the world; springs that are too stiff for so many are softened.

    Attributes:
        scheme: As given.
        complaint: What the last step could not hold exactly, in words, or nothing.
        unheld: In how many steps there was such a complaint.

    Raises:
        ActuatorRefused: If arguments do not fit together.

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
        most_substeps: int = MOST,
    ) -> None:
        if scheme not in SCHEMES:
            raise ActuatorRefused(f"scheme: got {scheme!r:.40}, allowed {', '.join(SCHEMES)}")
        self._most = whole_number("most_substeps", most_substeps)
        n_joints = whole_number("joints", n_joints)
        self._slow, self.scheme = SlowPart.none(n_joints), scheme
        super().__init__(actuators, n_joints, motors, mode, link_pid=link_pid)
        self.complaint, self.unheld = "", 0
        self._none, self._velocity = np.zeros(n_joints), np.zeros(n_joints)
        self._torque, self._shift = np.zeros(n_joints), np.zeros(n_joints)

    def reset(
        self, q: ArrayLike, torque: ArrayLike = 0.0, preset: ArrayLike | None = None
    ) -> None:
        """Put links and motors at rest, with springs that exert a torque.

        Controllers of motors are aimed so that they hold them there.

        Args:
            q: Angles of joints, (n,) [rad].
            torque: Of springs on links, such as what carries their weight, (n,) [Nm].
            preset: Of the stiffness, one number or (n,); as it was commanded by default.

        Raises:
            ActuatorRefused: If a number is not finite or out of range, or springs cannot exert
                such a torque; nothing changes.
        """
        super().reset(q, torque, preset)
        self._slow = SlowPart.none(self.n_joints)

    def advance(
        self,
        q: Vector,
        dq: Vector,
        rest_acceleration: Vector,
        compliance: Matrix,
        duration: float,
        damping: Vector | None = None,
    ) -> Push:
        r"""Move motors and springs on by a step, and return what the step is to do to the joints.

        Args:
            q: Angles of joints at its beginning, (n,) [rad].
            dq: Their velocities, (n,) [rad/s].
            rest_acceleration: Of everything but springs, damping of joints included, (n,)
                [rad/s^2].
            compliance: Rows and columns of the inverse mass matrix, (n, n) [1/(kg m^2)].
            duration: h, the length of the step [s].
            damping: Of the joints, as the world's own step applies it with the velocity of its
                end, (n,) [Nm s/rad].

        Returns:
            Arrays that the next call overwrites.

        Raises:
            ActuatorRefused: If the step has no length.
            BackendError: If the result is not finite. After both, motors are as they were.
        """
        if not 0.0 < duration < math.inf:
            raise ActuatorRefused(f"step: got {duration!r:.40}, allowed more than 0 s")
        flow, damping = self.flow, self._none if damping is None else damping
        before = flow.state.copy()
        flow.x[0], flow.v[0] = q, dq
        try:
            if self.scheme == "original":
                if self.springs.are_damped:
                    self.equations.set_damping(self.springs.damping(flow.x[1:]))
                self.equations.set_links(compliance, damping, rest_acceleration)
                np.copyto(self._torque, original_step(flow, duration))
                self._shift[:], self._velocity[:] = 0.0, dq  # any will do for no shift
            else:
                rest = rest_acceleration + compliance.dot(damping * dq)
                self._advance_accurately(q, rest, compliance, damping, duration)
            if not math.isfinite(flow.state.dot(flow.state)):
                raise BackendError(
                    f"springs: got torques {self._torque.tolist()!r:.200} from q "
                    f"{q.tolist()!r:.200} and dq {dq.tolist()!r:.200}, allowed finite ones"
                )
        except BackendError:
            flow.state[:] = before
            raise
        return Push(self._torque, self._shift, self._velocity, duration)

    def _advance_accurately(
        self, q: Vector, rest: Vector, compliance: Matrix, damping: Vector, duration: float
    ) -> None:
        flow, equations = self.flow, self.equations
        own = self.springs.damping(flow.x[1:]) if self.springs.are_damped else self._none
        if equations.fastest * duration > 1.001 * HELD_SHARE * self._most:
            equations.slow_down(HELD_SHARE * self._most / duration)
        plan = choose_substeps(
            self.springs, equations, flow.x, compliance, damping, own, duration, self._most
        )
        if self.springs.are_damped:
            equations.set_damping(plan.ease * own)
        self._ease, self.complaint = plan.ease, plan.complaint
        self.unheld += bool(plan.complaint)
        self._slow.update(flow.v[0], self._velocity, rest, self.inner, duration)
        slow = self._slow.acceleration
        equations.set_links(
            compliance,
            damping,
            slow + self._slow.held,
            plan.softness,
            min(plan.softness, plan.ease),
        )
        kick = 0.5 * duration * (rest - slow)
        flow.v[0] += kick
        flow.impulse[:] = 0.0
        flow.advance(duration, plan.substeps)
        flow.v[0] += kick
        np.subtract(flow.x[0], q, out=self._shift)
        self._shift -= duration * flow.v[0]
        self._velocity[:] = flow.v[0]
        self._shift *= self.inner
        np.divide(flow.impulse, duration, out=self._torque)
        self._torque -= damping * self._shift / duration

    def complain(self, what: str) -> None:
        """Say of the last step, in words, what it could not hold exactly; once for a step."""
        self.unheld += not self.complaint
        self.complaint = self.complaint or what

    def _take_modes(self, modes: Sequence[OperationMode]) -> None:
        super()._take_modes(modes)
        if self.scheme == "original":  # explicit, without kicks
            self.inner = np.zeros(self.n_joints)

    def sense(self, q: Vector, dq: Vector) -> None:
        """Take where links are after the world's step, for what is read before the next one."""
        self.flow.x[0], self.flow.v[0] = q, dq

    def save(self) -> Saved:
        """Return the state, to be put back by :meth:`restore`."""
        commands = {name: values.copy() for name, values in self._commands.values.items()}
        memory, slow = self.equations.memory, (self._velocity.copy(), *self._slow.copied())
        seen = self.flow.loads.copy(), self.flow.torques.copy()
        return Saved(self.modes, commands, self.flow.state.copy(), memory, slow, seen, self._ease)

    def restore(self, saved: Saved) -> None:
        """Put the state back that :meth:`save` has returned."""
        self._take_modes(saved.modes)
        for name, values in saved.commands.items():
            self._commands.values[name][:] = values
        self.flow.state[:] = saved.state
        self.equations.memory = saved.memory
        self._velocity[:], self._ease = saved.slow[0], saved.ease
        self._slow = SlowPart(*(part.copy() for part in saved.slow[1:]))
        self.flow.look_for_limits()
        self._apply()
        self.flow.loads[:], self.flow.torques[:] = saved.seen
