# SPDX-License-Identifier: Apache-2.0
"""A task in a folder: measures as a table and as JSON, forces and ways as pictures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.cell.tasks.controllet_client import look
from multipanda_py.cell.tasks.runner import TaskRunner
from multipanda_py.config.describe import bases_in_world
from multipanda_py.files import replacing, save_figure
from multipanda_py.planning.tasks.world_state import TOOL
from multipanda_py.realtime.recording.plots import COLORS
from multipanda_py.registry import pyplot
from multipanda_py.state import Matrix, Vector

FORCED = 0.05
"""Force that counts as asked for [N]."""


@dataclass
class Moment:
    """Where everything is at a time.

    Attributes:
        time: Of the cell [s].
        number: Of the subtask.
        q: Joint positions by arm, (n,) [rad].
        places: Of tools (``ARM/tool``) and things in the world by name, (3,) [m].
        planned: Of things that are carried along a path, where they are to be, (3,) [m].
        force: With which hands press, estimated from the joints, by arm [N].
        asked: With which they are to, by arm [N].
    """

    time: float
    number: int
    q: dict[str, Vector]
    places: dict[str, Vector]
    planned: dict[str, Vector]
    force: dict[str, float]
    asked: dict[str, float]


@dataclass(frozen=True)
class Measures:
    """How well a subtask was done.

    Attributes:
        name: Of the subtask.
        mode: Of the law.
        duration: From its start to the next one's [s].
        replans: Plans after the first.
        force_rmse: Of hands that had pressed once, over the motion, all arms together [N].
        force_peak: Largest of them [N].
        asked: Force that was asked for [N].
        off_rmse: Of things that are carried from where their plans have them [m].
        off_most: The largest of that [m].
    """

    name: str
    mode: str
    duration: float
    replans: int
    force_rmse: float = float("nan")
    force_peak: float = float("nan")
    asked: float = float("nan")
    off_rmse: float = float("nan")
    off_most: float = float("nan")


@dataclass
class TaskBook:
    """Note a task as it is done: call :meth:`note` between its steps, as ``tick`` of ``run``.

    Args:
        runner: Of the task.

    Attributes:
        moments: In their order.

    Thread: the one that steps the runner.
    """

    runner: TaskRunner
    moments: list[Moment] = field(default_factory=list)

    def __post_init__(self) -> None:
        cell = self.runner.cell
        self._bases = bases_in_world(cell.config)
        self._arms = cell.spec(self.runner.task.law).config.arms
        self._points = [
            self.runner.task.points(subtask, cell.config) for subtask in self.runner.task.subtasks
        ]

    def note(self) -> None:
        """Note where everything is now."""
        runner, cell = self.runner, self.runner.cell
        seen, number = look(cell, self._arms), runner.number
        force, asked = {}, {}
        subtask = runner.task.subtasks[number]
        if runner.presses:
            for point in self._points[number]:
                felt = cell.state(point.arm).wrench_ext_in_base[:3]
                inward = seen.pose(point.thing).rotation @ point.inward
                force[point.arm] = -float(inward @ (self._bases[point.arm].rotation @ felt))
                asked[point.arm] = subtask.force
        planned = {}
        if runner.plan is not None:
            after = cell.time - runner.moved_at
            planned = {
                name: runner.plan.expected(name, after).position for name in runner.plan.things
            }
        places = {arm + TOOL: pose.position for arm, pose in seen.tools.items()}
        places |= {name: pose.position for name, pose in seen.things.items()}
        q = {arm: posture.copy() for arm, posture in seen.postures.items()}
        self.moments.append(Moment(cell.time, number, q, places, planned, force, asked))

    def series(self, name: str) -> tuple[Vector, Matrix]:
        """Return times (k,) [s] and places (k, 3) [m] of a tool or a thing, where it was there."""
        found = [(one.time, one.places[name]) for one in self.moments if name in one.places]
        return np.array([t for t, _ in found]), np.array([p for _, p in found]).reshape(-1, 3)

    def measures(self) -> Iterator[Measures]:
        """Yield those of every subtask that was begun."""
        events = self.runner.events
        starts = [k for k, event in enumerate(events) if event.what == "started" and event.subtask]
        for first, last in zip(starts, [*starts[1:], len(events) - 1]):
            start, after = events[first], events[last]
            own = [one for one in self.moments if start.time < one.time <= after.time]
            yield Measures(
                start.subtask,
                start.text.removeprefix("mode "),
                after.time - start.time,
                [event.what for event in events[first:last]].count("replanned"),
                *_of_forces(own),
                *_of_places(own),
            )


def _of_forces(moments: Sequence[Moment]) -> tuple[float, float, float]:
    """Return RMSE, peak and what was asked for, from when all hands first pressed."""
    pressed = [one for one in moments if one.asked]
    asked = max((size for one in pressed for size in one.asked.values()), default=0.0)
    first = next(
        (k for k, one in enumerate(pressed) if min(one.force.values()) > 0.9 * asked), None
    )
    if asked < FORCED or first is None:
        return (float("nan"),) * 3
    felt = np.array([size for one in pressed[first:] for size in one.force.values()])
    return float(np.sqrt(np.square(felt - asked).mean())), float(felt.max()), asked


def _of_places(moments: Sequence[Moment]) -> tuple[float, float]:
    """Return RMSE and largest distance of things from their plans."""
    off = np.array([
        np.linalg.norm(one.places[name] - place)
        for one in moments for name, place in one.planned.items() if name in one.places
    ])  # fmt: skip
    if not off.size:
        return float("nan"), float("nan")
    return float(np.sqrt(np.square(off).mean())), float(off.max())


MARK = {"color": "#999999", "lw": 0.8, "ls": ":"}
REPLANNED = {"color": "#b04a6f", "lw": 0.6, "ls": "--"}


def write_report(book: TaskBook, folder: Path) -> list[Path]:
    """Write ``measures.json``, ``measures.md``, ``forces.png`` and ``ways.png``.

    Args:
        book: Of a task that is over.
        folder: Made if it is not there.

    Returns:
        The files.

    Raises:
        ConfigurationError: If something cannot be written.
        MissingExtra: If matplotlib is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = list(book.measures())
    runner = book.runner
    whole = {"task": runner.task.name, "state": runner.state, "reason": runner.reason}
    rows = [
        {key: None if value != value else value for key, value in asdict(one).items()}
        for one in found
    ]
    texts = {
        "measures.json": json.dumps({**whole, "subtasks": rows}, indent=1) + "\n",
        "measures.md": table(found),
    }
    for name, text in texts.items():
        with replacing(folder / name) as partial:
            partial.write_text(text, encoding="utf-8")
    pictures = {"forces.png": _forces(book), "ways.png": _ways(book)}
    for name, figure in pictures.items():
        save_figure(figure, folder / name)
        pyplot().close(figure)
    return [folder / name for name in (*texts, *pictures)]


