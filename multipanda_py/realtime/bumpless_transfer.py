# SPDX-License-Identifier: Apache-2.0
"""Estimate contact force and torque of an arm from its last cycles, for bumpless transfer."""

from __future__ import annotations

import math
from dataclasses import replace
from operator import sub

import numpy as np

from multipanda_py.context import SMALL_FORCE, BumplessTransfer, tool_wrench
from multipanda_py.realtime.arm import Arm
from multipanda_py.realtime.contact_forces import NO_CONTACT_FRACTION, RequestedForces
from multipanda_py.realtime.cycle_record import CAPACITY, columns
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.shared_memory import Mailbox, SharedFlag
from multipanda_py.realtime.torque_guard import is_finite
from multipanda_py.state import Matrix, Vector

HISTORY_CYCLES = 300
"""Number of cycles before a loss of torque at which an arm had no contact with the obstacle yet.
A robot stops within some tens of milliseconds after it has touched an obstacle."""
MAX_FORCE_ERROR = 2.0
"""Maximum error of a measured force at rest, and minimum force that counts as weight [N]."""


def estimate_payload(
    before: BumplessTransfer, wrench_ext_in_base: Vector, up_in_base: Vector, jacobian: Matrix
) -> BumplessTransfer:
    r"""Return force and torques that carry a load after an interruption of the arm's torque.

    Before the interruption, the arm exerted a force f and a moment m at its end effector. Only the
    vertical part of f counts as load, reduced to the load that is still measured. The arm thus
    does not press on an obstacle, such as a clamped person. The torques are

    .. math:: \tau = J^T F, \qquad F = s \begin{bmatrix} u u^T f \\ m \end{bmatrix}, \qquad
        s = \min\left(1, \frac{-u^T f_{ext} + \epsilon}{u^T f}\right).

    The present external force is :math:`f_{ext}`, its maximum error :math:`\epsilon`
    (:data:`MAX_FORCE_ERROR`). If :math:`u^T f` or :math:`-u^T f_{ext}` is at most
    :math:`\epsilon`, all torques are zero.

    Args:
        before: Contact force and torque before the interruption.
        wrench_ext_in_base: Present external wrench on the end effector, (6,) [N, Nm].
        up_in_base: Vertical unit vector u, upwards, (3,).
        jacobian: Jacobian J of the end effector in the base frame, (6, n).

    Thread: control.
    """
    weight = float(np.dot(before.wrench_in_base[:3], up_in_base))
    load_force = -float(np.dot(wrench_ext_in_base[:3], up_in_base))
    if not (weight > MAX_FORCE_ERROR and load_force > MAX_FORCE_ERROR):
        return BumplessTransfer(np.zeros(jacobian.shape[1]))
    wrench = before.wrench_in_base * min(1.0, (load_force + MAX_FORCE_ERROR) / weight)
    wrench[:3] = float(np.dot(wrench[:3], up_in_base)) * up_in_base
    return BumplessTransfer(np.dot(wrench, jacobian), wrench)


AVERAGED_CYCLES = 50
"""Number of cycles in the window that is averaged to reduce noise. The speeds in both halves of
the window distinguish rest from a turning point."""
REST_SPEED = 0.005
"""Maximum mean joint speed in each half of the window that counts as rest [rad/s]."""
MAX_SPEED = 1.0
"""Mean speed of any joint above which no force is handed over [rad/s]."""
FREE_FORCE, FREE_TORQUE = 2.0, 0.4
"""Maximum estimated external force [N] and torque [Nm] of an arm that moves without contact."""
TORQUE_LOSS_FAULTS = frozenset(int(event) for event in Event if event.takes_torque)
"""Faults under which an arm may not execute its torques."""
NO_TRANSFER_FAULTS = (*TORQUE_LOSS_FAULTS, Event.VELOCITY_LIMIT, Event.POSITION_LIMIT)
"""Faults after which no force is handed over, because the arm was too fast or at a joint limit."""


