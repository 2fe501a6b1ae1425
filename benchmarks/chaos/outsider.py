# SPDX-License-Identifier: Apache-2.0
"""Client of the watcher process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

WATCHER = Path(__file__).with_name("watcher.py")


class WatcherClient:
    """Start the watcher process, and send requests to it.

    Args:
        marker: ``NAME=VALUE`` in the environment of the watched processes.
        domain: ROS domain id.
    """

    def __init__(self, marker: str, domain: int) -> None:
        environment = os.environ | {
            "ROS_DOMAIN_ID": str(domain),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        }
        environment.pop("PYTHONPATH", None)  # the watcher shares no code with the project
        self._process = subprocess.Popen(
            [sys.executable, str(WATCHER), marker],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
            start_new_session=True,  # only the campaign receives Ctrl-C
        )  # fmt: skip
        self._read()

    def request(self, name: str, **arguments: Any) -> Any:
        """Send a request; return the answer."""
        if self._process.stdin is None:
            raise RuntimeError("the watcher has no input")
        self._process.stdin.write(json.dumps({"do": name, **arguments}) + "\n")
        self._process.stdin.flush()
        return self._read()

    def status(self, hardware: str, timeout: float = 5.0) -> dict[str, Any]:
        """Return a status that the watcher receives after the call."""
        since = time.time()
        while time.time() - since < timeout:
            found: dict[str, Any] = self.request("statuses").get(hardware, {})
            if found.get("at", 0.0) > since + 0.05:
                return found
            time.sleep(0.02)
        raise TimeoutError(f"/diagnostics: no status of {hardware} for {timeout:g} s")

    def close(self) -> None:
        """End the watcher."""
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
