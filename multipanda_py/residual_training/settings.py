# SPDX-License-Identifier: Apache-2.0
"""How a network of residuals is trained."""

from __future__ import annotations

import math
from dataclasses import dataclass

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.residual.network import REAL_TIME


@dataclass(frozen=True)
class TrainingSettings:
    """How a network is trained.

    Attributes:
        kind: ``real_time`` or ``precise``.
        units: Of each layer and direction; 0 takes 3 n.
        epochs: At most; in one, as many intervals are drawn as there are motions.
        batch: Intervals of a step.
        rate: Of learning, at first; it falls like a cosine.
        decay: Of weights, by AdamW.
        patience: Epochs without gain on the validation's motions that end the training.
        share: Of the shortest motion, that an interval is long.
        dropout: Share of samples whose state is left out, as of messages that were lost.
        weights: Of errors of positions, velocities and torques; what weighs nothing is left alone.
        speeds: What speeds are compared with, see :class:`.Inputs` [rad/s].
        distances: After which springs slip, likewise [rad, m].
        direct: Whether speeds and springs explain what they can first, see :func:`.fit_direct`.
        seed: Of weights, intervals and dropout.

    Raises:
        ConfigurationError: If one is out of its range.
    """

    kind: str = REAL_TIME
    units: int = 0
    epochs: int = 2000
    batch: int = 32
    rate: float = 6e-3
    decay: float = 0.1
    patience: int = 500
    share: float = 1.0
    dropout: float = 0.0
    weights: tuple[float, float, float] = (0.1, 0.0, 1.0)
    speeds: tuple[float, ...] = (0.002, 0.01, 0.05)
    distances: tuple[float, ...] = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
    direct: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        for name, low, high in (
            ("units", 0, 512), ("epochs", 1, 100_000), ("batch", 1, 4096), ("rate", 1e-6, 1.0),
            ("patience", 1, 100_000), ("share", 0.01, 1.0), ("dropout", 0.0, 0.9),
            ("decay", 0.0, 10.0),
        ):  # fmt: skip
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigurationError(f"{name}: got {value:g}, allowed {low:g} to {high:g}")
        finite = all(0.0 <= weight < math.inf for weight in self.weights)
        if not finite or not any(self.weights):
            raise ConfigurationError(
                f"weights: got {self.weights}, allowed three of 0 and more, one above 0, finite"
            )
