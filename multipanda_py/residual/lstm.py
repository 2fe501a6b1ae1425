# SPDX-License-Identifier: Apache-2.0
"""One layer of long short-term memory: step by step with a carried state, or over a sequence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.state import Matrix, Vector

_dot, _add, _multiply, _tanh = np.dot, np.add, np.multiply, np.tanh
Single = NDArray[np.float32]
"""What layers calculate with: they were trained so, and tanh takes a third of the time."""
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

    Within, gates are in the order g, f, i, o behind c, so that both products of the cell are one;
    the three sigmoids are a hyperbolic tangent of half the size, moved: one call serves all gates;
    and the bias is the weight of a one between x and h.

    Source: Hochreiter and Schmidhuber, Neural Computation 1997, with the forget gate of Gers,
    Schmidhuber and Cummins 2000.

    Args:
        weights: Of the layer.
        row: Where x, a one and h are, (m + 1 + h,), so that layers can stand in one row; its own
            if none is given.

    Attributes:
        output: h, (h,); changed in place by every step.

    Thread: one.
    """

    def __init__(self, weights: LstmWeights, row: Single | None = None) -> None:
        h, m = weights.units, weights.inputs
        self._row = np.zeros(m + 1 + h, np.float32) if row is None else row
        self._row[m] = 1.0
        self._input, self.output = self._row[:m], self._row[m + 1 :]
        stacked = np.column_stack([weights.of_input, weights.bias, weights.of_output])
        gates_in, forget, new, out = np.split(stacked, GATES)
        halves = np.vstack([new, 0.5 * forget, 0.5 * gates_in, 0.5 * out])
        self._matrix: Single = halves.astype(np.float32)
        self._scale: Single = np.repeat([1.0, 0.5, 0.5, 0.5], h).astype(np.float32)
        self._shift: Single = np.float32(1.0) - self._scale
        self._all = np.zeros((1 + GATES) * h, np.float32)
        self._parts = np.zeros(2 * h, np.float32)
        self._cell, self._gates = self._all[:h], self._all[h:]
        self._before, self._shares = self._all[: 2 * h], self._all[2 * h : 4 * h]
        self._out, self._kept, self._added = self._all[4 * h :], *np.split(self._parts, 2)

    @property
    def states(self) -> tuple[Single, Single]:
        """What it carries from step to step, live: h and c, (h,) each."""
        return self.output, self._cell

    def reset(self) -> None:
        """Forget everything."""
        self.output[:] = 0.0
        self._cell[:] = 0.0

    def step(self, x: Vector | Single) -> Single:
        """Take an input in, (m,); return h, (h,), which the next step changes."""
        self._input[:] = x
        self.go_on()
        return self.output

    def go_on(self) -> None:
        """Take the input in that stands in its row."""
        gates, cell, part = self._gates, self._cell, self._kept
        _dot(self._matrix, self._row, gates)
        _tanh(gates, gates)
        _add(_multiply(gates, self._scale, gates), self._shift, gates)
        _multiply(self._before, self._shares, self._parts)
        _add(part, self._added, cell)
        _multiply(_tanh(cell, part), self._out, self.output)

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
