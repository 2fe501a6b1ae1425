# SPDX-License-Identifier: Apache-2.0
"""Metrics of an executed task as a table and JSON, with plots of forces and paths."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.cell.tasks.controllet_client import observe
from multipanda_py.cell.tasks.runner import TaskRunner
from multipanda_py.config.describe import bases_in_world
from multipanda_py.files import replacing, save_figure
from multipanda_py.planning.tasks.world_state import TOOL_SUFFIX
from multipanda_py.realtime.recording.plots import COLORS
from multipanda_py.registry import pyplot
from multipanda_py.state import Matrix, Vector

MIN_PRESSING_FORCE = 0.05
"""Minimum commanded force that counts as pressing [N]."""


@dataclass
class Sample:
    """State of arms, objects and forces at one time.

    Attributes:
        time: Cell time [s].
        number: Index of the present subtask.
        q: Joint positions by arm, (n,) [rad].
        positions: World positions of tools (``ARM/tool``) and objects, by name, (3,) [m].
        planned: Planned world positions of carried objects, by name, (3,) [m].
        force: Contact forces estimated from the joint torques, by arm [N].
        desired_forces: Commanded contact forces, by arm [N].
    """

    time: float
    number: int
    q: dict[str, Vector]
    positions: dict[str, Vector]
    planned: dict[str, Vector]
    force: dict[str, float]
    desired_forces: dict[str, float]


@dataclass(frozen=True)
class SubtaskMetrics:
    """Metrics of a subtask; NaN for forces without contact and distances without carried objects.

    Attributes:
        name: Name of the subtask.
        mode: Control mode of the subtask, such as ``force``.
        duration: Time until the start of the next subtask [s].
        replans: Number of plans after the first one.
        force_rmse: RMS error of contact forces after all arms have made contact [N].
        force_peak: Maximum contact force [N].
        requested: Commanded contact force [N].
        off_rmse: RMS distance of carried objects from their planned positions [m].
        off_max: Maximum distance of carried objects from their planned positions [m].
    """

    name: str
    mode: str
    duration: float
    replans: int
    force_rmse: float = float("nan")
    force_peak: float = float("nan")
    requested: float = float("nan")
    off_rmse: float = float("nan")
    off_max: float = float("nan")


@dataclass
class TaskMetrics:
    """Recorder of the states during a task, which computes metrics of the subtasks.

    Pass :meth:`note` as ``tick`` to :meth:`.TaskRunner.run`.

    Attributes:
        moments: Recorded states in temporal order.

    Thread: the one that steps the runner.
    """

    runner: TaskRunner
    moments: list[Sample] = field(default_factory=list)

    def __post_init__(self) -> None:
        cell = self.runner.cell
        self._bases = bases_in_world(cell.config)
        self._arms = cell.spec(self.runner.task.controllet).config.arms
        self._points = [
            self.runner.task.points(subtask, cell.config) for subtask in self.runner.task.subtasks
        ]

    def note(self) -> None:
        """Record the present state of arms, objects and forces."""
        runner, cell = self.runner, self.runner.cell
        state, number = observe(cell, self._arms), runner.number
        force, desired = {}, {}
        subtask = runner.task.subtasks[number]
        if runner.presses:
            for point in self._points[number]:
                measured = cell.state(point.arm).wrench_ext_in_base[:3]
                inward = state.pose(point.object_name).rotation @ point.inward
                force[point.arm] = -float(inward @ (self._bases[point.arm].rotation @ measured))
                desired[point.arm] = subtask.force
        planned = {}
        if runner.plan is not None:
            after = cell.time - runner.moved_at
            planned = {
                name: runner.plan.expected(name, after).position
                for name in runner.plan.object_paths
            }
        positions = {arm + TOOL_SUFFIX: pose.position for arm, pose in state.tools.items()}
        positions |= {name: pose.position for name, pose in state.object_poses.items()}
        q = {arm: configuration.copy() for arm, configuration in state.postures.items()}
        self.moments.append(Sample(cell.time, number, q, positions, planned, force, desired))

    def series(self, name: str) -> tuple[Vector, Matrix]:
        """Return the recorded positions of a tool (``ARM/tool``) or an object, by its name.

        Returns:
            Times, (k,) [s], and positions in the world, (k, 3) [m].
        """
        series = [(one.time, one.positions[name]) for one in self.moments if name in one.positions]
        return np.array([t for t, _ in series]), np.array([p for _, p in series]).reshape(-1, 3)

    def measures(self) -> Iterator[SubtaskMetrics]:
        """Yield the metrics of every started subtask."""
        events = self.runner.events
        starts = [k for k, event in enumerate(events) if event.kind == "started" and event.subtask]
        for first, last in zip(starts, [*starts[1:], len(events) - 1]):
            start, after = events[first], events[last]
            own = [one for one in self.moments if start.time < one.time <= after.time]
            yield SubtaskMetrics(
                start.subtask,
                start.text.removeprefix("mode "),
                after.time - start.time,
                [event.kind for event in events[first:last]].count("replanned"),
                *_force_errors(own),
                *_position_errors(own),
            )


def _force_errors(moments: Sequence[Sample]) -> tuple[float, float, float]:
    """Return RMS error, maximum and commanded value of contact forces [N]; NaN without contact."""
    pressed = [one for one in moments if one.desired_forces]
    desired = max((size for one in pressed for size in one.desired_forces.values()), default=0.0)
    first = next(
        (k for k, one in enumerate(pressed) if min(one.force.values()) > 0.9 * desired), None
    )
    if desired < MIN_PRESSING_FORCE or first is None:
        return (float("nan"),) * 3
    measured = np.array([size for one in pressed[first:] for size in one.force.values()])
    return float(np.sqrt(np.square(measured - desired).mean())), float(measured.max()), desired


def _position_errors(moments: Sequence[Sample]) -> tuple[float, float]:
    """Return RMS and maximum distance of carried objects from their planned positions [m]."""
    off = np.array([
        np.linalg.norm(one.positions[name] - position)
        for one in moments for name, position in one.planned.items() if name in one.positions
    ])  # fmt: skip
    if not off.size:
        return float("nan"), float("nan")
    return float(np.sqrt(np.square(off).mean())), float(off.max())


MARK_STYLE = {"color": "#999999", "lw": 0.8, "ls": ":"}
REPLAN_STYLE = {"color": "#b04a6f", "lw": 0.6, "ls": "--"}


def write_report(metrics: TaskMetrics, folder: Path) -> list[Path]:
    """Write ``measures.json``, ``measures.md``, ``forces.png`` and ``ways.png`` to a folder.

    Returns:
        Paths of the written files.

    Raises:
        ConfigurationError: If a file cannot be written.
        MissingExtra: If matplotlib is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    result = list(metrics.measures())
    runner = metrics.runner
    whole = {"task": runner.task.name, "state": runner.state, "reason": runner.reason}
    rows = [
        {key: None if value != value else value for key, value in asdict(one).items()}
        for one in result
    ]
    texts = {
        "measures.json": json.dumps({**whole, "subtasks": rows}, indent=1) + "\n",
        "measures.md": table(result),
    }
    for name, text in texts.items():
        with replacing(folder / name) as partial:
            partial.write_text(text, encoding="utf-8")
    images = {"forces.png": _forces(metrics), "ways.png": _path_plots(metrics)}
    for name, figure in images.items():
        save_figure(figure, folder / name)
        pyplot().close(figure)
    return [folder / name for name in (*texts, *images)]


