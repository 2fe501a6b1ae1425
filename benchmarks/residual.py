# SPDX-License-Identifier: Apache-2.0
"""Time of a step of a residual, compared with a product of the same size in numpy.

.venv/bin/python benchmarks/residual.py                  # seven joints
.venv/bin/python benchmarks/residual.py --joints 6 --units 32
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np

from multipanda_py.robots.residual.bodies import BodyDifference
from multipanda_py.robots.residual.inputs import Normalisation
from multipanda_py.robots.residual.network import LAYER_NAMES, REAL_TIME
from multipanda_py.robots.residual.runtime import LiveResidual
from multipanda_py.robots.residual.weights import TrainedResidual

BLOCKS, STEPS = 2000, 20
SPEEDS, DISTANCES = (0.002, 0.01, 0.05), (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)


def residual(joints: int, units: int) -> TrainedResidual:
    """Return a residual with random weights and bodies, valid for all states."""
    rng, size = np.random.default_rng(0), 3 * joints
    arrays, inputs = {}, size + (len(SPEEDS) + len(DISTANCES)) * joints
    for name, observed in zip(LAYER_NAMES[REAL_TIME], (inputs, units)):
        arrays[f"{name}.of_input"] = rng.normal(size=(4 * units, observed))
        arrays[f"{name}.of_output"] = rng.normal(size=(4 * units, units))
        arrays[f"{name}.bias"] = rng.normal(size=4 * units)
    arrays["dense.weight"] = rng.normal(size=(size, units))
    arrays["direct.weight"] = rng.normal(size=(size, inputs))
    arrays["dense.bias"] = rng.normal(size=size)
    bodies = BodyDifference(
        np.tile(np.eye(4), (joints, 1, 1)), np.tile([0.0, 0.0, 1.0], (joints, 1)),
        np.zeros(joints), np.array([0.0, 0.0, -9.81]), rng.normal(size=(joints, 10)) * 0.1,
    )  # fmt: skip
    names = tuple(f"joint_{number}" for number in range(joints))
    return TrainedResidual(
        REAL_TIME, arrays, Normalisation(np.full(size, -3.0), np.full(size, 3.0)), "robot", names,
        100.0, np.full(size, -9.0), np.full(size, 9.0), np.full(size, 0.1), "", np.array(SPEEDS),
        bodies, np.array(DISTANCES),
    )  # fmt: skip


def timed(step: Callable[..., object], *arguments: np.ndarray) -> float:
    """Return the median time of a call over blocks of ``STEPS`` calls [us]."""
    blocks = []
    for _ in range(BLOCKS):
        begin = time.perf_counter()
        for _ in range(STEPS):
            step(*arguments)
        blocks.append((time.perf_counter() - begin) / STEPS)
    return 1e6 * float(np.median(blocks))


def main() -> int:
    """Measure and print the times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--joints", type=int, default=7)
    parser.add_argument(
        "--units", type=int, default=0, help="units of a layer, default three per joint"
    )
    options = parser.parse_args()
    units = options.units or 3 * options.joints
    trained = residual(options.joints, units)
    net, live = trained.network(), LiveResidual(trained, 0.01, trained.robot, trained.joints)
    inputs, state = np.full(net.inputs, 0.5), np.full(options.joints, 0.5)
    matrix, vector = np.ones((4 * units, 2 * units), np.float32), np.ones(2 * units, np.float32)
    step, whole = timed(net.step, inputs), timed(live.step, state, state, state)
    product = timed(np.dot, matrix, vector)
    sys.stdout.write(
        f"network {step:.1f} us, with inputs, bodies, limits and checks {whole:.1f} us; one "
        f"product of a layer {product:.1f} us\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
