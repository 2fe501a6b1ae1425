# SPDX-License-Identifier: Apache-2.0
"""Let a twin follow what was measured on an arm, all at once or piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from multipanda_py.exceptions import ShadowRefused
from multipanda_py.realtime.recording.arm_log import ArmLog
from multipanda_py.realtime.recording.measured_motion import GAP
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_model import LoadedFlange, heavy_model
from multipanda_py.robots.inertial import NO_LOAD, Load
from multipanda_py.state import ArmLimits, Matrix, Vector

STIFFNESS = 0.6
"""Of the correction, as a share of a joint's largest torque [1/rad, 1/m]."""
LONGEST_STEP = 1e-3
"""Of the integration [s]."""
TURN = 0.01
"""Velocity within which Coulomb friction turns round [rad/s, m/s]."""

_forward, _gravity = pin.aba, pin.computeGeneralizedGravity


class ArmTwin:
    r"""Integrate what the description says of an arm, as an observer of the measured one.

    .. math::
        M(\hat q) \ddot{\hat q} + c(\hat q, \dot{\hat q}) + g(q) + f(\dot q)
        = u + \tau_{ext} + \tau_c, \qquad
        \tau_c = K (q - \hat q) + D (\dot q - \dot{\hat q})

    with the torque u that the arm was given, gravity included, and the friction f of the
    description, its offset included. Gravity is that of the measured posture: that of the twin's
    own would be a spring as stiff as K, which pushes an upright arm over; friction is that of the
    measured velocity. Without the correction :math:`\tau_c` the twin would drift off: half a
    newton metre that it does not know of takes a joint a radian away within seconds. K is 0.6 of a
    joint's torque limit per radian and D damps critically for what the joint moves in this
    posture: 5 to 25 rad/s. So :math:`\tau_c` is, below this bandwidth, what command, description
    and felt forces leave unexplained.

    Args:
        arm: As it is described, with hand and tool.
        load: What its flange carries beyond them.
        gravity_in_base: (3,) [m/s^2]; by default as the arm stands.

    Attributes:
        q: Positions of the twin, (n,) [rad, m].
        dq: Its velocities, (n,) [rad/s, m/s].
        correction: Mean of :math:`\tau_c` over the last :meth:`step`, (n,) [Nm, N].

    Thread: one at a time.
    """

    def __init__(
        self, arm: ArmDescription, load: Load = NO_LOAD, gravity_in_base: Vector | None = None
    ) -> None:
        self._model = heavy_model(arm)
        LoadedFlange(self._model, arm.flange_frame).carry(load)
        if gravity_in_base is not None:
            self._model.gravity.linear = gravity_in_base
        self._weighing = self._model.createData()
        self._floating = self._model.copy()
        self._floating.gravity = pin.Motion.Zero()
        self._data = self._floating.createData()
        self._stiffness: Vector = STIFFNESS * arm.limits.torque
        self._viscous, self._coulomb = arm.joint_damping, arm.joint_frictionloss
        self._offset = arm.robot.torque_offset
        self._damping: Vector = np.zeros(arm.n_joints)
        self.q, self.dq, self.correction = np.zeros((3, arm.n_joints))

    def place(self, q: Vector, dq: Vector) -> None:
        """Put the twin to where the arm is."""
        self.q[:], self.dq[:], self.correction[:] = q, dq, 0.0
        self.adapt(q)

    def adapt(self, q: Vector) -> None:
        """Damp critically for what the joints move in a posture, (n,) [rad, m]."""
        mass = pin.crba(self._model, self._weighing, q)
        mass = np.triu(mass) + np.triu(mass, 1).T
        moved = 1.0 / np.linalg.inv(mass).diagonal()
        self._damping[:] = 2.0 * np.sqrt(self._stiffness * moved)

    def gravity(self, q: Vector) -> Vector:
        """Return what carries the arm as it is described, (n,) [Nm, N]."""
        found: Vector = _gravity(self._model, self._weighing, q)
        return found

    def friction(self, dq: Vector) -> Vector:
        """Return what the description's friction takes, (n,) [Nm, N]."""
        found: Vector = self._viscous * dq + self._coulomb * np.tanh(dq / TURN) + self._offset
        return found

    def step(self, q: Vector, dq: Vector, torque: Vector, period: float) -> None:
        r"""Move on by one period, from where the arm is measured at its beginning.

        Args:
            q: Measured at the beginning, (n,) [rad, m].
            dq: Likewise, (n,) [rad/s, m/s].
            torque: :math:`u + \tau_{ext}` meanwhile, (n,) [Nm, N].
            period: How long [s].
        """
        steps = max(1, round(period / LONGEST_STEP))
        step = period / steps
        free = torque - self.gravity(q) - self.friction(dq)
        total = np.zeros_like(free)
        for k in range(steps):
            pull = self._stiffness * (q + (k * step) * dq - self.q)
            pull += self._damping * (dq - self.dq)
            total += pull
            self.dq += step * _forward(self._floating, self._data, self.q, self.dq, free + pull)
            self.q += step * self.dq
        self.correction[:] = total / steps


