# SPDX-License-Identifier: Apache-2.0
"""What a trajectory says about a law: stable, at its limits, faulted, or unstable."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.state import Matrix, Vector

STABLE, LIMITS, FAULTS, UNSTABLE = "stable", "limits", "faults", "unstable"
ORDER = (STABLE, LIMITS, FAULTS, UNSTABLE)
"""From good to bad."""

WINDOW = 500
"""Cycles at the end that tell a speed, or a force, and those before that it is compared with."""
AT_REST = 0.05
"""Joint speed below which an arm is at rest [rad/s]."""
DECAYS = 0.9
"""A motion whose peak in the second half is below this share of that in the first dies down;
a soft spring on an arm without friction swings for some seconds, which is not the matter here."""
TOO_FAST = 1.0
"""Joint speed that is unstable even if it is becoming less: a limit cycle may beat [rad/s]."""
AT_LIMIT = 0.01
"""Share of cycles at a limit of torque or torque rate, at rest, that counts as limits."""
STEADY_FORCE = 0.25
"""Standard deviation of a contact force, per mean, above which the contact is unstable."""


@dataclass
class Verdict:
    """What became of one episode.

    Attributes:
        verdict: One of ``ORDER``.
        reason: Why, in a few words; empty if stable.
        speed: Largest joint speed where the arm should be at rest [rad/s].
        limited: Largest share of cycles at a limit there.
        force: Mean contact force at the end [N].
        peak: Largest contact force [N].
    """

    verdict: str = STABLE
    reason: str = ""
    speed: float = 0.0
    limited: float = 0.0
    force: float = 0.0
    peak: float = 0.0

    def worsen(self, verdict: str, reason: str) -> None:
        """Take a worse verdict over; the reason is that of the worst."""
        if ORDER.index(verdict) > ORDER.index(self.verdict):
            self.verdict, self.reason = verdict, reason

    def rounded(self) -> dict[str, Any]:
        """Return the fields with three significant digits, as machines agree no further."""
        return {
            name: float(f"{value:.3g}") if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }


def judge_rest(
    verdict: Verdict, after: str, speed: Matrix, limited: NDArray[np.bool_] | None = None
) -> bool:
    """Judge the halves of a time in which the arm should rest.

    Not only its ends: a swing of several seconds may be slow where it is looked at first.

    Args:
        verdict: Completed by what is found.
        after: What it should rest from.
        speed: True joint speeds, (n, joints) [rad/s].
        limited: Whether a limit was active, per cycle.

    Returns:
        Whether it rests, or comes to rest.
    """
    if not np.isfinite(speed).all():
        verdict.speed = np.inf
        verdict.worsen(UNSTABLE, f"{after}: diverges")
        return False
    size = np.abs(speed)
    half = len(size) // 2
    first, second = float(size[:half].max()), float(size[half:].max())
    last = float(size[-WINDOW:].max())
    verdict.speed = max(verdict.speed, last)
    if second > min(max(AT_REST, DECAYS * first), TOO_FAST):
        verdict.worsen(UNSTABLE, f"{after}: moves at {last:.2g} rad/s")
        return False
    share = 0.0 if limited is None else float(np.mean(limited))
    verdict.limited = max(verdict.limited, share)
    if share > AT_LIMIT:
        verdict.worsen(LIMITS, f"{after}: {100 * share:.0f} % of the time at a limit")
    return True


def judge_contact(verdict: Verdict, force: Vector) -> bool:
    """Judge a contact force (n,) [N] that should be steady at the end; return whether it is."""
    first, last = force[:WINDOW], force[-WINDOW:]
    verdict.force = float(last.mean())
    if verdict.force <= 0.0:
        verdict.worsen(LIMITS, "contact: none")
        return True
    swing = float(last.std())
    if swing > STEADY_FORCE * verdict.force and swing > DECAYS * float(first.std()):
        verdict.worsen(UNSTABLE, f"contact: {verdict.force:.2g} N swings by {swing:.2g} N")
        return False
    return True


def judge_fault(verdict: Verdict, during: str, fault: str, speed: Matrix) -> None:
    """Judge an arm some time after a fault, when nothing may move any more."""
    last = np.abs(speed[-WINDOW:]).max()
    verdict.speed = float(last)
    if last < AT_REST:
        verdict.worsen(FAULTS, f"{during}: {fault}")
    else:
        verdict.worsen(UNSTABLE, f"{during}: {fault}, then {last:.2g} rad/s under hold")
