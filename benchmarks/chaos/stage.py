# SPDX-License-Identifier: Apache-2.0
"""Environment of a campaign: folder, ROS domain, and an environment variable as marker."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ledger import Ledger
from outsider import WatcherClient
from proc import Processes

from multipanda_py.realtime.system.child_process import end_with_parent

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
START = 90.0  # timeout of the start of a node on a busy machine [s]
END = 30.0  # timeout of its end [s]
NODE = "multipanda_py.ros.node.node"
LOCK = ".lock"
"""Suffix of lock files of cell names. Unlocked files may remain."""
UNRESPONSIVE = ("a callback of the node has not", "has not answered the self-check")
"""Reports of a failed self-check; a failure unless an injected fault causes them."""
MIDDLEWARE_FILES = ("fastdds_", "fastrtps_", "sem.fast", "lttng-ust")
"""Prefixes of shared memory of the middleware and its tracing, which may remain."""


def wait(condition: Callable[[], Any], timeout: float, pause: float = 0.02) -> bool:
    """Wait for a condition; return False after the timeout."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


class Program:
    """Python module in its own process, with its output in a file."""

    def __init__(self, stage: Stage, name: str, *arguments: str) -> None:
        self.log_file = stage.folder / f"{name}_{next(stage.numbers)}.log"
        with self.log_file.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", *arguments],
                cwd=stage.empty, env=stage.environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                preexec_fn=end_with_parent,
            )  # fmt: skip

    @property
    def log(self) -> str:
        """Output so far."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    @property
    def runs(self) -> bool:
        """True until the process ends."""
        return self.process.poll() is None

    def logs(self, text: str, timeout: float = START) -> bool:
        """Wait for a text in the output; return True if it is there."""
        return wait(lambda: text in self.log or not self.runs, timeout) and text in self.log

    def send(self, number: int) -> None:
        """Send a signal if the process runs."""
        if self.runs:
            self.process.send_signal(number)

    def ended(self, timeout: float = END) -> int | None:
        """Wait for the end; return the exit code, or None after the timeout."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None


class Stage:
    """Environment in which a campaign starts processes, and from which it removes them.

    Attributes:
        folder: Temporary folder of all files of the campaign.
        empty: Current directory of the started processes, which must stay empty.
        watcher: Client of the watcher process.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="multipanda_chaos_")
        self.folder = Path(self._temporary.name)
        self.empty, temporary = self.folder / "empty", self.folder / "tmp"
        self.empty.mkdir()
        temporary.mkdir()
        self._temporary_files = temporary
        self.ledger, self.numbers = ledger, iter(range(10**6))
        self._unresponsive: dict[tuple[Path, str], int] = {}
        self.name = f"chaos_{os.getpid()}"
        domain = 1 + os.getpid() % 100
        os.environ |= {  # rclpy of this process reads them, too
            "ROS_DOMAIN_ID": str(domain),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        }
        marker = {"MULTIPANDA_CHAOS": self.name}
        self.environment = os.environ | marker | {
            "TMPDIR": str(temporary),
            "ROS_LOG_DIR": str(self.folder / "ros"),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "test" / "plugins"), str(HERE)]),
        }  # fmt: skip
        self._marker = f"MULTIPANDA_CHAOS={self.name}"
        self.watcher = WatcherClient(self._marker, domain)

    def node(
        self, file: Path = HERE / "cell.yaml", *overrides: str, module: str = NODE
    ) -> Program:
        """Start the node with a cell file."""
        values = [f"cell.name:={self.name}", *overrides]
        options = [part for value in values for part in ("-p", value)]
        return Program(
            self, "node", module,
            "--ros-args", "--params-file", str(file), *options,
        )  # fmt: skip

    def processes(self, text: str = "") -> list[int]:
        """Return the ids of running processes whose command line contains a text."""
        return [item["pid"] for item in self.watcher.request("processes") if text in item["what"]]

    def nothing_left(self, kind: str, timeout: float = END) -> None:
        """Check that no process, file or shared memory of the campaign remains."""
        gone = wait(lambda: not self.watcher.request("processes"), timeout, 0.05)
        left = [item["what"] for item in self.watcher.request("processes")]
        self.ledger.expect(gone, kind, f"left after {timeout:g} s: {left}")
        memory = [
            name
            for name in self.watcher.request("memory")
            if not name.startswith(MIDDLEWARE_FILES)
        ]
        self.ledger.expect(not memory, kind, f"shared memory left: {memory}")
        files = [path.name for path in self.empty.iterdir()]
        self.ledger.expect(not files, kind, f"files left in the current directory: {files}")
        found = [path for path in self._temporary_files.rglob("*") if path.is_file()]
        files = [path.name for path in found if not path.name.endswith(LOCK)]
        self.ledger.expect(not files, kind, f"temporary files left: {files}")
        # The next check must not count the same remains.
        for path in found:
            path.unlink()
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)

    def judge(self, kind: str, *programs: Program) -> None:
        """Record violations that the watcher found, and tracebacks and failed self-checks."""
        for breach in self.watcher.request("breaches"):
            self.ledger.fail(kind, breach)
        for program in programs:
            trace = program.log[program.log.find("Traceback") :]
            # A signal during the import gives a traceback of runpy alone.
            if trace.startswith("Traceback") and "/multipanda_py/" in trace:
                self.ledger.fail(kind, f"traceback: {trace[:1500]}")
            for text in UNRESPONSIVE:
                count = program.log.count(text)
                if count > self._unresponsive.get((program.log_file, text), 0):
                    self._unresponsive[program.log_file, text] = count
                    self.ledger.fail(kind, f"the node: {text}")

    def expect_reports(self, node: Program) -> None:
        """Attribute all failed self-checks in the log to injected faults."""
        for text in UNRESPONSIVE:
            self._unresponsive[node.log_file, text] = node.log.count(text)

    def close(self) -> None:
        """End all processes. This works also while an answer of the watcher is pending."""
        processes = Processes(self._marker)
        while found := processes.running():
            for item in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(item["pid"], signal.SIGKILL)
            time.sleep(0.02)
        self.watcher.close()
        self._temporary.cleanup()