class ContactEstimator:
    r"""Estimator of the contact force and torque of an arm, for transfer to its next controllet.

    For an arm at rest that has executed its torques, the result is the mean of the last commanded
    torques. In all other cases, contact force and contact moment are each limited to the measured
    one:

    .. math::
        F = \arg\min_{F} \|F - F_{cmd}\| \quad \text{in the ball with diameter } [0, -s F_{ext}].

    Here F is the force or moment that the arm exerts, and :math:`F_{cmd}` the commanded one. The
    external force or moment on the arm is :math:`F_{ext}`. The factor s is 0 for free motion, and
    at most 1.

    The result is zero for an arm faster than :data:`MAX_SPEED`, and after one of the faults
    :data:`NO_TRANSFER_FAULTS`. It includes external torques that a controllet has commanded to
    compliant actuators.

    Args:
        mailbox: Shared memory with the records of the last cycles.
        forces: Contact forces that users request.

    Thread: control.
    """

    def __init__(self, mailbox: Mailbox, forces: RequestedForces) -> None:
        self._mailbox, self._forces = mailbox, forces
        row = mailbox.row_dtype
        arms, start = row["arms"].base, columns(row, "arms").start
        # Columns of each arm in the flat records. Indexing record fields would be far slower.
        self._at = [
            {
                name: _shifted(columns(arms, name), start + index * arms.itemsize // 8)
                for name in ("q", "wrench_ext_in_base", "fault")
            }
            for index in range(row["arms"].shape[0])
        ]
        # One range covers all averaged fields, because one sum is cheaper than three.
        first, last = columns(arms, "tau_ext").start, columns(arms, "wrench_ext_in_base").stop
        for index, at in enumerate(self._at):
            at["means"] = _shifted(slice(first, last), start + index * arms.itemsize // 8)
        self._in_means = [
            _shifted(columns(arms, name), -first)
            for name in ("tau", "tau_ext", "wrench_ext_in_base")
        ]
        command_columns = columns(arms, "actuator_command")
        pushes = slice(
            command_columns.start + 3 * (command_columns.stop - command_columns.start) // 4,
            command_columns.stop,
        )
        for index, at in enumerate(self._at):
            at["pushes"] = _shifted(pushes, start + index * arms.itemsize // 8)
        self._is_sprung = command_columns.stop > command_columns.start
        self._time = columns(row, "time").start
        self._first = 0

    def _averaged_records(self, end_record: int) -> Matrix:
        flat, end = self._mailbox.ring.flat, end_record % CAPACITY
        if end >= AVERAGED_CYCLES:
            return flat[end - AVERAGED_CYCLES : end]
        return np.concatenate([flat[end - AVERAGED_CYCLES :], flat[:end]])

    def forget(self) -> None:
        """Exclude all records so far from later estimates, after a reset of the arms."""
        self._first = self._mailbox.words[SharedFlag.ROWS]

    def estimate(self, arm: Arm) -> BumplessTransfer:
        """Return contact force and torque of an arm at the newest cycle.

        They are zero after a fault that may have stopped the execution of torques.
        """
        if arm.released or arm.fault in TORQUE_LOSS_FAULTS:
            return BumplessTransfer(np.zeros(arm.state.n_joints))
        # After a fault of ``NO_TRANSFER_FAULTS`` no force is transferred, but the next controllet
        # may resume the request if the contact persists.
        if arm.fault in NO_TRANSFER_FAULTS:
            request = self._forces.requested_force(arm).copy()
            return BumplessTransfer(np.zeros(arm.state.n_joints), requested_in_base=request)
        return self._with_requested_force(
            arm, self._estimate_before(arm, self._mailbox.words[SharedFlag.ROWS])
        )

    def _with_requested_force(self, arm: Arm, estimate: BumplessTransfer) -> BumplessTransfer:
        request = self._forces.requested_force(arm)
        size = math.sqrt(float(request.dot(request)))
        if size == 0.0:
            return estimate
        reached = float(estimate.contact_in_base.dot(request)) / size
        if reached < max(SMALL_FORCE, NO_CONTACT_FRACTION * size):
            return estimate
        return replace(estimate, requested_in_base=request.copy()).as_requested(arm.state.jacobian)

    def before_loss(self, arm: Arm) -> BumplessTransfer:
        """Return contact force and torque of an arm :data:`HISTORY_CYCLES` cycles ago.

        Call it when an arm has just stopped executing its torque. The result excludes a new
        contact that has caused the stop.
        """
        return self._estimate_before(arm, self._mailbox.words[SharedFlag.ROWS] - HISTORY_CYCLES)

    def remaining_load(self, arm: Arm) -> BumplessTransfer:
        """Return force and torque of a load that the arm carried before a fault and still carries.

        They are those of :func:`.estimate_payload`, and zero with too few records.
        """
        count = self._mailbox.words[SharedFlag.ROWS]
        if count - self._first < AVERAGED_CYCLES:
            return BumplessTransfer(np.zeros(arm.state.n_joints))
        state, at = arm.state, self._at[arm.index]
        measured = _mean(self._averaged_records(count)[:, at["wrench_ext_in_base"]])
        measured += tool_wrench(state, arm.tare)
        if not is_finite(measured):
            return BumplessTransfer(np.zeros(arm.state.n_joints))
        return estimate_payload(arm.before_loss, measured, arm.up_in_base, state.jacobian)

    def _estimate_before(self, arm: Arm, end_record: int) -> BumplessTransfer:
        if end_record - self._first < AVERAGED_CYCLES:
            return BumplessTransfer(np.zeros(arm.state.n_joints))
        rows, at = self._averaged_records(end_record), self._at[arm.index]
        span = float(rows[-1, self._time] - rows[0, self._time])
        faults = rows[:, at["fault"]].view(np.int64)
        if span <= 0.0 or not set(faults.ravel().tolist()).isdisjoint(TORQUE_LOSS_FAULTS):
            return BumplessTransfer(np.zeros(arm.state.n_joints))
        start, middle, end = (rows[k, at["q"]].tolist() for k in (0, AVERAGED_CYCLES // 2, -1))
        travel = max(map(abs, (*map(sub, middle, start), *map(sub, end, middle))))
        speed = 2.0 / span * travel
        means = _mean(rows[:, at["means"]])
        n = arm.state.n_joints  # Record fields have the size of the arm with the most joints.
        tau, external, wrench_ext = (means[index] for index in self._in_means)
        tau, external = tau[:n], external[:n]
        if not (math.isfinite(speed) and is_finite(tau) and is_finite(external)):
            return BumplessTransfer(np.zeros(arm.state.n_joints))
        if speed > MAX_SPEED:
            return BumplessTransfer(np.zeros(arm.state.n_joints))
        state, mass = arm.state.for_readers(), arm.model.load_mass
        measured = -wrench_ext
        # A controllet can command a push on the links of compliant joints, in addition to its
        # torque. The push ends with the controllet, so the next one must exert it as torque.
        if self._is_sprung:
            push = _mean(rows[:, at["pushes"]])[:n]
            tau, external, measured = (
                tau + push,
                external - push,
                measured + tool_wrench(state, push),
            )
        wrench = tool_wrench(state, tau)
        contact = wrench.copy()
        project_to_measured(contact[:3], measured[:3], FREE_FORCE)
        project_to_measured(contact[3:], measured[3:], FREE_TORQUE)
        if speed < REST_SPEED and self._was_executed(arm, tau + external):
            return BumplessTransfer(tau, wrench, contact, mass)
        # Near a singularity, the torque of one joint appears as a wrench that would load other
        # joints too. Only the fraction of the wrench that all joints measure is transferred.
        scale = self._supported_fraction(arm, contact.dot(state.jacobian), external + arm.tare)
        contact *= scale
        return BumplessTransfer(contact.dot(state.jacobian), contact, contact, mass)

    def _supported_fraction(
        self, arm: Arm, contact_torque: Vector, external_torque: Vector
    ) -> float:
        # Slack is the maximum error of the external torques by friction and bias [Nm].
        slack, fraction = arm.model.arm.robot.value("unmeasured_torque"), 1.0
        for own, measured, max_value in zip(
            contact_torque.tolist(), external_torque.tolist(), slack
        ):
            supported = max_value + max(0.0, -measured * math.copysign(1.0, own))
            if abs(own) > supported:
                fraction = min(fraction, supported / abs(own))
        return fraction

    def _was_executed(self, arm: Arm, torque_sum: Vector) -> bool:
        # At rest, executed commands and external torques cancel, except for friction and bias. The
        # tare was subtracted from the external torques.
        slack = arm.model.arm.robot.value("unmeasured_torque")
        return all(abs(d) < s for d, s in zip((torque_sum + arm.tare).tolist(), slack))


def _shifted(columns: slice, by: int) -> slice:
    return slice(columns.start + by, columns.stop + by)


def _mean(rows: Matrix) -> Vector:
    mean: Vector = np.add.reduce(rows, axis=0)
    mean /= len(rows)
    return mean


def project_to_measured(desired: Vector, measured: Vector, free: float) -> None:
    """Limit a commanded contact force or moment to the measured one.

    The result is the vector nearest to ``desired`` in a ball whose diameter reaches from 0 to s
    times ``measured``. The factor s is 0 up to the norm ``free`` of ``measured``, and rises to 1
    at three times ``free``.

    Args:
        desired: Commanded force [N] or moment [Nm], (3,); overwritten by the result.
        measured: Measured force [N] or moment [Nm] on the environment, (3,).
        free: Maximum norm of ``measured`` for an arm in motion without contact [N] or [Nm].
    """
    size = math.sqrt(float(measured.dot(measured)))
    scale = min(1.0, max(0.0, (size - free) / (2.0 * free)))
    if scale == 0.0:
        desired[:] = 0.0
        return
    centre = 0.5 * scale * measured
    away = desired - centre
    radius, distance = 0.5 * scale * size, math.sqrt(float(away.dot(away)))
    if distance > radius:
        desired[:] = centre + away * (radius / distance)
