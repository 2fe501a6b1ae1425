# SPDX-License-Identifier: Apache-2.0
"""Simulated twin that follows an arm as an observer, and its residuals along a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from multipanda_py.exceptions import MonitorRejected
from multipanda_py.realtime.recording.arm_log import ArmLog
from multipanda_py.realtime.recording.measured_motion import GAP_PERIODS
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import LoadedFlange, model_with_gravity
from multipanda_py.robots.inertial import NO_LOAD, Load
from multipanda_py.state import ArmLimits, Matrix, Vector

CORRECTION_STIFFNESS = 0.6
"""Stiffness of the correction, relative to the torque limit of a joint [1/rad, 1/m]."""
MAX_STEP = 1e-3
"""Maximum integration step [s]."""
COULOMB_WIDTH = 0.01
"""Velocity width of the Coulomb friction step [rad/s, m/s]."""

_forward, _gravity = pin.aba, pin.computeGeneralizedGravity


class ArmTwin:
    r"""Simulated arm with a correction torque that makes it an observer of the measured arm.

    .. math::
        M(\hat q) \ddot{\hat q} + c(\hat q, \dot{\hat q}) + g(q) + f(\dot q)
        = u + \tau_{ext} + \tau_c, \qquad
        \tau_c = K (q - \hat q) + D (\dot q - \dot{\hat q}).

    Symbols: joint positions q of the arm (measured) and :math:`\hat q` of the twin. The
    description defines mass matrix M, Coriolis torques c, gravity torques g and friction f. The
    applied torque u includes gravity compensation, and :math:`\tau_{ext}` is the estimated
    external torque.

    Below the bandwidth of the correction, 5 to 25 rad/s, :math:`\tau_c` is the torque that
    commands, model and external torques do not explain. K is 0.6 of a joint's torque limit per
    radian, and D yields critical damping.

    Args:
        arm: Description of the arm with gripper and tool.
        load: Payload at the flange in addition to gripper and tool.
        gravity_in_base: Gravity in the base frame, (3,) [m/s^2]. By default, the mounting of
            ``arm`` determines it.

    Attributes:
        q: Joint positions of the twin, (n,) [rad, m].
        dq: Joint velocities of the twin, (n,) [rad/s, m/s].
        correction: Mean of :math:`\tau_c` in the last call of :meth:`step`, (n,) [Nm, N].

    Thread: used by one thread at a time.
    """

    def __init__(
        self, arm: ArmDescription, load: Load = NO_LOAD, gravity_in_base: Vector | None = None
    ) -> None:
        self._model = model_with_gravity(arm)
        LoadedFlange(self._model, arm.flange_frame).set_load(load)
        if gravity_in_base is not None:
            self._model.gravity.linear = gravity_in_base
        self._weighing = self._model.createData()
        self._floating = self._model.copy()
        self._floating.gravity = pin.Motion.Zero()
        self._data = self._floating.createData()
        self._stiffness: Vector = CORRECTION_STIFFNESS * arm.limits.torque
        self._viscous, self._coulomb = arm.joint_damping, arm.joint_frictionloss
        self._offset = arm.robot.torque_offset
        self._damping: Vector = np.zeros(arm.n_joints)
        self.q, self.dq, self.correction = np.zeros((3, arm.n_joints))

    def reset_to(self, q: Vector, dq: Vector) -> None:
        """Reset the twin to the measured state.

        Args:
            q: Joint positions, (n,) [rad, m].
            dq: Joint velocities, (n,) [rad/s, m/s].
        """
        self.q[:], self.dq[:], self.correction[:] = q, dq, 0.0
        self.adapt(q)

    def adapt(self, q: Vector) -> None:
        """Adapt the damping D to the effective inertias at positions ``q``, (n,) [rad, m]."""
        mass = pin.crba(self._model, self._weighing, q)
        mass = np.triu(mass) + np.triu(mass, 1).T
        moved = 1.0 / np.linalg.inv(mass).diagonal()
        self._damping[:] = 2.0 * np.sqrt(self._stiffness * moved)

    def gravity(self, q: Vector) -> Vector:
        """Return the gravity torques of the described arm at positions ``q``, (n,) [Nm, N]."""
        gravity: Vector = _gravity(self._model, self._weighing, q)
        return gravity

    def friction(self, dq: Vector) -> Vector:
        """Return the friction torques of the described arm at velocities ``dq``, (n,) [Nm, N]."""
        friction: Vector = (
            self._viscous * dq + self._coulomb * np.tanh(dq / COULOMB_WIDTH) + self._offset
        )
        return friction

    def step(self, q: Vector, dq: Vector, torque: Vector, period: float) -> None:
        """Integrate the twin over one period.

        Args:
            q: Measured joint positions at the beginning, (n,) [rad, m].
            dq: Measured joint velocities at the beginning, (n,) [rad/s, m/s].
            torque: Applied torque with gravity compensation plus estimated external torque, (n,)
                [Nm, N].
            period: Duration [s].
        """
        steps = max(1, round(period / MAX_STEP))
        step = period / steps
        # Gravity torques at the twin's own positions would destabilise an upright twin.
        free = torque - self.gravity(q) - self.friction(dq)
        total = np.zeros_like(free)
        for k in range(steps):
            spring_wrench = self._stiffness * (q + (k * step) * dq - self.q)
            spring_wrench += self._damping * (dq - self.dq)
            total += spring_wrench
            self.dq += step * _forward(
                self._floating, self._data, self.q, self.dq, free + spring_wrench
            )
            self.q += step * self.dq
        self.correction[:] = total / steps


@dataclass(frozen=True)
class ResidualKind:
    """Kind of residual between an arm and its twin.

    Attributes:
        name: Name in files and messages.
        unit: SI unit.
        axes: Names of the components. If empty, there is one component per joint.
        doc: Definition of the residual.
    """

    name: str
    unit: str
    axes: tuple[str, ...]
    doc: str

    def labels(self, joints: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the components: the axes, or the joints if no axes are given."""
        return self.axes or tuple(joints)


