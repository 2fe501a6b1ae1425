# SPDX-License-Identifier: Apache-2.0
"""Recorder process, which writes the cycle records of a loop to files without disturbing the loop.

Run as ``python -m multipanda_py.realtime.recording.process FD``, with the file descriptor of the
shared memory that contains the cycle records. The first two lines of standard input are a
:class:`.CellPlan` and the options, in JSON. A further line or the end of standard input ends the
process. On standard output, an empty object reports that recording has begun, and the last line is
the result.

The option ``kind`` is ``file`` for all records or ``faults`` for the seconds around faults, and
``path`` is a file or folder. Further options are the arguments of :class:`.FileSink` or
:class:`.FaultSink`, the cores of the process (``cpus``), and the numbers of the first record
(``since``) and event (``event_count``).
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from multipanda_py.exceptions import MultipandaError
from multipanda_py.realtime.cycle_record import RecordReader
from multipanda_py.realtime.recording.fault_recorder import FaultSink
from multipanda_py.realtime.recording.log import event_message
from multipanda_py.realtime.recording.mcap_file import FileSink
from multipanda_py.realtime.recording.topics import CellPlan
from multipanda_py.realtime.system.child_process import lines, log_line

NICENESS = 15
"""Niceness of the process, so that it does not delay control."""
READ_PERIOD = 0.5
"""Period of reading the ring buffer, which holds four seconds [s]."""
_OWNER_GONE = "owner_gone"


class _EndRequest:
    """Request of the parent process to end this process."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        # A recorder of faults saves the last seconds, unless the reason is empty. The reason is
        # one word for the file name.
        self.requested, self.reason = threading.Event(), _OWNER_GONE

    def wait(self) -> None:
        line = next(self._lines, b"")
        with contextlib.suppress(ValueError, KeyError):
            self.reason = str(json.loads(line)["end"])
        self.requested.set()


def main() -> int:
    """Record until the parent process requests the end, and report the result to it."""
    # The parent handles Ctrl-C, and stops this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    try:
        input_lines = lines()
        first, second = next(input_lines, b""), next(input_lines, b"")
        if not second:
            return 1  # The parent was killed before it sent the plan.
        plan = CellPlan.from_json(first.decode())
        options: dict[str, Any] = json.loads(second)
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, options.get("cpus", os.sched_getaffinity(0)))
        answer = _record_cycles(plan, options, _EndRequest(input_lines))
    except (MultipandaError, OSError) as error:
        answer = {"error": f"{error}"}
    _send_message(answer)
    return 1 if "error" in answer else 0


def _record_cycles(plan: CellPlan, options: dict[str, Any], end: _EndRequest) -> dict[str, Any]:
    names = [arm.name for arm in plan.arms]
    fd = int(sys.argv[1])
    ring, reports = plan.records.open(fd, names, plan.laws)
    os.close(fd)
    reader = RecordReader(ring)
    reader.position = options.get("since", reader.position)
    event_count = options.get("event_count", reports.count)
    sink = _make_sink(plan, options, reader)
    if isinstance(sink, FileSink):
        sink.open_file(time.time_ns())
    _send_message({})  # This reports to the parent that recording has begun.
    offset = time.time_ns() - time.monotonic_ns()
    threading.Thread(target=end.wait, daemon=True).start()
    until, is_late = math.inf, False
    while time.monotonic() < until:
        if end.requested.wait(READ_PERIOD) and until == math.inf:
            until = -math.inf
            if isinstance(sink, FaultSink) and end.reason:
                sink.keep_now(end.reason)
                until = time.monotonic() + sink.after
        elif until < math.inf:
            time.sleep(READ_PERIOD)
        rows = reader.take()
        event_count, events = reports.since(event_count)
        messages = [event_message(event, event.time_ns + offset) for event in events]
        try:
            sink.add(rows, rows["wake_ns"] + offset, messages)
        except OSError as error:
            sink.give_up()
            return _answer(sink, reader, f"{sink.files[-1]}: {error.strerror}")
        if reader.dropped and not is_late:
            is_late = True
            log_line("multipanda recorder: cycle records were lost: this machine is too busy")
        if until < math.inf and not len(rows):
            break
    sink.finish({"dropped": f"{reader.dropped}"})
    return _answer(sink, reader)


def _make_sink(
    plan: CellPlan, options: dict[str, Any], reader: RecordReader
) -> FileSink | FaultSink:
    path = Path(options["path"])
    if options["kind"] == "file":
        return FileSink(plan, reader.dtype, path, options["split"])
    return FaultSink(
        plan, reader.dtype, path, options["keep"], options["before"], options["after"]
    )


def _answer(sink: FileSink | FaultSink, reader: RecordReader, error: str = "") -> dict[str, Any]:
    result: dict[str, Any] = {
        "files": [str(path) for path in sink.files],
        "rows": reader.position,
        "dropped": reader.dropped,
    }
    if isinstance(sink, FileSink):
        result |= {"rows": sink.rows, "size": sink.size}
    return {**result, "error": error} if error else result


def _send_message(message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # The parent may have ended.
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
