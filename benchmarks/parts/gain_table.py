# SPDX-License-Identifier: Apache-2.0
"""Table and figure of the results of ``twin_gain.py``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.identification.validation.compare import QUANTITIES
from multipanda_py.realtime.recording.plots import COLORS
from multipanda_py.registry import pyplot

GOAL = 0.5
"""Maximum ratio of the force error of task 4, after to before, median over plants."""
CIRCLE = 4
Plants = Mapping[int, Mapping[str, Any]]
Key = tuple[int, str, str, str]
"""Task, controllet, ``errors`` or ``forces``, name of the quantity."""


def pairs(plants: Plants) -> dict[Key, list[tuple[float, float]]]:
    """Return pairs (before, after) of each quantity, one per plant."""
    found: dict[Key, list[tuple[float, float]]] = {}
    for plant in plants.values():
        for task in plant["tasks"]:
            for kind in ("errors", "forces"):
                for name, (before, after) in task[kind].items():
                    key = (task["task"], task["law"], kind, name)
                    found.setdefault(key, []).append((before, after))
    return found


def force_ratio(plants: Plants) -> float | None:
    """Return the ratio of the force error of task 4, after to before, median over plants."""
    for (number, _, kind, name), own in pairs(plants).items():
        if number == CIRCLE and kind == "forces" and name == "measured minus true force [N]":
            return float(np.median([after / before for before, after in own]))
    return None


def table(plants: Plants) -> str:
    """Return tables of the medians over plants and of the forces of each plant."""
    own = pairs(plants)
    units = {q.name: q.unit.split(",")[0] for q in QUANTITIES}
    lines = [
        "| task | quantity | before | after | after / before | worst plant |",
        "|---|---|---|---|---|---|",
    ]
    for (number, law, kind, name), values in own.items():
        ratios = [after / before for before, after in values if before]
        before, after = np.median(values, axis=0)
        label = f"plant minus twin: {name} [{units[name]}]" if kind == "errors" else name
        lines.append(
            f"| {_task(number, law)} | {label} | {before:.3g} | {after:.3g} | "
            + (f"{np.median(ratios):.2f} | {max(ratios):.2f} |" if ratios else "| |")
        )
    lines += ["", *_by_plant(plants, own)]
    for seed, plant in plants.items():
        for task in plant["tasks"]:
            lines += [f"seed {seed}, task {task['task']}: {fault}" for fault in task["faults"]]
    return "\n".join(lines)


def _task(number: int, law: str) -> str:
    return f"{number}" if law == "impedance" else f"{number}, {law}"


def _by_plant(plants: Plants, own: Mapping[Key, Sequence[tuple[float, float]]]) -> Iterator[str]:
    shown = {key: values for key, values in own.items() if key[2] == "forces"}
    yield "| seed |" + "".join(f" {_task(n, law)}: {name} |" for n, law, _, name in shown)
    yield "|---" * (1 + len(shown)) + "|"
    for k, seed in enumerate(plants):
        cells = (f" {values[k][0]:.2f} → {values[k][1]:.2f} |" for values in shown.values())
        yield f"| {seed} |" + "".join(cells)


def draw(plants: Plants, path: Path) -> None:
    """Draw forces of each plant before and after, and error ratios of the twin."""
    plots = pyplot()
    every = pairs(plants)
    forces = {key: values for key, values in every.items() if key[2] == "forces"}
    errors = {key: values for key, values in every.items() if key[2] == "errors"}
    columns = 3
    rows = -(-(len(forces) + 1) // columns)
    figure, axes = plots.subplots(rows, columns, figsize=(4.2 * columns, 2.8 * rows))
    positions = np.arange(len(plants))
    for axis, ((number, law, _, name), values) in zip(axes.flat, forces.items()):
        for k, side in enumerate(("before", "after")):
            axis.bar(positions + 0.4 * k - 0.2, [pair[k] for pair in values], 0.4,
                     color=COLORS[1 - k], label=side)  # fmt: skip
        axis.set_title(f"task {_task(number, law)}: {name}", size=7)
        axis.set_xticks(positions, [str(seed) for seed in plants])
        axis.set_xlabel("plant", size=7)
    axes.flat[0].legend(fontsize=7)
    axis = axes.flat[len(forces)]
    tasks = list(dict.fromkeys(key[:2] for key in errors))
    for k, quantity in enumerate(QUANTITIES):
        own = [errors[(*task, "errors", quantity.name)] for task in tasks]
        ratios = [np.median([after / before for before, after in values]) for values in own]
        axis.plot(range(len(tasks)), ratios, "o", color=COLORS[k], label=quantity.name, ms=4)
    axis.axhline(1.0, color="k", lw=0.8)
    axis.set_xticks(range(len(tasks)), [str(number) for number, _ in tasks])
    axis.set_xlabel("task", size=7)
    axis.set_title("error of the twin: after / before, median", size=7)
    axis.set_ylim(bottom=0.0)
    axis.legend(fontsize=6, loc="center left", bbox_to_anchor=(1.01, 0.5))
    for axis in axes.flat:
        axis.grid(alpha=0.3)
        axis.tick_params(labelsize=7)
    for axis in axes.flat[len(forces) + 1 :]:
        axis.remove()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plots.close(figure)
