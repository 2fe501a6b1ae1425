# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks in numpy that predict residuals, for single steps and whole motions.

Source: Dürr et al., Realeasy, IEEE CASE 2021.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import add, dot, multiply, tanh
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.state import Matrix, Vector

Single = NDArray[np.float32]
"""Floating-point type of all arrays, as in training. Its tanh takes a third of the time of that of
float64."""
GATE_COUNT = 4
"""Number of gates: input, forget, candidate and output, in this order, with h rows each."""


@dataclass(frozen=True, eq=False)
class LstmWeights:
    """Weights of an LSTM layer with m inputs and h units.

    Attributes:
        of_input: Weights W of the inputs, (4 h, m).
        of_output: Weights U of the layer's last output, (4 h, h).
        bias: Bias b, (4 h,).
    """

    of_input: Matrix
    of_output: Matrix
    bias: Vector

    def __post_init__(self) -> None:
        units = self.of_output.shape[-1]
        shapes = [self.of_input.shape[:1], self.of_output.shape, self.bias.shape]
        if shapes != [(GATE_COUNT * units,), (GATE_COUNT * units, units), (GATE_COUNT * units,)]:
            raise ConfigurationError(
                f"weights of a layer: got shapes {self.of_input.shape}, {self.of_output.shape} "
                f"and {self.bias.shape}, allowed (4 h, m), (4 h, h) and (4 h,) for h units and "
                "m inputs"
            )

    @property
    def units(self) -> int:
        return int(self.of_output.shape[1])

    @property
    def inputs(self) -> int:
        return int(self.of_input.shape[1])


class Lstm:
    r"""LSTM layer with its state, without allocations.

    .. math::
        (i, f, g, o) = (\sigma, \sigma, \tanh, \sigma)(W x + U h + b), \qquad
        c \leftarrow f \odot c + i \odot g, \qquad h \leftarrow o \odot \tanh c.

    x is the input, h the output and c the cell. W, U and b are the weights. The gates are i
    (input), f (forget), g (candidate) and o (output).

    Source: Hochreiter and Schmidhuber, Neural Computation 1997, with the forget gate of Gers,
    Schmidhuber and Cummins 2000.

    Args:
        weights: Weights of the layer, with m inputs and n outputs.
        row: Array for the input x, a constant 1 (for the bias) and the output h, (m + 1 + n,).
            The arrays of successive layers can overlap. None for a new array.

    Attributes:
        output: Output h, (n,); changed in place by every step.

    Thread: one at a time.
    """

    def __init__(self, weights: LstmWeights, row: Single | None = None) -> None:
        h, m = weights.units, weights.inputs
        self._row = np.zeros(m + 1 + h, np.float32) if row is None else row
        self._row[m] = 1.0
        self._input, self.output = self._row[:m], self._row[m + 1 :]
        # The gates are stored in the order g, f, i, o after c, so that one product computes both
        # terms of c. One call of tanh serves all gates: sigma(a) = (1 + tanh(a / 2)) / 2.
        stacked = np.column_stack([weights.of_input, weights.bias, weights.of_output])
        gates_in, forget, new, out = np.split(stacked, GATE_COUNT)
        halves = np.vstack([new, 0.5 * forget, 0.5 * gates_in, 0.5 * out])
        self._matrix: Single = halves.astype(np.float32)
        self._scale: Single = np.repeat([1.0, 0.5, 0.5, 0.5], h).astype(np.float32)
        self._shift: Single = np.float32(1.0) - self._scale
        self._all = np.zeros((1 + GATE_COUNT) * h, np.float32)
        self._parts = np.zeros(2 * h, np.float32)
        self._cell, self._gates = self._all[:h], self._all[h:]
        self._before, self._gate_values = self._all[: 2 * h], self._all[2 * h : 4 * h]
        self._out, self._forget_gate, self._added = self._all[4 * h :], *np.split(self._parts, 2)

    @property
    def states(self) -> tuple[Single, Single]:
        """State of the layer: output h and cell c; updated in place."""
        return self.output, self._cell

    def reset(self) -> None:
        self.output[:] = 0.0
        self._cell[:] = 0.0

    def step(self, x: Vector | Single) -> Single:
        """Process an input, (m,), and return h, (h,). The next step changes this array."""
        self._input[:] = x
        self.advance()
        return self.output

    def advance(self) -> None:
        """Process the input that the caller has written to the shared array ``row``."""
        gates, cell, part = self._gates, self._cell, self._forget_gate
        dot(self._matrix, self._row, gates)
        tanh(gates, gates)
        add(multiply(gates, self._scale, gates), self._shift, gates)
        multiply(self._before, self._gate_values, self._parts)
        add(part, self._added, cell)
        multiply(tanh(cell, part), self._out, self.output)

    def run(self, rows: Matrix, backwards: bool = False) -> Matrix:
        """Return the outputs for a sequence (k, m) from a zero state, (k, h).

        Args:
            rows: Inputs in the order of time, (k, m).
            backwards: True to process the last input first. The outputs stay in the order of time.
        """
        self.reset()
        result = np.zeros((len(rows), self.output.size))
        order = range(len(rows) - 1, -1, -1) if backwards else range(len(rows))
        for k in order:
            result[k] = self.step(rows[k])
        return result


