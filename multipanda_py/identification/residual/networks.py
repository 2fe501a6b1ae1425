# SPDX-License-Identifier: Apache-2.0
"""Torch modules of residual networks for training, and their export to ONNX for other programs."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.registry import VERSION, needed
from multipanda_py.robots.residual.network import (
    GATE_COUNT,
    LAYER_NAMES,
    PRECISE,
    REAL_TIME,
    Arrays,
    Dense,
    LstmWeights,
    layer,
)
from multipanda_py.robots.residual.weights import TrainedResidual
from multipanda_py.state import Matrix, Vector


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a training.

    Attributes:
        kind: Kind of the network. ``real_time`` predicts from past states, ``precise`` from all
            states of a motion.
        units: Units of each LSTM layer, and of each direction of bidirectional layers. 0 selects 3
            n for n joints.
        epochs: Maximum number of epochs. Each uses as many random intervals as there are motions.
        batch: Intervals per optimisation step.
        rate: Initial learning rate, with cosine decay.
        decay: Weight decay of AdamW.
        patience: Epochs without improvement on the validation motions before the training stops.
        share: Length of an interval, as a fraction of the shortest motion.
        dropout: Fraction of training samples whose inputs are computed from a zero state instead.
        weights: Weights of position, velocity and torque errors. Quantities of weight 0 stay
            uncorrected.
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
                f"weights: got {self.weights}, allowed three finite values of 0 or more that are "
                "not all 0"
            )


_DIRECTION_SUFFIXES = {False: "", True: "_reverse"}


@dataclass(frozen=True, eq=False)
class Scaling:
    """Mean and scale that normalise inputs and residuals to values near 1.

    Attributes:
        mean: Mean of each input, (m,).
        spread: Standard deviation of each input, (m,).
        size: Root mean square of each residual component, (3 n,).
    """

    mean: Vector
    spread: Vector
    size: Vector

    @classmethod
    def identity(cls, inputs: int, size: int) -> Scaling:
        """Return the scaling without effect, for m inputs and residuals with 3 n components."""
        return cls(np.zeros(inputs), np.ones(inputs), np.ones(size))


@dataclass(frozen=True, eq=False)
class LinearMap:
    """Linear map from inputs to residuals, added to the output of the recurrent layers.

    Attributes:
        weight: Weights, (3 n, m).
        bias: Bias, (3 n,).
    """

    weight: Matrix
    bias: Vector


def make_network(kind: str, units: int, standard: Scaling, direct: LinearMap | None = None) -> Any:
    """Return an untrained module that maps inputs (b, k, m) of b motions to residuals (b, k, 3 n).

    Args:
        kind: Kind of the network: ``real_time`` or ``precise``, which is bidirectional.
        units: Units of each LSTM layer, and of each direction of bidirectional layers.
        standard: Scaling of inputs and residuals.
        direct: Fixed linear map that is added to the output, or None.

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
            # With zero output weights, the untrained network equals the linear map.
            torch.nn.init.zeros_(self.dense.weight)
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
    """Return the weights of a torch module with the scaling merged into them, by name."""
    arrays = {}
    mean, spread, out = (_array(getattr(module, f"of_{p}")) for p in ("mean", "spread", "size"))
    for name in LAYER_NAMES[kind]:
        layer = getattr(module, name.partition("_")[0])
        suffix = _DIRECTION_SUFFIXES[name.endswith("backwards")]
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
    """Set the weights of a torch module from :func:`arrays_of`, to continue a training."""
    torch = needed("torch")
    mean, spread, out = (_array(getattr(module, f"of_{p}")) for p in ("mean", "spread", "size"))
    parts = {"dense.weight": arrays["dense.weight"] / out[:, None]}
    parts["dense.bias"] = arrays["dense.bias"] / out
    for name in LAYER_NAMES[kind]:
        layer, suffix = name.partition("_")[0], _DIRECTION_SUFFIXES[name.endswith("backwards")]
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


