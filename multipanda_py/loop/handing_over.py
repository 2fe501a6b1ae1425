# SPDX-License-Identifier: Apache-2.0
"""Find out from the last cycles what an arm was pressing with."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.handover import Handover, tool_wrench
from multipanda_py.loop.arm import Arm
from multipanda_py.loop.events import Event
from multipanda_py.loop.mailbox import ROWS, Mailbox, Word
from multipanda_py.state import Vector

WINDOW = 50
"""Cycles that are averaged: noise is, and a turning point of the motion is not taken for rest."""
REST_SPEED = 0.005
"""Mean speed of each joint in both halves of the window that counts as rest [rad/s]."""
MAX_SPEED = 1.0
"""Mean speed of any joint above which nothing is handed over [rad/s]."""
DISAGREEMENT = np.array([8.0, 8.0, 8.0, 8.0, 4.0, 4.0, 4.0])
"""Torque asked for beyond what is measured, by friction and bias; more is not executed [Nm]."""
FREE_FORCE, FREE_TORQUE = 2.0, 0.4
"""What the estimate of a free arm in motion may show [N], [Nm]."""
TORQUE_AWAY = (Event.NON_FINITE_STATE, Event.BACKEND_ERROR, Event.ARM_STOPPED)
"""Faults under which an arm does not do what it is told."""


class PastCycles:
    r"""Turn an arm's last cycles into a :class:`~multipanda_py.handover.Handover`.

    At rest :math:`\tau` is the mean of the commanded torques: it balances contact, friction and
    a payload that nobody told of, and has no bias of sensors in it. It counts only if what is
    measured agrees with it about as well as friction and bias allow; the torques of an arm with
    its brakes on, say, do not. In motion

    .. math::
        F = \arg\min_{F} \|F - F_{asked}\| \quad \text{in the ball with diameter } [0, -s F_{ext}]

    for force and torque each: no more than is measured, nothing that was not asked for, and none
    of a damper's force in free air, as s goes to zero where a free arm may show :math:`F_{ext}`.
    A fast arm hands nothing over, nor does one that did not execute its torques.

    Thread: control; costs nothing until it is asked.
    """

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    def of(self, arm: Arm) -> Handover:
        """Return what an arm was pressing with until now."""
        count = self._mailbox.words[Word.ROWS]
        if count < WINDOW or arm.released or arm.fault in TORQUE_AWAY:
            return Handover()
        last = np.arange(count - WINDOW, count) % ROWS
        time = self._mailbox.rows["time"][last]
        rows = self._mailbox.rows["arms"][last, arm.index]
        span = float(time[-1] - time[0])
        if span <= 0.0 or np.isin(rows["fault"], TORQUE_AWAY).any():
            return Handover()
        q, half = rows["q"], WINDOW // 2
        speeds = np.abs(q[half] - q[0]), np.abs(q[-1] - q[half])
        speed = 2.0 / span * float(np.maximum(*speeds).max())
        tau, external = rows["tau"].mean(axis=0), rows["tau_ext"].mean(axis=0)
        wrench_ext = rows["wrench_ext_in_base"].mean(axis=0)
        if not (math.isfinite(speed) and np.isfinite(tau).all() and np.isfinite(external).all()):
            return Handover()
        if speed > MAX_SPEED:
            return Handover()
        state = arm.state
        wrench = tool_wrench(state, tau)
        contact = wrench.copy()
        agreed(contact[:3], -wrench_ext[:3], FREE_FORCE)
        agreed(contact[3:], -wrench_ext[3:], FREE_TORQUE)
        executed = (np.abs(tau + external + arm.tare) < DISAGREEMENT).all()
        if speed < REST_SPEED and executed:
            return Handover(tau, wrench, contact)
        return Handover(np.dot(contact, state.jacobian), contact, contact)


def agreed(asked: Vector, measured: Vector, free: float) -> None:
    """Change ``asked`` (3,) to the nearest vector that is measured, too, see the class."""
    size = math.sqrt(float(np.dot(measured, measured)))
    share = min(1.0, max(0.0, (size - free) / (2.0 * free)))
    centre = 0.5 * share * measured
    away = asked - centre
    radius, distance = 0.5 * share * size, math.sqrt(float(np.dot(away, away)))
    if distance > radius:
        asked[:] = centre + away * (radius / distance)
