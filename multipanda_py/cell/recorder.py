# SPDX-License-Identifier: Apache-2.0
"""Recording of a cell to files: on request, and in the seconds around every fault."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.cell.connection import Connection
from multipanda_py.cell.names import CellNames
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.exceptions import LogError
from multipanda_py.realtime.cycle_record import RecordLayout, RecordReader
from multipanda_py.realtime.recording.arm_log import arm_facts
from multipanda_py.realtime.recording.fault_recorder import fault_folder, records_faults
from multipanda_py.realtime.recording.log import event_message
from multipanda_py.realtime.recording.mcap_file import FileSink
from multipanda_py.realtime.recording.recorder import Recorded, Recording, new_file, recorded
from multipanda_py.realtime.recording.topics import CELL_FILE, ArmPlan, CellPlan
from multipanda_py.realtime.running_cell import Announced
from multipanda_py.realtime.shared_memory import Mailbox
from multipanda_py.realtime.system.child_process import log_line
from multipanda_py.realtime.system.scheduling import other_cpus
from multipanda_py.registry import VERSION
from multipanda_py.robots.urdf import cell_urdf

URDF_FILE = "robot_description.urdf"
"""Name of the URDF attachment of every log. The cell file is another attachment."""


def plan_of(config: CellConfig, specs: Sequence[InstanceSpec], layout: RecordLayout) -> CellPlan:
    """Return the data about a cell for its recordings, such as names and the cell file."""
    arms = describe_arms(config)
    about = {
        "multipanda_py": VERSION,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "host": platform.node(),
        "kernel": platform.release(),
        "cell": config.cell.name,
        "rate": f"{config.cell.rate:g}",
        "placement": config.cell.placement,
        "arms": json.dumps([asdict(facts) for facts in arm_facts(config)]),
        "laws": json.dumps([spec.name for spec in specs]),
    }
    return CellPlan(
        name=config.cell.name,
        rate=config.cell.rate,
        records=layout,
        arms=tuple(ArmPlan(arm.name, tuple(arm.joint_names), arm.base_frame) for arm in arms),
        laws=tuple(spec.name for spec in specs),
        attachments={
            CELL_FILE: config.model_dump_json(),
            URDF_FILE: cell_urdf(arms, config.cell.name),
        },
        about=about,
    )


INLINE_STEPS = 1000
"""Number of cycles of an inline cell between two readings of its records, of which the ring keeps
4096."""


class Recorder:
    """Recorder of the cycles of a cell to MCAP files.

    It runs in a separate process, except for an inline cell.

    Attributes:
        recording: Running recording process; None without one.

    Thread: one at a time.
    """

    def __init__(self, names: CellNames, connection: Connection) -> None:
        self._names, self._connection = names, connection
        self._settings = names.config.recorder
        self._faults: Recording | None = None
        self.recording: Recording | None = None
        self._inline: tuple[FileSink, RecordReader] | None = None
        self._announced: Announced | None = None
        self._traced, self._event_count = False, 0

    @property
    def is_recording(self) -> bool:
        """True between :meth:`start` and :meth:`stop`."""
        return self.recording is not None or self._inline is not None

    @property
    def is_inline(self) -> bool:
        """True while an inline cell is recorded; its steps then call :meth:`record_pending`."""
        return self._inline is not None

    @property
    def fault_folder(self) -> Path:
        """Folder of the fault logs: ``recorder.folder`` of the cell file."""
        return fault_folder(self._settings, self._names.config.cell.name)

    def fault_logs(self) -> list[Path]:
        """Return the paths of the existing fault logs, oldest first."""
        fault_logs = self.fault_folder.glob(f"{self._names.config.cell.name}_*.mcap")
        return sorted(fault_logs, key=lambda path: path.stat().st_mtime)

    def open(self) -> None:
        """Start to record faults, unless the cell is inline or a package is missing."""
        if self._names.config.cell.placement == "inline":
            return
        mailbox = self._connection.mailbox
        plan = self._plan()
        self._announced = Announced(plan, mailbox.fd)
        if not records_faults(self._settings):
            return
        missing = [name for name in ("mcap", "zstandard") if find_spec(name) is None]
        if missing:
            self._connection.warnings.append(
                "the seconds around a fault are not recorded. Run pip install "
                f"{' '.join(missing)}, or set recorder.faults to false"
            )
            return
        self._faults = self._spawn(
            plan,
            kind="faults",
            path=str(self.fault_folder),
            keep=self._settings.max_recordings,
            before=self._settings.seconds_before,
            after=self._settings.seconds_after,
            since=0,
            event_count=0,
        )

    def request_stop(self, reason: str = "") -> None:
        """Request the end of all recordings, as for :meth:`close`, without waiting."""
        if self._inline is not None:
            self._end_and_print_errors()
        if self.recording is not None:
            self.recording.ask_to_stop()
        if self._faults is not None:
            self._faults.ask_to_stop(reason)

    def close(self, reason: str = "") -> None:
        """End all recordings. It is safe to call this twice.

        Args:
            reason: Reason in a fault log of the last seconds; empty for no fault log.
        """
        self._end_and_print_errors()
        faults, self._faults = self._faults, None
        if faults is not None:
            faults.stop(reason)
        if self._announced is not None:
            self._announced.close()
            self._announced = None

    def _end_and_print_errors(self) -> None:
        if self.is_recording and "error" in (answer := self._end()):
            log_line(f"multipanda recorder: the recording is incomplete: {answer['error']}")

    def start(self, path: str | Path, *, split: float = 0.0, torque_terms: bool = False) -> None:
        """Start to record every cycle.

        Args:
            path: Path of the new file, ``NAME.mcap``. Its folder is created.
            split: File size at which a new file starts, ``NAME_001.mcap`` and so on [bytes]; 0 for
                one file.
            torque_terms: True to record the torques of each controllet and feature.

        Raises:
            LogError: If the file cannot be written, or a recording is running already.
            LoopError: If the cell is not started.
        """
        if self.is_recording:
            raise LogError("the cell is being recorded already. Stop that recording first")
        mailbox = self._connection.mailbox
        file = new_file(path)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LogError(f"{path}: {error.strerror}") from error
        if torque_terms:
            self._traced = True
            self._connection.trace_torques(True)
        try:
            self._start(mailbox, file, int(split))
        except OSError as error:
            raise LogError(f"{path}: {error.strerror}") from error
        finally:
            if not self.is_recording:
                self._stop_torque_trace()

    def _start(self, mailbox: Mailbox, file: Path, split: int) -> None:
        since, event_count = mailbox.ring.count, mailbox.event_count
        if self._names.config.cell.placement == "inline":
            sink = FileSink(self._plan(), mailbox.row_dtype, file, split)
            sink.open_file(0)
            self._inline = sink, RecordReader(mailbox.ring)
            self._event_count = event_count
            return
        recording = self._spawn(
            self._plan(),
            kind="file",
            path=str(file),
            split=split,
            since=since,
            event_count=event_count,
        )
        recording.wait_until_ready()
        self.recording = recording

    def _stop_torque_trace(self) -> None:
        if self._traced and self._connection.is_open:
            self._connection.trace_torques(False)
        self._traced = False

    def record_pending(self) -> None:
        """Record the cycles that an inline cell has run since the last call."""
        if self._inline is None:
            return
        sink, reader = self._inline
        rows = reader.take()
        self._event_count, events = self._connection.mailbox.events_since(self._event_count)
        messages = [event_message(event, event.time_ns) for event in events]
        try:
            sink.add(rows, rows["wake_ns"], messages)
        except OSError as error:
            sink.give_up()
            self._inline = None
            self._stop_torque_trace()
            raise LogError(f"{sink.files[-1]}: {error.strerror}") from error

    def stop(self) -> Recorded:
        """End the recording and return its summary.

        Raises:
            LogError: If there is no recording, or it has failed, for example on a full disk.
        """
        if not self.is_recording:
            raise LogError("the cell is not being recorded. Start a recording first")
        return recorded(self._end())

    def _end(self) -> dict[str, Any]:
        recording, self.recording = self.recording, None
        self._stop_torque_trace()
        if recording is not None:
            return recording.stop()
        try:
            self.record_pending()
            if self._inline is None:
                return {"error": "its file could not be written"}
            (sink, reader), self._inline = self._inline, None
            sink.finish({"dropped": f"{reader.dropped}"})
        except LogError as error:
            return {"error": f"{error}"}
        except OSError as error:
            return {"error": f"{sink.files[-1]}: {error.strerror}"}
        return {
            "files": sink.files, "rows": sink.rows, "dropped": reader.dropped, "size": sink.size
        }  # fmt: skip

    def _plan(self) -> CellPlan:
        mailbox = self._connection.mailbox
        return plan_of(self._names.config, self._names.specs, mailbox.record_location)

    def _spawn(self, plan: CellPlan, **options: object) -> Recording:
        options["cpus"] = other_cpus(self._connection.realtime)
        return Recording(plan, self._connection.mailbox.fd, options)
