# SPDX-License-Identifier: Apache-2.0
"""Random weights of residual networks."""

from __future__ import annotations

import numpy as np

from multipanda_py.robots.residual.inputs import Normalisation
from multipanda_py.robots.residual.network import LAYER_NAMES, PRECISE, REAL_TIME
from multipanda_py.robots.residual.weights import TrainedResidual


def weights(rng, inputs, units):
    """Return random weights of an LSTM layer."""
    shapes = {"of_input": (4 * units, inputs), "of_output": (4 * units, units), "bias": 4 * units}
    return {name: rng.uniform(-0.5, 0.5, shape) for name, shape in shapes.items()}


def arrays(kind, joints, seed=0, units=None):
    """Return random weights of a network."""
    rng, size = np.random.default_rng(seed), 3 * joints
    units = units or size
    found = {}
    for name in LAYER_NAMES[kind]:
        inputs = size if name.startswith("first") else units * (1 + (kind == PRECISE))
        found |= {f"{name}.{part}": a for part, a in weights(rng, inputs, units).items()}
    found["dense.weight"] = rng.normal(size=(size, units))
    found["dense.bias"] = rng.normal(size=size)
    return found


def write_residual(path, robot):
    """Write random weights for a robot, valid for all states."""
    n, limits = robot.n_joints, robot.limits
    lower, upper = (np.clip(part, -6.0, 6.0) for part in (limits.lower, limits.upper))
    scale = Normalisation.of_limits(lower, upper, limits.velocity, limits.torque)
    names = tuple(joint.name for joint in robot.joints)
    TrainedResidual(
        REAL_TIME, arrays(REAL_TIME, n, units=8), scale, robot.name, names, 100.0,
        np.full(3 * n, -9.0), np.full(3 * n, 9.0), np.full(3 * n, 0.02), "",
    ).save(path)  # fmt: skip
