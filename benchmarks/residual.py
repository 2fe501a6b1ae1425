# SPDX-License-Identifier: Apache-2.0
"""How long a step of the real-time network takes, beside a product of its size in numpy.

.venv/bin/python benchmarks/residual.py                  # seven joints
.venv/bin/python benchmarks/residual.py --joints 6 --units 32
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np

from multipanda_py.residual.network import LAYERS, REAL_TIME, RealTimeNetwork

BEST_OF, STEPS = 2000, 20


def weights(joints: int, units: int) -> dict[str, np.ndarray]:
    """Return random weights of a network."""
    rng, size = np.random.default_rng(0), 3 * joints
    found = {}
    for name, inputs in zip(LAYERS[REAL_TIME], (size, units)):
        found[f"{name}.of_input"] = rng.normal(size=(4 * units, inputs))
        found[f"{name}.of_output"] = rng.normal(size=(4 * units, units))
        found[f"{name}.bias"] = rng.normal(size=4 * units)
    found["dense.weight"] = rng.normal(size=(size, units))
    found["dense.bias"] = rng.normal(size=size)
    return found


def timed(step: Callable[..., object], *arguments: np.ndarray) -> float:
    """Return the median time of a call [us], over blocks of several."""
    blocks = []
    for _ in range(BEST_OF):
        begin = time.perf_counter()
        for _ in range(STEPS):
            step(*arguments)
        blocks.append((time.perf_counter() - begin) / STEPS)
    return 1e6 * float(np.median(blocks))


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--joints", type=int, default=7)
    parser.add_argument("--units", type=int, default=0, help="of a layer, default three a joint")
    options = parser.parse_args()
    units = options.units or 3 * options.joints
    net = RealTimeNetwork(weights(options.joints, units))
    state = np.full(3 * options.joints, 0.5)
    matrix, both = np.ones((4 * units, 2 * units)), np.ones(2 * units)
    step, product = timed(net.step, state), timed(np.dot, matrix, both)
    sys.stdout.write(f"step {step:.1f} us; one product of a layer {product:.1f} us\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
