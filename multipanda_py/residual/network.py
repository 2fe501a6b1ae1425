# SPDX-License-Identifier: Apache-2.0
"""The two networks of Realeasy, in numpy: one step by step, one over whole motions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.residual.lstm import Lstm, LstmWeights
from multipanda_py.state import Matrix, Vector

REAL_TIME, PRECISE = "real_time", "precise"
KINDS = (REAL_TIME, PRECISE)
LAYERS = {
    REAL_TIME: ("first", "second"),
    PRECISE: ("first_forwards", "first_backwards", "second_forwards", "second_backwards"),
}
"""Names of the recurrent layers; each has ``of_input``, ``of_output`` and ``bias``."""
Arrays = Mapping[str, np.ndarray[Any, np.dtype[np.float64]]]


def layer(arrays: Arrays, name: str) -> LstmWeights:
    """Return the weights of a recurrent layer by its name."""
    return LstmWeights(*(arrays[f"{name}.{part}"] for part in ("of_input", "of_output", "bias")))


class Dense:
    """The last layer: :math:`y = W x + b`, without a nonlinearity."""

    def __init__(self, arrays: Arrays, inputs: int, outputs: int) -> None:
        self.weight, self.bias = arrays["dense.weight"], arrays["dense.bias"]
        if self.weight.shape != (outputs, inputs) or self.bias.shape != (outputs,):
            raise ConfigurationError(
                f"dense layer: got {self.weight.shape} and {self.bias.shape}, allowed "
                f"{(outputs, inputs)} and {(outputs,)}"
            )


class RealTimeNetwork:
    r"""Predict the residual of now from all states until now.

    .. math:: \hat r_k = W_d h^{(2)}_k + b_d, \quad h^{(2)} = \mathrm{LSTM}(h^{(1)}), \quad
        h^{(1)} = \mathrm{LSTM}(\hat x)

    Args:
        arrays: Weights by name, see :data:`LAYERS`, and ``dense.weight``, ``dense.bias``.

    Attributes:
        inputs: Numbers that it sees at once.
        size: Of a residual, 3 n.

    Source: Realeasy, the real-time network: two layers of 3 n units, states carried.

    Thread: one.
    """

    def __init__(self, arrays: Arrays) -> None:
        first, second = (layer(arrays, name) for name in LAYERS[REAL_TIME])
        self.inputs, self.size = first.inputs, len(arrays["dense.bias"])
        if second.inputs != first.units:
            raise ConfigurationError(
                f"second layer: got {second.inputs} inputs, allowed {first.units}"
            )
        self._first, self._second = Lstm(first), Lstm(second)
        self._dense = Dense(arrays, second.units, self.size)
        self._residual = np.zeros(self.size)

    @property
    def states(self) -> tuple[Vector, ...]:
        """What both layers carry from step to step, live."""
        return (*self._first.states, *self._second.states)

    def reset(self) -> None:
        """Forget everything."""
        self._first.reset()
        self._second.reset()

    def step(self, state: Vector) -> Vector:
        """Return the normalised residual (3 n,) of an input; changed by the next step."""
        hidden = self._second.step(self._first.step(state))
        np.dot(self._dense.weight, hidden, self._residual)
        return np.add(self._residual, self._dense.bias, self._residual)

    def run(self, rows: Matrix) -> Matrix:
        """Return the normalised residuals (k, 3 n) of a motion's inputs from its start."""
        self.reset()
        return np.array([self.step(row).copy() for row in rows]).reshape(-1, self.size)


class PreciseNetwork:
    r"""Predict the residuals of a whole motion, each from all that was before and comes after.

    .. math:: \hat r = W_d (\overrightarrow{h}^{(2)} + \overleftarrow{h}^{(2)}) + b_d, \qquad
        h^{(1)} = [\overrightarrow{h}^{(1)}, \overleftarrow{h}^{(1)}]

    The first layer's directions are put side by side, the second's are added.

    Args:
        arrays: Weights by name, as for :class:`RealTimeNetwork`.

    Source: Realeasy, the precise network.

    Thread: one.
    """

    def __init__(self, arrays: Arrays) -> None:
        weights = [layer(arrays, name) for name in LAYERS[PRECISE]]
        self.inputs, self.size = weights[0].inputs, len(arrays["dense.bias"])
        both = weights[0].units + weights[1].units
        allowed = [self.inputs, self.inputs, both, both]
        if [w.inputs for w in weights] != allowed:
            raise ConfigurationError(
                f"layers: got {[w.inputs for w in weights]} inputs, allowed {allowed}"
            )
        self._layers = [Lstm(one) for one in weights]
        self._dense = Dense(arrays, weights[2].units, self.size)

    def run(self, rows: Matrix) -> Matrix:
        """Return the normalised residuals (k, 3 n) of a motion's inputs."""
        forwards, backwards, again, back = self._layers
        first = np.hstack([forwards.run(rows), backwards.run(rows, backwards=True)])
        second = again.run(first) + back.run(first, backwards=True)
        found: Matrix = second @ self._dense.weight.T + self._dense.bias
        return found


def network(kind: str, arrays: Arrays) -> RealTimeNetwork | PreciseNetwork:
    """Return the network of a kind.

    Raises:
        ConfigurationError: If the kind is unknown, or weights are missing or do not fit.
    """
    if kind not in KINDS:
        raise ConfigurationError(f"network: got {kind!r}, allowed {' or '.join(KINDS)}")
    needed = [
        f"{name}.{part}" for name in LAYERS[kind] for part in ("of_input", "of_output", "bias")
    ]
    missing = [name for name in (*needed, "dense.weight", "dense.bias") if name not in arrays]
    if missing:
        raise ConfigurationError(f"network: weights are missing: {', '.join(missing)}")
    return RealTimeNetwork(arrays) if kind == REAL_TIME else PreciseNetwork(arrays)
