# SPDX-License-Identifier: Apache-2.0
"""The picture of a report on numbers of arms: what each costs, and where 1 kHz ends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multipanda_py.bench.plots import COLORS, usable_pyplot
from multipanda_py.bench.processes import cores_of
from multipanda_py.bench.scaling import PERIOD_US
from multipanda_py.exceptions import BenchError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Figures = Mapping[str, Any]
_FARTHEST = 40.0
"""Number of arms up to which a line is drawn on."""
_PROCESSES = ("loop.process", "ros.node")


def draw_scaling(report: Figures, file: Path) -> None:
    """Draw cycle, physics, processor time and memory over the number of arms.

    Raises:
        BenchError: If matplotlib is missing, or no number of arms was measured.
    """
    scaling = report["scaling"]
    arms = {int(n): row for n, row in scaling["arms"].items() if "trouble" not in row}
    if not arms:
        raise BenchError("no picture of the arms: none of their numbers could be measured")
    pyplot = usable_pyplot()
    figure, axes = pyplot.subplots(2, 2, figsize=(11.0, 7.6))
    _cycle(axes[0, 0], arms, scaling["end"])
    _hot(axes[0, 1], scaling["hot"])
    _plot_cores_by_arms(axes[1, 0], arms)
    _memory(axes[1, 1], arms)
    for one in axes.flat:
        one.set_xlabel("arms")
        one.set_xlim(0.0)
        one.set_ylim(0.0)
        one.grid(alpha=0.3)
        one.legend(fontsize=8)
    load = report["machine"].get("load before", "unknown")
    figure.suptitle(f"{report['machine']['processor']}, load before {load}", size=10)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


def _cycle(axes: Axes, arms: dict[int, Figures], end: Figures) -> None:
    many = max(arms)
    for k, name in enumerate(("median", "p99")):
        values = [row["cycle_us"][name] for row in arms.values()]
        axes.plot(list(arms), values, "o-", color=COLORS[k], label=f"whole cycle, {name}")
        at = end.get(f"cycle_{name}", float("inf"))
        if at > _FARTHEST:
            continue
        if at > many:
            axes.plot([many, at], [values[-1], PERIOD_US], ":", color=COLORS[k])
        axes.plot(
            at, PERIOD_US, "v", ms=9, color=COLORS[k],
            label=f"1 kHz ends at {at:.1f} arms, {name}",
        )  # fmt: skip
    axes.plot(
        list(arms), [row["control_us"]["median"] for row in arms.values()], "s--",
        color=COLORS[2], label="control of it, median",
    )  # fmt: skip
    axes.axhline(PERIOD_US, color="black", lw=1.0, label="the period at 1 kHz")
    axes.set_ylabel("[us]")
    axes.set_title("paced loop, targets at 1 kHz per arm", size=9)


def _hot(axes: Axes, hot: Figures) -> None:
    numbers = sorted(int(n) for n in hot if n.isdecimal())
    shown = {"physics": "{}: physics", "laws": "{}", "laws with CA-MA": "{} CA-MA"}
    for k, (label, name) in enumerate(shown.items()):
        values = [hot[name.format(n)]["median_us"] for n in numbers]
        axes.plot(numbers, values, "o-", color=COLORS[k], label=label)
    axes.axhline(PERIOD_US, color="black", lw=1.0, label="the period at 1 kHz")
    axes.set_ylabel("[us]")
    axes.set_title("in a hot loop, medians", size=9)


def _plot_cores_by_arms(axes: Axes, arms: dict[int, Figures]) -> None:
    for k, name in enumerate(_PROCESSES):
        values = [cores_of(row, name) for row in arms.values()]
        axes.plot(list(arms), values, "o-", color=COLORS[k], label=name)
    axes.axhline(1.0, color="black", lw=1.0, label="a whole core")
    axes.set_ylabel("cores")
    axes.set_title("processor time", size=9)


def _memory(axes: Axes, arms: dict[int, Figures]) -> None:
    for k, name in enumerate(_PROCESSES):
        values = [
            sum(p["proportional_mib"] for p in row["processes"] if p["name"] == name)
            for row in arms.values()
        ]
        axes.plot(list(arms), values, "o-", color=COLORS[k], label=name)
    axes.set_ylabel("[MiB]")
    axes.set_title("memory, shared pages divided", size=9)
