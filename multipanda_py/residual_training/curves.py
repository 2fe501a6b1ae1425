# SPDX-License-Identifier: Apache-2.0
"""Pictures of a training, and of what it gained."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from multipanda_py.extras import pyplot
from multipanda_py.logs.plots import COLORS
from multipanda_py.machine.whole_file import save_figure
from multipanda_py.residual.weights_file import TrainedResidual
from multipanda_py.residual_training.paired_motions import PairedMotion
from multipanda_py.residual_training.train import History


def draw_history(history: History, path: Path) -> None:
    """Draw the loss by epoch."""
    plots = pyplot()
    figure, axes = plots.subplots(figsize=(6.0, 3.5))
    epochs = np.arange(1, len(history.train) + 1)
    axes.semilogy(epochs, history.train, color=COLORS[0], lw=1.0, label="training")
    axes.semilogy(epochs, history.validation, color=COLORS[1], lw=1.0, label="validation")
    axes.set_xlabel("epoch")
    axes.set_ylabel("share of the residual's mean square")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    save_figure(figure, path)
    plots.close(figure)


def draw_torques(trained: TrainedResidual, motion: PairedMotion, path: Path) -> None:
    """Draw the torques of plant, twin, and twin with the residual, joint by joint."""
    plots, n = pyplot(), len(trained.joints)
    hat = trained.run(motion.twin)
    time = np.arange(len(motion.twin)) / trained.rate
    figure, rows = plots.subplots(n, 1, figsize=(8.0, 1.5 * n), sharex=True, squeeze=False)
    for joint, row in enumerate(rows[:, 0]):
        place = 2 * n + joint
        scale = trained.normalisation
        for series, color, style, label in (
            (motion.plant, COLORS[0], "-", "plant"),
            (motion.twin, COLORS[1], "--", "twin"),
            (motion.twin + hat, COLORS[2], "-", "twin with the residual"),
        ):
            torque = series[:, place] * scale.span[place] + scale.low[place]
            row.plot(time, torque, style, color=color, lw=1.0, label=label)
        row.set_ylabel(f"{trained.joints[joint][-8:]}\n[Nm]", fontsize=7)
        row.tick_params(labelsize=7)
        row.grid(alpha=0.3)
    rows[0, 0].legend(fontsize=7, ncols=3)
    rows[-1, 0].set_xlabel("time [s]", fontsize=8)
    figure.tight_layout()
    save_figure(figure, path)
    plots.close(figure)
