# SPDX-License-Identifier: Apache-2.0
"""Run a digital twin along a running cell, from its shared memory or its topics."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from multipanda_py.apps.commands.command_line import FAILED, OK, complain, print_line, write_whole
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import MonitorRejected
from multipanda_py.identification.monitor.arm_monitor import (
    QUANTITIES,
    MonitoredLog,
    residual_slices,
)
from multipanda_py.identification.monitor.band import Band, learn
from multipanda_py.identification.monitor.cell_monitor import CellMonitor, LiveRows
from multipanda_py.identification.plots import draw_monitor
from multipanda_py.realtime.recording.arm_log import ArmLog
from multipanda_py.realtime.system.child_process import JsonLinesChild
from multipanda_py.realtime.system.dds import discovery_hint
from multipanda_py.realtime.system.scheduling import other_cpus
from multipanda_py.realtime.system.signals import end_in_order
from multipanda_py.registry import require
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import ToolJacobian
from multipanda_py.state import Matrix


def check_arms(config: CellConfig, names: tuple[str, ...]) -> None:
    """Check that the cell of the twin has arms of the given names.

    Raises:
        MonitorRejected: An arm is missing.
    """
    for name in names:
        if name not in config.arms:
            raise MonitorRejected(f"twin: no arm {name!r}, choose one of {', '.join(config.arms)}")


def write_band(
    path: Path,
    runs: Mapping[str, Sequence[MonitoredLog]],
    arms: Mapping[str, ArmDescription],
    margin: float,
    description: str,
) -> int:
    """Compute the usual range (band) of deviations between robot and twin, and write it to a file.

    Args:
        path: YAML file to write.
        runs: Recorded deviations of each log of normal operation, by arm.
        arms: Descriptions of the arms, by name.
        margin: Extension of the range at both ends, as a fraction of its width.
        description: Source of the data, for the first line of the file.

    Raises:
        MonitorRejected: There is too little data.
    """
    band = learn(runs, {name: arm.limits for name, arm in arms.items()}, margin)
    write_whole(path, f"# Band of {description}, margin {margin:g}.\n{band.to_yaml()}")
    seconds = min(sum(run.evaluated_duration for run in of_arm) for of_arm in runs.values())
    print_line(f"{path}: {', '.join(band.arms)}, from {seconds:.1f} s of compared motion")
    return OK


def plot_deviations(
    path: Path | None, monitor: CellMonitor, parts: Mapping[str, Sequence[MonitoredLog]]
) -> None:
    """Plot the deviations between every arm and its twin, unless ``path`` is None."""
    if path is None:
        return
    for name, result in parts.items():
        if not result:
            continue
        target = path if len(parts) == 1 else path.with_name(f"{path.stem}_{name}{path.suffix}")
        watch = monitor.watches.get(name)
        band, alarms = (watch.band, watch.alarms) if watch else (None, [])
        draw_monitor(result, target, band, alarms)
        print_line(f"{target}: {target.stat().st_size / 1e3:.0f} kB")


def print_summary(monitor: CellMonitor) -> int:
    """Print a summary and return the exit code.

    The code is 1 if deviations left their usual range, or if there were no samples to compare.
    """
    for update in monitor.updates.values():
        for line in update.lines():
            print_line(line)
    if monitor.skipped:
        complain(f"{monitor.skipped} samples could not be followed and were left out")
    if not monitor.watches:
        return OK
    count = len(monitor.alarms)
    if not any(watch.sample_count for watch in monitor.watches.values()):
        complain("nothing was compared: the twin needs one second to settle first")
        return FAILED
    print_line(
        f"{count} times outside the band of good runs" if count else "within the band throughout"
    )
    return FAILED if count else OK


class RosOutput:
    """Publisher of the deviations between arms and twins on ``/diagnostics``, in a child process.

    Args:
        cell: Name of the cell; the node is ``twin_monitor_CELL``.
        namespace: Namespace of the node.

    Raises:
        MissingExtra: ROS 2 is not installed.
    """

    def __init__(self, cell: str, namespace: str = "") -> None:
        require("rclpy", "diagnostic_msgs")
        self._cell = cell
        self._node = JsonLinesChild(
            "multipanda_py.ros.client.monitor_link",
            "diagnostics",
            cell,
            namespace,
            captures_output=False,
        )

    def publish(self, monitor: CellMonitor) -> None:
        """Publish the present deviations of all arms from their twins.

        Raises:
            MonitorRejected: The node has ended.
        """
        line = json.dumps({"cell": self._cell, "time": time.time(), "arms": _arms(monitor)})
        try:
            self._node.send(line)
        except OSError:
            raise MonitorRejected(
                "--ros: nothing is published, because the node has ended"
            ) from None

    def close(self) -> None:
        """Stop the publisher node."""
        self._node.close()


def _arms(monitor: CellMonitor) -> list[dict[str, object]]:
    arms: list[dict[str, object]] = []
    for name, last in monitor.last.items():
        watch = monitor.watches.get(name)
        at = residual_slices(len(last.log.joints))
        values = {}
        for quantity in QUANTITIES:
            row = last.residuals[-1, at[quantity.name]]
            values[f"{quantity.name} [{quantity.unit}]"] = [float(f"{v:.4g}") for v in row]
        arms.append({
            "name": name,
            "joints": list(monitor.arms[name].joint_names),
            "q": last.q[-1].tolist(), "dq": last.dq[-1].tolist(), "tau": last.tau[-1].tolist(),
            "outside": [str(alarm) for alarm in watch.now.values()] if watch else [],
            "has_band": watch is not None,
            "raised": len(watch.alarms) if watch else 0,
            "used": {k: round(v, 3) for k, v in watch.use.items()} if watch else {},
            "residuals": values,
            "beyond": list(monitor.updates[name].lines()) if name in monitor.updates else [],
        })  # fmt: skip
    return arms


FIRST_STATE_TIMEOUT = 20.0
"""Time limit for the first state of every arm [s]."""
MAX_QUEUED_STATES = 1000
"""Maximum number of states of an arm that wait for a silent arm."""


class RosInput:
    """Source of arm states from the topics ``joint_states`` and ``external_wrench``.

    External torques are computed from the external wrench F by ``tau_ext = J^T F`` with the
    Jacobian J.

    Args:
        namespace: Namespace of the cell.
        config: Cell that describes the arms.
        names: Names of the arms to follow.

    Attributes:
        config: Cell that describes the arms.
        dropped: Number of old states dropped because too many waited for :meth:`pop`.

    Raises:
        MissingExtra: ROS 2 is not installed.

    Thread: one at a time.
    """

    def __init__(self, namespace: str, config: CellConfig, names: tuple[str, ...]) -> None:
        require("rclpy", "sensor_msgs", "geometry_msgs")
        self.config, self.dropped = config, 0
        self._root = f"/{namespace.strip('/')}".rstrip("/")
        self._arms = {name: describe_arm(name, config.arms[name]) for name in names}
        self._tools = {name: ToolJacobian(arm) for name, arm in self._arms.items()}
        self._start, self._arms_without_state = time.monotonic(), set(names)
        self._reported: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        self._node = JsonLinesChild(
            "multipanda_py.ros.client.monitor_link", "states", self._root or "/", *names
        )

    @property
    def is_there(self) -> bool:
        """True while the subscriber node runs."""
        return self._node.is_alive

    def pop(self) -> dict[str, ArmLog]:
        """Return the logs of states since the last call, by arm.

        The result is empty until every arm has a new state.

        Raises:
            MonitorRejected: An arm has sent nothing within 20 s, or is a different robot.
        """
        for line in self._node.lines():
            state = json.loads(line)
            messages = self._reported[state["arm"]]
            if not messages or state["time"] > messages[-1]["time"]:
                messages.append(state)
            if len(messages) > MAX_QUEUED_STATES:
                messages.pop(0)
                self.dropped += 1
        self._arms_without_state -= {name for name, response in self._reported.items() if response}
        if self._arms_without_state and time.monotonic() > self._start + FIRST_STATE_TIMEOUT:
            raise MonitorRejected(self._missing_states_message())
        if not all(self._reported.values()):
            return {}
        logs = {name: self._log(name, response) for name, response in self._reported.items()}
        self._reported = {name: [] for name in logs}
        return logs

    def close(self) -> None:
        """Stop the subscriber node."""
        self._node.close()

    def _missing_states_message(self) -> str:
        topics = ", ".join(
            f"{self._root}/{name}/joint_states" for name in sorted(self._arms_without_state)
        )
        return f"no message on {topics} within {FIRST_STATE_TIMEOUT:g} s{discovery_hint()}"

    def _log(self, name: str, messages: list[dict[str, Any]]) -> ArmLog:
        arm = self._arms[name]
        order = _joint_indices(arm, messages[0]["joints"])
        q, dq, tau, wrench = (
            np.array([state[key] for state in messages], dtype=np.float64).reshape(
                len(messages), -1
            )
            for key in ("q", "dq", "tau", "wrench")
        )
        if not all(rows.shape[1] > max(order) for rows in (q, dq, tau)):
            raise MonitorRejected(
                f"{name}/joint_states: messages without velocity or effort. Publish both, which "
                "the twin needs"
            )
        q = q[:, order]
        tool = self._tools[name]
        measured: Matrix = np.array(
            [tool.compute(row).T @ wrench_row for row, wrench_row in zip(q, wrench)]
        )
        return ArmLog(
            name,
            arm.robot.name,
            tuple(joint.name for joint in arm.robot.joints),
            np.array([state["time"] for state in messages]),
            q,
            dq[:, order],
            tau[:, order],
            columns={"tau_ext": measured, "wrench_ext_in_base": wrench},
        )


def _joint_indices(arm: ArmDescription, names: list[str]) -> list[int]:
    """Return the index of each joint of an arm in ``names``, which may have the arm's prefix."""
    result = []
    for joint in arm.joint_names:
        known = (joint, joint.removeprefix(f"{arm.name}_"))
        index = next((k for k, name in enumerate(names) if name in known), None)
        if index is None:
            raise MonitorRejected(
                f"{arm.name}: got joints {', '.join(names)}, allowed those of the twin, "
                f"{', '.join(arm.joint_names)}"
            )
        result.append(index)
    return result


