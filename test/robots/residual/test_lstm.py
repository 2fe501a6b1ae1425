# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers and networks against their explicit equations."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from residual_weights import arrays, weights

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.residual.network import (
    PRECISE,
    REAL_TIME,
    Lstm,
    LstmWeights,
    PreciseNetwork,
    RealTimeNetwork,
    network,
)

pytestmark = pytest.mark.inline


def by_hand(layer, rows):
    """Return a layer's outputs, unit by unit, from the equations."""
    h = layer.units
    cell, hidden, found = [0.0] * h, [0.0] * h, []
    for x in rows:
        now, kept = [], []
        for unit in range(h):
            z = [
                sum(w * v for w, v in zip(layer.of_input[gate * h + unit], x))
                + sum(w * v for w, v in zip(layer.of_output[gate * h + unit], hidden))
                + layer.bias[gate * h + unit]
                for gate in range(4)
            ]
            i, f, o = (1.0 / (1.0 + math.exp(-z[gate])) for gate in (0, 1, 3))
            kept.append(f * cell[unit] + i * math.tanh(z[2]))
            now.append(o * math.tanh(kept[-1]))
        cell, hidden = kept, now
        found.append(now)
    return np.array(found)


@pytest.mark.parametrize(("inputs", "units"), [(3, 2), (21, 21), (1, 5)])
def test_layer_agrees_with_its_equations(inputs, units):
    rng = np.random.default_rng(units)
    layer = LstmWeights(**weights(rng, inputs, units))
    rows = rng.normal(size=(12, inputs))
    found = Lstm(layer)
    assert found.run(rows) == pytest.approx(by_hand(layer, rows), abs=2e-6)
    backwards = by_hand(layer, rows[::-1])[::-1]
    assert found.run(rows, backwards=True) == pytest.approx(backwards, abs=2e-6)
    found.reset()
    assert np.array([found.step(x).copy() for x in rows]) == pytest.approx(
        by_hand(layer, rows), abs=2e-6
    )


def test_networks_consist_of_their_layers():
    rng, rows = np.random.default_rng(3), np.random.default_rng(4).normal(size=(9, 6))
    for kind in (REAL_TIME, PRECISE):
        found = arrays(kind, 2, seed=int(rng.integers(100)))

        def layer(name, own=found):
            return LstmWeights(*(own[f"{name}.{p}"] for p in ("of_input", "of_output", "bias")))

        if kind == REAL_TIME:
            hidden = by_hand(layer("second"), by_hand(layer("first"), rows))
        else:
            back = by_hand(layer("first_backwards"), rows[::-1])[::-1]
            first = np.hstack([by_hand(layer("first_forwards"), rows), back])
            back = by_hand(layer("second_backwards"), first[::-1])[::-1]
            hidden = by_hand(layer("second_forwards"), first) + back
        expected = hidden @ found["dense.weight"].T + found["dense.bias"]
        assert network(kind, found).run(rows) == pytest.approx(expected, abs=1e-5)


def test_step_leaves_no_memory_allocated():
    net = RealTimeNetwork(arrays(REAL_TIME, 7))
    state = np.full(21, 0.5)
    for _ in range(100):
        net.step(state)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(1000):
        net.step(state)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 2000


def test_mismatched_weights_are_refused():
    good = arrays(REAL_TIME, 2)
    with pytest.raises(ConfigurationError, match=r"missing: second\.bias"):
        network(REAL_TIME, {k: v for k, v in good.items() if k != "second.bias"})
    with pytest.raises(ConfigurationError, match=r"'other'.*real_time.*precise"):
        network("other", good)
    with pytest.raises(ConfigurationError, match=r"weights.*layer"):
        network(REAL_TIME, {**good, "first.bias": np.zeros(3)})
    with pytest.raises(ConfigurationError, match="dense layer"):
        network(REAL_TIME, {**good, "dense.bias": np.zeros(3)})
    other = {**arrays(REAL_TIME, 2, units=5), "first.bias": good["first.bias"]}
    other |= {f"first.{p}": good[f"first.{p}"] for p in ("of_input", "of_output")}
    with pytest.raises(ConfigurationError, match=r"second layer: .*\b5\b.*\b6\b"):
        network(REAL_TIME, other)
    mixed = arrays(PRECISE, 2)
    mixed |= {k: v for k, v in arrays(PRECISE, 1).items() if k.startswith("second")}
    with pytest.raises(ConfigurationError, match="layers: got"):
        PreciseNetwork(mixed)
