# SPDX-License-Identifier: Apache-2.0
"""Let a twin follow what was measured on an arm, all at once or piece by piece."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ShadowRefused
from multipanda_py.identification.motion import GAP
from multipanda_py.logs.arm_log import ArmLog
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.load import NO_LOAD, Load
from multipanda_py.shadow.arm_twin import ArmTwin
from multipanda_py.shadow.quantities import places
from multipanda_py.state import Matrix, Vector

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
