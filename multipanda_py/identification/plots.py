# SPDX-License-Identifier: Apache-2.0
"""Plots of identification results: twin residuals, torque models and spring characteristics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py import registry
from multipanda_py.files import save_figure
from multipanda_py.identification.actuators.springs import SpringData, SpringEstimate
from multipanda_py.identification.arm.identify import Identified
from multipanda_py.identification.monitor.arm_monitor import (
    QUANTITIES,
    MonitoredLog,
    residual_slices,
)
from multipanda_py.identification.monitor.band import ArmBand
from multipanda_py.identification.monitor.cell_monitor import Alarm
from multipanda_py.realtime.recording.plots import COLORS
from multipanda_py.registry import pyplot
from multipanda_py.state import Matrix, Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_POINTS = 4000  # Approximate maximum number of plotted points of a curve.


def draw_monitor(
    parts: Sequence[MonitoredLog], output: Path, band: ArmBand | None = None,
    alarms: Sequence[Alarm] = (),
) -> None:  # fmt: skip
    """Plot positions and torques of arm and twin, and every residual with its range in good runs.

    Args:
        parts: Consecutive chunks of the log of one arm with its twin.
        output: Path of the image. Its suffix is one of :data:`.SUFFIXES`.
        band: Residual ranges in good runs, or None to omit them.
        alarms: Alarms of this arm.
    """
    plots = pyplot()
    count = sum(len(part.log) for part in parts)
    thin = slice(None, None, max(1, count // _POINTS))
    time = np.concatenate([part.time for part in parts])[thin]
    joints = parts[0].log.joints
    at = residual_slices(len(joints))
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
        index = at[quantity.name]
        labels = quantity.labels(joints)
        values = residuals[:, index]
        if band is None or not np.isfinite(band.low[index]).all():
            _curves(axis, time, values, labels, "-", named=True)
            axis.set_ylabel(f"{quantity.name}\nresidual [{quantity.unit}]", size=8)
        else:
            low, high = band.low[index], band.high[index]
            relative = (values - 0.5 * (low + high)) / (0.5 * (high - low))
            _curves(axis, time, relative, labels, "-", named=True)
            axis.axhspan(-1.0, 1.0, color="#e4efdf", zorder=0, lw=0)
            axis.set_ylabel(f"{quantity.name}:\nfraction of band", size=8)
            axis.set_ylim(*np.clip(axis.get_ylim(), -5.0, 5.0))
        for alarm in alarms:
            if alarm.quantity == quantity.name:
                axis.axvline(alarm.time, color="#c02020", lw=1.0)
    judged = np.concatenate([part.evaluated for part in parts])[thin]
    for axis in axes[2:]:
        axis.fill_between(
            time, 0, 1, where=~judged, transform=axis.get_xaxis_transform(), color="0.85", lw=0
        )
    axes[-1].set_xlabel("robot time [s], grey: not evaluated")
    suffix = f", {len(alarms)} times outside its band" if band is not None else ""
    log = parts[0].log
    axes[0].set_title(f"{log.arm} ({log.robot or 'unknown robot'}) and its twin{suffix}", size=10)
    figure.tight_layout()
    save_figure(figure, output)
    plots.close(figure)


def _tau(part: MonitoredLog) -> Matrix:
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


SHOWN_ESTIMATES = ("datasheet", "consistent")


def draw_residuals(result: Identified, path: Path) -> None:
    """Plot measured torques and torque errors of every joint for the held-out samples of the logs.

    The errors are those of the robot model and of the identified model.

    Args:
        result: Result of the identification.
        path: Path of the image.

    Raises:
        MissingExtra: If matplotlib is missing.
    """
    plots = pyplot()
    limits, joints = result.robot.limits, result.robot.joints
    n = len(joints)
    figure, axes = plots.subplots(
        n, 2, figsize=(11.0, 1.5 * n + 1.0), sharex=True, squeeze=False, layout="constrained"
    )
    time = result.time - result.time[0]
    for i, (left, right) in enumerate(axes):
        unit = limits.unit(i, "Nm")
        left.plot(time, result.measured[:, i], color="0.2", lw=1.2, label="measured")
        modelled = result.measured[:, i] - result.residual["consistent"][:, i]
        left.plot(time, modelled, color="tab:blue", lw=1.0, ls="--", label="identified model")
        for name, color in zip(SHOWN_ESTIMATES, ("tab:orange", "tab:blue")):
            rmse = result.held_out[name][i]
            label = f"{'identified' if name == 'consistent' else name}: {rmse:.3g} {unit}"
            right.plot(time, result.residual[name][:, i], color=color, lw=1.0, label=label)
        right.axhline(0.0, color="0.7", lw=0.6)
        left.set_ylabel(f"{joints[i].name} [{unit}]", fontsize=8)
        _legend(right)
        for one in (left, right):
            one.tick_params(labelsize=7)
            one.margins(x=0.0)
    axes[0, 0].set_title("torque of held-out motion", fontsize=10, pad=18)
    axes[0, 1].set_title("residual torque of the models (RMSE)", fontsize=10, pad=18)
    _legend(axes[0, 0])
    for one in axes[-1]:
        one.set_xlabel("time [s]", fontsize=8)
    # If several logs are plotted one after the other, the time of each starts anew.
    if np.any(np.diff(result.time) < 0.0):
        for one in axes[-1]:
            one.set_xlabel("time in its log [s]", fontsize=8)
    save_figure(figure, path)
    plots.close(figure)


def _legend(axis: Axes) -> None:
    axis.legend(
        fontsize=7, loc="lower right", bbox_to_anchor=(1.0, 0.97), ncols=2, frameon=False,
        borderaxespad=0.0,
    )  # fmt: skip


MAX_COLOURED_PRESETS = 6
"""Maximum number of presets with separate colours."""


def draw_springs(
    matches: Sequence[SpringEstimate], columns: Mapping[str, Mapping[str, ArrayLike]], path: Path
) -> None:
    """Plot measured torque, identified springs and their residual over deflection for every joint.

    Args:
        matches: Springs of each joint.
        columns: Measured columns of each joint by title, in the same order.
        path: Path of the image.

    Raises:
        MissingExtra: If matplotlib is missing.
    """
    plots = pyplot()
    figure, axes = plots.subplots(
        2, len(matches), figsize=(1.5 + 5.0 * len(matches), 5.5), sharex="col", squeeze=False,
        height_ratios=(3, 1), layout="constrained",
    )  # fmt: skip
    for (title, own), one, (top, bottom) in zip(columns.items(), matches, axes.T):
        springs = registry.find("actuators", one.kind)(1, one.params)
        data = SpringData.of(own, springs, title)
        predicted = data.predicted_torques(springs)[:, 0, 0] + (
            one.offset[0] if one.offset else 0.0
        )
        deflection = springs.equilibrium_of(data.theta_1, data.theta_2) - data.q
        presets = springs.preset_of(data.theta_1, data.theta_2) if springs.n_motors == 2 else None
        for k, (rows, label) in enumerate(
            _groups_by_preset(presets, len(data), springs.preset_unit)
        ):
            order = rows[np.argsort(deflection[rows])]
            color, measured = f"C{k}", data.torques[rows, 0]
            top.plot(deflection[rows], measured, ".", ms=3, alpha=0.4, color=color)
            top.plot(deflection[order], predicted[order], color=color, lw=1.5, label=label)
            bottom.plot(
                deflection[rows], measured - predicted[rows], ".", ms=2, alpha=0.5, color=color
            )
        bottom.axhline(0.0, color="0.6", lw=0.8)
        top.set_title(Path(title).name, fontsize=10)
        top.set_ylabel(f"{data.names[0]} [Nm]")
        top.legend(fontsize=8, title=f"{one.kind}: dots measured, lines fitted", title_fontsize=8)
        bottom.set_ylabel("residual [Nm]")
        bottom.set_xlabel("equilibrium minus joint position [rad]")

        for axis in (top, bottom):
            axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    plots.close(figure)


def _groups_by_preset(
    presets: np.ndarray | None, samples: int, unit: str
) -> list[tuple[np.ndarray, str]]:
    """Return sample indices and label of each group of samples with similar stiffness presets."""
    if presets is None:
        # Without presets, all samples are one group.
        return [(np.arange(samples), "springs")]
    edges = np.unique(np.round(presets, 4))
    if len(edges) > MAX_COLOURED_PRESETS:
        edges = np.linspace(presets.min(), presets.max(), MAX_COLOURED_PRESETS)
    nearest = np.abs(presets[:, None] - edges).argmin(axis=1)
    return [
        (np.flatnonzero(nearest == k), f"preset {edge:.3g} {unit}")
        for k, edge in enumerate(edges)
        if (nearest == k).any()
    ]
