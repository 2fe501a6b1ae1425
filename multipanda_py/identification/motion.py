# SPDX-License-Identifier: Apache-2.0
"""What was measured while an arm moved, as identification takes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from multipanda_py.exceptions import IdentificationRefused
from multipanda_py.state import Matrix, Vector

GAP = 2.5
"""Samples further apart than so many periods have a gap between them. One that is lost leaves two
periods, two leave three; half a period is left for a clock that is not even."""
BRIDGED = 0.02
"""No gap to filters: what they leave of a motion does not change within it [s]."""
RESTS, AROUND = 5e-3, 0.5
"""How near to where it begins and ends an arm rests there [rad, m], and how much of that rest is
kept [s]."""


@dataclass(frozen=True, eq=False)
class MeasuredMotion:
    """Samples of one arm at N instants.

    Attributes:
        name: Of the log, for messages.
        time: Strictly increasing, (N,) [s].
        q: Measured positions, (N, n) [rad, m].
        tau: Measured torques, with those that carry the arm, (N, n) [Nm, N].
        dq: Measured velocities, (N, n) [rad/s, m/s], or None. They are only compared with the
            positions, whose derivatives without phase are better.
        gravity_in_base: (3,) [m/s^2]; None for the arm's own base.
        joints: Names of the joints, or None where nobody says.
        starts: Samples at which a recording begins.
        rotors_in_tau: Whether the torques have in them what turns the rotors.
    """

    name: str
    time: Vector
    q: Matrix
    tau: Matrix
    dq: Matrix | None = None
    gravity_in_base: Vector | None = None
    joints: tuple[str, ...] | None = None
    starts: tuple[int, ...] = (0,)
    rotors_in_tau: bool = True

    def __post_init__(self) -> None:
        """Refuse what is not one table of finite numbers at increasing times."""
        tables = {"q": self.q, "tau": self.tau}
        if self.dq is not None:
            tables["dq"] = self.dq
        if np.ndim(self.time) != 1 or np.ndim(self.q) != 2 or not len(self.time):
            raise IdentificationRefused(f"{self.name}: no samples of joints at times")
        for what, table in {"time": self.time[:, None], **tables}.items():
            if what != "time" and table.shape != (len(self.time), self.q.shape[1]):
                raise IdentificationRefused(
                    f"{self.name}: {what}: got shape {table.shape}, allowed "
                    f"{(len(self.time), self.q.shape[1])}"
                )
            bad = ~np.isfinite(table).all(axis=1)
            if bad.any():
                raise IdentificationRefused(
                    f"{self.name}: {what}: not finite in {int(bad.sum())} of {len(bad)} samples, "
                    f"first in sample {int(bad.argmax())}"
                )
        back = np.flatnonzero(np.diff(self.time) <= 0.0)
        if len(back):
            at = int(back[0])
            raise IdentificationRefused(
                f"{self.name}: the clock went from {self.time[at]:.6f} to "
                f"{self.time[at + 1]:.6f} s at sample {at + 1}, allowed times that increase"
            )

    @property
    def period(self) -> float:
        """Median time between samples [s]."""
        return float(np.median(np.diff(self.time))) if len(self.time) > 1 else 0.0

    def runs(self) -> list[slice]:
        """Return the samples between gaps, for filters that know none."""
        step = np.diff(self.time)
        far = np.flatnonzero(step > max(GAP * self.period, BRIDGED)) + 1
        bounds = sorted({0, *self.starts, *far.tolist(), len(self.time)})
        return [slice(begin, end) for begin, end in pairwise(bounds)]

    def part(self, run: slice) -> MeasuredMotion:
        """Return some samples as a motion of their own."""
        begin, end, _ = run.indices(len(self.time))
        inside = {0, *(s - begin for s in self.starts if begin < s < end)}
        return replace(
            self,
            time=self.time[run],
            q=self.q[run],
            tau=self.tau[run],
            dq=None if self.dq is None else self.dq[run],
            starts=tuple(sorted(inside)),
        )

    def without_rest(self) -> MeasuredMotion:
        """Return it without what was recorded before the arm moved, and behind that.

        All of it, if nothing moves.
        """
        left, reached = (np.abs(self.q - self.q[k]).max(axis=1) > RESTS for k in (0, -1))
        if not left.any():
            return self
        begin = self.time[int(left.argmax())] - AROUND
        end = self.time[len(reached) - 1 - int(reached[::-1].argmax())] + AROUND
        first, last = np.searchsorted(self.time, [begin, end]).tolist()
        return self.part(slice(first, last))

    def split(self, held_out: float) -> tuple[MeasuredMotion, MeasuredMotion]:
        """Return the first part, and the last, which is the given share of the time."""
        end = self.time[-1] - held_out * (self.time[-1] - self.time[0])
        at = int(np.searchsorted(self.time, end))
        return self.part(slice(0, at)), self.part(slice(at, len(self.time)))
