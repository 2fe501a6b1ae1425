# SPDX-License-Identifier: Apache-2.0
"""What commands write, and the exit codes they end with."""

from __future__ import annotations

import sys

OK, FAILED, INTERRUPTED = 0, 1, 130


def say(text: str) -> None:
    """Write a line to standard output at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
