# SPDX-License-Identifier: Apache-2.0
"""Pictures of what plant and twin did."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from multipanda_py.extras import pyplot
from multipanda_py.logs.plots import COLORS
from multipanda_py.validation.compare import Comparison
from multipanda_py.validation.quantities import QUANTITIES

_POINTS = 600
SPAN = 0.02
"""Smallest range of a panel, as a share of what the paper reports at most."""


def quantity_plots(found: Comparison, arm: str) -> str:
    """Return every quantity of one arm, plant beside error, as a PNG in base64."""
    plots = pyplot()
    series = found.series
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
            _widen(axis, SPAN * quantity.ceiling)
            axis.grid(alpha=0.3)
            axis.tick_params(labelsize=7)
            axis.ticklabel_format(axis="y", scilimits=(-2, 4))  # long numbers reach other panels
            axis.yaxis.get_offset_text().set_size(7)
    axes[0, 0].set_title("plant solid, twin dashed", size=9)
    axes[0, 1].set_title("difference", size=9)
    for axis in axes[-1]:
        axis.set_xlabel("time [s]", size=8)
    return png(figure, plots)


def force_plots(found: Sequence[Comparison]) -> str:
    """Return forces and tanks of one task under all its laws, as a PNG in base64."""
    plots = pyplot()
    figure, axes = plots.subplots(
        2, len(found), figsize=(5.5 * len(found), 4.6), squeeze=False, sharex=True
    )
    for column, one in zip(axes.T, found):
        tanks = False
        for offset, (side, style) in enumerate((("plant", "-"), ("twin", "--"))):
            force = one.series["force"][side]
            how = ", as it measures" if side in one.measured else ""
            for k, values in enumerate(np.transpose(force["force"])):
                if len(values):
                    arm = f" {k + 1}" if len(force["force"][0]) > 1 else ""
                    column[0].plot(
                        force["time"], values, style, lw=1.0, color=COLORS[2 * k + offset],
                        label=f"{side}{arm}{how}",
                    )  # fmt: skip
            if side == "twin":
                column[0].plot(force["time"], force["asked"], "k:", lw=1.0, label="asked for")
            for k, (name, energy) in enumerate(force["tanks"].items()):
                tanks = True
                column[1].plot(
                    force["tank_time"], energy, style, color=COLORS[k], lw=1.0,
                    label=f"{name.split(' [')[0]}, {side}",
                )  # fmt: skip
        column[0].set_title(f"{one.law}: force on the tool [N]", size=9)
        column[1].set_title("energy of tanks [J]" if tanks else "no tanks", size=9)
        column[1 if tanks else 0].set_xlabel("time [s]", size=8)
        if not tanks:  # an empty panel says nothing
            column[1].set_axis_off()
            column[0].tick_params(labelbottom=True)
        for axis in column:
            axis.grid(alpha=0.3)
            axis.tick_params(labelsize=7)
            if axis.lines:
                axis.legend(fontsize=6, loc="best")
    return png(figure, plots)


def _widen(axis: Any, span: float) -> None:
    """Let a panel show at least so much, about its middle."""
    low, high = axis.get_ylim()
    if high - low < span:
        middle = 0.5 * (low + high)
        axis.set_ylim(middle - 0.5 * span, middle + 0.5 * span)


def png(figure: Any, plots: Any) -> str:
    """Return a figure as a PNG in base64, and close it."""
    figure.tight_layout()
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=90)
    plots.close(figure)
    return base64.b64encode(out.getvalue()).decode()
