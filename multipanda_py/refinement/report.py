# SPDX-License-Identifier: Apache-2.0
"""One page that says how a twin came nearer to its plant, with everything in it."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from typing import Any

from multipanda_py.refinement.gain import SIDES
from multipanda_py.refinement.plots import gain_plots, parameter_curves, round_curves
from multipanda_py.refinement.rounds import Refinement
from multipanda_py.refinement.surface import FoundSurface
from multipanda_py.validation.plots import quantity_plots
from multipanda_py.validation.quantities import QUANTITIES
from multipanda_py.validation.report import STYLE, image, table

TITLE = "How a twin came nearer to its plant"


def page(found: Refinement, about: Mapping[str, Any]) -> str:
    """Return the report as HTML that needs nothing beside it.

    Args:
        found: All rounds.
        about: Facts for the head of the page.

    Raises:
        MissingExtra: If matplotlib is missing.
    """
    facts = {**about, "best round": found.best.number, "ended": found.ended}
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        f"<title>{TITLE}</title><style>{STYLE}</style><h1>{TITLE}</h1>",
        table(("", ""), [(name, str(value)) for name, value in facts.items()]),
        *(f"<p class='fault'>{html.escape(note)}</p>" for note in (*found.notes, *_early(found))),
        *_gains(found),
        "<h2>Rounds</h2><p>Largest root mean square error between plant and twin of any joint or "
        "axis; round 0 is the twin as it was given. The score is the mean of all of them in units "
        "of what multipanda_ros2 reports at most. Numbers with strokes between are of tasks "
        f"{_tasks(found)}, in this order.</p>",
        image(round_curves(found.rounds)),
        _rounds(found),
    ]
    if any(one.identified for one in found.rounds):
        parts += ["<h2>What was identified</h2>", image(parameter_curves(found.rounds))]
    first, best = found.rounds[0].found, found.best.found
    for before, after in zip(first, best):
        law = "" if before.law == "impedance" else f", {html.escape(before.law)}"
        parts.append(f"<h2>Task {before.number}: {html.escape(before.title)}{law}</h2>")
        for arm in before.errors:
            for when, one in (("round 0", before), (f"round {found.best.number}", after)):
                parts.append(f"<h3>{html.escape(arm)}, {when}</h3>")
                parts += [f"<p class='fault'>{html.escape(fault)}</p>" for fault in one.faults]
                if arm in one.errors:
                    parts.append(image(quantity_plots(one, arm)))
    return "\n".join(parts) + "</html>\n"


def numbers(found: Refinement, about: Mapping[str, Any]) -> str:
    """Return the same as JSON."""
    data = {
        **about,
        "best_round": found.best.number,
        "ended": found.ended,
        "notes": list(found.notes),
        "gains": [gain.as_dict() for gain in found.gains],
        "rounds": [one.as_dict() for one in found.rounds],
    }
    return json.dumps(data, indent=1)


def lines(found: Refinement) -> Iterator[str]:
    """Yield the tables for a terminal."""
    yield (
        "round  score " + "".join(f"{q.name:>15}" for q in QUANTITIES) + "   (worst of all tasks)"
    )
    for one in found.rounds:
        worst = (max(task.worst(q.name) for task in one.found) for q in QUANTITIES)
        yield f"{one.number:<6} {one.score:.3f} " + "".join(f"{value:15.4g}" for value in worst)
    yield f"ended: {found.ended}; best is round {found.best.number}"
    for name in found.best.surface.spread:
        yield f"table: {name}: {_ranged(found.best.surface, name)}"
    yield from found.notes
    yield from _early(found)
    for gain in found.gains:
        for name, (before, after) in gain.figures.items():
            yield (
                f"task {gain.number} {gain.law}: {name}: {before:.3f} by the data sheet, "
                f"{after:.3f} by what was identified"
            )


def _early(found: Refinement) -> Iterator[str]:
    """Yield a sentence for every task in which runs of plant or twin ended early."""
    for one in found.rounds:
        for task in one.found:
            for side in ("plant", "twin") if one is found.rounds[0] else ("twin",):
                if count := task.ended_early(side):
                    first = next(fault for fault in task.faults if fault.startswith(side))
                    yield (
                        f"round {one.number}, task {task.number} {task.law}: {count} of the "
                        f"{side}'s runs ended early and are compared up to there: {first}"
                    )
    for gain in found.gains:
        for side, count in zip(SIDES, gain.early):
            if count:
                known = f"by the {side}" if side == SIDES[0] else "by what was identified"
                yield (
                    f"task {gain.number} {gain.law}: {count} of {gain.runs} runs of the plant "
                    f"{known} ended early"
                )


def _rounds(found: Refinement) -> str:
    surface = list(found.best.surface.spread)
    head = ("round", "score", *(f"{q.name} [{q.unit.split(',')[0]}]" for q in QUANTITIES),
            *(f"table: {name}" for name in surface))  # fmt: skip
    rows = [
        (
            f"{one.number}" + (", best" if one is found.best else ""),
            f"{one.score:.3f}",
            *(" / ".join(f"{task.worst(q.name):.3g}" for task in one.found) for q in QUANTITIES),
            *(_ranged(one.surface, name) for name in surface),
        )
        for one in found.rounds
    ]
    return table(head, rows)


def _tasks(found: Refinement) -> str:
    """Return the tasks as columns have them."""
    names = (
        f"{one.number}" + ("" if one.law == "impedance" else f" ({one.law})")
        for one in found.rounds[0].found
    )
    return html.escape(" / ".join(names))


def _ranged(surface: FoundSurface, name: str) -> str:
    """Return what was found of a surface with its range; nothing if it was not looked for."""
    if name not in surface.spread:
        return ""
    low, high = surface.spread[name]
    value = f"{surface.values[name]:.4g}" if name in surface.values else "not told"
    return f"{value} ({low:.4g} to {high:.4g})"


def _gains(found: Refinement) -> Iterator[str]:
    if not found.gains:
        return
    yield "<h2>What laws and estimates gain on the plant</h2>"
    yield ("<p>The same plant with <code>identified</code> in its file: root mean square, by the "
           "data sheet and by what was identified.</p>")  # fmt: skip
    yield table(
        ("", *SIDES, "ratio"),
        [
            (f"task {gain.number}, {gain.law}: {name}", f"{before:.3f}", f"{after:.3f}",
             f"{after / before:.2f}" if before else "")
            for gain in found.gains
            for name, (before, after) in gain.figures.items()
        ],
    )  # fmt: skip
    if any(gain.series for gain in found.gains):
        yield image(gain_plots(found.gains))
