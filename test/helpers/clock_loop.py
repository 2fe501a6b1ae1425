# SPDX-License-Identifier: Apache-2.0
"""C loop that measures the delays of the machine during a test with deadlines.

If even a C program wakes up late, a failure is no evidence against this package. A failed test
marked ``clock`` is then skipped, with the measured delays.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
TOLERATED = 10_000
"""Maximum delay of a cycle [us]: half of the 20 consecutive cycles that a robot tolerates."""
TOLERATED_MISSES, TOLERATED_FRACTION = 20, 0.05
"""Maximum number and fraction of missed cycles; tests pass with 3 % on two busy cores."""


@functools.cache
def program():
    """Return the path of the compiled loop; None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    folder = tempfile.mkdtemp(prefix="multipanda-clock-")
    path = Path(folder) / "clock_loop"
    subprocess.run([compiler, "-O1", "-o", str(path), str(SOURCE)], check=True)
    return path


class ClockLoop:
    """Context in which the loop runs, with the priority of the caller.

    Attributes:
        missed: Number of missed cycles.
        cycles: Number of all cycles.
        worst: Maximum delay of a cycle [us].
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
        """End the loop and read its counts. A second call does nothing."""
        process, self.process = self.process, None
        if process:
            reported, _ = process.communicate()
            if reported:  # empty if another process ended the loop
                self.missed, self.cycles, self.worst = map(int, reported.split())

    def complaint(self):
        """End the loop and return a text if the machine is too slow, else an empty text."""
        self.stop()
        misses = max(TOLERATED_MISSES, TOLERATED_FRACTION * self.cycles)
        if self.worst < TOLERATED and self.missed <= misses:
            return ""
        return (
            f"machine too slow: the C loop missed {self.missed} of {self.cycles}, "
            f"at worst {self.worst / 1000:.1f} ms late"
        )