def table(measures: list[SubtaskMetrics]) -> str:
    """Format metrics as a Markdown table."""
    lines = [
        "| subtask | mode | time [s] | replans | force: commanded, RMSE, peak [N] | object from "
        "its plan: RMSE, max [mm] |",
        "|---|---|---|---|---|---|",
    ]
    for one in measures:
        force = off = ""
        if one.requested == one.requested:
            force = f"{one.requested:g}, {one.force_rmse:.2f}, {one.force_peak:.1f}"
        if one.off_rmse == one.off_rmse:
            off = f"{1e3 * one.off_rmse:.1f}, {1e3 * one.off_max:.1f}"
        lines.append(
            f"| {one.name} | {one.mode} | {one.duration:.2f} | {one.replans} | {force} | {off} |"
        )
    return "\n".join(lines) + "\n"


def _forces(metrics: TaskMetrics) -> Any:
    figure, axes = pyplot().subplots(figsize=(11.0, 3.6))
    arms = sorted({arm for one in metrics.moments for arm in one.force})
    for arm, color in zip(arms, COLORS):
        for series, style in (("force", "-"), ("desired_forces", ":")):
            curve = [(one.time, getattr(one, series).get(arm, np.nan)) for one in metrics.moments]
            label = arm if series == "force" else f"{arm}, commanded"
            axes.plot(*np.transpose(curve), style, color=color, lw=1.1, label=label)
    if arms:
        axes.legend(fontsize=7, ncols=2)
    axes.set_ylabel("force [N]")
    _mark(metrics, [axes])
    return figure


def _path_plots(metrics: TaskMetrics) -> Any:
    carried = sorted({name for one in metrics.moments for name in one.planned})
    moved = [
        name for name in metrics.moments[-1].positions if name.endswith(TOOL_SUFFIX)
    ] + carried
    figure, rows = pyplot().subplots(3, 1, figsize=(11.0, 7.0), sharex=True)
    for axis, (row, label) in enumerate(zip(rows, "xyz")):
        for name, color in zip(moved, COLORS):
            times, positions = metrics.series(name)
            row.plot(times, positions[:, axis], color=color, lw=1.1, label=name)
            if name in carried:
                plan = [
                    (one.time, one.planned[name][axis] if name in one.planned else np.nan)
                    for one in metrics.moments
                ]
                row.plot(*np.transpose(plan), "k:", lw=1.0)
        row.set_ylabel(f"{label} [m]")
    rows[0].legend(fontsize=7, ncols=len(moved))
    _mark(metrics, rows)
    return figure


def _mark(metrics: TaskMetrics, rows: Any) -> None:
    events = metrics.runner.events
    for row in rows:
        row.grid(alpha=0.3)
        for event in events:
            if event.kind == "started" and event.subtask:
                row.axvline(event.time, **MARK_STYLE)
            elif event.kind == "replanned":
                row.axvline(event.time, **REPLAN_STYLE)
    for event in events:
        if event.kind == "started" and event.subtask:
            rows[0].annotate(
                event.subtask, (event.time, 1.0), xycoords=("data", "axes fraction"),
                fontsize=6, rotation=30, va="bottom",
            )  # fmt: skip
    rows[-1].set_xlabel("time [s]")
    rows[0].figure.tight_layout()
