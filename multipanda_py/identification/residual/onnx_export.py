# SPDX-License-Identifier: Apache-2.0
"""Export of a real-time residual network to ONNX, for programs in other languages."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.registry import VERSION, needed
from multipanda_py.robots.residual.network import (
    GATE_COUNT,
    LAYER_NAMES,
    REAL_TIME,
    Dense,
    LstmWeights,
    layer,
)
from multipanda_py.robots.residual.weights import TrainedResidual

OPSET_VERSION, IR_VERSION = 17, 8
"""Versions of the model format, supported by runtimes since 2022."""
LAST_POSITION_STATE, SPRING_STATE = "last_q", "springs"
"""Names of the recurrent states in addition to outputs and cells of the layers."""


def carried(trained: TrainedResidual) -> dict[str, int]:
    """Return the recurrent states of a model with their sizes, by name."""
    sizes = {
        f"{name}_{part}": layer(trained.arrays, name).units
        for name in LAYER_NAMES[REAL_TIME] for part in ("output", "cell")
    }  # fmt: skip
    n, springs = len(trained.joints), len(trained.distances)
    return sizes | ({LAST_POSITION_STATE: n, SPRING_STATE: springs * n} if springs else {})


def onnx_model(trained: TrainedResidual) -> Any:
    """Return the ONNX model of a residual, with states and residuals in physical units.

    Inputs are ``state`` (b, 3 n) [rad, rad/s, Nm] of b arms and the recurrent states named by
    :func:`carried`. Outputs are the bounded ``residual`` (b, 3 n), ``outside`` (b, 1), and
    ``next_`` plus the name of each recurrent state. ``outside`` is the distance of the normalised
    state from the range of the training data. All values are float32. Initial recurrent states are
    zero, except that ``last_q`` starts with the first joint positions.

    Args:
        trained: Real-time network without inertial differences.

    Raises:
        ConfigurationError: If the network is precise or has inertial differences.
        MissingExtra: If onnx is missing.
    """
    onnx = needed("onnx")
    if trained.kind != REAL_TIME:
        raise ConfigurationError(f"export: got a {trained.kind} network, allowed {REAL_TIME}")
    if trained.bodies is not None:
        raise ConfigurationError(
            "export: got a residual with inertial differences (bodies), which are not part of the "
            "network. Train one without them, or use --no-bodies and add their torques where the "
            "model runs."
        )
    size, sizes = 3 * len(trained.joints), carried(trained)
    graph = _Graph(onnx)
    _Residual(graph, trained).write()
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


class _Graph:
    """Builder of the nodes and constants of an ONNX graph."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def value(self, name: str, size: int) -> Any:
        """Return the description of a tensor with ``size`` values per arm."""
        real = self._onnx.TensorProto.FLOAT
        return self._onnx.helper.make_tensor_value_info(name, real, ["arms", size])

    def constant(self, numbers: Any, kind: Any = np.float32) -> str:
        """Add a constant and return its name."""
        name = f"constant_{len(self.constants)}"
        array = np.asarray(numbers).astype(kind)
        self.constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def put(self, operator: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        """Add an operator and return the name of its output."""
        name = out or f"value_{len(self.nodes)}"
        node = self._onnx.helper.make_node(operator, list(inputs), [name], **attributes)
        self.nodes.append(node)
        return name

    def part(self, value: str, first: int, last: int) -> str:
        """Add a slice of columns, from ``first`` to before ``last``."""
        indices = (self.constant([index], np.int64) for index in (first, last, 1))
        return self.put("Slice", value, *indices)


class _Residual:
    """Writer of the equations of a residual to an ONNX graph."""

    def __init__(self, graph: _Graph, trained: TrainedResidual) -> None:
        self._graph, self._trained, self._n = graph, trained, len(trained.joints)

    def write(self) -> None:
        graph, trained = self._graph, self._trained
        scale, n = trained.normalisation, self._n
        away = graph.put("Sub", "state", graph.constant(scale.low))
        state = graph.put("Div", away, graph.constant(scale.span))
        self._outside(state)
        speed = graph.part("state", n, 2 * n)
        fractions = [graph.put("Div", speed, graph.constant([v])) for v in trained.speeds]
        parts = [state, *(graph.put("Tanh", part) for part in fractions)]
        if len(trained.distances):
            parts.append(self._springs())
        features = graph.put("Concat", *parts, axis=1)
        hidden = features
        for name in LAYER_NAMES[REAL_TIME]:
            hidden = self._layer(name, layer(trained.arrays, name), hidden)
        dense = Dense(trained.arrays, len(trained.arrays["dense.weight"][0]),
                      trained.inputs().size, 3 * n)  # fmt: skip
        straight = graph.put("MatMul", features, graph.constant(dense.direct.T))
        result = graph.put("MatMul", hidden, graph.constant(dense.weight.T))
        result = graph.put("Add", result, graph.constant(dense.bias))
        result = graph.put("Add", result, straight)
        result = graph.put("Max", result, graph.constant(-trained.bound))
        result = graph.put("Min", result, graph.constant(trained.bound))
        graph.put("Mul", result, graph.constant(scale.span), out="residual")

    def _outside(self, state: str) -> None:
        """Write the distance of a normalised state from the range of the training data."""
        graph, low, high = self._graph, self._trained.low, self._trained.high
        off = graph.put("Abs", graph.put("Sub", state, graph.constant(0.5 * (low + high))))
        off = graph.put("Sub", off, graph.constant(0.5 * (high - low)))
        graph.put("ReduceMax", graph.put("Relu", off), out="outside", axes=[1], keepdims=1)

    def _springs(self) -> str:
        """Write the update of the hysteresis springs and return their deflections."""
        graph, n = self._graph, self._n
        q = graph.part("state", 0, n)
        displacement = graph.put("Sub", q, LAST_POSITION_STATE)
        stiff = np.hstack([np.diag(np.full(n, 2.0 / d)) for d in self._trained.distances])
        drawn = graph.put(
            "Add", SPRING_STATE, graph.put("MatMul", displacement, graph.constant(stiff))
        )
        graph.put("Identity", q, out=f"next_{LAST_POSITION_STATE}")
        upper, lower = graph.constant(1.0), graph.constant(-1.0)
        return graph.put("Clip", drawn, lower, upper, out=f"next_{SPRING_STATE}")

    def _layer(self, name: str, weights: LstmWeights, x: str) -> str:
        """Write an LSTM layer and return its output."""
        graph, h = self._graph, weights.units
        input_part = graph.put("MatMul", x, graph.constant(weights.of_input.T))
        hidden_part = graph.put("MatMul", f"{name}_output", graph.constant(weights.of_output.T))
        gates = graph.put(
            "Add", graph.put("Add", input_part, hidden_part), graph.constant(weights.bias)
        )
        parts = [graph.part(gates, k * h, (k + 1) * h) for k in range(GATE_COUNT)]
        i, f, g, o = (
            graph.put(kind, part)
            for kind, part in zip(("Sigmoid", "Sigmoid", "Tanh", "Sigmoid"), parts)
        )
        old = graph.put("Mul", f, f"{name}_cell")
        cell = graph.put("Add", old, graph.put("Mul", i, g), out=f"next_{name}_cell")
        return graph.put("Mul", o, graph.put("Tanh", cell), out=f"next_{name}_output")