@dataclass(frozen=True)
class ResidualKind:
    """One of the things compared.

    Attributes:
        name: As band files and messages call it.
        unit: SI.
        axes: Names of its axes; one per joint if empty.
        doc: What its residual is.
    """

    name: str
    unit: str
    axes: tuple[str, ...]
    doc: str

    def labels(self, joints: Sequence[str]) -> tuple[str, ...]:
        """Return names of the axes of an arm."""
        return self.axes or tuple(joints)


QUANTITIES = (
    ResidualKind("q", "rad", (), "measured minus the twin's positions"),
    ResidualKind("dq", "rad/s", (), "measured minus the twin's velocities"),
    ResidualKind("tau", "Nm", (), "measured torques minus those that the twin needs"),
    ResidualKind("external", "Nm", (), "torques felt from outside; the twin touches nothing"),
    ResidualKind(
        "wrench", "N, Nm", ("fx", "fy", "fz", "mx", "my", "mz"),
        "the same as a wrench on the tool, in the base",
    ),
    ResidualKind("correction", "Nm", (), "torque that keeps the twin at the arm"),
)  # fmt: skip
LEAST_TORQUE = 2e-3
"""Of the largest torque of a joint: half the width of a band at least."""


def places(joints: int) -> dict[str, slice]:
    """Return where each quantity stands among all numbers of an arm, by its name."""
    found, at = {}, 0
    for quantity in QUANTITIES:
        width = len(quantity.axes) or joints
        found[quantity.name] = slice(at, at + width)
        at += width
    return found


def smallest(limits: ArmLimits) -> Vector:
    """Return half the width that a band has at least, for all numbers of an arm.

    Sensors drift from hour to hour, and a simulated arm may be its own twin to the last bit: 0.2 %
    of the largest torque is nothing to look at, nor is what that moves the twin by.
    """
    n, torque = limits.n_joints, LEAST_TORQUE * limits.torque
    q = np.full(n, LEAST_TORQUE / STIFFNESS)
    wrench = np.array([0.5, 0.5, 0.5, 0.05, 0.05, 0.05])
    return np.concatenate([q, np.full(n, 5e-3), torque, torque, wrench, torque])


SMOOTHING = 0.05
"""Time constant of what residuals pass before anybody judges them [s]."""
SETTLES = 1.0
"""After the twin was put to where the arm is, nothing is judged for so long [s]."""
STRANGE = 0.25
"""Share of a joint's largest torque: what needs more than that is no log of the described arm."""
_ADAPTS = 50
"""Samples after which the damping of the correction follows the posture."""
_LONGEST_PERIOD = 0.1
"""Between samples that can be followed [s]."""


