# SPDX-License-Identifier: Apache-2.0
"""What a gripper command and its outcome are, in the records between a cell and its backends."""

from __future__ import annotations

from enum import IntEnum

RECORD = 6
"""Floats of a command: action, width [m], speed [m/s], force [N] and two tolerances [m]."""


class Action(IntEnum):
    """What a gripper may be asked for."""

    HOMING = 1
    MOVE = 2
    GRASP = 3
    STOP = 4
    MEASURED = 5
    """No request: what the gripper of a real arm measures, on its way to the row."""


class Outcome(IntEnum):
    """How a command is doing, or how it ended."""

    MOVING = 0
    SUCCEEDED = 1
    UNSUCCESSFUL = 2
    """The fingers rest, but not where they should: blocked, or missed."""
    ABORTED = 3
    """Ended by a newer command or by stop."""
    FAILED = 4
    """Not executed: the gripper refused it, or has gone."""
