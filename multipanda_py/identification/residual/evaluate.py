# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a learned residual on test motions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files import save_figure
from multipanda_py.identification.residual.motions import PairedMotion, PairedMotions
from multipanda_py.identification.residual.train import History
from multipanda_py.realtime.recording.plots import COLORS
from multipanda_py.registry import pyplot
from multipanda_py.robots.residual.inputs import QUANTITIES
from multipanda_py.robots.residual.weights import TrainedResidual
from multipanda_py.state import Matrix


def draw_history(history: History, path: Path) -> None:
    plots = pyplot()
    figure, axes = plots.subplots(figsize=(6.0, 3.5))
    epochs = np.arange(1, len(history.train) + 1)
    axes.semilogy(epochs, history.train, color=COLORS[0], lw=1.0, label="training")
    axes.semilogy(epochs, history.validation, color=COLORS[1], lw=1.0, label="validation")
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss, relative to the mean square of the residual")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    save_figure(figure, path)
    plots.close(figure)


def draw_torques(trained: TrainedResidual, motion: PairedMotion, path: Path) -> None:
    """Plot the torques of each joint of plant, twin, and twin with the learned residual."""
    plots, n = pyplot(), len(trained.joints)
    hat = trained.run(motion.twin)
    time = np.arange(len(motion.twin)) / trained.rate
    figure, rows = plots.subplots(n, 1, figsize=(8.0, 1.5 * n), sharex=True, squeeze=False)
    for joint, row in enumerate(rows[:, 0]):
        index = 2 * n + joint
        scale = trained.normalisation
        for series, color, style, label in (
            (motion.plant, COLORS[0], "-", "plant"),
            (motion.twin, COLORS[1], "--", "twin"),
            (motion.twin + hat, COLORS[2], "-", "twin with the residual"),
        ):
            torque = series[:, index] * scale.span[index] + scale.low[index]
            row.plot(time, torque, style, color=color, lw=1.0, label=label)
        row.set_ylabel(f"{trained.joints[joint][-8:]}\n[Nm]", fontsize=7)
        row.tick_params(labelsize=7)
        row.grid(alpha=0.3)
    rows[0, 0].legend(fontsize=7, ncols=3)
    rows[-1, 0].set_xlabel("time [s]", fontsize=8)
    figure.tight_layout()
    save_figure(figure, path)
    plots.close(figure)


MOTION_KINDS = ("multi", "single", "linear")
UNITS = ("rad", "rad/s", "Nm")


@dataclass(frozen=True, eq=False)
class ResidualGain:
    """Mean square errors of a twin in one kind of motions, without and with the learned residual.

    Attributes:
        kind: Kind of the motions: ``multi``, ``single`` or ``linear``.
        motions: Number of motions.
        before: Errors without the residual, (3, n): positions, velocities and torques of n joints
            [rad^2, (rad/s)^2, Nm^2].
        after: Errors with the residual, (3, n), in the same order.
    """

    kind: str
    motions: int
    before: Matrix
    after: Matrix

    @property
    def ratio(self) -> Matrix:
        """Errors without the residual divided by those with it, (3, n)."""
        return self.before / np.maximum(self.after, 1e-300)


def evaluate(trained: TrainedResidual, pairs: PairedMotions) -> list[ResidualGain]:
    """Compute the errors with and without the residual on the test motions, by kind.

    Args:
        trained: Residual network.
        pairs: Paired motions, of which the test motions are used.

    Raises:
        ConfigurationError: If robot or rate differ from the training, or test motions are missing.
    """
    fits = (pairs.robot, len(pairs.joints), pairs.rate)
    own = (trained.robot, len(trained.joints), trained.rate)
    if fits != own:
        raise ConfigurationError(
            "data: got {} with {} joints at {:g} Hz, but the residual was trained on {} with {} "
            "joints at {:g} Hz".format(*fits, *own)
        )
    if pairs.joints != trained.joints:
        raise ConfigurationError(
            f"data: got joints {', '.join(pairs.joints)}, but the residual was trained on "
            f"{', '.join(trained.joints)}"
        )
    result = [
        _gain(trained, pairs, kind, motions)
        for kind in MOTION_KINDS if (motions := pairs.select("test", [kind]))
    ]  # fmt: skip
    if not result:
        raise ConfigurationError("data: got no test motions. Use a table with a test split.")
    return result


def _gain(
    trained: TrainedResidual, pairs: PairedMotions, kind: str, motions: list[PairedMotion]
) -> ResidualGain:
    span = pairs.normalisation.span
    n = pairs.normalisation.joints
    before, after = [], []
    for one in motions:
        before.append(one.residual * span)
        after.append((one.residual - trained.run(one.twin)) * span)
    squares = [np.square(np.vstack(part)).mean(axis=0).reshape(3, n) for part in (before, after)]
    return ResidualGain(kind, len(motions), *squares)


def table(gains: list[ResidualGain]) -> str:
    """Return a Markdown table of mean square errors without and with the learned residual.

    It contains the torque error of each joint, and the position and velocity errors as means over
    the joints.

    Args:
        gains: Errors for each kind of motions.
    """
    lines = []
    for gain in gains:
        n = gain.before.shape[1]
        lines += [
            f"{gain.kind}, {gain.motions} motions", "",
            "| mean square of torque [Nm^2] | " + " | ".join(f"joint {k + 1}" for k in range(n))
            + " |", "|---" * (n + 1) + "|",
        ]  # fmt: skip
        for name, row in (("twin", gain.before), ("with the residual", gain.after)):
            lines.append(f"| {name} | " + " | ".join(f"{v:.3g}" for v in row[2]) + " |")
        lines.append("| ratio | " + " | ".join(f"{v:.3g}" for v in gain.ratio[2]) + " |")
        for index in (0, 1):
            lines += ["", f"{QUANTITIES[index]}: {gain.before[index].mean():.3g} before, "
                          f"{gain.after[index].mean():.3g} after ({UNITS[index]})^2"]  # fmt: skip
        lines.append("")
    return "\n".join(lines)
