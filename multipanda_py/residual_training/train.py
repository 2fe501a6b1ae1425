# SPDX-License-Identifier: Apache-2.0
"""Train a network of residuals."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.extras import needed
from multipanda_py.residual.network import REAL_TIME
from multipanda_py.residual.weights_file import TrainedResidual
from multipanda_py.residual_training.paired_motions import PairedMotion, PairedMotions
from multipanda_py.residual_training.torch_network import (
    Standard,
    arrays_of,
    make_network,
    put_arrays,
)
from multipanda_py.state import Vector

LEAST_MOTIONS = 5
"""For training."""
TINY = 1e-9
SPEEDS = 4.0
SHORTEST = 10
"""Samples of an interval."""


@dataclass(frozen=True)
class TrainingSettings:
    """How a network is trained.

    Attributes:
        kind: ``real_time`` or ``precise``.
        units: Of each layer and direction; 0 takes 3 n.
        epochs: At most; in one, as many intervals are drawn as there are motions.
        batch: Intervals of a step.
        rate: Of learning, at first.
        patience: Epochs without gain on the validation's motions, after which the rate is halved,
            and three times of which end the training.
        share: Of the shortest motion, that an interval is long.
        dropout: Share of samples whose state is left out, as of messages that were lost.
        weights: Of errors of positions, velocities and torques.
        seed: Of weights, intervals and dropout.
    """

    kind: str = REAL_TIME
    units: int = 0
    epochs: int = 1000
    batch: int = 16
    rate: float = 3e-3
    patience: int = 60
    share: float = 0.5
    dropout: float = 0.0
    weights: tuple[float, float, float] = (1.0, 1.0, 1.0)
    seed: int = 0


@dataclass
class History:
    """Loss by epoch, of training and validation."""

    train: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)


def train(
    pairs: PairedMotions,
    settings: TrainingSettings,
    say: Callable[[str], None] = lambda text: None,
    keep: Callable[[TrainedResidual], None] = lambda found: None,
    begin: TrainedResidual | None = None,
) -> tuple[TrainedResidual, History]:
    r"""Return the network that is best on the validation's motions.

    The loss is the mean square of what is left of the residual,

    .. math::
        L = \frac{1}{T\, 3 n} \sum_{k, i} \omega_i \frac{(r_{k,i} - \hat r_{k,i})^2}{v_i}, \qquad
        v_i = \overline{r_i^2}

    where every element counts by its own size in the training, so that small torques of the wrist
    are learned like those of the shoulder (Realeasy weights all alike). Intervals of a batch
    begin anywhere in their motions and are as long as a share of the shortest of all.

    Args:
        pairs: The data.
        settings: How.
        say: Told how far it is.
        keep: Given the best network whenever there is a better one.
        begin: Weights to begin with; of the same kind and size.

    Raises:
        ConfigurationError: If there are too few motions, or a setting is out of its range.
        MissingExtra: If torch is missing.

    Source: Realeasy, section on training.

    Thread: one; torch uses as many as it is told.
    """
    torch = needed("torch")
    _check(settings)
    sets = {split: pairs.of(split) for split in ("train", "validation")}
    sets["validation"] = sets["validation"] or sets["train"][-1:]
    if len(sets["train"]) < LEAST_MOTIONS:
        raise ConfigurationError(
            f"motions: got {len(sets['train'])} to train with, allowed {LEAST_MOTIONS} and more"
        )
    rng = np.random.default_rng(settings.seed)
    torch.manual_seed(settings.seed)
    size = 3 * pairs.normalisation.joints
    module = make_network(settings.kind, size, settings.units or size, _standard(sets["train"]))
    if begin is not None:
        put_arrays(module, settings.kind, begin.arrays)
    shortest = min(len(one.twin) for one in sets["train"])
    length = max(SHORTEST, int(settings.share * shortest))
    weights = torch.from_numpy(_weights(sets["train"], settings)).float()
    optimiser = torch.optim.Adam(module.parameters(), settings.rate)
    history, best, best_at, halved_at = History(), np.inf, 0, 0
    state = copy.deepcopy(module.state_dict())
    for epoch in range(1, settings.epochs + 1):
        module.train()
        losses = []
        for _ in range(max(1, round(len(sets["train"]) / settings.batch))):
            states, residuals = _intervals(sets["train"], length, settings, rng)
            optimiser.zero_grad()
            off = residuals - module(states)
            loss = (weights * off * off).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimiser.step()
            losses.append(float(loss.detach()))
        history.train.append(float(np.mean(losses)))
        history.validation.append(_loss(module, sets["validation"], weights))
        if history.validation[-1] < best:
            best, best_at = history.validation[-1], epoch
            state = copy.deepcopy(module.state_dict())
        elif epoch - max(best_at, halved_at) >= settings.patience:
            halved_at = epoch
            for group in optimiser.param_groups:
                group["lr"] *= 0.5
        if epoch % 10 == 0 or epoch == settings.epochs:
            say(f"epoch {epoch} of {settings.epochs}: {history.train[-1]:.4f}, validation "
                f"{history.validation[-1]:.4f}, best {best:.4f} in epoch {best_at}")  # fmt: skip
            module_state = copy.deepcopy(module.state_dict())
            module.load_state_dict(state)
            keep(_trained(module, pairs, settings, sets["train"]))
            module.load_state_dict(module_state)
        if epoch - best_at >= 3 * settings.patience:
            say(f"epoch {epoch}: no gain since epoch {best_at}")
            break
    module.load_state_dict(state)
    return _trained(module, pairs, settings, sets["train"]), history


def _check(settings: TrainingSettings) -> None:
    for name, low, high in (
        ("units", 0, 512), ("epochs", 1, 100_000), ("batch", 1, 4096), ("rate", 1e-6, 1.0),
        ("patience", 1, 100_000), ("share", 0.01, 1.0), ("dropout", 0.0, 0.9),
    ):  # fmt: skip
        value = getattr(settings, name)
        if not low <= value <= high:
            raise ConfigurationError(f"{name}: got {value:g}, allowed {low:g} to {high:g}")
    if min(settings.weights) < 0.0 or not max(settings.weights) > 0.0:
        raise ConfigurationError(
            f"weights: got {settings.weights}, allowed three of 0 and more, one above 0"
        )


def _standard(motions: list[PairedMotion]) -> Standard:
    """Return what states and residuals are like; what does not change counts as it is.

    Friction changes within a small part of the speeds: these are spread out more.
    """
    states = np.vstack([one.twin for one in motions])
    residuals = np.vstack([one.residual for one in motions])
    spread, n = states.std(axis=0), states.shape[1] // 3
    spread[n : 2 * n] /= SPEEDS
    size = np.sqrt(np.square(residuals).mean(axis=0))
    usual = np.where(spread > TINY, spread, 1.0), np.where(size > TINY, size, 1.0)
    return Standard(states.mean(axis=0), *usual)


def _weights(motions: list[PairedMotion], settings: TrainingSettings) -> Vector:
    """Return the weight of every element of a residual, (3 n,)."""
    squares = np.mean(np.square(np.vstack([one.residual for one in motions])), axis=0)
    n = len(squares) // 3
    found: Vector = np.repeat(settings.weights, n) / np.maximum(squares, 1e-12)
    return found


def _intervals(
    motions: list[PairedMotion], length: int, settings: TrainingSettings, rng: np.random.Generator
) -> tuple[Any, Any]:
    """Return a batch of states and residuals, (b, length, 3 n)."""
    torch = needed("torch")
    chosen = rng.integers(len(motions), size=settings.batch)
    starts = [int(rng.integers(len(motions[k].twin) - length + 1)) for k in chosen]
    states = np.stack([motions[k].twin[s : s + length] for k, s in zip(chosen, starts)])
    residuals = np.stack([motions[k].residual[s : s + length] for k, s in zip(chosen, starts)])
    if settings.dropout > 0.0:
        lost = rng.random(states.shape[:2]) < settings.dropout
        states[lost] = 0.0
    return torch.from_numpy(states).float(), torch.from_numpy(residuals).float()


def _loss(module: Any, motions: list[PairedMotion], weights: Any) -> float:
    """Return the loss over whole motions."""
    torch = needed("torch")
    module.eval()
    total = count = 0.0
    with torch.no_grad():
        for one in motions:
            off = (
                torch.from_numpy(one.residual).float()
                - module(torch.from_numpy(one.twin[None]).float())[0]
            )
            total += float((weights * off * off).sum())
            count += off.numel()
    return total / count


def _trained(
    module: Any, pairs: PairedMotions, settings: TrainingSettings, motions: list[PairedMotion]
) -> TrainedResidual:
    """Return the network with what it was trained on."""
    states = np.vstack([one.twin for one in motions])
    residuals = np.abs(np.vstack([one.residual for one in motions]))
    return TrainedResidual(
        settings.kind, arrays_of(module, settings.kind), pairs.normalisation, pairs.robot,
        pairs.joints, pairs.rate, states.min(axis=0), states.max(axis=0), residuals.max(axis=0),
        pairs.digest,
    )  # fmt: skip
