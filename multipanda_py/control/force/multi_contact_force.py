# SPDX-License-Identifier: Apache-2.0
"""Hands that press what they touch, all together or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.force.contact_force import PressingHand
from multipanda_py.control.force.force_control import ForceController, ForceGains
from multipanda_py.control.impedance.limit_scaling import BearableShare
from multipanda_py.state import ArmState, Matrix, Vector

BALANCED = 0.3
"""Net wrench of hands that press with one newton each, from which they push what they hold
about: antipodal to within 0.3 rad, or 0.3 of half the distance between them."""
ASKED = 0.2
"""Share of what is asked for from which it counts as not balanced."""


def controlled_modes(wrenches: Matrix, positions: Matrix) -> Matrix:
    r"""Return the projector P on what is controlled of the forces of N hands, (N, N).

    .. math::
        P = N N^T \;\text{if}\; N N^T a \approx a, \;\text{else}\; I, \qquad
        G N = 0, \quad G = \begin{bmatrix} u_1 & \ldots \\ r_1 \times u_1 & \ldots \end{bmatrix}

    with the sizes *a* that are asked for. What adds up to nothing strains a thing between the
    hands and does not move it. Where that is what is asked for, any other mix of forces would
    push the thing about, which the plan is to hold: two hands that press a box from both sides
    are controlled by the mean of what both feel. Else what is pressed does not come along, as a
    table, and each hand is controlled by its own.

    Args:
        wrenches: That the tools are to exert, along the axes of the world, zero for hands that
            are to exert none, (N, 6) [N, Nm].
        positions: Of the tools in the world, (N, 3) [m].
    """
    sizes = np.sqrt(np.square(wrenches).sum(axis=1))
    presses = np.flatnonzero(sizes > 0.0)
    projector = np.zeros((len(sizes), len(sizes)))
    if not len(presses):
        return projector
    asked = sizes[presses] / np.linalg.norm(sizes[presses])
    modes = _balanced(wrenches[presses] / sizes[presses, None], positions[presses])
    beside = asked - modes.T @ (modes @ asked)
    is_balanced = np.linalg.norm(beside) < ASKED
    mixed = modes.T @ modes if is_balanced else np.eye(len(presses))
    projector[np.ix_(presses, presses)] = mixed
    return projector


def _balanced(directions: Matrix, positions: Matrix) -> Matrix:
    """Return orthonormal mixes of forces that add up to nothing, (m, k).

    Args:
        directions: Of unit length, (k, 6).
        positions: (k, 3) [m].
    """
    levers = positions - positions.mean(axis=0)
    length = float(np.sqrt(np.square(levers).sum(axis=1)).mean())
    grasp = directions.T.copy()
    if length > 0.0:
        grasp[3:] = (directions[:, 3:] + np.cross(levers, directions[:, :3])).T / length
    _, values, rows = np.linalg.svd(grasp)
    kept = np.zeros(len(directions))
    kept[: len(values)] = values
    balanced: Matrix = rows[kept < BALANCED]
    return balanced


_dot, _multiply, _subtract = np.dot, np.multiply, np.subtract
WAITING = 2.0
"""Force with which a hand waits for the others, in units of ``contact_force``."""
NOTHING = 1e-3
"""Force [N] that is not worth fading any more."""


class PressingTeam:
    r"""Control the forces with which hands press, each along a direction of its own.

    .. math::
        F'_i = F_i - u_i (P f)_i + u_i F_{c,i}, \qquad f_i = u_i^T F_i

    with the wrenches :math:`F_i` that a plan or springs ask for, P of :func:`.controlled_modes`,
    and :math:`F_{c,i}` of a :class:`.ForceController` per hand, which is given the mixes
    :math:`P m` of the measured forces and :math:`P v` of the speeds along *u*. So motion has no
    say along a controlled force, and force control none across it.

    Hands *search* until all of those that are asked for a force touch; one that does touch
    waits with a small force. Then all *press*, from that force on, and all with the same share
    of what they are asked for where joints cannot exert more (:class:`.BearableShare`). When one
    of them loses its contact, the force parts of all are frozen and fade within
    ``release_time``, P fades out, and the plan or the springs have the hands; a new force may be
    asked for then. The same happens, within ``blend_time``, when a force is withdrawn or turns
    by much. Before that :attr:`on_release` is called, for plan and springs to ask for nothing
    along those forces: a hand that was to press, and stood off its plan for it, stays where it
    is.

    Args:
        context: Of the law.
        gains: Of the force parts.

    Attributes:
        share: The present P, which goes to the wanted one within ``blend_time``, (N, N).
        hands: Of the arms, in order.
        presses: Whether all hands have touched, and press.
        is_lost: Whether a contact was lost, and no force was asked for since.
        on_release: Called with the numbers of the hands that are released, while P is still
            what it was.
        is_idle: No force is asked for now, and none is left of an earlier one.

    Thread: control.
    """

    def __init__(self, context: Context, gains: ForceGains) -> None:
        n = context.n_arms
        self._context, self._period = context, context.period
        self.hands = [PressingHand(arm.name, context.period, gains) for arm in context.arms]
        self._bearable = [BearableShare(arm) for arm in context.arms]
        self.share, self._modes, self._goal = (np.zeros((n, n)) for _ in range(3))
        self._step = np.zeros((n, n))
        self._tails = np.zeros((n, 6))
        self._felt, self._speeds, self._along = np.zeros(n), np.zeros(n), np.zeros(n)
        self._frames = list(zip(context.rotations_base_in_world, context.positions_base_in_world))
        self._fade = 1.0
        self.on_release: Callable[[Sequence[int]], None] = _ignore
        self.set_gains(gains, 1.0)
        self.reset()

    def set_gains(self, gains: ForceGains, blend_time: float) -> None:
        """Take gains over, and the time in which the plan gives a direction up [s]."""
        self._gains, self._blend_time = gains, blend_time
        for hand in self.hands:
            hand.force.set_gains(gains)

    def reset(self) -> None:
        """Press nothing, and forget what was asked for."""
        self.presses = self.is_lost = self._is_on = self._modes_are_due = False
        self.is_idle = True
        for array in (self.share, self._goal, self._modes, self._tails):
            array[:] = 0.0
        for hand in self.hands:
            hand.reset()

    def aim(self, place: int, wrench: Vector) -> None:
        """Ask one hand for a wrench on what it touches, (6,) [N, Nm]; zero for none."""
        hand = self.hands[place]
        if hand.ask(wrench):  # it has to touch first, and the others wait for it
            self.presses = False
        self.is_lost = False
        self._modes_are_due = True

    def step(self, states: Sequence[ArmState], is_wanted: bool) -> None:
        """Go on by one cycle.

        Args:
            states: Of the arms.
            is_wanted: Whether the forces that are asked for are to be exerted now.
        """
        asks = is_wanted and not self.is_lost and any(hand.size for hand in self.hands)
        if asks:
            asks = self._turn()
        if not asks and not self._is_on and self.is_idle:
            return
        self.is_idle = False
        for hand, state in zip(self.hands, states):
            hand.feel(state)
        if asks:
            asks = self._judge(states)
        if asks:
            self._is_on = True
            self._press(states)
        elif self._is_on:
            self._let_go(self._gains.release_time if self.is_lost else self._blend_time)
        self._blend(asks)

    def across(self, wrenches: Matrix) -> None:
        """Take out of wrenches (N, 6) what they do along controlled forces, in place."""
        for hand, wrench, part in zip(self.hands, wrenches, self.controlled(wrenches)):
            if part:
                _subtract(wrench, part * hand.direction, wrench)

    def controlled(self, wrenches: Matrix) -> list[float]:
        """Return what wrenches (N, 6) do along controlled forces, P f, per hand [N]."""
        along = self._along
        for place, hand in enumerate(self.hands):
            along[place] = _dot(hand.direction, wrenches[place])
        parts: list[float] = self.share.dot(along).tolist()
        return parts

    def add(self, wrenches: Matrix) -> None:
        """Add the force parts to wrenches on the tools along the axes of the bases, (N, 6)."""
        for place, hand in enumerate(self.hands):
            wrench = wrenches[place]
            wrench += self._tails[place]
            if self._is_on:
                wrench += hand.exerted * hand.direction
            else:  # nothing else brakes the way that was given up
                brake = ForceController.BRAKE_RATE * hand.mass * self.share[place, place]
                wrench -= brake * hand.speed * hand.direction

    def _turn(self) -> bool:
        """Turn the directions; return False while one of them has to be given up for a new one."""
        for place, hand in enumerate(self.hands):
            if not hand.size:
                continue
            if not hand.is_turned_much:
                hand.follow()
            elif self.share[place].any() or hand.exerted:
                return False
            else:
                hand.begin()
        return True

    def _judge(self, states: Sequence[ArmState]) -> bool:
        """Find out whether hands touch; return whether forces are to be controlled."""
        asked = [hand for hand in self.hands if hand.size]
        if self.presses:
            lost = [hand for hand in asked if not hand.touches]
            if lost:
                self._lose(lost)
                return False
        elif all(hand.touches for hand in asked):
            self.presses, self._modes_are_due = True, True
        else:
            astray = [hand for hand in asked if hand.force.is_lost]
            if astray:
                self._go_astray(astray)
                return False
        if self._modes_are_due:
            self._modes_are_due = False
            self._find_modes(states)
        return True

    def _find_modes(self, states: Sequence[ArmState]) -> None:
        """Find P: of each hand by itself until all press."""
        wrenches, positions = np.zeros((len(states), 6)), np.zeros((len(states), 3))
        for place, ((turn, base), state) in enumerate(zip(self._frames, states)):
            wrench = self.hands[place].asked
            wrenches[place, :3], wrenches[place, 3:] = turn.dot(wrench[:3]), turn.dot(wrench[3:])
            positions[place] = base + turn.dot(state.position_ee_in_base)
        if self.presses:
            self._modes[:] = controlled_modes(wrenches, positions)
        else:
            self._modes[:] = np.diag([float(hand.size > 0.0) for hand in self.hands])

    def _press(self, states: Sequence[ArmState]) -> None:
        """Control the forces, or look for contact."""
        hands, felt, speeds = self.hands, self._felt, self._speeds
        borne = self._borne(states)
        sizes = [borne * hand.size for hand in hands]
        for place, hand in enumerate(hands):
            felt[place], speeds[place] = hand.felt, hand.speed
        if self.presses:
            sizes = np.maximum(self._modes.dot(sizes), 0.0).tolist()
            mixed, rates = self._modes.dot(felt).tolist(), self._modes.dot(speeds).tolist()
        else:
            most = WAITING * self._gains.contact_force
            sizes = [min(size, most) for size in sizes]
            mixed, rates = felt.tolist(), speeds.tolist()
        for hand, state, tail, *numbers in zip(hands, states, self._tails, sizes, mixed, rates):
            if hand.size:
                hand.press(state, *numbers)
            elif hand.exerted:  # withdrawn from this one only
                self.on_release([hands.index(hand)])
                self._drop(hand, tail, self._blend_time)

    def _borne(self, states: Sequence[ArmState]) -> float:
        """Return the share of the forces that the joints of all arms can exert."""
        asked = zip(self.hands, self._bearable, states)
        return min(
            bearable.of(hand.size * hand.direction, state) for hand, bearable, state in asked
        )

    def _let_go(self, time: float) -> None:
        """Freeze the force parts, and let them fade."""
        self.on_release(range(len(self.hands)))
        for hand, tail in zip(self.hands, self._tails):
            self._drop(hand, tail, time)
        self._is_on = self.presses = False

    def _drop(self, hand: PressingHand, tail: Vector, time: float) -> None:
        """Freeze what a hand exerts, and let it fade with a time constant [s]."""
        self._fade = math.exp(-self._period / max(time, self._period))
        tail += hand.exerted * hand.direction
        hand.rest()

    def _blend(self, asks: bool) -> None:
        """Go on from the present P to the wanted one, and let go of what is left."""
        goal, share, step = self._goal, self.share, self._step
        goal[:] = self._modes if asks else 0.0
        most = self._period / self._blend_time
        _subtract(goal, share, step)
        np.maximum(np.minimum(step, most, out=step), -most, out=step)
        share += step
        _multiply(self._tails, self._fade, self._tails)
        if float(np.abs(self._tails).max()) < NOTHING:
            self._tails[:] = 0.0
        self.is_idle = not (asks or share.any() or self._tails.any())

    def _lose(self, lost: Sequence[PressingHand]) -> None:
        self.is_lost = True
        words = ", ".join(f"{hand.name} (asked for {hand.size:.1f} N)" for hand in lost)
        self._context.notify(
            f"contact lost: {words}; force control has ended for all {len(self.hands)} arms, "
            "which stop and hold; ask for the forces anew"
        )

    def _go_astray(self, astray: Sequence[PressingHand]) -> None:
        self.is_lost = True
        words = ", ".join(hand.name for hand in astray)
        self._context.notify(
            f"no contact found: {words}, within {2.0 * self._gains.loss_distance:.3f} m; nothing "
            "is pressed, and the arms stop and hold; ask for the forces anew, nearer"
        )


def _ignore(places: Sequence[int]) -> None:
    """Do nothing when hands are released."""
