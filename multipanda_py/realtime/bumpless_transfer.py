# SPDX-License-Identifier: Apache-2.0
"""Find out from the last cycles what an arm was pressing with."""

from __future__ import annotations

import math
from dataclasses import replace
from operator import sub

import numpy as np

from multipanda_py.context import SMALL_FORCE, Handover, tool_wrench
from multipanda_py.realtime.arm import Arm
from multipanda_py.realtime.contact_forces import GONE, RequestedForces
from multipanda_py.realtime.cycle_record import columns
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.record_ring import ROWS
from multipanda_py.realtime.safety import is_finite
from multipanda_py.realtime.shared_memory import Mailbox, Word
from multipanda_py.state import Matrix, Vector

LOOK_BACK = 300
"""Cycles before a loss of torque at which an arm had not met yet what stopped it: reflexes come
within some tens of milliseconds."""
UNSURE = 2.0
"""What a measured force may be wrong by at rest, and what is no weight yet [N]."""


def still_carried(
    before: Handover, wrench_ext_in_base: Vector, up_in_base: Vector, jacobian: Matrix
) -> Handover:
    r"""Return how an arm whose torque was away goes on carrying what it carried before.

    .. math::
        F = s \begin{bmatrix} u u^T f \\ m \end{bmatrix}, \qquad
        s = \min\left(1, \frac{-u^T f_{ext} + \epsilon}{u^T f}\right), \qquad \tau = J^T F

    with the force f and moment m from before, the vertical u and the force :math:`f_{ext}` that
    is measured now. A weight only pulls down, was there before anything was met, and is there
    still. So what the arm has met meanwhile, which may be somebody who is clamped, is not pressed
    on, from whichever side, nor is a load that has been taken off.

    Args:
        before: What the arm pressed with before it met anything.
        wrench_ext_in_base: What the world exerts on the tool now, as measured, (6,) [N, Nm].
        up_in_base: Unit vector, (3,).
        jacobian: J, (6, n).

    Thread: control.
    """
    weight = float(np.dot(before.wrench_in_base[:3], up_in_base))
    pull = -float(np.dot(wrench_ext_in_base[:3], up_in_base))
    if not (weight > UNSURE and pull > UNSURE):
        return Handover(np.zeros(jacobian.shape[1]))
    wrench = before.wrench_in_base * min(1.0, (pull + UNSURE) / weight)
    wrench[:3] = float(np.dot(wrench[:3], up_in_base)) * up_in_base
    return Handover(np.dot(wrench, jacobian), wrench)


WINDOW = 50
"""Cycles that are averaged: noise is, and a turning point of the motion is not taken for rest."""
REST_SPEED = 0.005
"""Mean speed of each joint in both halves of the window that counts as rest [rad/s]."""
MAX_SPEED = 1.0
"""Mean speed of any joint above which nothing is handed over [rad/s]."""
FREE_FORCE, FREE_TORQUE = 2.0, 0.4
"""What the estimate of a free arm in motion may show [N], [Nm]."""
TORQUE_AWAY = frozenset(int(event) for event in Event if event.takes_torque)
"""Faults under which an arm does not do what it is told."""
UNFIT = (*TORQUE_AWAY, Event.VELOCITY_LIMIT, Event.POSITION_LIMIT)
"""Faults that end with an arm that is too fast, or presses against its own stops."""


