# SPDX-License-Identifier: Apache-2.0
"""Speed bound of a reference in contact, and after it was held back."""

from __future__ import annotations

import math

from multipanda_py.control.goal_speed import GoalSpeed

LEAD = 1.1
"""Speed of a bounded reference relative to the speed of its goal: the gap closes in the end."""
STREAM = 1e-3
"""Speed of a goal below which it has jumped and does not move [unit/s]."""
CAUGHT_UP = 0.15
"""Time in which the goal covers the gap of a reference that follows again [s]."""
NEAR = 1e-3
"""Gap below which a reference follows in any case [unit]."""
RECENT = 1.0
"""Time constant with which a faster motion of the goal is forgotten [s]."""
JUMP = 4.0
"""Step of a goal relative to the previous step, above which it is a new goal and no stream."""


class ReferenceCap:
    r"""Bound a reference by the speed at which its goal moves.

    .. math::
        v_{max} = \max(v_c,\; 1.1\, v_g) \text{ in contact}, \qquad
        v_{max} = 1.1\, \max_t v_g \text{ after a stream was held back}

    with the bound :math:`v_c` in contact and the goal's speed :math:`v_g` by
    :class:`~multipanda_py.control.goal_speed.GoalSpeed`, from the goals as they are given. In
    contact the largest speed of the last second counts, so that a goal may reverse. The second
    bound ends when the goal covers the gap within 0.15 s, or jumps.

    Args:
        period: Cycle time [s].

    Thread: control.
    """

    __slots__ = ("_decay", "_fastest", "_goal", "_is_behind", "_last", "_recent")

    def __init__(self, period: float) -> None:
        self._goal, self._decay = GoalSpeed(period), math.exp(-period / RECENT)
        self.reset()

    def reset(self) -> None:
        """Forget the goal's motion."""
        self._goal.reset()
        self._fastest = self._last = self._recent = 0.0
        self._is_behind = False

    @property
    def remembers(self) -> bool:
        """Whether the goal has moved lately."""
        return self._goal.remembers

    @property
    def acts(self) -> bool:
        """Whether :meth:`speed` is finite without a contact."""
        return self._is_behind

    def give(self, step: float) -> None:
        """Receive a step of the goal [unit]."""
        if step > NEAR and step > JUMP * self._last:
            self._is_behind = False
        self._last = step
        self._goal.step(step)

    def advance(self) -> None:
        """Advance by one cycle."""
        if self._goal.remembers:
            self._goal.advance()
            self._recent = max(self._goal.speed, self._recent * self._decay)
        else:
            self._recent = 0.0

    def hold(self) -> None:
        """Note that the reference is held back in this cycle."""
        speed = self._goal.speed
        if not self._is_behind:
            self._fastest = 0.0
        self._fastest = max(self._fastest, speed)
        self._is_behind = self._fastest > STREAM

    def speed(self, gap: float, in_contact: float = math.inf, rate: float = 0.0) -> float:
        """Return the bound [unit/s].

        Args:
            gap: Distance from the reference to its goal [unit].
            in_contact: Bound in contact, infinite without contact [unit/s].
            rate: Speed of the goal that the client has sent [unit/s].
        """
        now = max(self._goal.speed, rate)
        bound = max(in_contact, LEAD * max(self._recent, now))
        if self._is_behind:
            self._fastest = max(self._fastest, now)
            if gap < CAUGHT_UP * self._fastest + NEAR:
                self._is_behind = False
            else:
                bound = min(bound, LEAD * self._fastest)
        return bound