REAL_TIME, PRECISE = "real_time", "precise"
KINDS = (REAL_TIME, PRECISE)
LAYER_NAMES = {
    REAL_TIME: ("first", "second"),
    PRECISE: ("first_forwards", "first_backwards", "second_forwards", "second_backwards"),
}
"""Names of the recurrent layers; each has ``of_input``, ``of_output`` and ``bias``."""
Arrays = Mapping[str, np.ndarray[Any, np.dtype[np.float64]]]


def layer(arrays: Arrays, name: str) -> LstmWeights:
    return LstmWeights(*(arrays[f"{name}.{part}"] for part in ("of_input", "of_output", "bias")))


class Dense:
    """Linear output layer: :math:`y = W h + V x + b`.

    h is the output of the last recurrent layer, and x the input of the network. V
    (``direct.weight``) is optional.
    """

    def __init__(self, arrays: Arrays, hidden: int, inputs: int, outputs: int) -> None:
        self.weight, self.bias = arrays["dense.weight"], arrays["dense.bias"]
        self.direct = arrays.get("direct.weight", np.zeros((outputs, inputs)))
        matches = [self.weight.shape, self.bias.shape, self.direct.shape]
        allowed = [(outputs, hidden), (outputs,), (outputs, inputs)]
        if matches != allowed:
            raise ConfigurationError(
                "dense layer: got shapes {} of weights, {} of bias and {} of direct weights, "
                "allowed {}, {} and {}".format(*matches, *allowed)
            )


class RealTimeNetwork:
    r"""Network that predicts the present residual from the present and all earlier states.

    .. math:: \hat r_k = W_d h^{(2)}_k + V_d x_k + b_d, \quad
        h^{(2)} = \mathrm{LSTM}(h^{(1)}), \quad h^{(1)} = \mathrm{LSTM}(x).

    At step k, :math:`\hat r_k` is the normalised residual and :math:`x_k` are the inputs, see
    :class:`.Inputs`. The output layer has the weights :math:`W_d, V_d, b_d`.

    Source: Dürr et al., Realeasy, IEEE CASE 2021, real-time network with two layers of 3 n units.

    Args:
        arrays: Weights by name: layers of :data:`LAYER_NAMES`, ``dense.weight``, ``dense.bias``,
            and optionally ``direct.weight``.

    Attributes:
        inputs: Number of inputs, m.
        size: Number of outputs, 3 n for n joints.

    Thread: one at a time.
    """

    def __init__(self, arrays: Arrays) -> None:
        first, second = (layer(arrays, name) for name in LAYER_NAMES[REAL_TIME])
        self.inputs, self.size = first.inputs, len(arrays["dense.bias"])
        if second.inputs != first.units:
            raise ConfigurationError(
                f"second layer: got {second.inputs} inputs, allowed {first.units}"
            )
        m, end = self.inputs, self.inputs + 1 + first.units
        self._row: Single = np.zeros(end + 1 + second.units, np.float32)
        self._input_view = self._row[:m]
        self._first = Lstm(first, self._row[:end])
        self._second = Lstm(second, self._row[m + 1 :])
        dense = Dense(arrays, second.units, m, self.size)
        nothing = np.zeros((self.size, 1 + first.units))
        result = np.column_stack([dense.direct, nothing, dense.bias, dense.weight])
        self._dense: Single = result.astype(np.float32)
        self._residual: Single = np.zeros(self.size, np.float32)

    @property
    def states(self) -> tuple[Single, ...]:
        """States of both layers, h and c of each; updated in place."""
        return (*self._first.states, *self._second.states)

    def reset(self) -> None:
        self._first.reset()
        self._second.reset()

    def step(self, x: Vector) -> Single:
        """Return the normalised residual (3 n,) for an input; the next step changes the array."""
        self._input_view[:] = x
        self._first.advance()
        self._second.advance()
        return np.dot(self._dense, self._row, self._residual)

    def run(self, rows: Matrix) -> Matrix:
        """Return the normalised residuals (k, 3 n) for the inputs of a motion from its start."""
        self.reset()
        return np.array([self.step(row).copy() for row in rows]).reshape(-1, self.size)


