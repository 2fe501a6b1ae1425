# SPDX-License-Identifier: Apache-2.0
"""Plots of the benchmark report: timing of two arms, and cost over the number of arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from multipanda_py.apps.bench.conditions import ARM_POSITIONS, CONDITIONS
from multipanda_py.apps.bench.paced import Samples
from multipanda_py.apps.bench.processes import cores_of
from multipanda_py.apps.bench.report import PAPER_SWITCH_DELAY
from multipanda_py.apps.bench.run import PERIOD_US
from multipanda_py.apps.bench.wired import BARE
from multipanda_py.exceptions import BenchError
from multipanda_py.registry import missing
from multipanda_py.state import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes


COLORS = ("#3b75af", "#c4663a", "#6b9e5b", "#8a6bab", "#b8a03c", "#6f6f6f")
SPACING = 0.36
"""Distance between the distributions of one group on the x axis; groups have the distance 1."""
_MAX_PERCENTILE = 99.9  # Upper percentile of the plotted distributions [%].
_MAX_SWITCH_DELAY = 3.5  # Upper limit of the time axis of switches [ms].


def draw(report: Mapping[str, Any], samples: Mapping[str, Samples], file: Path) -> None:
    """Plot loop times, delays, processor time and switching delays to a file.

    Raises:
        BenchError: matplotlib is missing, or there are no samples.
    """
    if not samples:
        raise BenchError("no plots: no samples were measured")
    pyplot = usable_pyplot()
    figure, axes = pyplot.subplots(2, 3, figsize=(15.0, 7.6))
    paced, wired = samples.get("paced", {}), samples.get("wired", {})
    _to_robot(axes[0, 0], wired)
    _loop_times(axes[0, 1], paced)
    _plot_condition_cores(axes[0, 2], report.get("paced", {}).get("conditions", {}))
    _answers(axes[1, 0], wired)
    _lateness(axes[1, 1], paced)
    _switching(axes[1, 2], paced.get("switching", {}))
    figure.suptitle(f"{report['machine']['processor']}, {report['machine']['kernel']}", size=10)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


def usable_pyplot() -> Any:
    """Return pyplot for drawing into files.

    Raises:
        BenchError: matplotlib is missing.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        raise BenchError(f"no plots: {missing('matplotlib')}; the tables are complete") from None
    mpl.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _draw_violins(
    axes: Axes, groups: Mapping[str, Sequence[Vector]], labels: Sequence[str]
) -> None:
    names, top = list(groups), 0.0
    if not names:
        axes.text(0.5, 0.5, "not measured", ha="center", transform=axes.transAxes)
    for k in range(len(labels)):
        shift = (k - 0.5 * (len(labels) - 1)) * SPACING
        for at, name in enumerate(names):
            values = groups[name][k] if k < len(groups[name]) else np.zeros(0)
            if not len(values):
                continue
            median, p99, end = np.percentile(values, [50, 99, _MAX_PERCENTILE])
            top = max(top, float(p99))
            drawn = axes.violinplot(
                [values[values <= end]], [at + shift], widths=0.9 * SPACING, showextrema=False
            )
            bodies: Any = drawn["bodies"]
            for body in bodies:
                body.set(facecolor=COLORS[k], alpha=0.55)
            axes.hlines(median, at + shift - 0.14, at + shift + 0.14, color="black", lw=1.2)
            axes.plot(at + shift, p99, marker="_", color="black", ms=6)
            axes.annotate(
                f"{median:.0f}", (at + shift, median), (0, 3), textcoords="offset points",
                ha="center", size=7,
            )  # fmt: skip
    axes.set_xticks(range(len(names)), names, size=8)
    axes.set_ylim(0.0, 1.25 * top or 1.0)
    axes.set_ylabel("[us]")
    axes.grid(axis="y", alpha=0.3)
    handles = [_patch(k) for k in range(len(labels))]
    axes.legend(handles, labels, fontsize=8, loc="upper left")


def _patch(number: int) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor=COLORS[number], alpha=0.55)


def _to_robot(axes: Axes, wired: Samples) -> None:
    groups = {
        name: [wired[name][f"to {arm}"] for arm in ARM_POSITIONS]
        for name in CONDITIONS
        if name in wired
    }
    _draw_violins(axes, groups, [f"{arm} arm" for arm in ARM_POSITIONS])
    axes.set_title("torque computed in the loop to torque at the robot; paper: 500 us", size=9)


def _answers(axes: Axes, wired: Samples) -> None:
    groups = {
        "bare" if name == BARE else name: [wired[name][arm] for arm in ARM_POSITIONS]
        for name in (*CONDITIONS, BARE)
        if name in wired
    }
    _draw_violins(axes, groups, [f"{arm} arm" for arm in ARM_POSITIONS])
    axes.set_title("state packet to torque packet; bare: pylibfranka alone", size=9)


