# SPDX-License-Identifier: Apache-2.0
"""A picture of what an identified model leaves of torques that it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from multipanda_py.extras import pyplot
from multipanda_py.identification.identify import Identified
from multipanda_py.machine.whole_file import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = ("datasheet", "consistent")


def draw_residuals(found: Identified, path: Path) -> None:
    """Draw measured torques and residuals of every joint over the held-out time.

    Raises:
        MissingExtra: If matplotlib is missing.
    """
    plots = pyplot()
    limits, joints = found.robot.limits, found.robot.joints
    n = len(joints)
    figure, axes = plots.subplots(
        n, 2, figsize=(11.0, 1.5 * n + 1.0), sharex=True, squeeze=False, layout="constrained"
    )
    time = found.time - found.time[0]
    for i, (left, right) in enumerate(axes):
        unit = limits.unit(i, "Nm")
        left.plot(time, found.measured[:, i], color="0.2", lw=1.2, label="measured")
        modelled = found.measured[:, i] - found.residual["consistent"][:, i]
        left.plot(time, modelled, color="tab:blue", lw=1.0, ls="--", label="identified model")
        for name, color in zip(SHOWN, ("tab:orange", "tab:blue")):
            rmse = found.held_out[name][i]
            label = f"{'identified' if name == 'consistent' else name}: {rmse:.3g} {unit}"
            right.plot(time, found.residual[name][:, i], color=color, lw=1.0, label=label)
        right.axhline(0.0, color="0.7", lw=0.6)
        left.set_ylabel(f"{joints[i].name} [{unit}]", fontsize=8)
        _legend(right)
        for one in (left, right):
            one.tick_params(labelsize=7)
            one.margins(x=0.0)
    axes[0, 0].set_title("torque of held-out motion", fontsize=10, pad=18)
    axes[0, 1].set_title("what the models leave of it (RMSE)", fontsize=10, pad=18)
    _legend(axes[0, 0])
    for one in axes[-1]:
        one.set_xlabel("time [s]", fontsize=8)
    if np.any(np.diff(found.time) < 0.0):  # several logs: their times are not one
        for one in axes[-1]:
            one.set_xlabel("time in its log [s]", fontsize=8)
    save_figure(figure, path)
    plots.close(figure)


def _legend(axis: Axes) -> None:
    """Name curves above the panel: within it something is always behind the names."""
    axis.legend(
        fontsize=7, loc="lower right", bbox_to_anchor=(1.0, 0.97), ncols=2, frameon=False,
        borderaxespad=0.0,
    )  # fmt: skip
