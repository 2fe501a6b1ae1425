# SPDX-License-Identifier: Apache-2.0
"""The floor of a machine: how late a loop in C is that does nothing but wake up."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np

from multipanda_py.exceptions import BenchError
from multipanda_py.state import Vector

SOURCE = Path(__file__).with_name("floor.c")


class Floor:
    """A 1 kHz loop in C, compiled on the spot.

    Args:
        folder: For the program.

    Raises:
        BenchError: If there is no compiler, or it fails.
    """

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise BenchError("no C compiler: the loop in C beside ours is left out (apt: gcc)")
        self._program = folder / "floor"
        done = subprocess.run(
            [compiler, "-O2", "-o", str(self._program), str(SOURCE)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise BenchError(f"{SOURCE.name} does not compile: {done.stderr.strip()}")

    def run(self, seconds: float, cpu: int, priority: int) -> tuple[Vector, int]:
        """Let it run.

        Args:
            seconds: For how long.
            cpu: Core that it keeps to, or -1.
            priority: Of SCHED_FIFO, 0 for none.

        Returns:
            How late each cycle was [us], and how many were missed.
        """
        out = subprocess.run(
            [str(self._program), str(seconds), str(cpu), str(priority)],
            check=True, capture_output=True, text=True,
        ).stdout.split()  # fmt: skip
        return np.array(out[:-2], dtype=np.float64) * 1e-3, int(out[-1])
