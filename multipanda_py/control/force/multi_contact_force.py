# SPDX-License-Identifier: Apache-2.0
"""Force control of several arms that press together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy import dot, multiply, subtract

from multipanda_py.context import Context
from multipanda_py.control.force.contact_force import ContactForceController
from multipanda_py.control.force.force_control import ForceController, ForceGains
from multipanda_py.control.impedance.limit_scaling import TorqueSaturation
from multipanda_py.state import ArmState, Matrix, Vector

MAX_NET_WRENCH = 0.3
"""Net wrench of a combination of unit forces, below which the combination counts as internal. It
admits 0.3 rad of misalignment between two arms, or offsets of 0.3 times half their distance."""
UNBALANCED_FRACTION = 0.2
"""Unbalanced part of the desired forces, as a fraction of their norm, from which they count as
unbalanced. Each arm then controls its own force."""


def controlled_modes(wrenches: Matrix, positions: Matrix) -> Matrix:
    """Return the projector P of the forces of N arms on their controlled part, (N, N).

    Equations::

        P = Z Z^T if Z Z^T a = a (approximately), else I
        G Z = 0
        G = [u_1, ..., u_N; r_1 x u_1, ..., r_N x u_N]

    - a: Norms of the desired forces, (N,).
    - G: Grasp matrix of the force directions u_i at the tool positions r_i, (6, N).
    - Z: Orthonormal basis of the internal forces, the nullspace of G, (N, k).

    Internal forces add up to zero: they squeeze an object without moving it. If the desired forces
    are internal, only internal forces are controlled. Otherwise, the pressed object is assumed to
    be fixed, and each arm is controlled by its own measured force.

    Args:
        wrenches: Desired wrenches of the tools along the world axes, (N, 6) [N, Nm]. Zero for an
            arm without a desired force.
        positions: Positions of the tools in the world, (N, 3) [m].
    """
    sizes = np.sqrt(np.square(wrenches).sum(axis=1))
    presses = np.flatnonzero(sizes > 0.0)
    projector = np.zeros((len(sizes), len(sizes)))
    if not len(presses):
        return projector
    direction = sizes[presses] / np.linalg.norm(sizes[presses])
    modes = _internal_modes(wrenches[presses] / sizes[presses, None], positions[presses])
    beside = direction - modes.T @ (modes @ direction)
    is_balanced = np.linalg.norm(beside) < UNBALANCED_FRACTION
    mixed = modes.T @ modes if is_balanced else np.eye(len(presses))
    projector[np.ix_(presses, presses)] = mixed
    return projector


def _internal_modes(directions: Matrix, positions: Matrix) -> Matrix:
    # Rows of the result: orthonormal combinations of the unit forces with zero net wrench.
    levers = positions - positions.mean(axis=0)
    length = float(np.sqrt(np.square(levers).sum(axis=1)).mean())
    grasp = directions.T.copy()
    if length > 0.0:
        grasp[3:] = (directions[:, 3:] + np.cross(levers, directions[:, :3])).T / length
    _, values, rows = np.linalg.svd(grasp)
    selected = np.zeros(len(directions))
    selected[: len(values)] = values
    balanced: Matrix = rows[selected < MAX_NET_WRENCH]
    return balanced


WAITING_FORCE_RATIO = 2.0
"""Force with which an arm in contact waits for the others, in units of ``contact_force``."""
MIN_FORCE = 1e-3
"""Force below which a fading force becomes zero [N]."""


class MultiContactForceController:
    """Force control of several arms that press together, with one force direction per arm.

    Equations::

        F'_i = F_i - u_i (P f)_i + u_i F_c,i
        f_i = u_i^T F_i

    - F_i, F'_i: Wrench of arm i by motion control alone, and with force control, (6,) [N, Nm].
    - u_i: Unit direction of the controlled force, (6,).
    - f: Components f_i of the wrenches F_i along u_i, (N,) [N].
    - P: Projector of ``controlled_modes``, (N, N).
    - F_c,i: Force of the ``ForceController`` of arm i [N].

    Motion control does not act along a controlled force. The force controllers receive P m and P
    v, with the measured forces m [N] and the speeds v [m/s] along u.

    - *Search*: The arms search for contact. An arm in contact waits with a small force.
    - *Press*: When all arms are in contact, they increase their forces. If torque limits reduce a
      force (``TorqueSaturation``), all forces have the same scale.
    - *Loss*: If one arm loses contact, the forces of all arms fade with ``release_time``. P
      becomes zero, and motion control takes over.

    If a client ends a force, or one direction changes by more than
    ``ContactForceController.MAX_DIRECTION_CHANGE``, the forces fade with ``blend_time``.

    Before forces fade, ``on_release`` is called, in which motion control can discard its error
    along the forces.

    Args:
        context: Context of the controllet.
        gains: Gains of the force controllers.

    Attributes:
        projector: Current P, which changes within ``blend_time``, (N, N).
        arm_controllers: Force control of each arm, in the order of the arms.
        presses: True if all arms are in contact and press.
        is_lost: True if a contact was lost or not found, until a new force is requested.
        on_release: Function that receives the indices of the arms whose forces end.
        is_idle: True if no force is desired and none is fading out.

    Thread: control.
    """

    def __init__(self, context: Context, gains: ForceGains) -> None:
        n = context.n_arms
        self._context, self._period = context, context.period
        self.arm_controllers = [
            ContactForceController(arm.name, context.period, gains) for arm in context.arms
        ]
        self._saturation = [TorqueSaturation(arm) for arm in context.arms]
        self.projector, self._modes, self._goal = (np.zeros((n, n)) for _ in range(3))
        self._step = np.zeros((n, n))
        self._fading_wrenches = np.zeros((n, 6))
        self._measured_forces, self._speeds, self._along = np.zeros(n), np.zeros(n), np.zeros(n)
        self._frames = list(zip(context.rotations_base_in_world, context.positions_base_in_world))
        self._fade = 1.0
        self.on_release: Callable[[Sequence[int]], None] = _ignore
        self.set_gains(gains, 1.0)
        self.reset()

    def set_gains(self, gains: ForceGains, blend_time: float) -> None:
        """Set the gains of all force controllers.

        Args:
            gains: Gains, equal for all arms.
            blend_time: Time in which motion control releases or regains a direction [s].
        """
        self._gains, self._blend_time = gains, blend_time
        for hand in self.arm_controllers:
            hand.force.set_gains(gains)

    def reset(self) -> None:
        """Clear all desired and exerted forces."""
        self.presses = self.is_lost = self._is_on = self._update_modes = False
        self.is_idle = True
        for array in (self.projector, self._goal, self._modes, self._fading_wrenches):
            array[:] = 0.0
        for hand in self.arm_controllers:
            hand.reset()

    def set_desired_wrench(self, arm_index: int, wrench: Vector) -> None:
        """Set the desired wrench of one arm on its contact.

        Args:
            arm_index: Index of the arm in the controllet.
            wrench: Wrench along the axes of the base, (6,) [N, Nm]; zero for no force.
        """
        hand = self.arm_controllers[arm_index]
        if hand.set_desired_wrench(wrench):
            # This arm must find its contact first. The other arms wait for it.
            self.presses = False
        self.is_lost = False
        self._update_modes = True

    def step(self, states: Sequence[ArmState], is_requested: bool) -> None:
        """Advance force control by one cycle.

        Args:
            states: States of the arms.
            is_requested: True to exert the desired forces, False to let the forces fade out.
        """
        requests = (
            is_requested and not self.is_lost and any(hand.size for hand in self.arm_controllers)
        )
        if requests:
            requests = self._update_directions()
        if not requests and not self._is_on and self.is_idle:
            return
        self.is_idle = False
        for hand, state in zip(self.arm_controllers, states):
            hand.measure(state)
        if requests:
            requests = self._check_contacts(states)
        if requests:
            self._is_on = True
            self._press(states)
        elif self._is_on:
            self._fade_out(self._gains.release_time if self.is_lost else self._blend_time)
        self._blend(requests)

    def across(self, wrenches: Matrix) -> None:
        """Remove the part along the controlled forces from wrenches of motion control, in place.

        Args:
            wrenches: Wrenches along the base axes, (N, 6) [N, Nm].
        """
        for hand, wrench, part in zip(self.arm_controllers, wrenches, self.controlled(wrenches)):
            if part:
                subtract(wrench, part * hand.direction, wrench)

    def controlled(self, wrenches: Matrix) -> list[float]:
        """Return the component of each wrench that force control replaces, P f, (N,) [N].

        Args:
            wrenches: Wrenches of motion control along the base axes, (N, 6) [N, Nm].
        """
        along = self._along
        for index, hand in enumerate(self.arm_controllers):
            along[index] = dot(hand.direction, wrenches[index])
        parts: list[float] = self.projector.dot(along).tolist()
        return parts

    def add(self, wrenches: Matrix) -> None:
        """Add the controlled and the fading forces to tool wrenches in place.

        Args:
            wrenches: Wrenches of the tools along the base axes, (N, 6) [N, Nm].
        """
        for index, hand in enumerate(self.arm_controllers):
            wrench = wrenches[index]
            wrench += self._fading_wrenches[index]
            if self._is_on:
                wrench += hand.exerted * hand.direction
            else:  # Motion control does not act along this direction, so the tool needs a brake.
                brake = ForceController.BRAKE_RATE * hand.mass * self.projector[index, index]
                wrench -= brake * hand.speed * hand.direction

    def _update_directions(self) -> bool:
        for index, hand in enumerate(self.arm_controllers):
            if not hand.size:
                continue
            if not hand.must_reset_direction:
                hand.rotate_direction()
            # The forces must end before a direction can be set.
            elif self.projector[index].any() or hand.exerted:
                return False
            else:
                hand.set_direction()
        return True

    def _check_contacts(self, states: Sequence[ArmState]) -> bool:
        active_hands = [hand for hand in self.arm_controllers if hand.size]
        if self.presses:
            lost = [hand for hand in active_hands if not hand.touches]
            if lost:
                self._lose(lost)
                return False
        elif all(hand.touches for hand in active_hands):
            self.presses, self._update_modes = True, True
        else:
            astray = [hand for hand in active_hands if hand.force.is_lost]
            if astray:
                self._go_astray(astray)
                return False
        if self._update_modes:
            self._update_modes = False
            self._find_modes(states)
        return True

    def _find_modes(self, states: Sequence[ArmState]) -> None:
        wrenches, positions = np.zeros((len(states), 6)), np.zeros((len(states), 3))
        for index, ((rotation, base), state) in enumerate(zip(self._frames, states)):
            wrench = self.arm_controllers[index].desired_wrench
            wrenches[index, :3], wrenches[index, 3:] = (
                rotation.dot(wrench[:3]),
                rotation.dot(wrench[3:]),
            )
            positions[index] = base + rotation.dot(state.position_ee_in_base)
        if self.presses:
            self._modes[:] = controlled_modes(wrenches, positions)
        else:  # Until all arms are in contact, each is controlled by its own measured force.
            self._modes[:] = np.diag([float(hand.size > 0.0) for hand in self.arm_controllers])

    def _press(self, states: Sequence[ArmState]) -> None:
        hands, measured, speeds = self.arm_controllers, self._measured_forces, self._speeds
        supported = self._wrench_scale(states)
        sizes = [supported * hand.size for hand in hands]
        for index, hand in enumerate(hands):
            measured[index], speeds[index] = hand.measured_force, hand.speed
        if self.presses:
            sizes = np.maximum(self._modes.dot(sizes), 0.0).tolist()
            mixed, rates = self._modes.dot(measured).tolist(), self._modes.dot(speeds).tolist()
        else:
            max_value = WAITING_FORCE_RATIO * self._gains.contact_force
            sizes = [min(size, max_value) for size in sizes]
            mixed, rates = measured.tolist(), speeds.tolist()
        tails = self._fading_wrenches
        for hand, state, tail, *numbers in zip(hands, states, tails, sizes, mixed, rates):
            if hand.size:
                hand.press(state, *numbers)
            elif hand.exerted:  # Only the force of this arm was withdrawn.
                self.on_release([hands.index(hand)])
                self._fade_one(hand, tail, self._blend_time)

    def _wrench_scale(self, states: Sequence[ArmState]) -> float:
        active_hands = zip(self.arm_controllers, self._saturation, states)
        return min(
            limit.scale(hand.size * hand.direction, state) for hand, limit, state in active_hands
        )

    def _fade_out(self, time_constant: float) -> None:
        self.on_release(range(len(self.arm_controllers)))
        for hand, tail in zip(self.arm_controllers, self._fading_wrenches):
            self._fade_one(hand, tail, time_constant)
        self._is_on = self.presses = False

    def _fade_one(self, hand: ContactForceController, tail: Vector, time_constant: float) -> None:
        self._fade = math.exp(-self._period / max(time_constant, self._period))
        tail += hand.exerted * hand.direction
        hand.release()

    def _blend(self, requests_force: bool) -> None:
        goal, projector, step = self._goal, self.projector, self._step
        goal[:] = self._modes if requests_force else 0.0
        max_value = self._period / self._blend_time
        subtract(goal, projector, step)
        np.maximum(np.minimum(step, max_value, out=step), -max_value, out=step)
        projector += step
        multiply(self._fading_wrenches, self._fade, self._fading_wrenches)
        if float(np.abs(self._fading_wrenches).max()) < MIN_FORCE:
            self._fading_wrenches[:] = 0.0
        self.is_idle = not (requests_force or projector.any() or self._fading_wrenches.any())

    def _lose(self, lost: Sequence[ContactForceController]) -> None:
        self.is_lost = True
        words = ", ".join(f"{hand.name} (desired force {hand.size:.1f} N)" for hand in lost)
        self._context.notify(
            f"contact lost: {words}. Force control has ended for all {len(self.arm_controllers)} "
            f"arms, "
            "which stop and hold. Send the forces again."
        )

    def _go_astray(self, astray: Sequence[ContactForceController]) -> None:
        self.is_lost = True
        words = ", ".join(hand.name for hand in astray)
        self._context.notify(
            f"no contact found: {words}, within {2.0 * self._gains.loss_distance:.3f} m. No force "
            "is exerted, and the arms stop and hold. Move closer and send the forces again."
        )


def _ignore(indices: Sequence[int]) -> None: ...