def table(measures: list[Measures]) -> str:
    """Return measures as a table in Markdown."""
    lines = [
        "| subtask | mode | time [s] | replans | force: asked, RMSE, peak [N] "
        "| thing from its plan: RMSE, most [mm] |",
        "|---|---|---|---|---|---|",
    ]
    for one in measures:
        force = off = ""
        if one.asked == one.asked:
            force = f"{one.asked:g}, {one.force_rmse:.2f}, {one.force_peak:.1f}"
        if one.off_rmse == one.off_rmse:
            off = f"{1e3 * one.off_rmse:.1f}, {1e3 * one.off_most:.1f}"
        lines.append(
            f"| {one.name} | {one.mode} | {one.duration:.2f} | {one.replans} | {force} | {off} |"
        )
    return "\n".join(lines) + "\n"


def _forces(book: TaskBook) -> Any:
    """Return what hands press with, beside what they are asked for."""
    figure, axes = pyplot().subplots(figsize=(11.0, 3.6))
    arms = sorted({arm for one in book.moments for arm in one.force})
    for arm, color in zip(arms, COLORS):
        for series, style in (("force", "-"), ("asked", ":")):
            curve = [(one.time, getattr(one, series).get(arm, np.nan)) for one in book.moments]
            label = arm if series == "force" else f"{arm}, asked for"
            axes.plot(*np.transpose(curve), style, color=color, lw=1.1, label=label)
    if arms:
        axes.legend(fontsize=7, ncols=2)
    axes.set_ylabel("force [N]")
    _mark(book, [axes])
    return figure


def _ways(book: TaskBook) -> Any:
    """Return where tools and carried things go, and where plans have the things."""
    carried = sorted({name for one in book.moments for name in one.planned})
    moved = [name for name in book.moments[-1].places if name.endswith(TOOL)] + carried
    figure, rows = pyplot().subplots(3, 1, figsize=(11.0, 7.0), sharex=True)
    for axis, (row, label) in enumerate(zip(rows, "xyz")):
        for name, color in zip(moved, COLORS):
            times, places = book.series(name)
            row.plot(times, places[:, axis], color=color, lw=1.1, label=name)
            if name in carried:
                plan = [
                    (one.time, one.planned[name][axis] if name in one.planned else np.nan)
                    for one in book.moments
                ]
                row.plot(*np.transpose(plan), "k:", lw=1.0)
        row.set_ylabel(f"{label} [m]")
    rows[0].legend(fontsize=7, ncols=len(moved))
    _mark(book, rows)
    return figure


def _mark(book: TaskBook, rows: Any) -> None:
    """Mark where subtasks begin, and where plans are made anew."""
    events = book.runner.events
    for row in rows:
        row.grid(alpha=0.3)
        for event in events:
            if event.what == "started" and event.subtask:
                row.axvline(event.time, **MARK)
            elif event.what == "replanned":
                row.axvline(event.time, **REPLANNED)
    for event in events:
        if event.what == "started" and event.subtask:
            rows[0].annotate(
                event.subtask, (event.time, 1.0), xycoords=("data", "axes fraction"),
                fontsize=6, rotation=30, va="bottom",
            )  # fmt: skip
    rows[-1].set_xlabel("time [s]")
    rows[0].figure.tight_layout()
