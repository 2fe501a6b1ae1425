# SPDX-License-Identifier: Apache-2.0
"""How a leader that feels a wall of 10 kN/m behaves over bad networks; prints a table.

In lockstep: two simulated FR3, a hand of 300 N/m and 15 N s/m that leads 6 cm down within 0.4 s,
a wall after 2 cm. ``python benchmarks/leader.py [FEEDBACK]``; some minutes.
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


def measured(feedback: float, delay: tuple[float, float], loss: float, keeps: bool = True) -> str:
    """Return a row of the table."""
    rig = Rig(feedback, delay, loss, keeps_account=keeps)
    try:
        force, _, leader, estimated, speed = rig.play(4.0, 0.06).T
        given = rig.maximum_given
    finally:
        rig.close()
    events = len(rig.reported)
    swing = float(np.ptp(leader[-1000:]))
    name = f"{delay[0] * 1e3:.0f} ms" + (f" + 0..{delay[1] * 1e3:.0f}" if delay[1] else "")
    return (
        f"| {name} | {loss:.0%} | {force.max():.0f} N | {estimated.max():.1f} N | "
        f"{-leader.min() * 100 - 6.0:.1f} cm | {given:.3f} J | "
        f"{np.abs(speed[-1000:]).max() * 100:.1f} cm/s, {swing * 1e3:.1f} mm | {events} |"
    )


def main() -> None:
    """Print the table."""
    feedback = float(sys.argv[1]) if len(sys.argv) > 1 else 0.3
    print("| delay | lost | wall | felt | beyond | given | last second | holds |")
    for delay, loss in CASES:
        print(measured(feedback, delay, loss), flush=True)
    for delay in ((0.05, 0.0), (0.1, 0.05), (0.2, 0.0)):
        print("no account:", measured(feedback, delay, 0.0, keeps=False), flush=True)


if __name__ == "__main__":
    main()
