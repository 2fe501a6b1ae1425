# SPDX-License-Identifier: Apache-2.0
"""Motions as networks of residuals learn them, and intervals of these."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.residual.body_difference import BodyDifference
from multipanda_py.residual.inputs import Inputs
from multipanda_py.residual_training.paired_motions import PairedMotion, PairedMotions
from multipanda_py.residual_training.torch_network import Standard
from multipanda_py.state import Matrix, Vector

TINY = 1e-9
BEGIN = 1.0 / 3.0
"""Share of an interval's length that more of them begin where their motion does, at rest."""


@dataclass(frozen=True, eq=False)
class SeenMotion:
    """A motion as a network learns it.

    Attributes:
        inputs: (k, m).
        residual: What the bodies leave over, normalised, (k, 3 n).
    """

    inputs: Matrix
    residual: Matrix

    @classmethod
    def of(
        cls, motion: PairedMotion, pairs: PairedMotions, inputs: Inputs,
        bodies: BodyDifference | None,
    ) -> SeenMotion:  # fmt: skip
        """Return that of a motion of a table."""
        scale, n = pairs.normalisation, pairs.normalisation.joints
        residual = motion.residual.copy()
        if bodies is not None:
            q, dq, _ = np.hsplit(scale.state_of(motion.twin), 3)
            residual[:, 2 * n :] -= bodies.run(q, dq, pairs.rate) / scale.span[2 * n :]
        return cls(inputs.rows(motion.twin), residual)


def standard_of(motions: list[SeenMotion]) -> Standard:
    """Return what inputs and residuals are like; what does not change counts as it is."""
    inputs = np.vstack([one.inputs for one in motions])
    spread, size = inputs.std(axis=0), np.sqrt(_squares(motions))
    usual = np.where(spread > TINY, spread, 1.0), np.where(size > TINY, size, 1.0)
    return Standard(inputs.mean(axis=0), *usual)


def _squares(motions: list[SeenMotion]) -> Vector:
    found: Vector = np.square(np.vstack([one.residual for one in motions])).mean(axis=0)
    return found


def weights_of(motions: list[SeenMotion], weights: tuple[float, float, float]) -> Vector:
    """Return the weight of every element of a residual, (3 n,)."""
    squares = _squares(motions)
    found: Vector = np.repeat(weights, len(squares) // 3) / np.maximum(squares, 1e-12)
    return found


def intervals_of(
    motions: list[SeenMotion], length: int, batch: int, rng: np.random.Generator
) -> tuple[Matrix, Matrix]:
    """Return a batch of inputs (b, length, m) and residuals (b, length, 3 n)."""
    chosen = rng.integers(len(motions), size=batch)
    early = -int(BEGIN * length)
    starts = [
        max(0, int(rng.integers(early, len(motions[k].inputs) - length + 1))) for k in chosen
    ]
    parts = [(motions[k], slice(s, s + length)) for k, s in zip(chosen, starts)]
    inputs = np.stack([one.inputs[part] for one, part in parts])
    residuals = np.stack([one.residual[part] for one, part in parts])
    return inputs, residuals