@dataclass(frozen=True, eq=False)
class Shadowed:
    """An arm and its twin over n samples.

    Attributes:
        log: What was measured.
        q: The twin's positions, (n, j) [rad, m].
        dq: Its velocities, (n, j) [rad/s, m/s].
        tau: Torques that it needs for this motion, gravity included, (n, j) [Nm, N].
        correction: What of them neither commands nor felt forces explain, (n, j) [Nm, N].
        residuals: All of :data:`.QUANTITIES` side by side, smoothed, (n, m); nan where a log
            does not have one.
        judged: Which samples count: the twin follows, and the arm executes its commands, (n,).
    """

    log: ArmLog
    q: Matrix
    dq: Matrix
    tau: Matrix
    correction: Matrix
    residuals: Matrix
    judged: NDArray[np.bool_]

    @property
    def time(self) -> Vector:
        """Robot time, (n,) [s]."""
        return self.log.time

    @property
    def judged_for(self) -> float:
        """How much of it counts [s]."""
        return float(self.judged.mean()) * self.log.duration

    def strangeness(self, largest_torque: Vector) -> str:
        """Say that this can hardly be a log of the described arm, or return an empty string.

        Args:
            largest_torque: Of every joint, (j,) [Nm, N].
        """
        rows = self.correction[self.judged]
        if not len(rows):
            return ""
        rms = np.sqrt(np.mean(rows**2, axis=0))
        joint = int(np.argmax(rms / largest_torque))
        if rms[joint] < STRANGE * largest_torque[joint]:
            return ""
        return (
            f"{self.log.arm}: {self.log.joints[joint]} would need {rms[joint]:.1f} Nm other than "
            "it was given (root mean square): are columns swapped, is a unit another one, or is "
            "it another arm, or mounted otherwise?"
        )