NICENESS = 15
"""Niceness of the process, so that it does not delay control."""
READ_PERIOD, LINE_PERIOD = 0.1, 1.0
"""Period of reading states, and period of text lines [s]."""
_MAX_HISTORY = 600.0
"""Maximum duration of the data that is plotted or learnt from at the end [s]."""


class States(Protocol):
    """Source of states of running arms, from shared memory or ROS topics."""

    @property
    def dropped(self) -> int:
        """Number of lost states."""

    @property
    def is_there(self) -> bool:
        """True while the source may deliver more states."""

    def pop(self) -> dict[str, ArmLog]:
        """Return the states since the last call, by arm; empty without new states."""


def follow_live(options: argparse.Namespace, band: Band | None) -> int:
    """Simulate a running cell in parallel until its end, the end of the duration, or Ctrl-C.

    Args:
        options: Options of the command.
        band: Usual range of deviations between cell and twin; None for no alarms.

    Returns:
        Exit code.
    """
    end_in_order()
    if options.node is None:
        config = CellConfig.from_yaml(options.twin)
        names = (options.arm,) if options.arm else tuple(config.arms)
        check_arms(config, names)
        received = RosInput(options.topics, config, names)
        try:
            name = f"{', '.join(names)} by the topics of /{options.topics.strip('/')}"
            cell = options.topics.strip("/") or config.cell.name
            return _follow(options, received, CellMonitor(config, band, names, options.update),
                           name, cell)  # fmt: skip
        finally:
            received.close()
    rows = LiveRows(options.node)
    names = (options.arm,) if options.arm else tuple(rows.config.arms)
    config = CellConfig.from_yaml(options.twin) if options.twin else rows.config
    check_arms(config, names)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, other_cpus(rows.config.realtime))
    os.nice(NICENESS)
    name = f"{', '.join(names)} of cell {rows.plan.name!r}"
    return _follow(options, rows, CellMonitor(config, band, names, options.update), name,
                   rows.plan.name)  # fmt: skip


