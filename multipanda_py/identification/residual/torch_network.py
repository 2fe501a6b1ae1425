# SPDX-License-Identifier: Apache-2.0
"""Residual networks in torch for training, and the conversion of their weights to arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.registry import needed
from multipanda_py.robots.residual.network import LAYER_NAMES, PRECISE, REAL_TIME, Arrays
from multipanda_py.state import Matrix, Vector


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a training.

    Attributes:
        kind: Kind of the network. ``real_time`` predicts from past states, ``precise`` from all
            states of a motion.
        units: Units of each layer and direction. 0 selects 3 n.
        epochs: Maximum number of epochs. An epoch draws as many intervals as there are motions.
        batch: Intervals per optimisation step.
        rate: Initial learning rate, with cosine decay.
        decay: Weight decay of AdamW.
        patience: Epochs without improvement on the validation motions before the training stops.
        share: Length of an interval, relative to the shortest motion.
        dropout: Fraction of samples whose state is dropped, like lost messages.
        weights: Weights of position, velocity and torque errors. Components with weight 0 are not
            corrected.
        speeds: Velocity scales of the friction inputs, see :class:`.Inputs` [rad/s].
        distances: Slip distances of the hysteresis springs, see :class:`.Inputs` [rad, m].
        direct: True to fit a linear friction and hysteresis model first, see :func:`.fit_direct`.
        seed: Random seed of weights, intervals and dropout.

    Raises:
        ConfigurationError: If a setting is out of range.
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
                f"weights: got {self.weights}, allowed three finite values of 0 or more, one "
                "above 0"
            )


_SUFFIX = {False: "", True: "_reverse"}


@dataclass(frozen=True, eq=False)
class Scaling:
    """Mean and scale that normalise inputs and residuals to values near 1.

    The scaling is merged into the exported weights, so that users of the network do not need it.

    Attributes:
        mean: Mean of the inputs, (m,).
        spread: Standard deviation of the inputs, (m,).
        size: Root mean square of the residuals, (3 n,).
    """

    mean: Vector
    spread: Vector
    size: Vector

    @classmethod
    def identity(cls, inputs: int, size: int) -> Scaling:
        """Return the identity scaling."""
        return cls(np.zeros(inputs), np.ones(inputs), np.ones(size))


@dataclass(frozen=True, eq=False)
class LinearMap:
    """Linear map from inputs to residuals, parallel to the recurrent layers.

    Attributes:
        weight: Weights, (3 n, m).
        bias: Bias, (3 n,).
    """

    weight: Matrix
    bias: Vector


def make_network(kind: str, units: int, standard: Scaling, direct: LinearMap | None = None) -> Any:
    """Return an untrained module that maps inputs (b, k, m) to residuals (b, k, 3 n).

    In a bidirectional network, the outputs of both directions of the second layer are added. The
    direct map is fixed during training and zero by default.

    Args:
        kind: Kind of the network: ``real_time`` or ``precise``.
        units: Units of each layer and direction.
        standard: Scaling of inputs and residuals.
        direct: Linear map from inputs to residuals, or None.

    Raises:
        MissingExtra: If torch is missing.
    """
    torch = needed("torch")
    both = kind == PRECISE
    inputs, size = len(standard.mean), len(standard.size)
    straight = direct or LinearMap(np.zeros((size, inputs)), np.zeros(size))

    class Network(torch.nn.Module):  # type: ignore[misc,name-defined]  # torch is loaded late
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.LSTM(inputs, units, batch_first=True, bidirectional=both)
            hidden = units * (1 + both)
            self.second = torch.nn.LSTM(hidden, units, batch_first=True, bidirectional=both)
            self.dense = torch.nn.Linear(units, size)
            parts = {f"of_{name}": getattr(standard, name) for name in ("mean", "spread", "size")}
            for name, part in {**parts, "direct": straight.weight}.items():
                self.register_buffer(name, torch.tensor(part, dtype=torch.float32))
            torch.nn.init.zeros_(self.dense.weight)  # Training starts with the direct map alone.
            bias = torch.tensor(straight.bias / standard.size, dtype=torch.float32)
            self.dense.bias = torch.nn.Parameter(bias)

        def forward(self, inputs: Any) -> Any:
            scaled = (inputs - self.of_mean) / self.of_spread
            hidden = self.second(self.first(scaled)[0])[0]
            if both:
                hidden = hidden[..., :units] + hidden[..., units:]
            return self.dense(hidden) * self.of_size + inputs @ self.direct.T

    return Network()


def arrays_of(module: Any, kind: str) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Return a module's weights with the names of :mod:`multipanda_py.robots.residual.network`."""
    arrays = {}
    mean, spread, out = (_array(getattr(module, f"of_{p}")) for p in ("mean", "spread", "size"))
    for name in LAYER_NAMES[kind]:
        layer = getattr(module, name.partition("_")[0])
        suffix = _SUFFIX[name.endswith("backwards")]
        parts = {
            part: _array(getattr(layer, f"{part}_l0{suffix}"))
            for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        }
        weight, bias = parts["weight_ih"], parts["bias_ih"] + parts["bias_hh"]
        if name.startswith("first"):
            weight = weight / spread
            bias = bias - weight @ mean
        arrays[f"{name}.of_input"], arrays[f"{name}.bias"] = weight, bias
        arrays[f"{name}.of_output"] = parts["weight_hh"]
    arrays["direct.weight"] = _array(module.direct)
    arrays["dense.weight"] = _array(module.dense.weight) * out[:, None]
    arrays["dense.bias"] = _array(module.dense.bias) * out
    return arrays


def _array(tensor: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    result: np.ndarray[Any, np.dtype[np.float64]] = tensor.detach().double().cpu().numpy().copy()
    return result


def put_arrays(module: Any, kind: str, arrays: Arrays) -> None:
    """Set the weights of a module in order to continue a training."""
    torch = needed("torch")
    mean, spread, out = (_array(getattr(module, f"of_{p}")) for p in ("mean", "spread", "size"))
    parts = {"dense.weight": arrays["dense.weight"] / out[:, None]}
    parts["dense.bias"] = arrays["dense.bias"] / out
    for name in LAYER_NAMES[kind]:
        layer, suffix = name.partition("_")[0], _SUFFIX[name.endswith("backwards")]
        weight, bias = arrays[f"{name}.of_input"], arrays[f"{name}.bias"]
        if layer == "first":
            weight, bias = weight * spread, bias + weight @ mean
        parts[f"{layer}.weight_ih_l0{suffix}"] = weight
        parts[f"{layer}.weight_hh_l0{suffix}"] = arrays[f"{name}.of_output"]
        parts[f"{layer}.bias_ih_l0{suffix}"] = bias
        parts[f"{layer}.bias_hh_l0{suffix}"] = np.zeros_like(bias)
    if "direct.weight" in arrays:
        module.direct.copy_(torch.from_numpy(np.array(arrays["direct.weight"])))
    else:
        torch.nn.init.zeros_(module.direct)
    with torch.no_grad():
        for name, part in parts.items():
            module.get_parameter(name).copy_(torch.from_numpy(np.array(part)))
