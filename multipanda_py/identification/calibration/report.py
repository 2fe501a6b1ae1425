# SPDX-License-Identifier: Apache-2.0
"""HTML report on the calibration of a twin, as one self-contained page."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from multipanda_py.identification.calibration.contact_parameters import ContactParameters
from multipanda_py.identification.calibration.improvement import MODEL_NAMES, ModelImprovement
from multipanda_py.identification.calibration.rounds import Calibration, Round
from multipanda_py.identification.validation.compare import QUANTITIES
from multipanda_py.identification.validation.report import STYLE, image, png, quantity_plots, table
from multipanda_py.realtime.recording.plots import COLORS
from multipanda_py.registry import pyplot


def round_curves(rounds: Sequence[Round]) -> str:
    """Plot the twin's errors over the rounds, one line per task, as a base64 PNG."""
    plots = pyplot()
    figure, axes = plots.subplots(2, 3, figsize=(11.0, 5.6))
    numbers = [one.number for one in rounds]
    for axis, quantity in zip(axes.flat, QUANTITIES):
        for k, task in enumerate(rounds[0].comparisons):
            worst = [one.comparisons[k].worst(quantity.name) for one in rounds]
            label = f"task {task.number}" + (
                f", {task.controllet}" if task.controllet != "impedance" else ""
            )
            axis.plot(numbers, worst, "o-", color=COLORS[k % len(COLORS)], label=label)
        axis.axhline(quantity.ceiling, color="k", ls=":", lw=0.8, label="paper, maximum")
        axis.set_title(f"{quantity.name} [{quantity.unit.split(',')[0]}]", size=9)
        axis.set_xticks(numbers)
        axis.set_ylim(bottom=0.0)
        axis.grid(alpha=0.3)
        axis.tick_params(labelsize=7)
    for axis in axes[-1]:
        axis.set_xlabel("round", size=8)
    axes[0, 0].legend(fontsize=6)
    return png(figure, plots)


def parameter_curves(rounds: Sequence[Round]) -> str:
    """Plot the identification results of each round as a base64 PNG.

    The panels show torque errors on held-out samples, and friction and contact parameters of the
    table.
    """
    plots = pyplot()
    matches = [one for one in rounds if one.identified]
    surfaces = {
        name: [one for one in matches if name in one.surface.values]
        for name in matches[-1].surface.values
    }
    figure, axes = plots.subplots(1, 1 + len(surfaces), figsize=(11.0, 2.9), squeeze=False)
    first, *others = axes[0]
    numbers = [one.number for one in matches]
    for k, arm in enumerate(dict.fromkeys(arm for one in matches for arm in one.identified)):
        shown = [one for one in matches if arm in one.identified]
        for model, style in (("datasheet", "o:"), ("consistent", "o-")):
            values = [one.identified[arm].held_out[model].mean() for one in shown]
            label = f"{arm}, {'data sheet' if model == 'datasheet' else 'identified'}"
            rounds_of_arm = [one.number for one in shown]
            first.plot(rounds_of_arm, values, style, color=COLORS[k % len(COLORS)], label=label)
    first.set_title("held-out torque error, mean of joints [Nm]", size=9)
    first.set_yscale("log")
    first.legend(fontsize=6)
    units = {"friction": "-", "contact_time": "s", "contact_damping": "-"}
    for axis, (name, shown) in zip(others, surfaces.items()):
        commanded = np.array([one.surface.values[name] for one in shown])
        bars = np.abs(np.array([one.surface.spread[name] for one in shown]).T - commanded)
        axis.errorbar([one.number for one in shown], commanded, bars, fmt="o-", color=COLORS[1],
                      capsize=3)  # fmt: skip
        axis.set_title(f"table: {name} [{units.get(name, '')}]", size=9)
        axis.set_ylim(bottom=0.0)
    for axis in axes[0]:
        axis.set_xticks(numbers)
        axis.set_xlabel("round", size=8)
        axis.grid(alpha=0.3, which="both")
        axis.tick_params(labelsize=7, which="both")
    return png(figure, plots)


