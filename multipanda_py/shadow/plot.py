# SPDX-License-Identifier: Apache-2.0
"""An arm and its twin drawn, with the band of good runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from multipanda_py.extras import pyplot
from multipanda_py.logs.plots import COLORS
from multipanda_py.machine.whole_file import save_figure
from multipanda_py.shadow.arm_shadow import Shadowed
from multipanda_py.shadow.band import ArmBand
from multipanda_py.shadow.quantities import QUANTITIES, places
from multipanda_py.shadow.watch import Alarm
from multipanda_py.state import Matrix, Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 4000


def draw_shadow(
    parts: Sequence[Shadowed], output: Path, band: ArmBand | None = None,
    alarms: Sequence[Alarm] = (),
) -> None:  # fmt: skip
    """Draw positions and torques of both, and every residual in its band.

    Args:
        parts: What was shadowed of one arm, in its order.
        output: The picture; its suffix is one of :data:`.SUFFIXES`.
        band: Of good runs.
        alarms: What was said of this arm.
    """
    plots = pyplot()
    count = sum(len(part.log) for part in parts)
    thin = slice(None, None, max(1, count // _POINTS))
    time = np.concatenate([part.time for part in parts])[thin]
    joints = parts[0].log.joints
    at = places(len(joints))
    residuals = np.vstack([part.residuals for part in parts])[thin]
    shown = [q for q in QUANTITIES if np.isfinite(residuals[:, at[q.name]]).any()]
    figure, axes = plots.subplots(
        len(shown) + 2, 1, figsize=(13.0, 1.2 + 1.9 * (len(shown) + 2)), sharex=True
    )
    both = (
        (axes[0], "q [rad]", [part.log.q for part in parts], [part.q for part in parts]),
        (axes[1], "torque [Nm]", [_tau(part) for part in parts], [part.tau for part in parts]),
    )
    for axis, label, measured, twin in both:
        _curves(axis, time, np.vstack(measured)[thin], joints, "-", named=True)
        _curves(axis, time, np.vstack(twin)[thin], joints, "--")
        axis.set_ylabel(f"{label}\narm -, twin - -", size=8)
    for axis, quantity in zip(axes[2:], shown):
        place = at[quantity.name]
        labels = quantity.labels(joints)
        values = residuals[:, place]
        if band is None or not np.isfinite(band.low[place]).all():
            _curves(axis, time, values, labels, "-", named=True)
            axis.set_ylabel(f"{quantity.name}\nresidual [{quantity.unit}]", size=8)
        else:
            low, high = band.low[place], band.high[place]
            share = (values - 0.5 * (low + high)) / (0.5 * (high - low))
            _curves(axis, time, share, labels, "-", named=True)
            axis.axhspan(-1.0, 1.0, color="#e4efdf", zorder=0, lw=0)
            axis.set_ylabel(f"{quantity.name}:\nshare of band", size=8)
            axis.set_ylim(*np.clip(axis.get_ylim(), -5.0, 5.0))
        for alarm in alarms:
            if alarm.quantity == quantity.name:
                axis.axvline(alarm.time, color="#c02020", lw=1.0)
    judged = np.concatenate([part.judged for part in parts])[thin]
    for axis in axes[2:]:
        axis.fill_between(
            time, 0, 1, where=~judged, transform=axis.get_xaxis_transform(), color="0.85", lw=0
        )
    axes[-1].set_xlabel("robot time [s], grey: not judged")
    said = f", {len(alarms)} times outside its band" if band is not None else ""
    log = parts[0].log
    axes[0].set_title(f"{log.arm} ({log.robot or 'unknown robot'}) and its twin{said}", size=10)
    figure.tight_layout()
    save_figure(figure, output)
    plots.close(figure)


def _tau(part: Shadowed) -> Matrix:
    return np.full_like(part.tau, np.nan) if part.log.tau is None else part.log.tau


def _curves(
    axis: Axes,
    time: Vector,
    values: Matrix,
    labels: Sequence[str],
    style: str,
    *,
    named: bool = False,
) -> None:
    for k, label in enumerate(labels):
        color = COLORS[k % len(COLORS)]
        axis.plot(time, values[:, k], style, color=color, lw=0.9, label=label if named else None)
    axis.tick_params(labelsize=8)
    axis.grid(color="0.9", lw=0.5)
    if named:
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7, frameon=False)
