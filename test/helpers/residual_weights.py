# SPDX-License-Identifier: Apache-2.0
"""Random weights of the networks of residuals."""

from __future__ import annotations

import numpy as np

from multipanda_py.residual.network import LAYERS, PRECISE


def weights(rng, inputs, units):
    """Return a layer's weights as torch draws them."""
    shapes = {"of_input": (4 * units, inputs), "of_output": (4 * units, units), "bias": 4 * units}
    return {name: rng.uniform(-0.5, 0.5, shape) for name, shape in shapes.items()}


def arrays(kind, joints, seed=0, units=None):
    """Return random weights of a network."""
    rng, size = np.random.default_rng(seed), 3 * joints
    units = units or size
    found = {}
    for name in LAYERS[kind]:
        inputs = size if name.startswith("first") else units * (1 + (kind == PRECISE))
        found |= {f"{name}.{part}": a for part, a in weights(rng, inputs, units).items()}
    found["dense.weight"] = rng.normal(size=(size, units))
    found["dense.bias"] = rng.normal(size=size)
    return found