def _loop_times(axes: Axes, paced: Samples) -> None:
    groups = {
        name: [paced[name]["control"], paced[name]["cycle"]]
        for name in CONDITIONS
        if name in paced
    }
    _draw_violins(axes, groups, ["control: wake-up to torques", "whole cycle with physics"])
    axes.set_title("control loop, all cycles (bar: median, dash: p99)", size=9)


def _lateness(axes: Axes, paced: Samples) -> None:
    groups = {
        name: [paced[name]["lateness"], paced[name].get("floor", np.zeros(0))]
        for name in CONDITIONS
        if name in paced
    }
    _draw_violins(axes, groups, ["our loop", "idle loop in C"])
    axes.set_title("lateness of wake-up, same core, priority and load", size=9)


def _plot_condition_cores(axes: Axes, conditions: Mapping[str, Any]) -> None:
    names = [name for name in CONDITIONS if "processes" in conditions.get(name, {})]
    base = np.zeros(len(names))
    shown = ("realtime.process", "ros.node.node", "ros.client.motion_generator")
    for k, process in enumerate(shown):
        cores = [cores_of(conditions[name], process) for name in names]
        axes.bar(names, cores, 0.55, base, color=COLORS[k], alpha=0.7, label=process)
        base += cores
    axes.tick_params(axis="x", labelsize=8)
    axes.set_ylabel("cores")
    axes.set_title("processor time, two simulated arms, targets at 2 x 1 kHz", size=9)
    axes.grid(axis="y", alpha=0.3)
    axes.set_ylim(0.0, 1.35 * float(base.max()) if len(base) else 1.0)
    axes.legend(fontsize=8, loc="upper left", ncols=3)


def _switching(axes: Axes, switching: Mapping[str, Vector]) -> None:
    delays = switching.get("delay", np.zeros(0)) * 1e-3
    from matplotlib.ticker import MaxNLocator

    mean, std = PAPER_SWITCH_DELAY
    bins = np.arange(0.0, _MAX_SWITCH_DELAY + 0.05, 0.1)
    axes.hist(np.minimum(delays, bins[-1]), bins.tolist(), color=COLORS[0], alpha=0.7)
    if len(delays):
        axes.axvline(delays.mean(), color=COLORS[0], label=f"mean {delays.mean():.2f} ms")
    axes.axvline(mean, color=COLORS[1], label=f"paper {mean:.2f} ms")
    axes.axvspan(mean - std, mean + std, color=COLORS[1], alpha=0.15)
    axes.set_xlabel(f"[ms]; longer delays are shown at {_MAX_SWITCH_DELAY:g}")
    axes.set_ylabel("trials")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title("switch request to first cycle of the new controllet", size=9)
    axes.legend(fontsize=8)


Figures = Mapping[str, Any]
_MAX_ARMS = 40.0
"""Maximum number of arms to which lines are extrapolated."""
_PROCESSES = ("realtime.process", "ros.node.node")


def draw_scaling(report: Figures, file: Path) -> None:
    """Plot cycle time, physics, processor time and memory over the number of arms.

    Raises:
        BenchError: matplotlib is missing, or all measurements failed.
    """
    scaling = report["scaling"]
    arms = {int(n): row for n, row in scaling["arms"].items() if "trouble" not in row}
    if not arms:
        raise BenchError("no plot over the number of arms: no measurement succeeded")
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
        if at > _MAX_ARMS:
            continue
        if at > many:
            axes.plot([many, at], [values[-1], PERIOD_US], ":", color=COLORS[k])
        axes.plot(
            at, PERIOD_US, "v", ms=9, color=COLORS[k],
            label=f"1 kHz limit: {at:.1f} arms, {name}",
        )  # fmt: skip
    axes.plot(
        list(arms), [row["control_us"]["median"] for row in arms.values()], "s--",
        color=COLORS[2], label="control part, median",
    )  # fmt: skip
    axes.axhline(PERIOD_US, color="black", lw=1.0, label="period at 1 kHz")
    axes.set_ylabel("[us]")
    axes.set_title("paced loop, targets at 1 kHz per arm", size=9)


def _hot(axes: Axes, hot: Figures) -> None:
    numbers = sorted(int(n) for n in hot if n.isdecimal())
    shown = {"physics": "{}: physics", "laws": "{}", "laws with CA-MA": "{} CA-MA"}
    for k, (label, name) in enumerate(shown.items()):
        values = [hot[name.format(n)]["median_us"] for n in numbers]
        axes.plot(numbers, values, "o-", color=COLORS[k], label=label)
    axes.axhline(PERIOD_US, color="black", lw=1.0, label="period at 1 kHz")
    axes.set_ylabel("[us]")
    axes.set_title("in a hot loop, medians", size=9)


def _plot_cores_by_arms(axes: Axes, arms: dict[int, Figures]) -> None:
    for k, name in enumerate(_PROCESSES):
        values = [cores_of(row, name) for row in arms.values()]
        axes.plot(list(arms), values, "o-", color=COLORS[k], label=name)
    axes.axhline(1.0, color="black", lw=1.0, label="one full core")
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
    axes.set_title("memory, shared pages divided among processes", size=9)