def _follow(
    options: argparse.Namespace, states: States, monitor: CellMonitor, owner: str, cell: str
) -> int:
    selected: dict[str, list[MonitoredLog]] = {name: [] for name in monitor.arms}
    start = time.monotonic()
    until = start + (options.duration or float("inf"))
    deadline = start + LINE_PERIOD
    publisher = RosOutput(cell, options.namespace) if options.ros else None
    print_line(f"following {owner}")
    try:
        while time.monotonic() < until and states.is_there:
            time.sleep(max(0.0, min(READ_PERIOD, until - time.monotonic())))
            if logs := states.pop():
                for alarm in monitor.follow(logs):
                    complain(f"warning: {alarm}")
                for name, result in monitor.last.items() if options.output else ():
                    selected[name].append(result)
                    while selected[name][0].time[0] < result.time[-1] - _MAX_HISTORY:
                        selected[name].pop(0)
                if publisher is not None:
                    publisher.publish(monitor)
            if time.monotonic() >= deadline:
                deadline += LINE_PERIOD
                for line in monitor.lines():
                    print_line(line)
                for update in monitor.updates.values():
                    print_line(next(update.lines()))
                monitor.forget()
        if not states.is_there:
            complain("the cell has ended" if options.node is not None else "the node has ended")
    except KeyboardInterrupt:
        print_line("stopped")
    finally:
        if publisher is not None:
            publisher.close()
    if states.dropped:
        complain(f"{states.dropped} cycle records were lost: this machine is too slow to follow")
    if options.learn:
        if strange := monitor.mismatches():
            raise MonitorRejected(strange[0])
        description = f"{owner}, {time.monotonic() - start:.0f} s"
        return write_band(options.output, selected, monitor.arms, options.margin, description)
    plot_deviations(options.output, monitor, selected)
    return print_summary(monitor)
