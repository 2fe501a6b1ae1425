# SPDX-License-Identifier: Apache-2.0
"""Training of residual networks."""

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
    TrainingMotion,
    intervals_of,
    standard_of,
    weights_of,
)
from multipanda_py.identification.residual.networks import (
    LinearMap,
    TrainingSettings,
    arrays_of,
    make_network,
    put_arrays,
)
from multipanda_py.registry import needed
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import model_with_gravity
from multipanda_py.robots.residual.bodies import BodyDifference, accelerations
from multipanda_py.robots.residual.inputs import Inputs, joint_input_indices
from multipanda_py.robots.residual.network import LAYER_NAMES, layer
from multipanda_py.robots.residual.weights import TrainedResidual
from multipanda_py.state import Matrix, Vector

LINEAR_RIDGE = 1e-4
"""Ridge regularisation of the linear map, for inputs scaled to unit mean square."""


def fit_direct(
    motions: Sequence[TrainingMotion], weights: tuple[float, float, float]
) -> LinearMap:
    r"""Fit a linear friction and hysteresis model to the residuals of each joint.

    .. math::
        \min_{V, b} \sum_{k, i} \left(r_{k,i} - b_i - \sum_{p \in P(i)} V_{i,p} x_{k,p}\right)^2.

    Symbols: residual r with components i, inputs x of sample k, weights V and bias b. :math:`P(i)`
    contains the velocity and spring inputs of the joint of component i.

    Args:
        motions: Training motions.
        weights: Weights of position, velocity and torque errors. Those of weight 0 are not fitted.
    """
    inputs = np.vstack([one.inputs for one in motions])
    residuals = np.vstack([one.residual for one in motions])
    size, m = residuals.shape[1], inputs.shape[1]
    n = size // 3
    weight, bias = np.zeros((size, m)), np.zeros(size)
    for i in range(size):
        if not weights[i // n]:
            continue
        indices = joint_input_indices(i % n, n, m)
        columns = np.column_stack([np.ones(len(inputs)), inputs[:, indices]])
        usual = np.sqrt(np.square(columns).mean(axis=0)).clip(1e-9)
        scaled = columns / usual
        matrix = scaled.T @ scaled + LINEAR_RIDGE * len(inputs) * np.eye(len(usual))
        result = np.linalg.solve(matrix, scaled.T @ residuals[:, i]) / usual
        bias[i], weight[i, indices] = result[0], result[1:]
    return LinearMap(weight, bias)


DECIMATION = 4
"""Every fourth sample is used to fit inertial differences, as its neighbours are almost equal."""
VELOCITY_SCALES, SLIP_DISTANCES = (0.002, 0.01, 0.05), (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Velocity scales [rad/s, m/s] and slip distances [rad, m] of the friction and hysteresis that are
fitted together with the inertial differences."""
BODY_RIDGE, MIN_RELATIVE_SCALE = 1e-6, 1e-6
"""Ridge regularisation of the scaled normal equations for inertial differences, and minimum scale
of a parameter relative to the largest scale. Smaller scales are raised to it, to avoid a division
by zero."""


def fit_bodies(pairs: PairedMotions, arm: ArmDescription) -> BodyDifference:
    r"""Fit inertial differences to the torque residuals of the training motions.

    .. math::
        \min_{\Delta\pi, a} \sum_{k, j} \frac{1}{\mathrm{var}\, r_j} \left(r_{k,j} -
        Y_j(q_k, \dot q_k, \ddot q_k) \Delta\pi - \phi_{k,j}^T a_j\right)^2.

    Symbols: torque residual :math:`r_{k,j}` of sample k and joint j, regressor Y, and inertial
    differences :math:`\Delta\pi` between twin and plant. The velocity and spring inputs
    :math:`\phi` of :class:`.Inputs` with coefficients a absorb friction and hysteresis.

    Args:
        pairs: Paired motions, of which the training split is used.
        arm: Description of the twin's arm with its mounting and gripper.

    Raises:
        ConfigurationError: If the data are of another robot.
    """
    joints = tuple(joint.name for joint in arm.robot.joints)
    if (arm.robot.name, len(joints)) != (pairs.robot, len(pairs.joints)):
        raise ConfigurationError(
            f"bodies: the cell has {arm.robot.name} with {len(joints)} joints, but the data have "
            f"{pairs.robot} with {len(pairs.joints)}. Use the twin's cell of the data."
        )
    n, bodies = len(joints), _NormalEquations(len(joints))
    inputs = Inputs(pairs.normalisation, np.array(VELOCITY_SCALES), SLIP_DISTANCES)
    span, regressor = pairs.normalisation.span[2 * n :], ArmRegressor(arm)
    motions = pairs.select("train")
    variance = np.vstack([one.residual[:, 2 * n :] * span for one in motions]).var(axis=0)
    for one in motions:
        q, dq, _ = np.hsplit(pairs.normalisation.state_of(one.twin), 3)
        ddq = accelerations(dq, pairs.rate)
        part = slice(None, None, DECIMATION)
        rows = regressor.rows(q[part], dq[part], ddq[part])
        input_rows = inputs.rows(one.twin)[part]
        bodies.add(rows, input_rows, one.residual[part, 2 * n :] * span, variance)
    model, limits = model_with_gravity(arm), arm.robot.limits
    placements = np.tile(np.eye(4), (n, 1, 1))
    for placement, joint in zip(placements, arm.robot.joints):
        placement[:3, :3], placement[:3, 3] = joint.origin.rotation, joint.origin.position
    return BodyDifference(
        placements, np.array([joint.axis for joint in arm.robot.joints], float),
        np.asarray(limits.slides, float), np.array(model.gravity.linear),
        bodies.inertial_differences(),
    )  # fmt: skip


class _NormalEquations:
    """Normal equations of the least-squares problem of :func:`fit_bodies`, summed over motions."""

    def __init__(self, n: int) -> None:
        self._n, self._of_bodies = n, n * len(PER_LINK)
        self._of_friction = len(VELOCITY_SCALES) + len(SLIP_DISTANCES) + 2
        size = self._of_bodies + n * self._of_friction
        self._matrix, self._right = np.zeros((size, size)), np.zeros(size)

    def add(
        self,
        body_regressors: Matrix,
        input_rows: Matrix,
        residual_torques: Matrix,
        variance: Vector,
    ) -> None:
        """Add k samples of all joints. Regressors are (k, n, 10 n), torques (k, n) [Nm]."""
        for j in range(self._n):
            start = self._of_bodies + j * self._of_friction
            indices = np.r_[: self._of_bodies, start : start + self._of_friction]
            friction = input_rows[:, joint_input_indices(j, self._n, input_rows.shape[1])]
            columns = np.column_stack([body_regressors[:, j], friction, np.ones(len(input_rows))])
            weight = 1.0 / max(float(variance[j]), 1e-12)
            self._matrix[np.ix_(indices, indices)] += weight * columns.T @ columns
            self._right[indices] += weight * columns.T @ residual_torques[:, j]

    def inertial_differences(self) -> Matrix:
        """Return the inertial differences of all links, (n, 10). Undetermined ones are zero."""
        size = np.sqrt(np.diag(self._matrix))
        usual = np.maximum(size, MIN_RELATIVE_SCALE * size.max())
        scaled = self._matrix / np.outer(usual, usual) + BODY_RIDGE * np.eye(len(size))
        solution = np.linalg.solve(scaled, self._right / usual) / usual
        bodies: Matrix = solution[: self._of_bodies].reshape(self._n, len(PER_LINK))
        return bodies


MIN_MOTIONS = 5
"""Minimum number of training motions."""
MIN_INTERVAL = 10
"""Minimum length of an interval, in samples."""
FINAL_LEARNING_RATE = 0.02
"""Final learning rate, relative to the initial one."""


@dataclass
class History:
    """Training and validation loss by epoch."""

    train: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)


def train(
    pairs: PairedMotions,
    settings: TrainingSettings,
    log: Callable[[str], None] = lambda text: None,
    keep: Callable[[TrainedResidual], None] = lambda result: None,
    start: TrainedResidual | None = None,
    bodies: BodyDifference | None = None,
) -> tuple[TrainedResidual, History]:
    r"""Train a network and return the version that is best on the validation motions.

    The loss is the weighted mean square of the remaining residual,

    .. math::
        L = \frac{1}{T\, 3 n} \sum_{k, i} \omega_i \frac{(r_{k,i} - \hat r_{k,i})^2}{v_i}, \qquad
        v_i = \overline{r_i^2}.

    Symbols: residual r and its prediction :math:`\hat r`, weights :math:`\omega`, and T samples k
    of n joints. Component i has the mean square :math:`v_i` in the training data. The source lacks
    the division by :math:`v_i`.

    Args:
        pairs: Paired motions.
        settings: Settings of the training.
        log: Callback that receives progress messages.
        keep: Callback that receives the best network so far.
        start: Trained residual of the same kind and size with the initial weights. By default, the
            initial weights are random.
        bodies: Inertial differences from :func:`.fit_bodies`, whose torques the network need not
            learn.

    Returns:
        Trained residual and the loss history.

    Raises:
        ConfigurationError: If there are too few motions, or a setting is out of range.
        MissingExtra: If torch is missing.

    Source: Dürr et al., Realeasy, IEEE CASE 2021, section on training.

    Thread: one. Torch uses its configured number of threads.
    """
    sets = {split: pairs.select(split) for split in ("train", "validation")}
    if not sets["validation"]:
        log("no validation motions: the last training motion is used instead, so the validation "
            "loss is too optimistic")  # fmt: skip
        sets["validation"] = sets["train"][-1:]
    if len(sets["train"]) < MIN_MOTIONS:
        raise ConfigurationError(
            f"motions: got {len(sets['train'])} for training, allowed {MIN_MOTIONS} or more"
        )
    torch, rng = needed("torch"), np.random.default_rng(settings.seed)
    torch.manual_seed(settings.seed)
    value = Inputs(pairs.normalisation, np.array(settings.speeds), settings.distances)
    input_rows = {
        split: [TrainingMotion.select(one, pairs, value, bodies) for one in motions]
        for split, motions in sets.items()
    }
    absent = value.rows(np.zeros((1, 3 * pairs.normalisation.joints)))[0]
    standard = standard_of(input_rows["train"])
    direct = fit_direct(input_rows["train"], settings.weights) if settings.direct else None
    module = make_network(settings.kind, settings.units or len(standard.size), standard, direct)
    if start is not None:
        put_arrays(module, settings.kind, start.arrays)
    shortest = min(len(one.inputs) for one in input_rows["train"])
    length = max(MIN_INTERVAL, int(settings.share * shortest))
    weights = torch.from_numpy(weights_of(input_rows["train"], settings.weights)).float()
    optimiser = torch.optim.AdamW(module.parameters(), settings.rate, weight_decay=settings.decay)
    history, best_at = History(), 0
    best = _loss(module, input_rows["validation"], weights)
    state = copy.deepcopy(module.state_dict())
    trained = partial(_trained, pairs=pairs, settings=settings, bodies=bodies)
    for epoch in range(1, settings.epochs + 1):
        fallen = 0.5 + 0.5 * np.cos(np.pi * (epoch - 1) / settings.epochs)
        for group in optimiser.param_groups:
            group["lr"] = settings.rate * (
                FINAL_LEARNING_RATE + (1.0 - FINAL_LEARNING_RATE) * fallen
            )
        module.train()
        losses = []
        for _ in range(max(1, round(len(input_rows["train"]) / settings.batch))):
            inputs, residuals = intervals_of(input_rows["train"], length, settings.batch, rng)
            inputs[rng.random(inputs.shape[:2]) < settings.dropout] = absent
            optimiser.zero_grad()
            off = torch.from_numpy(residuals).float() - module(torch.from_numpy(inputs).float())
            loss = (weights * off * off).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimiser.step()
            losses.append(float(loss.detach()))
        history.train.append(float(np.mean(losses)))
        history.validation.append(_loss(module, input_rows["validation"], weights))
        if history.validation[-1] < best:
            best, best_at = history.validation[-1], epoch
            state = copy.deepcopy(module.state_dict())
        if epoch % 10 == 0 or epoch == settings.epochs:
            log(f"epoch {epoch} of {settings.epochs}: loss {history.train[-1]:.4f}, validation "
                f"{history.validation[-1]:.4f}, best {best:.4f} in epoch {best_at}")  # fmt: skip
            module_state = copy.deepcopy(module.state_dict())
            module.load_state_dict(state)
            keep(trained(module))
            module.load_state_dict(module_state)
        if epoch - best_at >= settings.patience:
            log(f"epoch {epoch}: stopped, no improvement since epoch {best_at}")

            break
    module.load_state_dict(state)
    return trained(module), history


def check_initial_weights(
    start: TrainedResidual, pairs: PairedMotions, settings: TrainingSettings
) -> None:
    """Check that a network with initial weights matches the data and settings of a training.

    Raises:
        ConfigurationError: If robot, kind, size or inputs of the network differ.
    """
    units = settings.units or 3 * len(pairs.joints)
    result, allowed = (
        f"a {kind} network of {robot}'s {', '.join(joints)}, {size} units, {speeds} speeds, "
        f"{distances} springs"
        for kind, robot, joints, size, speeds, distances in (
            (start.kind, start.robot, start.joints,
             layer(start.arrays, LAYER_NAMES[start.kind][0]).units, len(start.speeds),
             len(start.distances)),
            (settings.kind, pairs.robot, pairs.joints, units, len(settings.speeds),
             len(settings.distances)),
        )
    )  # fmt: skip
    if result != allowed:
        raise ConfigurationError(
            f"--initial-weights: got {result}, but data and settings need {allowed}"
        )


def _loss(module: Any, motions: list[TrainingMotion], weights: Any) -> float:
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
    motions = pairs.select("train")
    states = np.vstack([one.twin for one in motions])
    residuals = np.abs(np.vstack([one.residual for one in motions]))
    return TrainedResidual(
        settings.kind, arrays_of(module, settings.kind), pairs.normalisation, pairs.robot,
        pairs.joints, pairs.rate, states.min(axis=0), states.max(axis=0), residuals.max(axis=0),
        pairs.digest, np.array(settings.speeds), bodies,
        np.array(settings.distances),
    )  # fmt: skip