def gain_plots(gains: Sequence[ModelImprovement]) -> str:
    """Plot true contact forces and force measurement errors of tasks as a base64 PNG.

    Each panel compares the data-sheet model with the identified model.
    """
    plots = pyplot()
    shown = [gain for gain in gains if gain.series]
    figure, axes = plots.subplots(
        2, len(shown), figsize=(5.5 * len(shown), 5.0), squeeze=False, sharex=True
    )
    for column, gain in zip(axes.T, shown):
        for color, side in zip(COLORS[1::-1], MODEL_NAMES):
            own = gain.series[side]
            column[0].plot(own["time"], own["true"], color=color, lw=1.0, label=side)
            length = sum(own[f"error {axis}"] ** 2 for axis in "xyz") ** 0.5
            column[1].plot(own["time"], length, color=color, lw=0.8, label=side)
        desired = gain.series[MODEL_NAMES[0]]
        column[0].plot(desired["time"], desired["asked"], "k:", lw=1.0, label="requested force")
        column[0].set_title(f"task {gain.number}, {gain.controllet}: contact force [N]", size=9)
        column[1].set_title("norm of measured minus true force [N]", size=9)
        column[1].set_xlabel("time [s]", size=8)
        for axis in column:
            axis.grid(alpha=0.3)
            axis.tick_params(labelsize=7)
            axis.legend(fontsize=6)
    return png(figure, plots)


TITLE = "Calibration of a twin against its plant"


def page(result: Calibration, about: Mapping[str, Any]) -> str:
    """Return the report on a calibration as a self-contained HTML page.

    Args:
        result: Result of the calibration.
        about: Further facts by name, for the table at the top of the page.

    Raises:
        MissingExtra: If matplotlib is missing.
    """
    facts = {**about, "best round": result.best.number, "ended": result.ended}
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        f"<title>{TITLE}</title><style>{STYLE}</style><h1>{TITLE}</h1>",
        table(("", ""), [(name, str(value)) for name, value in facts.items()]),
        *(
            f"<p class='fault'>{html.escape(note)}</p>"
            for note in (*result.notes, *_early(result))
        ),
        *_gains(result),
        "<h2>Rounds</h2><p>Largest root mean square error between plant and twin of any joint or "
        "axis. Round 0 is the given twin. The score is the mean of these errors, each divided by "
        "the maximum that multipanda_ros2 reports. Values separated by slashes belong to tasks "
        f"{_task_labels(result)}, in this order.</p>",
        image(round_curves(result.rounds)),
        _rounds(result),
    ]
    if any(one.identified for one in result.rounds):
        parts += ["<h2>Identified parameters</h2>", image(parameter_curves(result.rounds))]
    first, best = result.rounds[0].comparisons, result.best.comparisons
    for before, after in zip(first, best):
        controllet = (
            "" if before.controllet == "impedance" else f", {html.escape(before.controllet)}"
        )
        parts.append(f"<h2>Task {before.number}: {html.escape(before.title)}{controllet}</h2>")
        for arm in before.errors:
            for time, one in (("round 0", before), (f"round {result.best.number}", after)):
                parts.append(f"<h3>{html.escape(arm)}, {time}</h3>")
                parts += [f"<p class='fault'>{html.escape(fault)}</p>" for fault in one.faults]
                if arm in one.errors:
                    parts.append(image(quantity_plots(one, arm)))
    return "\n".join(parts) + "</html>\n"


def numbers(result: Calibration, about: Mapping[str, Any]) -> str:
    """Return the numbers of a calibration as JSON text.

    Args:
        result: Result of the calibration.
        about: Further facts by name, added to the JSON object.
    """
    data = {
        **about,
        "best_round": result.best.number,
        "ended": result.ended,
        "notes": list(result.notes),
        "gains": [gain.as_dict() for gain in result.gains],
        "rounds": [one.as_dict() for one in result.rounds],
    }
    return json.dumps(data, indent=1)