class PreciseNetwork:
    r"""Network that predicts the residuals of a whole motion from all of its states.

    .. math:: \hat r = W_d (\overrightarrow{h}^{(2)} + \overleftarrow{h}^{(2)}) + V_d x + b_d,
        \qquad h^{(1)} = [\overrightarrow{h}^{(1)}, \overleftarrow{h}^{(1)}].

    :math:`\hat r` are the normalised residuals, x the inputs and h the outputs of two pairs of
    recurrent layers. The arrows mark layers that run forwards and backwards in time. The input of
    the second pair is :math:`h^{(1)}`. :math:`W_d, V_d, b_d` are output weights.

    Source: Dürr et al., Realeasy, IEEE CASE 2021, precise network.

    Args:
        arrays: Weights by name, as for :class:`RealTimeNetwork`.

    Thread: one at a time.
    """

    def __init__(self, arrays: Arrays) -> None:
        weights = [layer(arrays, name) for name in LAYER_NAMES[PRECISE]]
        self.inputs, self.size = weights[0].inputs, len(arrays["dense.bias"])
        both = weights[0].units + weights[1].units
        allowed = [self.inputs, self.inputs, both, both]
        if [w.inputs for w in weights] != allowed:
            raise ConfigurationError(
                f"layers: got {[w.inputs for w in weights]} inputs, allowed {allowed}"
            )
        self._layers = [Lstm(one) for one in weights]
        self._dense = Dense(arrays, weights[2].units, self.inputs, self.size)

    def run(self, rows: Matrix) -> Matrix:
        """Return the normalised residuals (k, 3 n) for the inputs of a motion."""
        forwards, backwards, again, back = self._layers
        first = np.hstack([forwards.run(rows), backwards.run(rows, backwards=True)])
        second = again.run(first) + back.run(first, backwards=True)
        result: Matrix = second @ self._dense.weight.T + rows @ self._dense.direct.T
        result += self._dense.bias
        return result


def network(kind: str, arrays: Arrays) -> RealTimeNetwork | PreciseNetwork:
    """Create a network of kind ``real_time`` or ``precise`` from its weights by name.

    Raises:
        ConfigurationError: The kind is unknown, or weights are missing or do not fit.
    """
    if kind not in KINDS:
        raise ConfigurationError(f"network: got {kind!r}, allowed {' or '.join(KINDS)}")
    needed = [
        f"{name}.{part}"
        for name in LAYER_NAMES[kind]
        for part in ("of_input", "of_output", "bias")
    ]
    missing = [name for name in (*needed, "dense.weight", "dense.bias") if name not in arrays]
    if missing:
        raise ConfigurationError(f"network: weights are missing: {', '.join(missing)}")
    return RealTimeNetwork(arrays) if kind == REAL_TIME else PreciseNetwork(arrays)
