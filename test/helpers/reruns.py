# SPDX-License-Identifier: Apache-2.0
"""Count and limit of repeated tests.

Reruns beside a late loop in C are counted without a limit, because the machine causes them.

Runs of pytest with the same file in ``MULTIPANDA_RERUNS`` are counted together:
``tools/test.sh`` and ``.ci/run`` run pytest several times.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

ALLOWED = 3
"""Maximum number of reruns beside a punctual loop in C, per run of CI."""
FILE = "MULTIPANDA_RERUNS"
LATE = "a loop in C was late"
"""Property of the report of a try beside a late loop in C."""


class Reruns:
    """Fail a run with more reruns than allowed.

    Args:
        file: File with a line for every rerun of this and earlier runs of pytest; None to count
            this run alone.
        again: Count of every test of this run as a rerun of an earlier failure.
    """

    def __init__(self, file: Path | None, again: bool = False) -> None:
        self._file, self._again = file, again
        self._here: list[str] = []

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
        self._here.append(line)
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write(f"{line}\n")

    def _count(self) -> tuple[list[str], int]:
        """Return a line per rerun, and the number of reruns beside a punctual loop in C."""
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
