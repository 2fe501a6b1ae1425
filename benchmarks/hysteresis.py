# SPDX-License-Identifier: Apache-2.0
"""What of torques that a twin leaves is told by speeds, and what by where joints turned round.

.venv/bin/python benchmarks/hysteresis.py pairs/pairs.parquet

Least squares on the training's motions, judged on the others: of friction as a function of speed,
and with springs that slip (Maxwell-slip, of distances that know nothing of the plant) beside it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from multipanda_py.identification.residual.motions import PairedMotion, PairedMotions, read_pairs
from multipanda_py.state import Matrix

SPEEDS = (0.002, 0.01, 0.05)
DISTANCES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
"""After which a spring that slipped one way slips the other [rad]."""


def springs(q: Matrix, distance: float) -> Matrix:
    """Return how far springs are drawn, -1 to 1, that follow joints from rest on, (k, n)."""
    drawn = np.zeros_like(q)
    for k, way in enumerate(np.diff(q, axis=0), start=1):
        drawn[k] = np.clip(drawn[k - 1] + 2.0 * way / distance, -1.0, 1.0)
    return drawn


def observed(motion: PairedMotion, pairs: PairedMotions, remembers: bool) -> Matrix:
    """Return what a torque is explained by, (k, n, columns)."""
    q, dq, _ = np.hsplit(pairs.normalisation.state_of(motion.twin), 3)
    columns = [np.ones_like(q), dq, *(np.tanh(dq / v) for v in SPEEDS)]
    columns.append(np.exp(-((dq / 0.05) ** 2)) * np.tanh(dq / 0.002))
    columns += [springs(q, distance) for distance in DISTANCES if remembers]
    return np.stack(columns, axis=2)


def left(motion: PairedMotion, pairs: PairedMotions) -> Matrix:
    """Return the plant's torques less the twin's, (k, n) [Nm]."""
    n = pairs.normalisation.joints
    found: Matrix = motion.residual[:, 2 * n :] * pairs.normalisation.span[2 * n :]
    return found


def main() -> None:
    """Print mean squares of torque, joint by joint."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("pairs", type=Path)
    pairs = read_pairs(parser.parse_args().pairs)
    train, joints = pairs.select("train"), range(pairs.normalisation.joints)
    for name, remembers in (("speeds", False), ("speeds and turns", True)):
        inputs = np.vstack([observed(one, pairs, remembers) for one in train])
        torques = np.vstack([left(one, pairs) for one in train])
        fits = [np.linalg.lstsq(inputs[:, j], torques[:, j], rcond=None)[0] for j in joints]
        for split in ("validation", "test"):
            for kind in ("multi", "single", "linear"):
                if not (motions := pairs.select(split, [kind])):
                    continue
                off = np.vstack([left(one, pairs) for one in motions])
                given = np.vstack([observed(one, pairs, remembers) for one in motions])
                rest = np.stack([off[:, j] - given[:, j] @ fits[j] for j in joints], axis=1)
                before, after = (np.square(part).mean(axis=0) for part in (off, rest))
                print(f"{name}: {len(motions)} {kind}, {split}, by {len(train)} [1e-3 Nm^2]")
                for what, row in (("twin", 1e3 * before), ("left", 1e3 * after)):
                    print(f"  {what} " + " ".join(f"{value:.2g}" for value in row))
                print(f"  share, median {np.median(after / before):.2f}")


if __name__ == "__main__":
    main()
