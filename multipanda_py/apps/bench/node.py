# SPDX-License-Identifier: Apache-2.0
"""ROS node under measurement and its client, as child processes on a private ROS domain."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from multipanda_py.apps.bench.conditions import (
    ARM_POSITIONS,
    COUPLED_CONDITION,
    Data,
    as_yaml,
    instances_of,
)
from multipanda_py.apps.bench.processes import Child, module_of, process_tree
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import BenchError
from multipanda_py.realtime.running_cell import RecordFollower
from multipanda_py.realtime.system.child_process import Closeable, end_with_parent, module_command
from multipanda_py.realtime.system.signals import time_left
from multipanda_py.state import Matrix

START_TIMEOUT = 120.0
"""Time limit for the start of a node [s]."""
APPROACH_TIME = 2.3
"""Time for the arms to reach the motion generator's target [s]."""
SETTLE_TIME = 0.3
"""Time for the arms to settle after a switch [s]."""
SWITCH_TIMEOUT = 15.0
"""Time limit for the response to a switch request [s]."""
_LOG_TAIL = 2000  # Number of characters at the end of the log that a message shows.
_MAX_RECOVERIES = 5  # Maximum number of recoveries of faulted arms before an activation.


def ros_environment(domain: int | None = None) -> dict[str, str]:
    """Return environment variables that isolate the benchmark's ROS nodes from all others.

    Args:
        domain: ROS_DOMAIN_ID; by default a number derived from the process id.
    """
    own = 1 + os.getpid() % 100 if domain is None else domain
    return {"ROS_DOMAIN_ID": str(own), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}


