# SPDX-License-Identifier: Apache-2.0
"""Count of tests that were run again, and a limit to it.

A rerun beside a loop in C that was late is the machine's: it is counted, and has no limit.

All runs of pytest that find the same file in ``MULTIPANDA_RERUNS`` are counted together:
``tools/test.sh`` and ``.ci/run`` run pytest several times.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

ALLOWED = 3
"""Maximum of reruns, in a whole run of CI, that the loop in C does not explain."""
FILE = "MULTIPANDA_RERUNS"
LATE = "a loop in C was late"
"""Property of a report, by which the hook of tests on the clock marks a try."""


class Reruns:
    """Fail a run with more reruns than allowed.

    Args:
        file: File with a line for every rerun of this and earlier runs of pytest; None to count
            this run alone.
        again: Whether every test of this run is a rerun, of one that has failed in a run before.
    """

    def __init__(self, file: Path | None, again: bool = False) -> None:
        self._file, self._again = file, again
        self._here: list[str] = []

    @classmethod
    def of_environment(cls, again: bool) -> Reruns:
        """Return a count in the file that ``MULTIPANDA_RERUNS`` names."""
        name = os.environ.get(FILE)
        return cls(Path(name) if name else None, again)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "rerun" and not (self._again and report.when == "setup"):
            return
        is_late = report.outcome == "rerun" and dict(report.user_properties).get(LATE, False)
        line = f"{'late' if is_late else 'not late'}: {report.nodeid}"
        self._here.append(line)
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write(f"{line}\n")

    def _count(self) -> tuple[list[str], int]:
        """Return a line per rerun, and the count of those that the loop in C does not explain."""
        lines = self._here
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
        write(f"{len(lines)} reruns, {unexplained} beside a loop in C on time, allowed {ALLOWED}:")
        for line in lines:
            write(f"  {line}")
