# SPDX-License-Identifier: Apache-2.0
"""The number of an action that opens and closes a hand."""

from __future__ import annotations

from multipanda_py.cell.cell import Cell

AS_IT_IS = 0.5
"""Number that tells a hand nothing new."""
GRASP = 40.0
"""With which hands close [N]."""
CLOSED, OPEN = 0.4, 0.6
"""Below and above which a hand is told to close and to open; between them it does what it did."""


class HandControl:
    """Close a hand below a number and open it above another.

    A hand is told when that changes, not at every step: a real one takes a second for a command.

    Args:
        arm: Name of its arm.
    """

    def __init__(self, arm: str) -> None:
        self.arm = arm
        self.is_open = True

    def begin(self, cell: Cell) -> None:
        """Take what the hand does now for what it was told."""
        hand = cell.gripper(self.arm)
        state = hand.state()
        self.is_open = state.width > 0.5 * state.max_width

    def send(self, cell: Cell, number: float) -> None:
        """Tell the hand, if it is something new."""
        wanted = number > OPEN if not self.is_open else number >= CLOSED
        if wanted == self.is_open:
            return
        self.again(cell, wanted)

    def again(self, cell: Cell, wanted: bool) -> None:
        """Tell the hand to open or to close, whatever it was told before."""
        self.is_open = wanted
        hand = cell.gripper(self.arm)
        if wanted:
            hand.move(hand.state().max_width)
        else:  # whatever is between the fingers
            most = hand.state().max_width
            hand.grasp(0.0, force=GRASP, epsilon_inner=0.0, epsilon_outer=most)