QUANTITIES = (
    ResidualKind("q", "rad", (), "measured minus the twin's positions"),
    ResidualKind("dq", "rad/s", (), "measured minus the twin's velocities"),
    ResidualKind("tau", "Nm", (), "measured torques minus those that the twin needs"),
    ResidualKind("external", "Nm", (), "estimated external torques, which are zero for the twin"),
    ResidualKind(
        "wrench", "N, Nm", ("fx", "fy", "fz", "mx", "my", "mz"),
        "estimated external wrench on the tool in the base frame",
    ),
    ResidualKind("correction", "Nm", (), "correction torque that keeps the twin at the arm"),
)  # fmt: skip
MIN_RELATIVE_HALF_WIDTH = 2e-3
"""Minimum half width of a band, relative to the torque limit of a joint."""


def residual_slices(joints: int) -> dict[str, slice]:
    """Return the slice of each residual kind in an arm's vector of all residuals, by name."""
    result, at = {}, 0
    for quantity in QUANTITIES:
        width = len(quantity.axes) or joints
        result[quantity.name] = slice(at, at + width)
        at += width
    return result


def min_half_widths(limits: ArmLimits) -> Vector:
    """Return the minimum half width of the band (range in good runs) of each residual, (m,)."""
    # Covers sensor drift, and simulated arms that equal their twin.
    n, torque = limits.n_joints, MIN_RELATIVE_HALF_WIDTH * limits.torque
    q = np.full(n, MIN_RELATIVE_HALF_WIDTH / CORRECTION_STIFFNESS)
    wrench = np.array([0.5, 0.5, 0.5, 0.05, 0.05, 0.05])
    return np.concatenate([q, np.full(n, 5e-3), torque, torque, wrench, torque])


SMOOTHING_TIME = 0.05
"""Time constant of the residual low-pass filter [s]."""
SETTLE_TIME = 1.0
"""Time after a reset of the twin during which residuals are not evaluated [s]."""
MAX_RMS_CORRECTION = 0.25
"""Root mean square of the correction, relative to a joint's torque limit, above which a log does
not match the described arm."""
_DAMPING_UPDATE_SAMPLES = 50
"""Samples between two updates of the damping D to the present effective inertias."""
_MAX_SAMPLE_PERIOD = 0.1
"""Maximum sample period of a log [s]."""


