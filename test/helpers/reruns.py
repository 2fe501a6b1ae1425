# SPDX-License-Identifier: Apache-2.0
"""Count and limit of repeated tests.

Reruns during delays of the C loop have no limit, because the machine causes them.
``tools/test.sh`` and ``.ci/run`` run pytest several times. ``MULTIPANDA_RERUNS`` is the file of
their common count.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

ALLOWED = 3
"""Maximum number of reruns without delays of the C loop, per run of CI."""
FILE = "MULTIPANDA_RERUNS"
LATE = "the C loop was late"
"""Property of the report of a try."""


class Reruns:
    """Fail a run with more reruns than allowed.

    Args:
        file: File with a line for every rerun of this and earlier runs of pytest. None counts only
            this run.
        again: True if every test of this run is a rerun of an earlier failure.
    """

    def __init__(self, file: Path | None, again: bool = False) -> None:
        self._file, self._again = file, again
        self._reruns: list[str] = []

    @classmethod
    def of_environment(cls, again: bool) -> Reruns:
        """Return a count in the file of ``MULTIPANDA_RERUNS``."""
        name = os.environ.get(FILE)
        return cls(Path(name) if name else None, again)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "rerun" and not (self._again and report.when == "setup"):
            return
        is_late = report.outcome == "rerun" and dict(report.user_properties).get(LATE, False)
        line = f"{'late' if is_late else 'not late'}: {report.nodeid}"
        self._reruns.append(line)
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write(f"{line}\n")

    def _count(self) -> tuple[list[str], int]:
        """Return a line per rerun, and the number of reruns without delays of the C loop."""
        lines = self._reruns
        if self._file is not None and self._file.exists():
            lines = self._file.read_text(encoding="utf-8").splitlines()
        return lines, sum(line.startswith("not late") for line in lines)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        _, unexplained = self._count()
        if unexplained > ALLOWED and session.exitstatus in (0, 5):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        lines, unexplained = self._count()
        if not lines:
            return
        write = partial(terminalreporter.write_line, red=unexplained > ALLOWED)
        write(
            f"{len(lines)} reruns, {unexplained} while the C loop was on time, allowed {ALLOWED}:"
        )
        for line in lines:
            write(f"  {line}")
