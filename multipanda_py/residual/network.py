# SPDX-License-Identifier: Apache-2.0
"""The two networks of Realeasy, in numpy: one step by step, one over whole motions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.residual.lstm import Lstm, LstmWeights, Single
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
    r"""The last layer, without a nonlinearity: :math:`y = W h + V x + b`.

    V, ``direct.weight``, is from inputs past the recurrent layers; a network may have none.
    """

    def __init__(self, arrays: Arrays, hidden: int, inputs: int, outputs: int) -> None:
        self.weight, self.bias = arrays["dense.weight"], arrays["dense.bias"]
        self.direct = arrays.get("direct.weight", np.zeros((outputs, inputs)))
        found = [self.weight.shape, self.bias.shape, self.direct.shape]
        allowed = [(outputs, hidden), (outputs,), (outputs, inputs)]
        if found != allowed:
            raise ConfigurationError(
                "dense layer: got {}, {} and direct weights {}, allowed {}, {} and {}".format(
                    *found, *allowed
                )
            )


class RealTimeNetwork:
    r"""Predict the residual of now from all states until now.

    .. math:: \hat r_k = W_d h^{(2)}_k + V_d x_k + b_d, \quad
        h^{(2)} = \mathrm{LSTM}(h^{(1)}), \quad h^{(1)} = \mathrm{LSTM}(x)

    All that it goes on from stands in one row, :math:`(x, 1, h^{(1)}, 1, h^{(2)})`, of which each
    layer takes a part.

    Args:
        arrays: Weights by name, see :data:`LAYERS`, ``dense.weight``, ``dense.bias``, and perhaps
            ``direct.weight``.

    Attributes:
        inputs: Numbers m that it sees at once.
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
        m, end = self.inputs, self.inputs + 1 + first.units
        self._row: Single = np.zeros(end + 1 + second.units, np.float32)
        self._seen = self._row[:m]
        self._first = Lstm(first, self._row[:end])
        self._second = Lstm(second, self._row[m + 1 :])
        dense = Dense(arrays, second.units, m, self.size)
        nothing = np.zeros((self.size, 1 + first.units))
        found = np.column_stack([dense.direct, nothing, dense.bias, dense.weight])
        self._dense: Single = found.astype(np.float32)
        self._residual: Single = np.zeros(self.size, np.float32)

    @property
    def states(self) -> tuple[Single, ...]:
        """What both layers carry from step to step, live."""
        return (*self._first.states, *self._second.states)

    def reset(self) -> None:
        """Forget everything."""
        self._first.reset()
        self._second.reset()

    def step(self, x: Vector) -> Single:
        """Return the normalised residual (3 n,) of an input; changed by the next step."""
        self._seen[:] = x
        self._first.go_on()
        self._second.go_on()
        return np.dot(self._dense, self._row, self._residual)

    def run(self, rows: Matrix) -> Matrix:
        """Return the normalised residuals (k, 3 n) of a motion's inputs from its start."""
        self.reset()
        return np.array([self.step(row).copy() for row in rows]).reshape(-1, self.size)


class PreciseNetwork:
    r"""Predict the residuals of a whole motion, each from all that was before and comes after.

    .. math:: \hat r = W_d (\overrightarrow{h}^{(2)} + \overleftarrow{h}^{(2)}) + V_d x + b_d,
        \qquad h^{(1)} = [\overrightarrow{h}^{(1)}, \overleftarrow{h}^{(1)}]

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
        self._dense = Dense(arrays, weights[2].units, self.inputs, self.size)

    def run(self, rows: Matrix) -> Matrix:
        """Return the normalised residuals (k, 3 n) of a motion's inputs."""
        forwards, backwards, again, back = self._layers
        first = np.hstack([forwards.run(rows), backwards.run(rows, backwards=True)])
        second = again.run(first) + back.run(first, backwards=True)
        found: Matrix = second @ self._dense.weight.T + rows @ self._dense.direct.T
        found += self._dense.bias
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
