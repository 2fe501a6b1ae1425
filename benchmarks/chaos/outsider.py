# SPDX-License-Identifier: Apache-2.0
"""The campaign's end of the line to the watcher."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

WATCHER = Path(__file__).with_name("watcher.py")


class Outsider:
    """Ask the watcher, which is a process of its own.

    Args:
        word: ``NAME=VALUE`` in the environment of what it watches.
        domain: Of ROS 2.
    """

    def __init__(self, word: str, domain: int) -> None:
        environment = os.environ | {
            "ROS_DOMAIN_ID": str(domain),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        }
        environment.pop("PYTHONPATH", None)  # it needs nothing of the project
        self._process = subprocess.Popen(
            [sys.executable, str(WATCHER), word],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
            start_new_session=True,  # Ctrl-C is for the campaign
        )  # fmt: skip
        self._read()

    def ask(self, request: str, **arguments: Any) -> Any:
        """Return its answer."""
        if self._process.stdin is None:
            raise RuntimeError("the watcher has no input")
        self._process.stdin.write(json.dumps({"do": request, **arguments}) + "\n")
        self._process.stdin.flush()
        return self._read()

    def status(self, hardware: str, timeout: float = 5.0) -> dict[str, Any]:
        """Return a status that was made after this was called."""
        since = time.time()
        while time.time() - since < timeout:
            found: dict[str, Any] = self.ask("statuses").get(hardware, {})
            if found.get("at", 0.0) > since + 0.05:
                return found
            time.sleep(0.02)
        raise TimeoutError(f"/diagnostics says nothing of {hardware} for {timeout:g} s")

    def close(self) -> None:
        """End it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(10.0)

    def _read(self) -> Any:
        if self._process.stdout is None:
            raise RuntimeError("the watcher has no output")
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the watcher has ended")
        return json.loads(line)
