# SPDX-License-Identifier: Apache-2.0
"""Train a network of residuals."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.identification.arm.regressor import PER_LINK, ArmRegressor
from multipanda_py.identification.residual.motions import (
    PairedMotions,
    SeenMotion,
    intervals_of,
    standard_of,
    weights_of,
)
from multipanda_py.identification.residual.torch_network import (
    Direct,
    TrainingSettings,
    arrays_of,
    make_network,
    put_arrays,
)
from multipanda_py.registry import needed
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_model import heavy_model
from multipanda_py.robots.residual.bodies import BodyDifference, accelerations
from multipanda_py.robots.residual.inputs import Inputs, own_inputs
from multipanda_py.robots.residual.network import LAYERS, layer
from multipanda_py.robots.residual.weights import TrainedResidual
from multipanda_py.state import Matrix, Vector

DIRECT_RIDGE = 1e-4
"""Beside columns whose mean square is one."""


def fit_direct(motions: Sequence[SeenMotion], weights: tuple[float, float, float]) -> Direct:
    r"""Fit residuals by what friction and hysteresis of each joint look like.

    .. math::
        \min_{V, b} \sum_{k, i} \left(r_{k,i} - b_i - \sum_{p \in P(i)} V_{i,p} x_{k,p}\right)^2

    where :math:`P(i)` are speeds and springs of the joint that residual i is of: what
    generalises from few motions. A network learns what is left. What velocities differ by
    is left alone if it weighs nothing, and so on.

    Args:
        motions: Of the training.
        weights: Of errors of positions, velocities and torques, see :class:`.TrainingSettings`.
    """
    inputs = np.vstack([one.inputs for one in motions])
    residuals = np.vstack([one.residual for one in motions])
    size, m = residuals.shape[1], inputs.shape[1]
    n = size // 3
    weight, bias = np.zeros((size, m)), np.zeros(size)
    for i in range(size):
        if not weights[i // n]:
            continue
        places = own_inputs(i % n, n, m)
        columns = np.column_stack([np.ones(len(inputs)), inputs[:, places]])
        usual = np.sqrt(np.square(columns).mean(axis=0)).clip(1e-9)
        scaled = columns / usual
        matrix = scaled.T @ scaled + DIRECT_RIDGE * len(inputs) * np.eye(len(usual))
        found = np.linalg.solve(matrix, scaled.T @ residuals[:, i]) / usual
        bias[i], weight[i, places] = found[0], found[1:]
    return Direct(weight, bias)


EVERY = 4
"""Samples from one that counts to the next: neighbours say the same."""
SPEEDS, DISTANCES = (0.002, 0.01, 0.05), (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Of the friction and hysteresis that are fitted beside [rad/s, m/s; rad, m]."""
BODY_RIDGE, TINY = 1e-6, 1e-6


def fit_bodies(pairs: PairedMotions, arm: ArmDescription) -> BodyDifference:
    r"""Fit differences of bodies to the torques that the training's motions differ by.

    .. math::
        \min_{\Delta\pi, a} \sum_{k, j} \frac{1}{\mathrm{var}\, r_j} \left(r_{k,j} -
        Y_j(q_k, \dot q_k, \ddot q_k) \Delta\pi - \phi_{k,j}^T a_j\right)^2

    with what friction and hysteresis look like, :math:`\phi`, beside (speeds and springs of
    :class:`.Inputs`), so that they do not pass for bodies. Their coefficients are dropped.

    Args:
        pairs: The data; its split for training is used.
        arm: The twin's, as it stands, with its hand.

    Raises:
        ConfigurationError: If the data are of another robot.
    """
    joints = tuple(joint.name for joint in arm.robot.joints)
    if (arm.robot.name, len(joints)) != (pairs.robot, len(pairs.joints)):
        raise ConfigurationError(
            f"bodies: got a cell with {arm.robot.name} of {len(joints)} joints, allowed "
            f"{pairs.robot} with {len(pairs.joints)}, as in the data"
        )
    n, found = len(joints), _NormalEquations(len(joints))
    inputs = Inputs(pairs.normalisation, np.array(SPEEDS), DISTANCES)
    span, regressor = pairs.normalisation.span[2 * n :], ArmRegressor(arm)
    motions = pairs.of("train")
    variance = np.vstack([one.residual[:, 2 * n :] * span for one in motions]).var(axis=0)
    for one in motions:
        q, dq, _ = np.hsplit(pairs.normalisation.state_of(one.twin), 3)
        ddq = accelerations(dq, pairs.rate)
        part = slice(None, None, EVERY)
        rows = regressor.rows(q[part], dq[part], ddq[part])
        seen = inputs.rows(one.twin)[part]
        found.add(rows, seen, one.residual[part, 2 * n :] * span, variance)
    model, limits = heavy_model(arm), arm.robot.limits
    placements = np.tile(np.eye(4), (n, 1, 1))
    for place, joint in zip(placements, arm.robot.joints):
        place[:3, :3], place[:3, 3] = joint.origin.rotation, joint.origin.position
    return BodyDifference(
        placements, np.array([joint.axis for joint in arm.robot.joints], float),
        np.asarray(limits.slides, float), np.array(model.gravity.linear), found.bodies(),
    )  # fmt: skip


class _NormalEquations:
    """Sums over samples of what a least squares problem takes.

    Args:
        n: Joints.
    """

    def __init__(self, n: int) -> None:
        self._n, self._of_bodies = n, n * len(PER_LINK)
        self._of_friction = len(SPEEDS) + len(DISTANCES) + 2
        size = self._of_bodies + n * self._of_friction
        self._matrix, self._right = np.zeros((size, size)), np.zeros(size)

    def add(self, rows: Matrix, seen: Matrix, torques: Matrix, variance: Vector) -> None:
        """Count samples: regressors (k, n, 10 n), inputs (k, m) and torques (k, n)."""
        for j in range(self._n):
            begin = self._of_bodies + j * self._of_friction
            places = np.r_[: self._of_bodies, begin : begin + self._of_friction]
            friction = seen[:, own_inputs(j, self._n, seen.shape[1])]
            columns = np.column_stack([rows[:, j], friction, np.ones(len(seen))])
            weight = 1.0 / max(float(variance[j]), 1e-12)
            self._matrix[np.ix_(places, places)] += weight * columns.T @ columns
            self._right[places] += weight * columns.T @ torques[:, j]

    def bodies(self) -> Matrix:
        """Return the differences of bodies, (n, 10); what cannot be told is zero."""
        size = np.sqrt(np.diag(self._matrix))
        usual = np.maximum(size, TINY * size.max())
        scaled = self._matrix / np.outer(usual, usual) + BODY_RIDGE * np.eye(len(size))
        solution = np.linalg.solve(scaled, self._right / usual) / usual
        found: Matrix = solution[: self._of_bodies].reshape(self._n, len(PER_LINK))
        return found


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
