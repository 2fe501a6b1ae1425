# SPDX-License-Identifier: Apache-2.0
"""Torque residual explained by joint speeds, and by distances since reversals.

.venv/bin/python benchmarks/hysteresis.py pairs/pairs.parquet

The residual is the plant's torque minus the twin's torque in paired recordings. Two models are
fitted to the training motions by least squares, and tested on the other motions. The first is
friction as a function of speed. The second adds Maxwell-slip springs, moved by the twin's joints.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from multipanda_py.identification.residual.motions import PairedMotion, PairedMotions, read_pairs
from multipanda_py.state import Matrix

SPEEDS = (0.002, 0.01, 0.05)
DISTANCES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Distances after a reversal at which the springs slip again [rad]."""


def springs(q: Matrix, distance: float) -> Matrix:
    """Return relative deflections of springs, -1 to 1, along joint positions ``q``, (k, n)."""
    deflection = np.zeros_like(q)
    for k, step in enumerate(np.diff(q, axis=0), start=1):
        deflection[k] = np.clip(deflection[k - 1] + 2.0 * step / distance, -1.0, 1.0)
    return deflection


def regressors(motion: PairedMotion, pairs: PairedMotions, has_springs: bool) -> Matrix:
    """Return the regressors of the torque residual, (k, n, columns)."""
    q, dq, _ = np.hsplit(pairs.normalisation.state_of(motion.twin), 3)
    columns = [np.ones_like(q), dq, *(np.tanh(dq / v) for v in SPEEDS)]
    columns.append(np.exp(-((dq / 0.05) ** 2)) * np.tanh(dq / 0.002))
    columns += [springs(q, distance) for distance in DISTANCES if has_springs]
    return np.stack(columns, axis=2)


def torque_residual(motion: PairedMotion, pairs: PairedMotions) -> Matrix:
    """Return the plant's torques minus the twin's torques, (k, n) [Nm]."""
    n = pairs.normalisation.joints
    found: Matrix = motion.residual[:, 2 * n :] * pairs.normalisation.span[2 * n :]
    return found


def main() -> None:
    """Print mean square torques of each joint."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("pairs", type=Path, help="pairs.parquet of `multipanda pairs`")
    pairs = read_pairs(parser.parse_args().pairs)
    train, joints = pairs.select("train"), range(pairs.normalisation.joints)
    for name, has_springs in (("speeds", False), ("speeds and reversals", True)):
        inputs = np.vstack([regressors(one, pairs, has_springs) for one in train])
        torques = np.vstack([torque_residual(one, pairs) for one in train])
        fits = [np.linalg.lstsq(inputs[:, j], torques[:, j], rcond=None)[0] for j in joints]
        for split in ("validation", "test"):
            for kind in ("multi", "single", "linear"):
                if not (motions := pairs.select(split, [kind])):
                    continue
                measured = np.vstack([torque_residual(one, pairs) for one in motions])
                inputs_of_split = np.vstack(
                    [regressors(one, pairs, has_springs) for one in motions]
                )
                remaining = np.stack(
                    [measured[:, j] - inputs_of_split[:, j] @ fits[j] for j in joints], axis=1
                )
                before, after = (np.square(part).mean(axis=0) for part in (measured, remaining))
                print(
                    f"{name}: {len(motions)} {kind} motions, {split}, "
                    f"trained on {len(train)} [1e-3 Nm^2]"
                )
                for label, squares in (("before", 1e3 * before), ("after", 1e3 * after)):
                    print(f"  {label} " + " ".join(f"{value:.2g}" for value in squares))
                print(f"  after / before, median {np.median(after / before):.2f}")


if __name__ == "__main__":
    main()
