# SPDX-License-Identifier: Apache-2.0
"""Say why a motion has ended before its goal."""

from __future__ import annotations

from multipanda_py.context import Context

PAUSE = 1.0
"""Ends for one reason that follow one another sooner are one thing, of a stream [s]."""


class SaidEnds:
    """Give notice of the ends of an arm's motions, once each.

    Who sends postures one after another, many times a second, begins as many motions; of those
    that end for one reason the first is said. It is said again after a second without.

    Args:
        context: Of the law.
        place: Of the arm in it.

    Attributes:
        cycles: Until now; its owner counts.

    Thread: control.
    """

    def __init__(self, context: Context, place: int) -> None:
        self._context, self._arm = context, context.arms[place]
        self._pause = PAUSE / context.period
        self.forget()

    def forget(self) -> None:
        """Begin anew: nothing was said."""
        self.cycles, self._last, self._reason = 0, 0, ""

    def away(self, joint: int, size: float, most: float, from_what: str, when: str) -> None:
        """Say that a joint, from 1, was so far [rad or m] from the path or the goal."""
        unit = self._arm.limits.unit(joint - 1)
        name = f"{from_what}_tolerance"
        text = f"joint {joint} was {size:.3f} {unit} from the {from_what} {when}"
        self._say(name, f"{text}, allowed {most:g} {unit} ({name})", "gives way")

    def contact(self, joint: int, size: float) -> None:
        """Say what pressed: the torque of a joint, from 1 [Nm or N], or 0 and a force [N]."""
        text = f"contact: force at the tool reached {size:.1f} N (contact_force)"
        if joint:
            unit = self._arm.limits.unit(joint - 1, "Nm")
            text = (
                f"contact: external torque of joint {joint} reached {size:.1f} {unit} "
                "(contact_torque)"
            )
        self._say("contact", text, "gives way")

    def blocked(self, words: str, waited: float) -> None:
        """Say what is in the way, and for how long the arm has waited for it to go [s]."""
        self._say("blocked", f"{words}; waited {waited:g} s (goal_time)", "stays there")

    def _say(self, reason: str, text: str, then: str) -> None:
        is_repeated = reason == self._reason and self.cycles - self._last < self._pause
        self._last, self._reason = self.cycles, reason
        if not is_repeated:
            self._context.notify(
                f"{self._arm.name}: motion ended before its goal: {text}; the arm {then}"
            )
