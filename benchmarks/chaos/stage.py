# SPDX-License-Identifier: Apache-2.0
"""Where a campaign takes place: a folder, a domain and a word that mark whatever it starts."""

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
from outsider import Outsider
from proc import Processes

from multipanda_py.realtime.system.child_process import end_with_parent

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
START = 90.0  # a node is up after that on the busiest machine [s]
END = 30.0  # and gone [s]
NODE = "multipanda_py.ros.node.node"
LOCK = ".lock"
"""Of a cell's name: files that stay, and say nothing when nobody holds them."""
UNRESPONSIVE = ("a callback of the node has not", "has not answered the self-check")
"""Reports of a node whose self-check fails, which none but a fault of its own may cause."""
OF_OTHERS = ("fastdds_", "fastrtps_", "sem.fast", "lttng-ust")
"""Of the middleware, which the next start removes, and of its tracing, one for all users."""


def wait(condition: Callable[[], Any], timeout: float, pause: float = 0.02) -> bool:
    """Wait for a condition; return whether it came."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


class Program:
    """A process of ours as users start it, its output in a file."""

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
        """What it has said so far."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def logs(self, text: str, timeout: float = START) -> bool:
        """Wait until it says something; return whether it did."""
        return wait(lambda: text in self.log or not self.runs, timeout) and text in self.log

    def send(self, number: int) -> None:
        """Send a signal, if it runs still."""
        if self.runs:
            self.process.send_signal(number)

    def ended(self, timeout: float = END) -> int | None:
        """Wait for its end; return its exit code, or None if it does not come."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None


class Stage:
    """The surroundings of a campaign; ends whatever it has started.

    Attributes:
        folder: For everything that is written.
        empty: The current directory of whatever is started, where nothing may be left.
        outsider: Watches.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="multipanda_chaos_")
        self.folder = Path(self._temporary.name)
        self.empty, temporary = self.folder / "empty", self.folder / "tmp"
        self.empty.mkdir()
        temporary.mkdir()
        self._rubbish = temporary
        self.ledger, self.numbers = ledger, iter(range(10**6))
        self._unresponsive: dict[tuple[Path, str], int] = {}
        self.name = f"chaos_{os.getpid()}"
        domain = 1 + os.getpid() % 100
        os.environ |= {  # of this process too, before rclpy reads it
            "ROS_DOMAIN_ID": str(domain),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        }
        word = {"MULTIPANDA_CHAOS": self.name}
        self.environment = os.environ | word | {
            "TMPDIR": str(temporary),
            "ROS_LOG_DIR": str(self.folder / "ros"),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "test" / "plugins"), str(HERE)]),
        }  # fmt: skip
        self._word = f"MULTIPANDA_CHAOS={self.name}"
        self.outsider = Outsider(self._word, domain)

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

    def processes(self, what: str = "") -> list[int]:
        """Return the processes that run and whose command has something in it."""
        return [item["pid"] for item in self.outsider.ask("processes") if what in item["what"]]

    def nothing_left(self, kind: str, timeout: float = END) -> None:
        """Expect that no process, no file and no shared memory of ours is left."""
        gone = wait(lambda: not self.outsider.ask("processes"), timeout, 0.05)
        left = [item["what"] for item in self.outsider.ask("processes")]
        self.ledger.expect(gone, kind, f"left after {timeout:g} s: {left}")
        memory = [name for name in self.outsider.ask("memory") if not name.startswith(OF_OTHERS)]
        self.ledger.expect(not memory, kind, f"shared memory left: {memory}")
        files = [path.name for path in self.empty.iterdir()]
        self.ledger.expect(not files, kind, f"files left in the current directory: {files}")
        found = [path for path in self._rubbish.rglob("*") if path.is_file()]
        files = [path.name for path in found if not path.name.endswith(LOCK)]
        self.ledger.expect(not files, kind, f"temporary files left: {files}")
        for path in found:  # so that one is not counted twice
            path.unlink()
        for pid in self.processes():  # so that one orphan is not counted twice
            os.kill(pid, signal.SIGKILL)

    def judge(self, kind: str, *programs: Program) -> None:
        """Note what the watcher has found, and traces that nobody should see."""
        for breach in self.outsider.ask("breaches"):
            self.ledger.fail(kind, breach)
        for program in programs:
            trace = program.log[program.log.find("Traceback") :]
            if trace.startswith("Traceback") and "/multipanda_py/" in trace:  # not of runpy alone
                self.ledger.fail(kind, f"a trace: {trace[:1500]}")
            for text in UNRESPONSIVE:
                count = program.log.count(text)
                if count > self._unresponsive.get((program.log_file, text), 0):
                    self._unresponsive[program.log_file, text] = count
                    self.ledger.fail(kind, f"the node: {text}")

    def expect_reports(self, node: Program) -> None:
        """Take what a node has reported of its self-check so far as caused by a fault thrown."""
        for text in UNRESPONSIVE:
            self._unresponsive[node.log_file, text] = node.log.count(text)

    def close(self) -> None:
        """End everything, also after an interrupt, with the watcher's answer still on its way."""
        ours = Processes(self._word)
        while found := ours.running():
            for item in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(item["pid"], signal.SIGKILL)
            time.sleep(0.02)
        self.outsider.close()
        self._temporary.cleanup()