OPSET_VERSION, IR_VERSION = 17, 8
"""Versions of ONNX operators and model format, which runtimes support since 2022."""
LAST_POSITION_STATE, SPRING_STATE = "last_q", "springs"
"""Names of the recurrent states in addition to outputs and cells of the layers."""


def carried(trained: TrainedResidual) -> dict[str, int]:
    """Return the size of each recurrent state of an exported model, by name.

    The caller of the model passes these states from one sample to the next.
    """
    sizes = {
        f"{name}_{part}": layer(trained.arrays, name).units
        for name in LAYER_NAMES[REAL_TIME] for part in ("output", "cell")
    }  # fmt: skip
    n, springs = len(trained.joints), len(trained.distances)
    return sizes | ({LAST_POSITION_STATE: n, SPRING_STATE: springs * n} if springs else {})


def onnx_model(trained: TrainedResidual) -> Any:
    """Return the ONNX model of a residual, with states and residuals in physical units.

    Inputs are ``state`` (b, 3 n) [rad, rad/s, Nm] of b arms and the recurrent states of
    :func:`carried`, all float32. Recurrent states are zero in the first sample, except that
    ``last_q`` contains the joint positions.

    Outputs are the bounded ``residual`` (b, 3 n), ``outside`` (b, 1), and the next recurrent
    states. ``outside`` is the distance of the normalised state from the range of the training
    data. The next recurrent states have the names of the inputs with the prefix ``next_``.

    Args:
        trained: Residual with a ``real_time`` network, and without inertial differences
            (``bodies``), which the ONNX model cannot contain.

    Raises:
        ConfigurationError: If the network is precise or has inertial differences.
        MissingExtra: If onnx is missing.
    """
    onnx = needed("onnx")
    if trained.kind != REAL_TIME:
        raise ConfigurationError(f"export: got a {trained.kind} network, allowed {REAL_TIME}")
    if trained.bodies is not None:
        raise ConfigurationError(
            "export: the residual has inertial differences (bodies), which are not part of the "
            "network. Train one without them, or use --no-bodies and add their torques where the "
            "model runs."
        )
    size, sizes = 3 * len(trained.joints), carried(trained)
    graph = _OnnxGraph(onnx)
    _OnnxResidual(graph, trained).write()
    made = onnx.helper.make_graph(
        graph.nodes, "residual",
        [graph.value("state", size), *(graph.value(*one) for one in sizes.items())],
        [graph.value("residual", size), graph.value("outside", 1),
         *(graph.value(f"next_{name}", count) for name, count in sizes.items())],
        graph.constants,
    )  # fmt: skip
    model = onnx.helper.make_model(
        made, opset_imports=[onnx.helper.make_opsetid("", OPSET_VERSION)], ir_version=IR_VERSION,
        producer_name="multipanda_py", producer_version=VERSION,
    )  # fmt: skip
    about = {
        "robot": trained.robot, "joints": json.dumps(trained.joints), "rate": f"{trained.rate:g}",
        "data": trained.data,
    }  # fmt: skip
    onnx.helper.set_model_props(model, about)
    onnx.checker.check_model(model, full_check=True)
    return model


