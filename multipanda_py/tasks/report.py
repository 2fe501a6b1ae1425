# SPDX-License-Identifier: Apache-2.0
"""A task in a folder: measures as a table and as JSON, forces and ways as pictures."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.extras import pyplot
from multipanda_py.logs.plots import COLORS
from multipanda_py.machine.whole_file import replacing, save_figure
from multipanda_py.tasks.book import Measures, TaskBook
from multipanda_py.tasks.seen import TOOL

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