def lines(result: Calibration) -> Iterator[str]:
    """Yield the lines of a summary of a calibration, for a terminal."""
    yield (
        "round  score " + "".join(f"{q.name:>15}" for q in QUANTITIES) + "   (worst of all tasks)"
    )
    for one in result.rounds:
        worst = (max(task.worst(q.name) for task in one.comparisons) for q in QUANTITIES)
        yield f"{one.number:<6} {one.score:.3f} " + "".join(f"{value:15.4g}" for value in worst)
    yield f"ended: {result.ended}; best is round {result.best.number}"
    for name in result.best.surface.spread:
        yield f"table: {name}: {_ranged(result.best.surface, name)}"
    yield from result.notes
    yield from _early(result)
    for gain in result.gains:
        for name, (before, after) in gain.errors.items():
            yield (
                f"task {gain.number} {gain.controllet}: {name}: {before:.3f} with the data sheet, "
                f"{after:.3f} with the identified model"
            )


def _early(result: Calibration) -> Iterator[str]:
    for one in result.rounds:
        for task in one.comparisons:
            for side in ("plant", "twin") if one is result.rounds[0] else ("twin",):
                if count := task.ended_early(side):
                    first = next(fault for fault in task.faults if fault.startswith(side))
                    yield (
                        f"round {one.number}, task {task.number} {task.controllet}: {count} of "
                        f"the {side}'s runs ended early and are compared up to that time: {first}"
                    )
    for gain in result.gains:
        for side, count in zip(MODEL_NAMES, gain.early):
            if count:
                known = (
                    f"with the {side}" if side == MODEL_NAMES[0] else "with the identified model"
                )
                yield (
                    f"task {gain.number} {gain.controllet}: {count} of {gain.runs} runs of the "
                    f"plant {known} ended early"
                )


def _rounds(result: Calibration) -> str:
    surface = list(result.best.surface.spread)
    head = ("round", "score", *(f"{q.name} [{q.unit.split(',')[0]}]" for q in QUANTITIES),
            *(f"table: {name}" for name in surface))  # fmt: skip
    rows = [
        (
            f"{one.number}" + (", best" if one is result.best else ""),
            f"{one.score:.3f}",
            *(
                " / ".join(f"{task.worst(q.name):.3g}" for task in one.comparisons)
                for q in QUANTITIES
            ),
            *(_ranged(one.surface, name) for name in surface),
        )
        for one in result.rounds
    ]
    return table(head, rows)


def _task_labels(result: Calibration) -> str:
    names = (
        f"{one.number}" + ("" if one.controllet == "impedance" else f" ({one.controllet})")
        for one in result.rounds[0].comparisons
    )
    return html.escape(" / ".join(names))


def _ranged(surface: ContactParameters, name: str) -> str:
    if name not in surface.spread:
        return ""
    low, high = surface.spread[name]
    value = f"{surface.values[name]:.4g}" if name in surface.values else "not determined"
    return f"{value} ({low:.4g} to {high:.4g})"


def _gains(result: Calibration) -> Iterator[str]:
    if not result.gains:
        return
    yield "<h2>Improvement on the plant through the identified model</h2>"
    yield ("<p>Root mean square errors of the same plant with the data sheet and with "
           "<code>identified</code> in its cell file.</p>")  # fmt: skip
    yield table(
        ("", *MODEL_NAMES, "ratio"),
        [
            (f"task {gain.number}, {gain.controllet}: {name}", f"{before:.3f}", f"{after:.3f}",
             f"{after / before:.2f}" if before else "")
            for gain in result.gains
            for name, (before, after) in gain.errors.items()
        ],
    )  # fmt: skip
    if any(gain.series for gain in result.gains):
        yield image(gain_plots(result.gains))
