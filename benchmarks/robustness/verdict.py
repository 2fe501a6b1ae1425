# SPDX-License-Identifier: Apache-2.0
"""Verdict on the trajectory of an episode: stable, at limits, faulted or unstable."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.state import Matrix, Vector

STABLE, LIMITS, FAULTS, UNSTABLE = "stable", "limits", "faults", "unstable"
ORDER = (STABLE, LIMITS, FAULTS, UNSTABLE)
"""Verdicts from best to worst."""

WINDOW = 500
"""Cycles at the end of an interval for final speeds and forces, and at its start for forces."""
AT_REST = 0.05
"""Joint speed below which an arm is at rest [rad/s]."""
DECAYS = 0.9
"""Maximum ratio of peak speeds, second to first half of an interval, of a decaying motion. A soft
spring on an arm without friction oscillates for some seconds, which does not count as unstable."""
TOO_FAST = 1.0
"""Joint speed that is unstable even if it decreases, since limit cycles can beat [rad/s]."""
AT_LIMIT = 0.01
"""Fraction of cycles at a limit of torque or its rate, at rest, that gives the verdict limits."""
STEADY_FORCE = 0.25
"""Ratio of standard deviation to mean of a contact force above which the contact is unstable."""


@dataclass
class Verdict:
    """Result of one episode.

    Attributes:
        verdict: Verdict, one of ``ORDER``.
        reason: Phase and event that led to the verdict, empty if stable.
        speed: Maximum joint speed at the end of the intervals of rest [rad/s].
        limited: Maximum fraction of cycles at a limit in the intervals of rest.
        force: Mean contact force at the end [N].
        peak: Maximum contact force [N].
    """

    verdict: str = STABLE
    reason: str = ""
    speed: float = 0.0
    limited: float = 0.0
    force: float = 0.0
    peak: float = 0.0

    def worsen(self, verdict: str, reason: str) -> None:
        """Set verdict and reason if the verdict is worse than the present one."""
        if ORDER.index(verdict) > ORDER.index(self.verdict):
            self.verdict, self.reason = verdict, reason

    def rounded(self) -> dict[str, Any]:
        """Return the fields with three significant digits; others differ between machines."""
        return {
            name: float(f"{value:.3g}") if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }


def judge_rest(
    verdict: Verdict, after: str, speed: Matrix, limited: NDArray[np.bool_] | None = None
) -> bool:
    """Judge an interval in which the arm should come to rest.

    The peak speeds of both halves are compared, since a slow oscillation can be at a turning point
    at the start of the interval.

    Args:
        verdict: Result of the episode, updated here.
        after: Phase before the interval, for the reason.
        speed: Simulated joint speeds, (n, joints) [rad/s].
        limited: Activity of a torque or rate limit per cycle, (n,).

    Returns:
        True if the arm rests or its motion decays.
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
    fraction = 0.0 if limited is None else float(np.mean(limited))
    verdict.limited = max(verdict.limited, fraction)
    if fraction > AT_LIMIT:
        verdict.worsen(LIMITS, f"{after}: {100 * fraction:.0f} % of the time at a limit")
    return True


def judge_contact(verdict: Verdict, force: Vector) -> bool:
    """Judge a contact force (n,) [N]; return True if it is steady or its oscillation decays."""
    first, last = force[:WINDOW], force[-WINDOW:]
    verdict.force = float(last.mean())
    if verdict.force <= 0.0:
        verdict.worsen(LIMITS, "contact: none")
        return True
    deviation = float(last.std())
    if deviation > STEADY_FORCE * verdict.force and deviation > DECAYS * float(first.std()):
        reason = (
            f"contact: {verdict.force:.2g} N oscillates with standard deviation {deviation:.2g} N"
        )
        verdict.worsen(UNSTABLE, reason)
        return False
    return True


def judge_fault(verdict: Verdict, during: str, fault: str, speed: Matrix) -> None:
    """Judge an arm that should rest after a fault, from its joint speeds (n, joints) [rad/s]."""
    last = np.abs(speed[-WINDOW:]).max()
    verdict.speed = float(last)
    if last < AT_REST:
        verdict.worsen(FAULTS, f"{during}: {fault}")
    else:
        verdict.worsen(UNSTABLE, f"{during}: {fault}, then {last:.2g} rad/s under hold")