class PastCycles:
    r"""Turn an arm's last cycles into a :class:`.Handover`.

    At rest :math:`\tau` is the mean of the commanded torques: it balances contact, friction and
    a payload that nobody told of, and has no bias of sensors in it. It counts only if what is
    measured agrees with it about as well as friction and bias allow; the torques of an arm with
    its brakes on, say, do not. In motion

    .. math::
        F = \arg\min_{F} \|F - F_{asked}\| \quad \text{in the ball with diameter } [0, -s F_{ext}]

    for force and torque each: no more than is measured, nothing that was not asked for, and none
    of a damper's force in free air, as s goes to zero where a free arm may show :math:`F_{ext}`.
    A fast arm hands nothing over, nor does one at its limits, nor one that did not execute its
    torques. Torques from outside that a law of springs and motors commanded end with it, and are
    neither pressed against nor measured here.

    Thread: control; costs nothing until it is asked.
    """

    def __init__(self, mailbox: Mailbox, forces: RequestedForces) -> None:
        self._mailbox, self._forces = mailbox, forces
        row = mailbox.row_dtype
        arms, start = row["arms"].base, columns(row, "arms").start
        # Columns of each arm's fields in the flat rows: gathering records costs far more.
        self._at = [
            {
                name: _shifted(columns(arms, name), start + index * arms.itemsize // 8)
                for name in ("q", "wrench_ext_in_base", "fault")
            }
            for index in range(row["arms"].shape[0])
        ]
        # From the first to the last field whose mean is asked for: one sum is cheaper than three.
        first, last = columns(arms, "tau_ext").start, columns(arms, "wrench_ext_in_base").stop
        for index, at in enumerate(self._at):
            at["means"] = _shifted(slice(first, last), start + index * arms.itemsize // 8)
        self._in_means = [
            _shifted(columns(arms, name), -first)
            for name in ("tau", "tau_ext", "wrench_ext_in_base")
        ]
        asked = columns(arms, "actuator_command")
        pushes = slice(asked.start + 3 * (asked.stop - asked.start) // 4, asked.stop)
        for index, at in enumerate(self._at):
            at["pushes"] = _shifted(pushes, start + index * arms.itemsize // 8)
        self._is_sprung = asked.stop > asked.start
        self._time = columns(row, "time").start
        self._first = 0

    def _rows(self, count: int) -> Matrix:
        """Return the newest rows, oldest first, (WINDOW, n); a view if they do not wrap."""
        flat, end = self._mailbox.ring.flat, count % ROWS
        if end >= WINDOW:
            return flat[end - WINDOW : end]
        return np.concatenate([flat[end - WINDOW :], flat[:end]])

    def forget(self) -> None:
        """Know nothing of the cycles until now: the arms have been put elsewhere."""
        self._first = self._mailbox.words[Word.ROWS]

    def of(self, arm: Arm) -> Handover:
        """Return what an arm was pressing with until now."""
        if arm.released or arm.fault in TORQUE_AWAY:
            return Handover(np.zeros(arm.state.n_joints))
        if arm.fault in UNFIT:  # a later law may return to the request, if there is a contact
            request = self._forces.of(arm).copy()
            return Handover(np.zeros(arm.state.n_joints), requested_in_base=request)
        return self._with_request(arm, self._pressed(arm, self._mailbox.words[Word.ROWS]))

    def _with_request(self, arm: Arm, past: Handover) -> Handover:
        """Add the force that an arm is asked for, if there is a contact to press on."""
        request = self._forces.of(arm)
        size = math.sqrt(float(request.dot(request)))
        if size == 0.0:
            return past
        reached = float(past.contact_in_base.dot(request)) / size
        if reached < max(SMALL_FORCE, GONE * size):
            return past
        return replace(past, requested_in_base=request.copy()).as_requested(arm.state.jacobian)

    def before_loss(self, arm: Arm) -> Handover:
        """Return what an arm that loses its torque was pressing with before it met anything."""
        return self._pressed(arm, self._mailbox.words[Word.ROWS] - LOOK_BACK)

    def carried(self, arm: Arm) -> Handover:
        """Return what of that is a weight, and still there; see :func:`.still_carried`."""
        count = self._mailbox.words[Word.ROWS]
        if count - self._first < WINDOW:
            return Handover(np.zeros(arm.state.n_joints))
        state, at = arm.state, self._at[arm.index]
        felt = _mean(self._rows(count)[:, at["wrench_ext_in_base"]])
        felt += tool_wrench(state, arm.tare)
        if not is_finite(felt):
            return Handover(np.zeros(arm.state.n_joints))
        return still_carried(arm.before_loss, felt, arm.up_in_base, state.jacobian)

    def _pressed(self, arm: Arm, count: int) -> Handover:
        """Return what an arm was pressing with until ``count`` rows had been written."""
        if count - self._first < WINDOW:
            return Handover(np.zeros(arm.state.n_joints))
        rows, at = self._rows(count), self._at[arm.index]
        span = float(rows[-1, self._time] - rows[0, self._time])
        faults = rows[:, at["fault"]].view(np.int64)
        if span <= 0.0 or not set(faults.ravel().tolist()).isdisjoint(TORQUE_AWAY):
            return Handover(np.zeros(arm.state.n_joints))
        begin, middle, end = (rows[k, at["q"]].tolist() for k in (0, WINDOW // 2, -1))
        travel = max(map(abs, (*map(sub, middle, begin), *map(sub, end, middle))))
        speed = 2.0 / span * travel
        means = _mean(rows[:, at["means"]])
        n = arm.state.n_joints  # records have room for those of the arm with most
        tau, external, wrench_ext = (means[place] for place in self._in_means)
        tau, external = tau[:n], external[:n]
        if not (math.isfinite(speed) and is_finite(tau) and is_finite(external)):
            return Handover(np.zeros(arm.state.n_joints))
        if speed > MAX_SPEED:
            return Handover(np.zeros(arm.state.n_joints))
        state, mass = arm.state.for_readers(), arm.model.load_mass  # whose terms the law asks for
        felt = -wrench_ext
        if self._is_sprung:  # what a law pushed joints with ends with it: nothing to press on
            push = _mean(rows[:, at["pushes"]])[:n]
            tau, external, felt = tau + push, external - push, felt + tool_wrench(state, push)
        wrench = tool_wrench(state, tau)
        contact = wrench.copy()
        agreed(contact[:3], felt[:3], FREE_FORCE)
        agreed(contact[3:], felt[3:], FREE_TORQUE)
        if speed < REST_SPEED and self._was_executed(arm, tau + external):
            return Handover(tau, wrench, contact, mass)
        # Near a singular posture a torque of one joint is felt as a wrench that others would bear.
        share = self._borne_share(arm, contact.dot(state.jacobian), external + arm.tare)
        contact *= share
        return Handover(contact.dot(state.jacobian), contact, contact, mass)

    def _borne_share(self, arm: Arm, tau: Vector, external: Vector) -> float:
        """Return the share of torques that every joint measures but for friction and bias."""
        slack, share = arm.model.arm.robot.figure("unmeasured_torque"), 1.0
        for own, felt, most in zip(tau.tolist(), external.tolist(), slack):
            borne = most + max(0.0, -felt * math.copysign(1.0, own))
            if abs(own) > borne:
                share = min(share, borne / abs(own))
        return share

    def _was_executed(self, arm: Arm, difference: Vector) -> bool:
        """Whether commanded and measured torques differ by what friction and bias may, (n,)."""
        slack = arm.model.arm.robot.figure("unmeasured_torque")
        return all(abs(d) < s for d, s in zip((difference + arm.tare).tolist(), slack))


def _shifted(place: slice, by: int) -> slice:
    return slice(place.start + by, place.stop + by)


def _mean(rows: Matrix) -> Vector:
    mean: Vector = np.add.reduce(rows, axis=0)
    mean /= len(rows)
    return mean


def agreed(asked: Vector, measured: Vector, free: float) -> None:
    """Change ``asked`` (3,) to the nearest vector that is measured, too, see the class."""
    size = math.sqrt(float(measured.dot(measured)))
    share = min(1.0, max(0.0, (size - free) / (2.0 * free)))
    if share == 0.0:
        asked[:] = 0.0
        return
    centre = 0.5 * share * measured
    away = asked - centre
    radius, distance = 0.5 * share * size, math.sqrt(float(away.dot(away)))
    if distance > radius:
        asked[:] = centre + away * (radius / distance)
