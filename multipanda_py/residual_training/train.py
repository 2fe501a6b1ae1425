# SPDX-License-Identifier: Apache-2.0
"""Train a network of residuals."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.extras import needed
from multipanda_py.residual.body_difference import BodyDifference
from multipanda_py.residual.inputs import Inputs
from multipanda_py.residual.network import LAYERS, layer
from multipanda_py.residual.weights_file import TrainedResidual
from multipanda_py.residual_training.fit_direct import fit_direct
from multipanda_py.residual_training.paired_motions import PairedMotions
from multipanda_py.residual_training.seen_motions import (
    SeenMotion,
    intervals_of,
    standard_of,
    weights_of,
)
from multipanda_py.residual_training.settings import TrainingSettings
from multipanda_py.residual_training.torch_network import (
    arrays_of,
    make_network,
    put_arrays,
)

LEAST_MOTIONS = 5
"""For training."""
SHORTEST = 10
"""Samples of an interval."""
LAST = 0.02
"""Of the rate of learning, at the end."""


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
    bodies: BodyDifference | None = None,
) -> tuple[TrainedResidual, History]:
    r"""Return the network that is best on the validation's motions.

    The loss is the mean square of what is left of the residual,

    .. math::
        L = \frac{1}{T\, 3 n} \sum_{k, i} \omega_i \frac{(r_{k,i} - \hat r_{k,i})^2}{v_i}, \qquad
        v_i = \overline{r_i^2}

    where every element counts by its own size in the training, so that small torques of the wrist
    are learned like those of the shoulder (Realeasy weights all alike). Intervals of a batch
    begin anywhere in their motions and are as long as a share of the shortest of all. With bodies
    r is what these leave over.

    Args:
        pairs: The data.
        settings: How.
        say: Told how far it is.
        keep: Given the best network whenever there is a better one.
        begin: Weights to begin with; of the same kind and size.
        bodies: What explains torques before the network does, see :func:`.fit_bodies`.

    Raises:
        ConfigurationError: If there are too few motions, or a setting is out of its range.
        MissingExtra: If torch is missing.

    Source: Realeasy, section on training.

    Thread: one; torch uses as many as it is told.
    """
    sets = {split: pairs.of(split) for split in ("train", "validation")}
    if not sets["validation"]:
        say("no motions for validation: the last one to train with stands in, and what is left of "
            "the residual is less than it would be on others")  # fmt: skip
        sets["validation"] = sets["train"][-1:]
    if len(sets["train"]) < LEAST_MOTIONS:
        raise ConfigurationError(
            f"motions: got {len(sets['train'])} to train with, allowed {LEAST_MOTIONS} and more"
        )
    torch, rng = needed("torch"), np.random.default_rng(settings.seed)
    torch.manual_seed(settings.seed)
    given = Inputs(pairs.normalisation, np.array(settings.speeds), settings.distances)
    seen = {
        split: [SeenMotion.of(one, pairs, given, bodies) for one in motions]
        for split, motions in sets.items()
    }
    absent = given.rows(np.zeros((1, 3 * pairs.normalisation.joints)))[0]
    standard = standard_of(seen["train"])
    direct = fit_direct(seen["train"], settings.weights) if settings.direct else None
    module = make_network(settings.kind, settings.units or len(standard.size), standard, direct)
    if begin is not None:
        put_arrays(module, settings.kind, begin.arrays)
    shortest = min(len(one.inputs) for one in seen["train"])
    length = max(SHORTEST, int(settings.share * shortest))
    weights = torch.from_numpy(weights_of(seen["train"], settings.weights)).float()
    optimiser = torch.optim.AdamW(module.parameters(), settings.rate, weight_decay=settings.decay)
    history, best_at = History(), 0
    best = _loss(module, seen["validation"], weights)
    state = copy.deepcopy(module.state_dict())
    trained = partial(_trained, pairs=pairs, settings=settings, bodies=bodies)
    for epoch in range(1, settings.epochs + 1):
        fallen = 0.5 + 0.5 * np.cos(np.pi * (epoch - 1) / settings.epochs)
        for group in optimiser.param_groups:
            group["lr"] = settings.rate * (LAST + (1.0 - LAST) * fallen)
        module.train()
        losses = []
        for _ in range(max(1, round(len(seen["train"]) / settings.batch))):
            inputs, residuals = intervals_of(seen["train"], length, settings.batch, rng)
            inputs[rng.random(inputs.shape[:2]) < settings.dropout] = absent
            optimiser.zero_grad()
            off = torch.from_numpy(residuals).float() - module(torch.from_numpy(inputs).float())
            loss = (weights * off * off).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimiser.step()
            losses.append(float(loss.detach()))
        history.train.append(float(np.mean(losses)))
        history.validation.append(_loss(module, seen["validation"], weights))
        if history.validation[-1] < best:
            best, best_at = history.validation[-1], epoch
            state = copy.deepcopy(module.state_dict())
        if epoch % 10 == 0 or epoch == settings.epochs:
            say(f"epoch {epoch} of {settings.epochs}: {history.train[-1]:.4f}, validation "
                f"{history.validation[-1]:.4f}, best {best:.4f} in epoch {best_at}")  # fmt: skip
            module_state = copy.deepcopy(module.state_dict())
            module.load_state_dict(state)
            keep(trained(module))
            module.load_state_dict(module_state)
        if epoch - best_at >= settings.patience:
            say(f"epoch {epoch}: no gain since epoch {best_at}")
            break
    module.load_state_dict(state)
    return trained(module), history


def check_begin(begin: TrainedResidual, pairs: PairedMotions, settings: TrainingSettings) -> None:
    """Refuse weights that a training cannot begin with.

    Raises:
        ConfigurationError: If they are of another robot, kind, size, or of other inputs.
    """
    units = settings.units or 3 * len(pairs.joints)
    found, allowed = (
        f"a {kind} network of {robot}'s {', '.join(joints)}, {size} units, {speeds} speeds, "
        f"{distances} springs"
        for kind, robot, joints, size, speeds, distances in (
            (begin.kind, begin.robot, begin.joints,
             layer(begin.arrays, LAYERS[begin.kind][0]).units, len(begin.speeds),
             len(begin.distances)),
            (settings.kind, pairs.robot, pairs.joints, units, len(settings.speeds),
             len(settings.distances)),
        )
    )  # fmt: skip
    if found != allowed:
        raise ConfigurationError(f"--begin: got {found}; allowed {allowed}")


def _loss(module: Any, motions: list[SeenMotion], weights: Any) -> float:
    """Return the loss over whole motions."""
    torch = needed("torch")
    module.eval()
    total = count = 0.0
    with torch.no_grad():
        for one in motions:
            off = (
                torch.from_numpy(one.residual).float()
                - module(torch.from_numpy(one.inputs[None]).float())[0]
            )
            total += float((weights * off * off).sum())
            count += off.numel()
    return total / count


def _trained(
    module: Any, pairs: PairedMotions, settings: TrainingSettings, bodies: BodyDifference | None
) -> TrainedResidual:
    """Return the network with what it was trained on."""
    motions = pairs.of("train")
    states = np.vstack([one.twin for one in motions])
    residuals = np.abs(np.vstack([one.residual for one in motions]))
    return TrainedResidual(
        settings.kind, arrays_of(module, settings.kind), pairs.normalisation, pairs.robot,
        pairs.joints, pairs.rate, states.min(axis=0), states.max(axis=0), residuals.max(axis=0),
        pairs.digest, np.array(settings.speeds), bodies,
        np.array(settings.distances),
    )  # fmt: skip
