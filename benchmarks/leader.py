# SPDX-License-Identifier: Apache-2.0
"""Force feedback of a wall of 10 kN/m to a leader over bad networks.

Two FR3 are simulated in lockstep. A hand of 300 N/m and 15 N s/m guides the leader 6 cm down
within 0.4 s. The follower meets the wall after 2 cm. ``python benchmarks/leader.py [FEEDBACK]``
prints a table within some minutes; FEEDBACK is the fraction of the wrench that is fed back, 0.3 by
default.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "test" / "helpers"))

from distant_leader import Rig

CASES = [
    (delay, loss)
    for delay in ((0.0, 0.0), (0.05, 0.0), (0.1, 0.05), (0.2, 0.0))
    for loss in (0.0, 0.1, 0.5)
]


def measured(
    feedback: float, delay: tuple[float, float], loss: float, has_observer: bool = True
) -> str:
    """Return a row of the table in Markdown."""
    rig = Rig(feedback, delay, loss, keeps_account=has_observer)
    try:
        force, _, leader, feedback_force, speed = rig.play(4.0, 0.06).T
        returned_energy = rig.maximum_given
    finally:
        rig.close()
    reports = len(rig.reported)
    last_motion = float(np.ptp(leader[-1000:]))
    name = f"{delay[0] * 1e3:.0f} ms" + (f" + 0..{delay[1] * 1e3:.0f}" if delay[1] else "")
    return (
        f"| {name} | {loss:.0%} | {force.max():.0f} N | {feedback_force.max():.1f} N | "
        f"{-leader.min() * 100 - 6.0:.1f} cm | {returned_energy:.3f} J | "
        f"{np.abs(speed[-1000:]).max() * 100:.1f} cm/s, {last_motion * 1e3:.1f} mm | {reports} |"
    )


def main() -> None:
    """Print the table."""
    feedback = float(sys.argv[1]) if len(sys.argv) > 1 else 0.3
    print(
        "| delay | lost | peak force at the wall | max feedback force | overshoot of the leader | "
        "energy returned to the hand | speed, motion in the last second | reports |"
    )
    for delay, loss in CASES:
        print(measured(feedback, delay, loss), flush=True)
    for delay in ((0.05, 0.0), (0.1, 0.05), (0.2, 0.0)):
        print(
            "no passivity observer:",
            measured(feedback, delay, 0.0, has_observer=False),
            flush=True,
        )


if __name__ == "__main__":
    main()
