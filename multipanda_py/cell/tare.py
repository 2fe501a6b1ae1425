# SPDX-License-Identifier: Apache-2.0
"""Tare the arms of a cell: take off what they feel while nothing touches them."""

from __future__ import annotations

import numpy as np

from multipanda_py.cell.arm_request import ArmRequest, ArmRequests, RequestKind
from multipanda_py.cell.connection import Connection
from multipanda_py.cell.counts import Counts
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.patience import seconds
from multipanda_py.exceptions import TareRejected
from multipanda_py.loop.events import Event
from multipanda_py.state import Vector

TARE_TIMEOUT = 3.0
"""Longer than the loop takes over a measurement [s]."""
_KIND = RequestKind(
    "tare",
    TareRejected,
    (Event.TARED, Event.TARE_REFUSED),
    lambda box: (box.tares, box.tare_answers),
)


class Tare:
    """Have the loop tare arms, and know what it takes off.

    Args:
        names: Of the cell's arms and instances.
        connection: To its loop.
        counts: Where refusals and withdrawals go.
    """

    def __init__(self, names: CellNames, connection: Connection, counts: Counts) -> None:
        self._names = names
        self._requests = ArmRequests(_KIND, names, connection, counts)

    def offset(self, arm: str) -> Vector:
        """Return what is taken off the external torques of an arm, (n,) [Nm]; zeros if nothing is.

        Raises:
            UnknownName: If there is no such arm.
        """
        offset = self._requests.newest(arm)
        if offset is not None:
            return offset
        return np.zeros(self._names.arm_config(arm).robot.n_joints)

    def tare(self, arm: str, *, timeout: float = TARE_TIMEOUT) -> Vector:
        """Measure for half a second what an arm feels, and take it off from then on.

        The arm has to hold, at rest, with nothing touching it; a push that is no larger than
        errors of sensors are is taken for one. The offset is one of joint torques, and stays over
        switches and recoveries. It is right everywhere for the sensors' share, and near this
        posture only for the share of a weight that the robot has not been told of: tell it its
        load, or tare again where the work is. Another ``load_...`` setting ends it.

        Args:
            arm: The arm.
            timeout: How long to wait [s].

        Returns:
            What is taken off, (n,) [Nm].

        Raises:
            TareRejected: If a controllet has the arm, it moves, or it feels too much; it is tared
                or not as before.
            LoopTimeout: If no answer came in time.
        """
        wait = seconds(timeout, TareRejected)
        return self._requests.wait(self.ask(arm), wait)

    def untare(self, arm: str, *, timeout: float = TARE_TIMEOUT) -> None:
        """Take nothing off any more; the arm has to hold.

        Raises:
            TareRejected: If a controllet has the arm; it is tared as before.
            LoopTimeout: If no answer came in time.
        """
        wait = seconds(timeout, TareRejected)
        self._requests.wait(self.ask(arm, undo=True), wait)

    def ask(self, arm: str, *, undo: bool = False) -> ArmRequest:
        """Ask for a tare, or for its end, and return at once; see :meth:`answer`."""
        return self._requests.ask(arm, np.array([0.0 if undo else 1.0]))

    def answer(self, request: ArmRequest) -> Vector | None:
        """Return what is taken off now, (n,) [Nm], or None while it is being measured.

        Raises:
            TareRejected: If it was refused, with the reason, or a newer request has replaced it.
        """
        return self._requests.answer(request)

    def withdraw(self, request: ArmRequest) -> str:
        """Give a tare up; return in words whether it still may happen."""
        return self._requests.withdraw(request)
