# SPDX-License-Identifier: Apache-2.0
"""A loop in a thread of its owner's process."""

from __future__ import annotations

import gc
import threading

from multipanda_py.exceptions import LoopError
from multipanda_py.loop.build import build_loop
from multipanda_py.loop.coming_up import come_up
from multipanda_py.loop.pacing import run
from multipanda_py.loop.runner import STOP_TIMEOUT, Runner, start_loop


class ThreadRunner(Runner):
    """The paced loop in a thread: for tests and laptops; other threads make it late."""

    def start(self) -> list[str]:
        """Start the thread and wait until real arms execute commands or have a fault."""
        self._loop = build_loop(self._config, self._specs, self._mailbox)
        start_loop(self._loop, self._config)
        gc.collect()  # now rather than in a cycle
        found = self._loop.take_warnings()
        self._stopping = False
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self._thread.start()
        self._is_up.wait()
        found += self._loop.take_warnings()
        return [*found, "the loop runs in a thread: other threads of this process make it late"]

    def _run(self) -> None:
        period = 1.0 / self._config.cell.rate
        try:
            come_up(self._loop, period, lambda: not self._stopping)
        finally:
            self._is_up.set()
        run(self._loop, period, lambda: not self._stopping)

    def check(self) -> None:
        """Raise if the thread is not running."""
        thread = getattr(self, "_thread", None)
        if thread is None or not thread.is_alive():
            raise LoopError("the loop's thread is not running")

    def stop(self) -> None:
        """End the thread and release the arms."""
        thread = getattr(self, "_thread", None)
        if thread is not None and thread.is_alive():
            self._stopping = True
            thread.join(STOP_TIMEOUT)
            self._loop.close()
