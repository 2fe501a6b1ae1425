# SPDX-License-Identifier: Apache-2.0
"""One layer of long short-term memory: step by step with a carried state, or over a sequence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.state import Matrix, Vector

_dot, _add, _multiply, _tanh = np.dot, np.add, np.multiply, np.tanh
GATES = 4
"""Input, forget, candidate and output, in this order, of h rows each."""


@dataclass(frozen=True, eq=False)
class LstmWeights:
    """Weights of a layer of h units with m inputs.

    Attributes:
        of_input: W, (4 h, m).
        of_output: U, of its own last output, (4 h, h).
        bias: b, (4 h,).
    """

    of_input: Matrix
    of_output: Matrix
    bias: Vector

    def __post_init__(self) -> None:
        units = self.of_output.shape[-1]
        shapes = [self.of_input.shape[:1], self.of_output.shape, self.bias.shape]
        if shapes != [(GATES * units,), (GATES * units, units), (GATES * units,)]:
            raise ConfigurationError(
                f"weights of a layer: got shapes {self.of_input.shape}, {self.of_output.shape} "
                f"and {self.bias.shape}, allowed (4 h, m), (4 h, h) and (4 h,)"
            )

    @property
    def units(self) -> int:
        """Number of units h."""
        return int(self.of_output.shape[1])

    @property
    def inputs(self) -> int:
        """Number of inputs m."""
        return int(self.of_input.shape[1])


class Lstm:
    r"""A layer with its state, without allocations.

    .. math::
        (i, f, g, o) = (\sigma, \sigma, \tanh, \sigma)(W x + U h + b), \qquad
        c \leftarrow f \odot c + i \odot g, \qquad h \leftarrow o \odot \tanh c

    The three sigmoids are a hyperbolic tangent of half the size, moved: one call serves all gates.

    Source: Hochreiter and Schmidhuber, Neural Computation 1997, with the forget gate of Gers,
    Schmidhuber and Cummins 2000.

    Args:
        weights: Of the layer.

    Attributes:
        output: h, (h,); changed in place by every step.

    Thread: one.
    """

    def __init__(self, weights: LstmWeights) -> None:
        h, m = weights.units, weights.inputs
        half = np.full(GATES * h, 0.5)
        half[2 * h : 3 * h] = 1.0
        stacked = np.hstack([weights.of_input, weights.of_output])
        self._matrix, self._bias = half[:, None] * stacked, half * weights.bias
        self._scale, self._shift = half, 1.0 - half
        self._both, self._gates = np.zeros(m + h), np.zeros(GATES * h)
        self._input, self.output = self._both[:m], self._both[m:]
        self._in, self._forget, self._new, self._out = self._gates.reshape(GATES, h)
        self._cell, self._part = np.zeros(h), np.zeros(h)

    @property
    def states(self) -> tuple[Vector, Vector]:
        """What it carries from step to step, live: h and c, (h,) each."""
        return self.output, self._cell

    def reset(self) -> None:
        """Forget everything."""
        self.output[:] = 0.0
        self._cell[:] = 0.0

    def step(self, x: Vector) -> Vector:
        """Take an input in, (m,); return h, (h,), which the next step changes."""
        gates, cell, part, output = self._gates, self._cell, self._part, self.output
        self._input[:] = x
        _dot(self._matrix, self._both, gates)
        _tanh(_add(gates, self._bias, gates), gates)
        _add(_multiply(gates, self._scale, gates), self._shift, gates)
        _multiply(cell, self._forget, cell)
        _add(cell, _multiply(self._in, self._new, part), cell)
        return _multiply(_tanh(cell, part), self._out, output)

    def run(self, rows: Matrix, backwards: bool = False) -> Matrix:
        """Return the outputs for a sequence (k, m) from nothing known, (k, h).

        Args:
            rows: Inputs.
            backwards: From the last row to the first; outputs stay beside their rows.
        """
        self.reset()
        found = np.zeros((len(rows), self.output.size))
        order = range(len(rows) - 1, -1, -1) if backwards else range(len(rows))
        for k in order:
            found[k] = self.step(rows[k])
        return found