class BenchNode(Closeable):
    """ROS node of a cell, with a client that switches its controllets.

    Args:
        data: Sections of the cell file.
        folder: Folder for cell file and log.
        environment: Environment variables, see :func:`ros_environment`.
        namespace: ROS namespace of the node; may be empty.
        through: Command with arguments, such as ``nsenter``, that starts the processes in another
            network namespace.

    Attributes:
        start_to_active: Time from the start until the node offers its services [s].

    Raises:
        BenchError: The node does not start; the message shows the end of its log.
    """

    def __init__(
        self,
        data: Data,
        folder: Path,
        environment: dict[str, str],
        namespace: str = "",
        through: Sequence[str] = (),
    ) -> None:
        self._folder, self._environment, self._through = folder, environment, through
        self._namespace = ["--ros-args", "-r", f"__ns:={namespace}"] if namespace else []
        self._log = folder / f"{data['cell']['name']}.log"
        file = folder / f"{data['cell']['name']}.yaml"
        file.write_text(as_yaml(data), encoding="utf-8")
        self._config = CellConfig.from_yaml(file)
        started = time.monotonic()
        with self._log.open("wb") as output:
            self._process = self._spawn(file, output)
        self._client = Child(
            "multipanda_py.ros.client.switch_client", *self._namespace, environment=environment,
            through=through,
        )  # fmt: skip
        try:
            self._wait()
            self.start_to_active = time.monotonic() - started
            self.loop = self._find_loop()
            self.rows = RecordFollower(self._config, self._find_mailbox())
        except BaseException:
            self.close()
            raise

    def _spawn(self, file: Path, output: IO[bytes]) -> subprocess.Popen[bytes]:
        arguments = self._namespace or ["--ros-args"]
        return subprocess.Popen(
            [*self._through,
             *module_command(
                 "multipanda_py.ros.node.node", *arguments, "--params-file", str(file)
             )],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            env={**os.environ, **self._environment},
            # Ctrl-C reaches only this process, which then stops the node.
            start_new_session=True,
            preexec_fn=end_with_parent,
        )  # fmt: skip

    def _wait(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            with contextlib.suppress(BenchError):
                self._client.wait_until_ready(1.0)
                return
            if self._process.poll() is not None or self._client.process.poll() is not None:
                raise BenchError(f"the node did not start. End of its log: {self.log}")
            if time.monotonic() > deadline:
                raise BenchError(
                    f"the node was not active within {START_TIMEOUT:g} s. End of its log: "
                    f"{self.log}"
                )

    @property
    def log(self) -> str:
        """Last characters of the node's log, for error messages."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-_LOG_TAIL:]

    @property
    def pids(self) -> list[int]:
        """Process ids of node, loop and drivers."""
        return process_tree(self._process.pid)

    def _find_loop(self) -> int:
        for pid in self.pids:
            if module_of(pid) == "realtime.process":
                return pid
        raise BenchError(
            f"the node has no loop process: it ended or never started. End of the log: {self.log}"
        )

    def _find_mailbox(self) -> Path:
        for entry in Path(f"/proc/{self.loop}/fd").iterdir():
            with contextlib.suppress(OSError):
                if os.readlink(entry).startswith("/memfd:multipanda "):
                    return entry
        raise BenchError(
            "the loop process has no cycle records in shared memory. It may have ended; see "
            "its log"
        )

    def switch(self, activate: Sequence[str]) -> None:
        """Activate controllets; after a rejection, recover faulted arms and retry up to 5 times.

        Raises:
            BenchError: Every request is rejected.
        """
        for _ in range(_MAX_RECOVERIES):
            with contextlib.suppress(BenchError):
                self.timed_switch(activate)
                return
            self._client.ask(SWITCH_TIMEOUT, activate=[])
            time.sleep(SETTLE_TIME)
        self.timed_switch(activate)

    def timed_switch(self, activate: Sequence[str]) -> tuple[str, float]:
        """Activate controllets and measure the time until the ROS service responds.

        Returns:
            Message of the response, and the measured time [s].

        Raises:
            BenchError: The request is rejected.
        """
        answer = self._client.ask(SWITCH_TIMEOUT, activate=list(activate))
        if not answer["ok"]:
            raise BenchError(f"switch to {', '.join(activate)} rejected: {answer['message']}")
        return str(answer["message"]), float(answer["seconds"])

    def check(self) -> None:
        """Raise BenchError if an arm has a latched fault."""
        if faults := self.faults():
            raise BenchError(
                f"{', '.join(faults)}: latched fault after the measurement. Log: {self.log}"
            )

    def faults(self) -> list[str]:
        """Return the names of the arms with a latched fault."""
        row = self.rows.newest()
        faults = [] if row is None else row["arms"]["fault"].tolist()
        return [arm for arm, fault in zip(self.rows.arms, faults) if fault]

    @contextlib.contextmanager
    def each_condition(
        self, conditions: Sequence[str], sent_log: Path
    ) -> Iterator[Iterator[tuple[str, Child]]]:
        """Move the arms under one condition after the other.

        A child process, the motion generator, sends targets to the arms until the context ends.

        Args:
            conditions: Conditions to measure, :data:`COUPLED_CONDITION` last.
            sent_log: File for the sent targets, see :func:`read_sent_targets`.

        Yields:
            Iterator that activates the controllets of the next condition, and returns its name and
                the motion generator once the arms move.
        """
        with contextlib.closing(self._each(conditions, sent_log)) as each:
            yield each

    def _each(
        self, conditions: Sequence[str], sent_log: Path
    ) -> Generator[tuple[str, Child], None, None]:
        apart = [condition for condition in conditions if condition != COUPLED_CONDITION]
        self.switch(instances_of(apart[0]))
        with self._moved([], sent_log) as generator:
            time.sleep(APPROACH_TIME)
            for condition in apart:
                self.switch(instances_of(condition))
                time.sleep(SETTLE_TIME)
                yield condition, generator
        if COUPLED_CONDITION in conditions:
            (name,) = instances_of(COUPLED_CONDITION)
            self.switch([name])
            with self._moved(
                ["--object", name], sent_log.with_name("sent_object.npy")
            ) as generator:
                time.sleep(SETTLE_TIME)
                yield COUPLED_CONDITION, generator

    @contextlib.contextmanager
    def _moved(self, target: list[str], sent_log: Path) -> Iterator[Child]:
        bases = [f"{arm}={y}" for arm, y in ARM_POSITIONS.items()]
        with Child(
            "multipanda_py.ros.client.motion_generator", *bases, *target,
            "--record", str(sent_log),
            environment=self._environment,
        ) as generator:  # fmt: skip
            generator.wait_until_ready(START_TIMEOUT)
            yield generator
            generator.stop_and_read()

    def close(self) -> None:
        """Stop the node and the client, and kill their processes after a time limit."""
        everyone = self.pids
        self._process.terminate()
        self._client.close()
        try:
            self._process.wait(time_left(SWITCH_TIMEOUT))
        except subprocess.TimeoutExpired:
            for pid in everyone:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()


def stop_generator(generator: Child) -> float:
    """Stop a motion generator and return its rate of sent targets [1/s]; 0 after a kill."""
    try:
        response = json.loads(generator.stop_and_read())
    except ValueError:  # A killed generator prints no result.
        return 0.0
    return float(response["rounds"] / response["seconds"])


def read_sent_targets(file: Path) -> Matrix:
    """Return the targets that a motion generator sent, (n, 2).

    Each row has the time on CLOCK_MONOTONIC [s] and the x coordinate of the target position [m].
    """
    result: Matrix = np.load(file)
    return result
