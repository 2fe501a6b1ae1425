# SPDX-License-Identifier: Apache-2.0
"""Process of the loop: start, monitoring of the process that owns the cell, and orderly end.

The owning process runs ``python -m multipanda_py.realtime.process FD``, with the file descriptor
of the shared memory. The first line of standard input is the configuration of the cell as JSON.
One line of JSON on standard output reports that the loop runs, or why it does not. The end of
standard input shows that the owning process has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import instance_specs
from multipanda_py.realtime.cycle import ControlLoop
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.shared_memory import Mailbox, SharedFlag
from multipanda_py.realtime.startup import build_loop, come_up, start_loop
from multipanda_py.realtime.system.child_process import (
    LOOP_NAME,
    log_line,
    name_process,
    never_wait_for_output,
    read_data,
)
from multipanda_py.realtime.system.scheduling import (
    end_fast_start,
    enter_realtime,
    has_priority,
    keep_cores_awake,
)
from multipanda_py.realtime.timing import run

REST_TIMEOUT = 3.0
"""Time after the end of the owning process at which the loop ends, even if arms still move [s]."""


class Watch:
    """Monitor that ends the loop on request of the owning process, or after that process ends.

    Attributes:
        parent_gone: True after the end of the owning process.
    """

    def __init__(self, loop: ControlLoop, mailbox: Mailbox) -> None:
        self._loop, self._words = loop, mailbox.words
        self.parent_gone = False
        self._parent_pid = os.getppid()
        self._since = 0.0
        threading.Thread(target=self._wait_for_end_of_input, daemon=True).start()

    def _wait_for_end_of_input(self) -> None:
        while os.read(0, 4096):
            pass
        self.parent_gone = True

    def keep_going(self) -> bool:
        """Return False if the loop has to end.

        It ends after a shutdown request. After the end of the owning process, all arms hold, and
        the loop ends when they are at rest or after :data:`REST_TIMEOUT`.
        """
        if self._words[SharedFlag.SHUTDOWN]:
            return False
        if not self.parent_gone and os.getppid() == self._parent_pid:
            return True
        self.parent_gone = True
        if not self._since:
            self._since = time.monotonic()
            text = "the owning process has ended; all arms hold, then the loop ends"
            self._loop.hold_all(Event.CLIENT_GONE, text, time.monotonic_ns())
            return True
        waited = time.monotonic() - self._since
        return waited < 0.1 or (waited < REST_TIMEOUT and not self._loop.at_rest())


def main() -> int:
    """Run the loop until the owning process requests its end or dies.

    Thread: main, then control.
    """
    for terminal in (signal.SIGINT, signal.SIGHUP):  # The owner handles them, and stops the loop.
        signal.signal(terminal, signal.SIG_IGN)
    name_process(LOOP_NAME)
    never_wait_for_output([2])
    fd = int(sys.argv[1])
    name = "cell"
    try:
        config = CellConfig.from_dict(read_data())
        name = config.cell.name
        specs = instance_specs(config)
        mailbox = Mailbox(config, specs, fd)
        loop = build_loop(config, specs, mailbox)
        start_loop(loop, config.active)
        warnings = enter_realtime(config.realtime)
        real = any(backend.wake_fds for backend in loop.backends)
        if config.realtime.disable_cpu_idle and (real or has_priority()):
            warnings += keep_cores_awake()
    except Exception as error:
        _answer({"error": f"{type(error).__name__}: {error}"})
        return 1
    watch = Watch(loop, mailbox)
    come_up(loop, 1.0 / config.cell.rate, watch.keep_going)
    end_fast_start()
    _answer({"warnings": [*loop.take_warnings(), *warnings]})
    run(loop, 1.0 / config.cell.rate, watch.keep_going)
    speed = "at rest" if loop.at_rest() else "still moving"
    loop.close()  # The arms are released before the last message, which may block.
    if watch.parent_gone:
        log_line(f"multipanda loop of cell {name!r}: its owner has ended; arms {speed}, loop ends")
    return 0


def _answer(message: dict[str, object]) -> None:
    with contextlib.suppress(OSError):  # If the owner has ended, the loop ends soon as well.
        os.write(1, (json.dumps(message) + "\n").encode())


if __name__ == "__main__":
    sys.exit(main())