class ArmShadow:
    """Follow one arm with its twin.

    The twin is given what the arm was commanded, where torques are commanded and recorded, and
    else the torques that were measured. Behind a gap, a fault or a sample that is no number it is
    put to where the arm is, and nothing is judged until it has settled.

    Args:
        arm: As it is described, or was identified.
        load: What its flange carries beyond hand and tool.
        believed: As its robot believes it to be, which adds the gravity of that to commands; the
            same by default.

    Attributes:
        name: Of the arm.
        skipped: Samples that had something in them that is no number, or threw the twin off.

    Thread: one at a time.
    """

    def __init__(
        self, arm: ArmDescription, load: Load = NO_LOAD, believed: ArmDescription | None = None
    ) -> None:
        self.name, self._arm, self._load = arm.name, arm, load
        self._believed = believed
        self._twin: ArmTwin | None = None
        self._robot: ArmTwin | None = None
        self._time = self._settled = self._period = 0.0
        self._follows = False
        self.skipped = 0
        n = arm.n_joints
        self._places = places(n)
        width = sum(place.stop - place.start for place in self._places.values())
        self._smooth = np.zeros(width)
        self._before: tuple[Vector, Vector, Vector, Vector] = tuple(np.zeros((4, n)))  # type: ignore[assignment]

    def follow(self, log: ArmLog) -> Shadowed | None:
        """Follow what was measured next; None if there is nothing new in it.

        Args:
            log: Of this arm; samples that are not after those of the last call are left out.

        Raises:
            ShadowRefused: If it cannot be followed, with the reason.
        """
        self._check(log)
        if self._follows and log.time[0] <= self._time:
            begin = int(np.searchsorted(log.time, self._time, side="right"))
            if begin == len(log):
                if log.time[-1] > self._time - 1.0:
                    return None
                self._follows = False  # the clock began anew
            else:
                log = log.part(slice(begin, None))
        if self._twin is None:
            self._twin = ArmTwin(self._arm, self._load, log.gravity_in_base)
            if self._believed is not None:
                self._robot = ArmTwin(self._believed, self._load, log.gravity_in_base)
        return self._run(self._twin, log)

    def _check(self, log: ArmLog) -> None:
        n = self._arm.n_joints
        if len(log.joints) != n:
            raise ShadowRefused(
                f"{log.arm}: got {len(log.joints)} joints, allowed {n}, which its twin "
                f"({self._arm.robot.name}) has"
            )
        if log.tau is None and log.tau_commanded is None:
            raise ShadowRefused(
                f"{log.arm}: neither commanded nor measured torques in the log: nothing moves the "
                "twin"
            )
        if len(log) > 1 and log.period > _LONGEST_PERIOD:
            raise ShadowRefused(
                f"{log.arm}: got {log.rate:.1f} samples a second, allowed from "
                f"{1.0 / _LONGEST_PERIOD:g}"
            )

    def _run(self, twin: ArmTwin, log: ArmLog) -> Shadowed:
        n, count = self._arm.n_joints, len(log)
        dq = np.gradient(log.q, log.time, axis=0) if log.dq is None and count > 1 else log.dq
        dq = np.zeros_like(log.q) if dq is None else dq
        given = self._given(self._robot or twin, log)
        felt = log.columns.get("tau_ext", np.full((count, n), np.nan))
        external = felt if "tau_ext" in log.columns else np.zeros((count, n))
        wrench = log.columns.get("wrench_ext_in_base", np.full((count, 6), np.nan))
        measured = np.full((count, n), np.nan) if log.tau is None else log.tau
        fault = log.columns.get("fault", np.zeros(count)) != 0
        fine = np.isfinite(np.hstack([log.q, dq, given, external])).all(axis=1)
        self.skipped += int((~fine).sum())
        starts = set(log.starts[1:])
        if count > 1:
            self._period = log.period
        longest = GAP * self._period if self._period else np.inf
        shown = np.full((4, count, n), np.nan)
        residuals = np.full((count, len(self._smooth)), np.nan)
        judged = np.zeros(count, bool)
        raw = np.empty(len(self._smooth))
        for k, time in enumerate(log.time.tolist()):
            if not fine[k] or fault[k]:
                self._follows = False
                continue
            passed = time - self._time
            if not self._follows or passed > longest or k in starts:
                twin.place(log.q[k], dq[k])
                self._follows, self._settled, passed = True, time + SETTLES, 0.0
                self._smooth[:] = np.nan
                needed = given[k]
            else:
                if k % _ADAPTS == 0:
                    twin.adapt(log.q[k])
                twin.step(*self._before[:2], self._before[2] + self._before[3], passed)
                if not np.isfinite(twin.q).all():  # what it was given moves no arm
                    self._follows = False
                    self.skipped += 1
                    continue
                needed = self._before[2] + twin.correction
            raw[self._places["q"]] = log.q[k] - twin.q
            raw[self._places["dq"]] = dq[k] - twin.dq
            raw[self._places["tau"]] = measured[k] - needed
            raw[self._places["external"]] = felt[k]
            raw[self._places["wrench"]] = wrench[k]
            raw[self._places["correction"]] = twin.correction
            np.copyto(self._smooth, raw, where=np.isnan(self._smooth))  # begins there
            self._smooth += passed / (passed + SMOOTHING) * (raw - self._smooth)
            residuals[k] = self._smooth
            shown[:, k] = twin.q, twin.dq, needed, twin.correction
            judged[k] = time >= self._settled
            self._time = time
            self._before = (log.q[k], dq[k], given[k], external[k])
        return Shadowed(log, shown[0], shown[1], shown[2], shown[3], residuals, judged)

    def _given(self, robot: ArmTwin, log: ArmLog) -> Matrix:
        """Return the torques that moved the arm, gravity included, (n, j)."""
        if log.tau_commanded is None:
            measured: Matrix = np.asarray(log.tau)
            return measured
        given = log.tau_commanded.copy()
        if not log.gravity_in_tau_commanded:
            if self._arm.compensates_gravity:
                given += np.array([robot.gravity(q) for q in log.q])
            elif "tau_gravity" in log.columns:
                given += log.columns["tau_gravity"]
        if log.tau is not None and "interface" in log.columns:
            moved_otherwise = log.columns["interface"] != 0  # by positions or velocities
            given[moved_otherwise] = log.tau[moved_otherwise]
        return given
