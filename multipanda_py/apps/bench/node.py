# SPDX-License-Identifier: Apache-2.0
"""The node that is measured, and its user: processes of their own on a ROS domain of their own."""

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

from multipanda_py.apps.bench.conditions import ARMS, COUPLED, Data, as_yaml, instances_of
from multipanda_py.apps.bench.processes import Child, family, module_of
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import BenchError
from multipanda_py.realtime.running_cell import RowFollower
from multipanda_py.realtime.system.child_process import Closing, end_with_parent, module_command
from multipanda_py.realtime.system.signals import time_left
from multipanda_py.state import Matrix

START = 120.0
"""For a node to be active [s]."""
APPROACH = 2.3
"""For the arms to come to where the motion generator wants them [s]."""
SETTLE = 0.3
"""After a switch [s]."""
ANSWER = 15.0
"""For a switch [s]."""
_LOG = 2000  # characters of it that a message shows
_RECOVERIES = 5


def ros_environment(domain: int | None = None) -> dict[str, str]:
    """Return what keeps the nodes of a run to themselves: nobody else's arms hear them.

    Args:
        domain: ROS_DOMAIN_ID; None for one by the number of this process.
    """
    own = 1 + os.getpid() % 100 if domain is None else domain
    return {"ROS_DOMAIN_ID": str(own), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}


class BenchNode(Closing):
    """A node on a cell, and a client that switches its laws.

    Args:
        data: The cell file.
        folder: For files.
        environment: As :func:`ros_environment`.
        namespace: Of the node, if any.
        through: Command that starts commands elsewhere, such as ``nsenter``.

    Attributes:
        start_to_active: Until the node offers its services [s].

    Raises:
        BenchError: If it does not start; with the end of its log.
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
        begun = time.monotonic()
        with self._log.open("wb") as output:
            self._process = self._spawn(file, output)
        self._client = Child(
            "multipanda_py.ros.client.switch_client", *self._namespace, environment=environment,
            through=through,
        )  # fmt: skip
        try:
            self._wait()
            self.start_to_active = time.monotonic() - begun
            self.loop = self._find_loop()
            self.rows = RowFollower(self._config, self._find_mailbox())
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
            start_new_session=True,  # Ctrl-C is for this process, which ends it
            preexec_fn=end_with_parent,
        )  # fmt: skip

    def _wait(self) -> None:
        deadline = time.monotonic() + START
        while True:
            with contextlib.suppress(BenchError):
                self._client.wait_until_ready(1.0)
                return
            if self._process.poll() is not None or self._client.process.poll() is not None:
                raise BenchError(f"the node did not start: {self.log}")
            if time.monotonic() > deadline:
                raise BenchError(f"the node was not active within {START:g} s: {self.log}")

    @property
    def log(self) -> str:
        """The end of what the node has written."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-_LOG:]

    @property
    def pids(self) -> list[int]:
        """The node, its loop and drivers."""
        return family(self._process.pid)

    def _find_loop(self) -> int:
        for pid in self.pids:
            if module_of(pid) == "realtime.process":
                return pid
        raise BenchError(f"the node has no loop: {self.log}")

    def _find_mailbox(self) -> Path:
        for entry in Path(f"/proc/{self.loop}/fd").iterdir():
            with contextlib.suppress(OSError):
                if os.readlink(entry).startswith("/memfd:multipanda "):
                    return entry
        raise BenchError("the loop has no mailbox")

    def switch(self, activate: Sequence[str]) -> None:
        """Activate instances by the ROS service; recover arms with a fault for it.

        Raises:
            BenchError: If it is refused again and again.
        """
        for _ in range(_RECOVERIES):
            with contextlib.suppress(BenchError):
                self.timed_switch(activate)
                return
            self._client.ask(ANSWER, activate=[])
            time.sleep(SETTLE)
        self.timed_switch(activate)

    def timed_switch(self, activate: Sequence[str]) -> tuple[str, float]:
        """Do so without; return what is answered, and after which time [s].

        Raises:
            BenchError: If it is refused.
        """
        answer = self._client.ask(ANSWER, activate=list(activate))
        if not answer["ok"]:
            raise BenchError(f"no switch to {', '.join(activate)}: {answer['message']}")
        return str(answer["message"]), float(answer["seconds"])

    def check(self) -> None:
        """Raise BenchError if arms have a latched fault."""
        if faults := self.faults():
            raise BenchError(f"{', '.join(faults)} ended with a fault: {self.log}")

    def faults(self) -> list[str]:
        """Return the arms that have a latched fault."""
        row = self.rows.newest()
        found = [] if row is None else row["arms"]["fault"].tolist()
        return [arm for arm, fault in zip(self.rows.arms, found) if fault]

    @contextlib.contextmanager
    def under_each(
        self, conditions: Sequence[str], sent: Path
    ) -> Iterator[Iterator[tuple[str, Child]]]:
        """Have the arms follow the motion generator under one condition after another.

        A context, so that the generator ends before the node and its files do.

        Args:
            conditions: A coupled one comes last.
            sent: Gets what was sent to the arms, see :func:`read_sent`.

        Yields:
            Yields conditions in which the arms move as it wants, and the process of the generator.
        """
        with contextlib.closing(self._each(conditions, sent)) as each:
            yield each

    def _each(
        self, conditions: Sequence[str], sent: Path
    ) -> Generator[tuple[str, Child], None, None]:
        apart = [condition for condition in conditions if condition != COUPLED]
        self.switch(instances_of(apart[0]))
        with self._moved([], sent) as user:
            time.sleep(APPROACH)
            for condition in apart:
                self.switch(instances_of(condition))
                time.sleep(SETTLE)
                yield condition, user
        if COUPLED in conditions:
            (name,) = instances_of(COUPLED)
            self.switch([name])
            with self._moved(["--object", name], sent.with_name("sent_object.npy")) as user:
                time.sleep(SETTLE)
                yield COUPLED, user

    @contextlib.contextmanager
    def _moved(self, target: list[str], sent: Path) -> Iterator[Child]:
        bases = [f"{arm}={y}" for arm, y in ARMS.items()]
        with Child(
            "multipanda_py.ros.client.motion_generator", *bases, *target, "--record", str(sent),
            environment=self._environment,
        ) as user:  # fmt: skip
            user.wait_until_ready(START)
            yield user
            user.finish()

    def close(self) -> None:
        """End the node and the client; by force what does not end in time, with its children."""
        everyone = self.pids
        self._process.terminate()
        self._client.close()
        try:
            self._process.wait(time_left(ANSWER))
        except subprocess.TimeoutExpired:
            for pid in everyone:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()


def finish_user(user: Child) -> float:
    """End a motion generator; return how often it published per second, 0 if it cannot tell."""
    try:
        said = json.loads(user.finish())
    except ValueError:  # it had to be ended by force
        return 0.0
    return float(said["rounds"] / said["seconds"])


def read_sent(file: Path) -> Matrix:
    """Return what a generator has sent, (n, 2): when, CLOCK_MONOTONIC [s], and x [m]."""
    found: Matrix = np.load(file)
    return found
