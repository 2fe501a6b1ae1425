# SPDX-License-Identifier: Apache-2.0
"""Tables in the format of ``multipanda pairs``, of a robot with a known residual."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet

JOINTS = 2
LABELS = [f"{what}_{k + 1}" for what in ("q", "dq", "tau") for k in range(JOINTS)]
LIMITS = np.array([2.0, 2.0, 3.0, 3.0, 50.0, 20.0])


def motion(rng, samples):
    """Return states of a digital twin and of a robot with friction, (k, 6) each."""
    time = np.arange(samples)[:, None] / 100.0
    speed, phase = rng.uniform(1.0, 4.0, JOINTS), rng.uniform(0.0, 6.0, JOINTS)
    q, dq = np.sin(speed * time + phase), speed * np.cos(speed * time + phase)
    twin = np.hstack([q, dq, 10.0 * np.cos(q)])
    plant = twin.copy()
    plant[:, 4:] += 2.0 * np.tanh(2.0 * dq) + 0.5 * dq
    return twin, plant


def write_table(path, counts=None, samples=60, seed=0, change=None, **about):
    """Write a table with ``counts`` motions per split and return its motions."""
    rng, columns, found = np.random.default_rng(seed), [], []
    counts = counts or {"train": 12, "validation": 3, "test": 3}
    splits = [split for split, count in counts.items() for _ in range(count)]
    for number, split in enumerate(splits):
        twin, plant = motion(rng, samples)
        found.append((twin, plant))
        columns += [
            [number, ("multi", "linear")[split == "test"], split, k / 100.0, *a, *b]
            for k, (a, b) in enumerate(zip(twin, plant))
        ]
    if change is not None:
        columns = change(columns)
    names = ["motion", "kind", "split", "time"]
    names += [f"{side}_{label}" for side in ("twin", "plant") for label in LABELS]
    metadata = {
        "robot": "robot", "joints": ["one", "two"], "rate": 100,
        "normalisation": {"low": (-LIMITS).tolist(), "high": LIMITS.tolist()}, **about,
    }  # fmt: skip
    table = arrow.table(dict(zip(names, map(list, zip(*columns)))))
    table = table.replace_schema_metadata({"multipanda_pairs": json.dumps(metadata)})
    parquet.write_table(table, path)
    return found
