# SPDX-License-Identifier: Apache-2.0
"""A picture of torques over deflections, as measured and as the springs found tell them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py import registry
from multipanda_py.extras import pyplot
from multipanda_py.identification.spring_data import SpringData
from multipanda_py.identification.springs import FoundSprings

LINES = 6
"""Presets that are told apart, at most."""


def draw_springs(
    found: Sequence[FoundSprings], columns: Mapping[str, Mapping[str, ArrayLike]], path: Path
) -> None:
    """Draw the first torque of every joint over the deflection, and what the springs leave of it.

    Args:
        found: Springs of each joint.
        columns: What they were found from, likewise, by title.
        path: Of the picture.

    Raises:
        MissingExtra: If matplotlib is missing.
    """
    plots = pyplot()
    figure, axes = plots.subplots(
        2, len(found), figsize=(1.5 + 5.0 * len(found), 5.5), sharex="col", squeeze=False,
        height_ratios=(3, 1), layout="constrained",
    )  # fmt: skip
    for (title, own), one, (top, bottom) in zip(columns.items(), found, axes.T):
        springs = registry.find("actuators", one.kind)(1, one.params)
        data = SpringData.of(own, springs, title)
        told = data.told_by(springs)[:, 0, 0] + (one.offset[0] if one.offset else 0.0)
        deflection = springs.equilibrium_of(data.theta_1, data.theta_2) - data.q
        presets = springs.preset_of(data.theta_1, data.theta_2) if springs.n_motors == 2 else None
        for k, (rows, label) in enumerate(_by_preset(presets, len(data), springs.preset_unit)):
            order = rows[np.argsort(deflection[rows])]
            color, measured = f"C{k}", data.torques[rows, 0]
            top.plot(deflection[rows], measured, ".", ms=3, alpha=0.4, color=color)
            top.plot(deflection[order], told[order], color=color, lw=1.5, label=label)
            bottom.plot(deflection[rows], measured - told[rows], ".", ms=2, alpha=0.5, color=color)
        bottom.axhline(0.0, color="0.6", lw=0.8)
        top.set_title(Path(title).name, fontsize=10)
        top.set_ylabel(f"{data.names[0]} [Nm]")
        top.legend(fontsize=8, title=f"{one.kind}: dots measured, lines found", title_fontsize=8)
        bottom.set_ylabel("residual [Nm]")
        bottom.set_xlabel("equilibrium less joint [rad]")
        for axis in (top, bottom):
            axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    plots.close(figure)


def _by_preset(
    presets: np.ndarray | None, samples: int, unit: str
) -> list[tuple[np.ndarray, str]]:
    """Return rows of similar presets, and what they are called."""
    if presets is None:
        return [(np.arange(samples), "springs")]
    edges = np.unique(np.round(presets, 4))
    if len(edges) > LINES:
        edges = np.linspace(presets.min(), presets.max(), LINES)
    nearest = np.abs(presets[:, None] - edges).argmin(axis=1)
    return [
        (np.flatnonzero(nearest == k), f"preset {edge:.3g} {unit}")
        for k, edge in enumerate(edges)
        if (nearest == k).any()
    ]
