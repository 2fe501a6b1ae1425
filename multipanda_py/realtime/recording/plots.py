# SPDX-License-Identifier: Apache-2.0
"""Plots of a log: measured values and limits, targets, forces, faults and timing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import LogError
from multipanda_py.files import save_figure
from multipanda_py.realtime.cycle_record import TRACED_CHANNELS
from multipanda_py.realtime.recording.arm_log import ArmLog
from multipanda_py.realtime.recording.log import Log
from multipanda_py.registry import pyplot
from multipanda_py.robots import MODELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".png", ".svg", ".pdf")
COLORS = ("#3b75af", "#c4663a", "#6b9e5b", "#8a6bab", "#b8a03c", "#6f6f6f", "#3d9a9a", "#b04a6f")
_MAX_POINTS = 4000
"""Maximum number of points of a curve; more are not visible."""
_MIN_RANGE = 0.01
"""Minimum range of the vertical axis of a panel, in its unit."""
_BANDS = ("#dfe8f2", "#f5e6dc", "#e4efdf", "#ece4f2", "#f4efd6", "#e8e8e8")


def draw(log: Log, output: Path) -> list[Path]:
    """Plot each arm to an image file; with several arms, file names end with the arm's name.

    Args:
        log: Log to plot.
        output: Path of the image, with one of the suffixes :data:`SUFFIXES`.

    Raises:
        LogError: If the suffix is unknown, or the folder cannot be created.
        ConfigurationError: If an image cannot be written.
        MissingExtra: If matplotlib is missing.
    """
    if output.suffix.lower() not in SUFFIXES:
        raise LogError(f"{output}: got {output.suffix!r}, allowed {', '.join(SUFFIXES)}")
    pyplot()  # Raises MissingExtra before a folder is created.
    drawn = []
    for name, arm in log.arms.items():
        several = len(log.arms) > 1
        path = output.with_name(f"{output.stem}_{name}{output.suffix}") if several else output
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LogError(f"{path}: cannot be written: {error.strerror}") from None
        _draw_arm(log, arm, path)
        drawn.append(path)
    return drawn


def _draw_arm(log: Log, arm: ArmLog, path: Path) -> None:
    plots = pyplot()
    shown = arm.part(slice(None, None, max(1, len(arm) // _MAX_POINTS)))
    panels = _panels_of_log(shown)
    if len(arm) > 2:
        panels.append(_timing_panel(arm, shown))
    figure, axes = plots.subplots(
        len(panels), 1, figsize=(13.0, 1.0 + 1.9 * len(panels)), sharex=True, squeeze=False
    )
    for axis, (label, curves, bounds) in zip(axes[:, 0], panels):
        _draw_panel(axis, shown, label, curves, bounds)
        _shade_by_controllet(axis, log, arm, is_named=axis is axes[0, 0])
        _mark_faults(axis, log, arm, is_named=axis is axes[0, 0])
        for start, end in arm.gaps():
            axis.axvspan(start, end, color="0.6", alpha=0.4, lw=0)
    axes[-1, 0].set_xlabel("robot time [s]")
    axes[-1, 0].set_xlim(arm.time[0], arm.time[-1] if len(arm) > 1 else arm.time[0] + 1.0)
    title = f"{arm.arm} ({arm.robot or 'unknown robot'}), {arm.duration:.1f} s"
    figure.suptitle(f"{title} at {arm.rate:.0f} Hz, {len(arm.gaps())} gaps", size=10)
    figure.tight_layout()
    save_figure(figure, path)
    plots.close(figure)


# A curve has a name, values (n,) and a line style. A panel has an axis label, curves, and lower
# and upper limits with one element per curve.
Curves = list[tuple[str, NDArray[np.float64], str]]
Panel = tuple[str, Curves, tuple[NDArray[np.float64], NDArray[np.float64]] | None]


def _panels_of_log(log: ArmLog) -> list[Panel]:
    robot = log.robot
    limits = MODELS[robot].limits if robot is not None and robot in MODELS else None
    panels: list[Panel] = []

    def joints(label: str, values: Any, bounds: Any = None) -> None:
        curves = [(name, values[:, k], "-") for k, name in enumerate(log.joints)]
        panels.append((label, curves, bounds))

    joints("q [rad]", log.q, (limits.lower, limits.upper) if limits else None)
    if log.dq is not None:
        joints("dq [rad/s]", log.dq, (-limits.velocity, limits.velocity) if limits else None)
    if log.tau is not None:
        max_value = (-limits.torque, limits.torque) if limits else None
        joints("measured\ntorque [Nm]", log.tau, max_value)
    if log.tau_commanded is not None:
        joints("commanded\ntorque [Nm]", log.tau_commanded)
    if "tau_ext" in log.names:
        joints("external\ntorque [Nm]", log["tau_ext"])
    bits = log["target_channels"] if "target_channels" in log.names else np.zeros(len(log), int)
    pose, joint = ((bits & 1 << TRACED_CHANNELS.index(one)) != 0 for one in ("pose", "joint"))
    if pose.any():
        off = 1e3 * (log["target_pose"][:, :3] - log["position_ee_in_base"])
        error = np.where(pose[:, None], off, np.nan)
        panels.append(("end effector: target\nminus pose [mm]", _axes(error, "xyz"), None))
    elif "position_ee_in_base" in log.names:
        panels.append(
            ("end effector\nin base [m]", _axes(log["position_ee_in_base"], "xyz"), None)
        )
    if joint.any():
        error = np.where(joint[:, None], log["target_joint"][:, 0] - log.q, np.nan)
        joints("joints: target\nminus q [rad]", error)
    if "wrench_ext_in_base" in log.names:
        panels.append(
            ("external\nforce [N]", _axes(log["wrench_ext_in_base"][:, :3], "xyz"), None)
        )
    return panels


def _timing_panel(full_log: ArmLog, shown_log: ArmLog) -> Panel:
    step = 1e3 * np.diff(full_log.time, append=full_log.time[-1] + full_log.period)
    # Each plotted point is the maximum over all samples up to the next plotted point.
    longest = np.maximum.reduceat(step, np.searchsorted(full_log.time, shown_log.time))
    return "time between\nsamples [ms]", [("", longest, "-")], None


def _axes(values: NDArray[np.float64], names: str) -> Curves:
    return [(name, values[:, k], "-") for k, name in enumerate(names)]


def _draw_panel(
    axis: Axes,
    log: ArmLog,
    label: str,
    curves: Curves,
    bounds: tuple[NDArray[np.float64], NDArray[np.float64]] | None,
) -> None:
    for k, (name, values, style) in enumerate(curves):
        color = COLORS[k % len(COLORS)]
        axis.plot(log.time, values, style, color=color, lw=0.9, label=name or None)
    low, high = axis.get_ylim()
    if high - low < _MIN_RANGE:  # The curve contains only rounding errors.
        low, high = 0.5 * (low + high - _MIN_RANGE), 0.5 * (low + high + _MIN_RANGE)
        axis.set_ylim(low, high)
    if bounds is not None:
        for k in range(len(curves)):
            for bound in (bounds[0][k], bounds[1][k]):
                if low - 0.3 * (high - low) < bound < high + 0.3 * (high - low):
                    axis.axhline(bound, color=COLORS[k % len(COLORS)], lw=0.7, ls=":")
    axis.set_ylabel(label, size=8)
    axis.tick_params(labelsize=8)
    axis.grid(color="0.9", lw=0.5)
    if len(curves) > 1:
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7, frameon=False)


def _shade_by_controllet(axis: Axes, log: Log, arm: ArmLog, *, is_named: bool) -> None:
    changes = [mark for mark in log.marks if mark.kind == "law" and mark.arm == arm.arm]
    colors = {law: _BANDS[k % len(_BANDS)] for k, law in enumerate(arm.laws)}
    ends = [mark.time for mark in changes[1:]] + [float(arm.time[-1])]
    for mark, end in zip(changes, ends):
        axis.axvspan(mark.time, end, color=colors.get(mark.text, "1.0"), zorder=0, lw=0)
        if is_named and end - mark.time > 0.08 * max(arm.duration, 1e-9):
            axis.annotate(
                mark.text.rpartition("/")[2], (mark.time, 1.02), fontsize=7, color="0.3",
                xycoords=("data", "axes fraction"),
            )  # fmt: skip


def _mark_faults(axis: Axes, log: Log, arm: ArmLog, *, is_named: bool) -> None:
    for mark in log.marks:
        if mark.kind in ("fault", "recovered") and mark.arm == arm.arm:
            color = "#c02020" if mark.kind == "fault" else "#208020"
            axis.axvline(mark.time, color=color, lw=1.2)
            if is_named:
                axis.annotate(
                    mark.text or mark.kind, (mark.time, 0.9), fontsize=7, color=color,
                    xycoords=("data", "axes fraction"),
                )  # fmt: skip
