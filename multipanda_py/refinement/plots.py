# SPDX-License-Identifier: Apache-2.0
"""Pictures of what became better."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from multipanda_py.extras import pyplot
from multipanda_py.logs.plots import COLORS
from multipanda_py.refinement.gain import SIDES, Gain
from multipanda_py.refinement.rounds import Round
from multipanda_py.validation.plots import png
from multipanda_py.validation.quantities import QUANTITIES


def round_curves(rounds: Sequence[Round]) -> str:
    """Return the error of every quantity over the rounds, a line per task, as a PNG in base64."""
    plots = pyplot()
    figure, axes = plots.subplots(2, 3, figsize=(11.0, 5.6))
    numbers = [one.number for one in rounds]
    for axis, quantity in zip(axes.flat, QUANTITIES):
        for k, task in enumerate(rounds[0].found):
            worst = [one.found[k].worst(quantity.name) for one in rounds]
            label = f"task {task.number}" + (f", {task.law}" if task.law != "impedance" else "")
            axis.plot(numbers, worst, "o-", color=COLORS[k % len(COLORS)], label=label)
        axis.axhline(quantity.ceiling, color="k", ls=":", lw=0.8, label="paper, at most")
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
    """Return held-out torque errors and the surface over the rounds, as a PNG in base64."""
    plots = pyplot()
    found = [one for one in rounds if one.identified]
    surfaces = {
        name: [one for one in found if name in one.surface.values]
        for name in found[-1].surface.values
    }
    figure, axes = plots.subplots(1, 1 + len(surfaces), figsize=(11.0, 2.9), squeeze=False)
    first, *others = axes[0]
    numbers = [one.number for one in found]
    for k, arm in enumerate(dict.fromkeys(arm for one in found for arm in one.identified)):
        shown = [one for one in found if arm in one.identified]
        for model, style in (("datasheet", "o:"), ("consistent", "o-")):
            values = [one.identified[arm].held_out[model].mean() for one in shown]
            label = f"{arm}, {'data sheet' if model == 'datasheet' else 'identified'}"
            rounds_of_arm = [one.number for one in shown]
            first.plot(rounds_of_arm, values, style, color=COLORS[k % len(COLORS)], label=label)
    first.set_title("unseen torque, mean of joints [Nm]", size=9)
    first.set_yscale("log")
    first.legend(fontsize=6)
    units = {"friction": "-", "contact_time": "s", "contact_damping": "-"}
    for axis, (name, shown) in zip(others, surfaces.items()):
        told = np.array([one.surface.values[name] for one in shown])
        bars = np.abs(np.array([one.surface.spread[name] for one in shown]).T - told)
        axis.errorbar([one.number for one in shown], told, bars, fmt="o-", color=COLORS[1],
                      capsize=3)  # fmt: skip
        axis.set_title(f"table: {name} [{units.get(name, '')}]", size=9)
        axis.set_ylim(bottom=0.0)
    for axis in axes[0]:
        axis.set_xticks(numbers)
        axis.set_xlabel("round", size=8)
        axis.grid(alpha=0.3, which="both")
        axis.tick_params(labelsize=7, which="both")
    return png(figure, plots)


def gain_plots(gains: Sequence[Gain]) -> str:
    """Return true forces and errors of measured ones without and with the model, as a PNG."""
    plots = pyplot()
    shown = [gain for gain in gains if gain.series]
    figure, axes = plots.subplots(
        2, len(shown), figsize=(5.5 * len(shown), 5.0), squeeze=False, sharex=True
    )
    for column, gain in zip(axes.T, shown):
        for color, side in zip(COLORS[1::-1], SIDES):
            own = gain.series[side]
            column[0].plot(own["time"], own["true"], color=color, lw=1.0, label=side)
            length = sum(own[f"error {axis}"] ** 2 for axis in "xyz") ** 0.5
            column[1].plot(own["time"], length, color=color, lw=0.8, label=side)
        asked = gain.series[SIDES[0]]
        column[0].plot(asked["time"], asked["asked"], "k:", lw=1.0, label="asked for")
        column[0].set_title(f"task {gain.number}, {gain.law}: force of the contact [N]", size=9)
        column[1].set_title("measured less true force, length [N]", size=9)
        column[1].set_xlabel("time [s]", size=8)
        for axis in column:
            axis.grid(alpha=0.3)
            axis.tick_params(labelsize=7)
            axis.legend(fontsize=6)
    return png(figure, plots)