@dataclass(frozen=True, eq=False)
class MonitoredLog:
    """Log of an arm with n samples and j joints, and its simulated twin at the same times.

    Attributes:
        log: Measured log.
        q: Joint positions of the twin, (n, j) [rad, m].
        dq: Joint velocities of the twin, (n, j) [rad/s, m/s].
        tau: Applied torques plus ``correction``, including gravity, (n, j) [Nm, N].
        correction: Torques not explained by commands and external torques, (n, j) [Nm, N].
        residuals: Filtered residuals, (n, m), with the columns of :func:`.residual_slices`.
            Residuals of signals missing in the log are nan.
        evaluated: Mask, (n,), False while the twin settles after a reset, for invalid samples,
            and during faults.
    """

    log: ArmLog
    q: Matrix
    dq: Matrix
    tau: Matrix
    correction: Matrix
    residuals: Matrix
    evaluated: NDArray[np.bool_]

    @property
    def time(self) -> Vector:
        """Robot time, (n,) [s]."""
        return self.log.time

    @property
    def evaluated_duration(self) -> float:
        """Duration of the evaluated samples [s]."""
        return float(self.evaluated.mean()) * self.log.duration

    def mismatch(self, torque_limits: Vector) -> str:
        """Return a message if the log does not match the described arm, else an empty string.

        The log matches if the root mean square of :attr:`correction` is below
        :data:`MAX_RMS_CORRECTION` times the torque limit, for every joint.

        Args:
            torque_limits: Torque limits of the joints, (j,) [Nm, N].
        """
        rows = self.correction[self.evaluated]
        if not len(rows):
            return ""
        rms = np.sqrt(np.mean(rows**2, axis=0))
        joint = int(np.argmax(rms / torque_limits))
        if rms[joint] < MAX_RMS_CORRECTION * torque_limits[joint]:
            return ""
        return (
            f"{self.log.arm}: {self.log.joints[joint]} would need {rms[joint]:.1f} Nm in addition "
            "to the applied torque (root mean square). Check for swapped columns, wrong units, "
            "another arm or another mounting."
        )