class _OnnxGraph:
    """Builder of the nodes and constants of an ONNX graph."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def value(self, name: str, size: int) -> Any:
        real = self._onnx.TensorProto.FLOAT
        return self._onnx.helper.make_tensor_value_info(name, real, ["arms", size])

    def constant(self, numbers: Any, kind: Any = np.float32) -> str:
        name = f"constant_{len(self.constants)}"
        array = np.asarray(numbers).astype(kind)
        self.constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def add_operator(self, operator: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        name = out or f"value_{len(self.nodes)}"
        node = self._onnx.helper.make_node(operator, list(inputs), [name], **attributes)
        self.nodes.append(node)
        return name

    def add_columns(self, value: str, first: int, last: int) -> str:
        indices = (self.constant([index], np.int64) for index in (first, last, 1))
        return self.add_operator("Slice", value, *indices)


class _OnnxResidual:
    """Writer of a real-time residual network as operators of an ONNX graph."""

    def __init__(self, graph: _OnnxGraph, trained: TrainedResidual) -> None:
        self._graph, self._trained, self._n = graph, trained, len(trained.joints)

    def write(self) -> None:
        graph, trained = self._graph, self._trained
        scale, n = trained.normalisation, self._n
        away = graph.add_operator("Sub", "state", graph.constant(scale.low))
        state = graph.add_operator("Div", away, graph.constant(scale.span))
        self._add_outside_output(state)
        speed = graph.add_columns("state", n, 2 * n)
        fractions = [graph.add_operator("Div", speed, graph.constant([v])) for v in trained.speeds]
        parts = [state, *(graph.add_operator("Tanh", part) for part in fractions)]
        if len(trained.distances):
            parts.append(self._add_spring_update())
        features = graph.add_operator("Concat", *parts, axis=1)
        hidden = features
        for name in LAYER_NAMES[REAL_TIME]:
            hidden = self._add_lstm_layer(name, layer(trained.arrays, name), hidden)
        dense = Dense(trained.arrays, len(trained.arrays["dense.weight"][0]),
                      trained.inputs().size, 3 * n)  # fmt: skip
        straight = graph.add_operator("MatMul", features, graph.constant(dense.direct.T))
        result = graph.add_operator("MatMul", hidden, graph.constant(dense.weight.T))
        result = graph.add_operator("Add", result, graph.constant(dense.bias))
        result = graph.add_operator("Add", result, straight)
        result = graph.add_operator("Max", result, graph.constant(-trained.bound))
        result = graph.add_operator("Min", result, graph.constant(trained.bound))
        graph.add_operator("Mul", result, graph.constant(scale.span), out="residual")

    def _add_outside_output(self, state: str) -> None:
        """Add the distance of a state from the range of the training data."""
        graph, low, high = self._graph, self._trained.low, self._trained.high
        off = graph.add_operator(
            "Abs", graph.add_operator("Sub", state, graph.constant(0.5 * (low + high)))
        )
        off = graph.add_operator("Sub", off, graph.constant(0.5 * (high - low)))
        graph.add_operator(
            "ReduceMax", graph.add_operator("Relu", off), out="outside", axes=[1], keepdims=1
        )

    def _add_spring_update(self) -> str:
        graph, n = self._graph, self._n
        q = graph.add_columns("state", 0, n)
        displacement = graph.add_operator("Sub", q, LAST_POSITION_STATE)
        stiff = np.hstack([np.diag(np.full(n, 2.0 / d)) for d in self._trained.distances])
        drawn = graph.add_operator(
            "Add", SPRING_STATE, graph.add_operator("MatMul", displacement, graph.constant(stiff))
        )
        graph.add_operator("Identity", q, out=f"next_{LAST_POSITION_STATE}")
        upper, lower = graph.constant(1.0), graph.constant(-1.0)
        return graph.add_operator("Clip", drawn, lower, upper, out=f"next_{SPRING_STATE}")

    def _add_lstm_layer(self, name: str, weights: LstmWeights, x: str) -> str:
        graph, h = self._graph, weights.units
        input_part = graph.add_operator("MatMul", x, graph.constant(weights.of_input.T))
        hidden_part = graph.add_operator(
            "MatMul", f"{name}_output", graph.constant(weights.of_output.T)
        )
        gates = graph.add_operator(
            "Add", graph.add_operator("Add", input_part, hidden_part), graph.constant(weights.bias)
        )
        parts = [graph.add_columns(gates, k * h, (k + 1) * h) for k in range(GATE_COUNT)]
        i, f, g, o = (
            graph.add_operator(kind, part)
            for kind, part in zip(("Sigmoid", "Sigmoid", "Tanh", "Sigmoid"), parts)
        )
        old = graph.add_operator("Mul", f, f"{name}_cell")
        cell = graph.add_operator(
            "Add", old, graph.add_operator("Mul", i, g), out=f"next_{name}_cell"
        )
        return graph.add_operator(
            "Mul", o, graph.add_operator("Tanh", cell), out=f"next_{name}_output"
        )
