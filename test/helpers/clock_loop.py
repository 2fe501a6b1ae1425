# SPDX-License-Identifier: Apache-2.0
"""Whether the machine is fast enough for a test on the clock: a loop in C beside the test.

What passes on a quiet machine and fails where not even a program in C wakes up on time says
nothing about this package. A test marked ``clock`` that fails is skipped then, with the figures.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
TOLERATED = 10_000
"""How late the loop may once be before the machine is too slow: half of what a robot bears, which
is to lose 20 cycles in a row [us]."""
TOLERATED_MISSES, TOLERATED_SHARE = 20, 0.05
"""Likewise, how many cycles it may miss, and of a long test's: on two busy cores tests pass beside
3 %."""


@functools.cache
def program():
    """Return the compiled loop, or None on a machine without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    folder = tempfile.mkdtemp(prefix="multipanda-clock-")
    path = Path(folder) / "clock_loop"
    subprocess.run([compiler, "-O1", "-o", str(path), str(SOURCE)], check=True)
    return path


class ClockLoop:
    """The loop, for as long as the ``with`` block lasts; it has the caller's priority.

    Attributes:
        missed: Cycles that it missed.
        cycles: Of all.
        worst: Its latest cycle [us].
    """

    def __init__(self):
        self.missed = self.cycles = self.worst = 0
        self.process = None

    def __enter__(self):
        path = program()
        self.process = path and subprocess.Popen(
            [str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        if self.process:
            self.process.stdout.readline()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """End the loop and read what it counted; safe to call twice."""
        process, self.process = self.process, None
        if process:
            reported, _ = process.communicate()
            if reported:  # else somebody has ended it, and it says nothing
                self.missed, self.cycles, self.worst = map(int, reported.split())

    def complaint(self):
        """Say why the machine is too slow, or nothing; ends the loop."""
        self.stop()
        misses = max(TOLERATED_MISSES, TOLERATED_SHARE * self.cycles)
        if self.worst < TOLERATED and self.missed <= misses:
            return ""
        return (
            f"machine too slow: the C loop missed {self.missed} of {self.cycles}, "
            f"at worst {self.worst / 1000:.1f} ms late"
        )
