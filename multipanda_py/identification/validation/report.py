# SPDX-License-Identifier: Apache-2.0
"""HTML report on the errors between twin and plant, as one self-contained page."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.files import replacing
from multipanda_py.identification.validation.compare import QUANTITIES, Comparison, Quantity
from multipanda_py.realtime.recording.plots import COLORS
from multipanda_py.registry import pyplot

_POINTS = 600  # Approximate maximum number of plotted points of a curve.
MIN_AXIS_RANGE = 0.02
"""Minimum axis range of a plot, relative to the maximum error reported in the paper."""


def quantity_plots(result: Comparison, arm: str) -> str:
    """Plot every compared quantity of one arm, with the error of the twin, as a base64 PNG."""
    plots = pyplot()
    series = result.series
    time = series["time"]
    every = max(1, len(time) // _POINTS)
    shown = [q for q in QUANTITIES if q.name in series["plant"][arm]]
    shown = [q for q in shown if q.name in series["twin"][arm]]
    figure, axes = plots.subplots(
        len(shown), 2, figsize=(11.0, 1.9 * len(shown)), squeeze=False, sharex=True
    )
    for row, quantity in zip(axes, shown):
        plant = series["plant"][arm][quantity.name][::every]
        twin = series["twin"][arm][quantity.name][::every]
        for k, label in enumerate(quantity.labels(plant.shape[1])):
            color = COLORS[k % len(COLORS)]
            row[0].plot(time[::every], plant[:, k], color=color, lw=1.0, label=label)
            row[0].plot(time[::every], twin[:, k], color=color, lw=0.9, ls="--")
            row[1].plot(time[::every], plant[:, k] - twin[:, k], color=color, lw=0.8)
        row[0].set_ylabel(f"{quantity.name}\n[{quantity.unit}]", size=8)
        row[1].set_ylabel(f"plant - twin\n[{quantity.unit}]", size=8)
        row[1].legend(*row[0].get_legend_handles_labels(), fontsize=6, loc="center left",
                      bbox_to_anchor=(1.01, 0.5))  # fmt: skip
        for axis in row:
            _ensure_min_y_range(axis, MIN_AXIS_RANGE * quantity.ceiling)
            axis.grid(alpha=0.3)
            axis.tick_params(labelsize=7)
            # Powers of ten keep the labels short, so that they do not overlap other panels.
            axis.ticklabel_format(axis="y", scilimits=(-2, 4))
            axis.yaxis.get_offset_text().set_size(7)
    axes[0, 0].set_title("plant solid, twin dashed", size=9)
    axes[0, 1].set_title("difference", size=9)
    for axis in axes[-1]:
        axis.set_xlabel("time [s]", size=8)
    return png(figure, plots)


def force_plots(matches: Sequence[Comparison]) -> str:
    """Plot forces and tank energies of one task with all its controllets as a base64 PNG."""
    plots = pyplot()
    figure, axes = plots.subplots(
        2, len(matches), figsize=(5.5 * len(matches), 4.6), squeeze=False, sharex=True
    )
    for column, one in zip(axes.T, matches):
        tanks = False
        for offset, (side, style) in enumerate((("plant", "-"), ("twin", "--"))):
            force = one.series["force"][side]
            how = ", measured by the arm" if side in one.measured else ""
            for k, values in enumerate(np.transpose(force["force"])):
                if len(values):
                    arm = f" {k + 1}" if len(force["force"][0]) > 1 else ""
                    column[0].plot(
                        force["time"], values, style, lw=1.0, color=COLORS[2 * k + offset],
                        label=f"{side}{arm}{how}",
                    )  # fmt: skip
            if side == "twin":
                column[0].plot(
                    force["time"], force["asked"], "k:", lw=1.0, label="requested force"
                )
            for k, (name, energy) in enumerate(force["tanks"].items()):
                tanks = True
                column[1].plot(
                    force["tank_time"], energy, style, color=COLORS[k], lw=1.0,
                    label=f"{name.split(' [')[0]}, {side}",
                )  # fmt: skip
        column[0].set_title(f"{one.controllet}: force on the tool [N]", size=9)
        column[1].set_title("energy of tanks [J]" if tanks else "no tanks", size=9)
        column[1 if tanks else 0].set_xlabel("time [s]", size=8)
        if not tanks:  # Without energy tanks, the lower panel would be empty.
            column[1].set_axis_off()
            column[0].tick_params(labelbottom=True)
        for axis in column:
            axis.grid(alpha=0.3)
            axis.tick_params(labelsize=7)
            if axis.lines:
                axis.legend(fontsize=6, loc="best")
    return png(figure, plots)


def _ensure_min_y_range(axis: Any, min_range: float) -> None:
    low, high = axis.get_ylim()
    if high - low < min_range:
        middle = 0.5 * (low + high)
        axis.set_ylim(middle - 0.5 * min_range, middle + 0.5 * min_range)


def png(figure: Any, plots: Any) -> str:
    """Return a figure as a base64 PNG and close it."""
    figure.tight_layout()
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=90)
    plots.close(figure)
    return base64.b64encode(out.getvalue()).decode()


STYLE = """
body{font:14px/1.45 system-ui,sans-serif;max-width:1080px;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0}
th,td{border:1px solid #ccc;padding:.25em .6em;text-align:right}
th:first-child,td:first-child{text-align:left} th{background:#f3f3f3}
img{max-width:100%} .over{background:#f9dcd3} .under{background:#e2f0dc} .fault{color:#a32}
"""


def page(
    comparisons: Sequence[Comparison],
    plant: str,
    twin: str,
    about: Mapping[str, Any] | None = None,
) -> str:
    """Return the report as a self-contained HTML page.

    Args:
        comparisons: Comparisons, grouped by task number.
        plant: Description of the plant.
        twin: Description of the twin.
        about: Further facts by name, for the table at the top of the page.

    Raises:
        MissingExtra: If matplotlib is missing.
    """
    facts = {"plant": plant, "twin": twin, **(about or {})}
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        f"<title>Errors between a twin and its plant</title><style>{STYLE}</style>",
        "<h1>Errors between a twin and its plant</h1>",
        table(("", ""), [(name, str(value)) for name, value in facts.items()]),
        "<h2>Largest root mean square error of any joint or axis</h2>",
        "<p>Mean over the repeats. The last line is the maximum that multipanda_ros2 reports "
        "between its simulation and real arms. Larger errors are marked.</p>",
        _summary(comparisons),
    ]
    if any(one.force for one in comparisons):
        parts += [
            "<h2>Comparison of force controllets</h2>",
            "<p>The force error compares the force on the tools with the requested force. It uses "
            "the contact force of a simulation, or else the force measured by the arm. The "
            "measured error compares the measured force with the simulated contact force in all "
            "three axes. Ripple is the deviation from the 50 ms average. A force with a ripple "
            "below 2 N is called stable.</p>",
            _forces(comparisons),
        ]
    for number, group in groupby(comparisons, key=lambda one: one.number):
        parts += _task(number, list(group))
    return "\n".join(parts) + "</html>\n"


def write_report(
    matches: Sequence[Comparison],
    target: Path,
    plant: str,
    twin: str,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Write the comparisons as an HTML page, and as a JSON file next to it.

    Args:
        matches: Comparisons, grouped by task number.
        target: Path of the page.
        plant: Description of the plant.
        twin: Description of the twin.
        about: Further facts by name, for both files.

    Returns:
        Path of the JSON file.

    Raises:
        ConfigurationError: If a file cannot be written. No file is changed then.
        MissingExtra: If matplotlib is missing.
    """
    text = page(matches, plant, twin, about)
    numbers = {
        "plant": plant, "twin": twin, **(about or {}),
        "ceilings": {q.name: q.ceiling for q in QUANTITIES},
        "tasks": [one.as_dict() for one in matches],
    }  # fmt: skip
    beside = target.with_suffix(".json")
    with replacing(target) as page_file, replacing(beside) as number_file:
        page_file.write_text(text, encoding="utf-8")
        number_file.write_text(json.dumps(numbers, indent=1), encoding="utf-8")
    return beside


def summary_lines(matches: Sequence[Comparison]) -> Iterator[str]:
    """Yield the lines of a table of the largest errors, for a terminal."""
    names = [q.name for q in QUANTITIES]
    yield "task  law           " + "".join(f"{name:>15}" for name in names)
    for one in matches:
        row = "".join(f"{one.worst(name):15.4g}" for name in names)
        yield f"{one.number:<5} {one.controllet:<14}{row}"
        yield from (f"      fault: {fault}" for fault in one.faults)
    yield "paper, maximum      " + "".join(f"{q.ceiling:15.4g}" for q in QUANTITIES)


def _summary(matches: Sequence[Comparison]) -> str:
    head = ("task", "law", *(f"{q.name} [{q.unit.split(',')[0]}]" for q in QUANTITIES))
    rows = [
        (f"{one.number}: {one.title}", one.controllet, *(_marked(one, q) for q in QUANTITIES))
        for one in matches
    ]
    return table(head, [*rows, ("paper, maximum", "", *(f"{q.ceiling:g}" for q in QUANTITIES))])


def _marked(one: Comparison, quantity: Quantity) -> str:
    worst = one.worst(quantity.name)
    if worst != worst:
        return ""
    kind = "over" if worst > quantity.ceiling else "under"
    return f"\0<span class='{kind}'>{worst:.4g}</span>"


def _forces(matches: Sequence[Comparison]) -> str:
    rows = []
    for one in matches:
        for side in ("plant", "twin"):
            if side not in one.force:
                continue
            errors, ripple = one.force[side], one.ripple.get(side)
            stable = {True: "yes", False: "no", None: ""}[one.stable(side)]
            rows.append((
                f"{one.number}: {one.title}", one.controllet,
                f"{side}, measured by the arm" if side in one.measured else side,
                " / ".join(f"{mean:.3f} ± {std:.3f}" for mean, std in
                           zip(errors.mean(axis=0), errors.std(axis=0))),
                " / ".join(f"{mean:.3f}"
                           for mean in one.force_measurement_error[side].mean(axis=0))
                if side in one.force_measurement_error else "",
                "" if ripple is None else f"{ripple.max():.3f}", stable,
                ", ".join(f"{name.split(' [')[0]} {energy:.1f}"
                          for name, energy in one.tanks.get(side, {}).items()),
            ))  # fmt: skip
    head = ("task", "law", "side", "force rmse [N]", "measured rmse [N]", "ripple [N]", "stable",
            "lowest energy of tanks [J]")  # fmt: skip
    return table(head, rows)


def _task(number: int, group: Sequence[Comparison]) -> Iterator[str]:
    yield f"<h2>Task {number}: {html.escape(group[0].title)}</h2>"
    if group[0].force:
        yield image(force_plots([one for one in group if "force" in one.series]))
    for one in group:
        yield f"<h3>{html.escape(one.controllet)}, {one.repeats} repeats</h3>"
        for fault in one.faults:
            yield f"<p class='fault'>Ended early: {html.escape(fault)}.</p>"
        for arm, of_arm in one.errors.items():
            yield f"<h4>{html.escape(arm)}</h4>"
            yield table(
                ("root mean square error", "over all", "per joint or axis"),
                [
                    (
                        f"{q.name} [{q.unit}]",
                        f"{one.overall(arm, q.name).mean():.4g} ± "
                        f"{one.overall(arm, q.name).std():.2g}",
                        ", ".join(
                            f"{mean:.3g} ± {std:.1g}"
                            for mean, std in zip(
                                of_arm[q.name].mean(axis=0), of_arm[q.name].std(axis=0)
                            )
                        ),
                    )
                    for q in QUANTITIES
                    if q.name in of_arm
                ],
            )
            yield image(quantity_plots(one, arm))


def image(data: str) -> str:
    """Return the HTML element that shows a base64 PNG."""
    return f"<img alt='' src='data:image/png;base64,{data}'>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table. Cells are plain text, or HTML after a leading NUL character.

    Args:
        head: Names of the columns. If all are empty, the table has no header.
        rows: Cells of each table row.
    """

    def cells(kind: str, values: Sequence[str]) -> str:
        return "".join(
            f"<{kind}>{value[1:] if value.startswith(chr(0)) else html.escape(value)}</{kind}>"
            for value in values
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    top = f"<tr>{cells('th', head)}</tr>" if any(head) else ""
    return f"<table>{top}{body}</table>"