class ArmMonitor:
    """Digital-twin monitor of one arm.

    The commanded torques of the log drive the twin, or measured torques in samples without them.
    After a gap, a fault or an invalid sample, the twin is reset to the measured state.

    Args:
        arm: Description of the arm, optionally with identified parameters.
        load: Payload at the flange in addition to gripper and tool.
        controller_model: Model with which the robot controller compensates gravity. The default is
            that of ``arm``.

    Attributes:
        name: Name of the arm.
        skipped: Number of samples that were invalid or made the twin diverge.

    Thread: used by one thread at a time.
    """

    def __init__(
        self,
        arm: ArmDescription,
        load: Load = NO_LOAD,
        controller_model: ArmDescription | None = None,
    ) -> None:
        self.name, self._arm, self._load = arm.name, arm, load
        self._controller_model = controller_model
        self._twin: ArmTwin | None = None
        self._robot: ArmTwin | None = None
        self._time = self._settled = self._period = 0.0
        self._follows = False
        self.skipped = 0
        n = arm.n_joints
        self._residual_slices = residual_slices(n)
        width = sum(columns.stop - columns.start for columns in self._residual_slices.values())
        self._smooth = np.zeros(width)
        self._before: tuple[Vector, Vector, Vector, Vector] = tuple(np.zeros((4, n)))  # type: ignore[assignment]

    def follow(self, log: ArmLog) -> MonitoredLog | None:
        """Run the twin along the next chunk of a log.

        Args:
            log: Log of this arm. Samples that an earlier chunk contained are skipped.

        Returns:
            New samples of the log with the twin, or None without new samples.

        Raises:
            MonitorRejected: If the log does not match the arm or lacks torques.
        """
        self._check(log)
        if self._follows and log.time[0] <= self._time:
            start = int(np.searchsorted(log.time, self._time, side="right"))
            if start == len(log):
                if log.time[-1] > self._time - 1.0:
                    return None
                # If all times are more than 1 s in the past, the robot clock was reset, and the
                # samples are new.
                self._follows = False
            else:
                log = log.part(slice(start, None))
        if self._twin is None:
            self._twin = ArmTwin(self._arm, self._load, log.gravity_in_base)
            if self._controller_model is not None:
                self._robot = ArmTwin(self._controller_model, self._load, log.gravity_in_base)
        return self._run(self._twin, log)

    def _check(self, log: ArmLog) -> None:
        n = self._arm.n_joints
        if len(log.joints) != n:
            raise MonitorRejected(
                f"{log.arm}: got {len(log.joints)} joints, allowed {n} as in its twin "
                f"({self._arm.robot.name})"
            )
        if log.tau is None and log.tau_commanded is None:
            raise MonitorRejected(
                f"{log.arm}: the log has no torques. Record commanded or measured torques, which "
                "the twin needs."
            )
        if len(log) > 1 and log.period > _MAX_SAMPLE_PERIOD:
            raise MonitorRejected(
                f"{log.arm}: got {log.rate:.1f} samples per second, allowed "
                f"{1.0 / _MAX_SAMPLE_PERIOD:g} or more"
            )

    def _run(self, twin: ArmTwin, log: ArmLog) -> MonitoredLog:
        n, count = self._arm.n_joints, len(log)
        dq = np.gradient(log.q, log.time, axis=0) if log.dq is None and count > 1 else log.dq
        dq = np.zeros_like(log.q) if dq is None else dq
        tau = self._applied_torques(self._robot or twin, log)
        estimated = log.columns.get("tau_ext", np.full((count, n), np.nan))
        external = estimated if "tau_ext" in log.columns else np.zeros((count, n))
        wrench = log.columns.get("wrench_ext_in_base", np.full((count, 6), np.nan))
        measured = np.full((count, n), np.nan) if log.tau is None else log.tau
        fault = log.columns.get("fault", np.zeros(count)) != 0
        fine = np.isfinite(np.hstack([log.q, dq, tau, external])).all(axis=1)
        self.skipped += int((~fine).sum())
        starts = set(log.starts[1:])
        if count > 1:
            self._period = log.period
        longest = GAP_PERIODS * self._period if self._period else np.inf
        shown = np.full((4, count, n), np.nan)
        residuals = np.full((count, len(self._smooth)), np.nan)
        evaluated = np.zeros(count, bool)
        raw = np.empty(len(self._smooth))
        for k, time in enumerate(log.time.tolist()):
            if not fine[k] or fault[k]:
                self._follows = False
                continue
            passed = time - self._time
            if not self._follows or passed > longest or k in starts:
                twin.reset_to(log.q[k], dq[k])
                self._follows, self._settled, passed = True, time + SETTLE_TIME, 0.0
                self._smooth[:] = np.nan
                needed = tau[k]
            else:
                if k % _DAMPING_UPDATE_SAMPLES == 0:
                    twin.adapt(log.q[k])
                twin.step(*self._before[:2], self._before[2] + self._before[3], passed)
                # Unrealistic torques in the log can make the twin diverge. The next valid sample
                # then resets it.
                if not np.isfinite(twin.q).all():
                    self._follows = False
                    self.skipped += 1
                    continue
                needed = self._before[2] + twin.correction
            raw[self._residual_slices["q"]] = log.q[k] - twin.q
            raw[self._residual_slices["dq"]] = dq[k] - twin.dq
            raw[self._residual_slices["tau"]] = measured[k] - needed
            raw[self._residual_slices["external"]] = estimated[k]
            raw[self._residual_slices["wrench"]] = wrench[k]
            raw[self._residual_slices["correction"]] = twin.correction
            # The filter state is nan after a reset. It starts at the first valid residual.
            np.copyto(self._smooth, raw, where=np.isnan(self._smooth))
            self._smooth += passed / (passed + SMOOTHING_TIME) * (raw - self._smooth)
            residuals[k] = self._smooth
            shown[:, k] = twin.q, twin.dq, needed, twin.correction
            evaluated[k] = time >= self._settled
            self._time = time
            self._before = (log.q[k], dq[k], tau[k], external[k])
        return MonitoredLog(log, shown[0], shown[1], shown[2], shown[3], residuals, evaluated)

    def _applied_torques(self, controller_twin: ArmTwin, log: ArmLog) -> Matrix:
        """Return the torques applied to the arm, including gravity compensation, (n, j) [Nm, N].

        They are the commanded torques, or the measured ones in samples without commands. Gravity
        torques that a robot adds to commands itself are those of ``controller_twin``.
        """
        if log.tau_commanded is None:
            measured: Matrix = np.asarray(log.tau)
            return measured
        tau = log.tau_commanded.copy()
        if not log.gravity_in_tau_commanded:
            if self._arm.compensates_gravity:
                tau += np.array([controller_twin.gravity(q) for q in log.q])
            elif "tau_gravity" in log.columns:
                tau += log.columns["tau_gravity"]
        if log.tau is not None and "interface" in log.columns:
            # In position control there are no commanded torques, so measured ones drive the twin.
            moved_otherwise = log.columns["interface"] != 0
            tau[moved_otherwise] = log.tau[moved_otherwise]
        return tau
