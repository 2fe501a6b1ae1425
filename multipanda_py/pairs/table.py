# SPDX-License-Identifier: Apache-2.0
"""The table of a data set: every tenth sample of all motions, with what they are of."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

from multipanda_py.extras import VERSION, needed
from multipanda_py.machine.whole_file import replacing
from multipanda_py.pairs.folder import TABLE, Folder
from multipanda_py.pairs.recording import RATE
from multipanda_py.pairs.split import split_of
from multipanda_py.residual.normalisation import SIDES, Normalisation, row_labels
from multipanda_py.robots import ArmDescription

USED = 100
"""Samples a second in the table, of the 1000 that are recorded."""


def write_table(
    folder: Folder, arm: ArmDescription, seed: int, align: str, about: Mapping[str, Any]
) -> int:
    """Write the table of what a folder has; return how many motions it is of.

    Args:
        folder: With all its motions.
        arm: Of which they are.
        seed: Of the split.
        align: How both sides are cut.
        about: What else its metadata is to say.

    Raises:
        MissingExtra: If pyarrow is missing.
    """
    arrow, parquet = needed("pyarrow"), needed("pyarrow.parquet")
    names, limits = folder.kept(), arm.limits
    lower, upper = limits.span
    scale = Normalisation.of_limits(lower, upper, limits.velocity, limits.torque)
    metadata = {
        "robot": arm.robot.name,
        "joints": [joint.name for joint in arm.robot.joints],
        "arm": arm.name,
        "rate": USED,
        "recorded_rate": RATE,
        "aligned_by": align,
        **about,
        "normalisation": {"low": scale.low.tolist(), "high": scale.high.tolist()},
        "versions": {
            "multipanda_py": VERSION,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "mujoco": needed("mujoco").__version__,
        },
    }
    fields = [("motion", arrow.int32()), ("kind", arrow.string()), ("split", arrow.string()),
              ("time", arrow.float64())]  # fmt: skip
    labels = row_labels(arm.n_joints)
    fields += [(f"{side}_{label}", arrow.float64()) for side in SIDES for label in labels]
    schema = arrow.schema(fields, metadata={"multipanda_pairs": json.dumps(metadata)})
    splits = split_of([kind for kind, _ in names], seed)
    with (
        replacing(folder.path / TABLE) as partial,
        parquet.ParquetWriter(partial, schema) as writer,
    ):
        for motion, (name, split) in enumerate(zip(names, splits)):
            sides = folder.pair(name).cut(align)
            rows = np.hstack([side[:: RATE // USED] for side in sides])
            m = len(rows)
            columns = [np.full(m, motion, np.int32), [name[0]] * m, [split] * m]
            columns += [np.arange(m) / USED, *rows.T]
            arrays = [arrow.array(c, type=field.type) for c, field in zip(columns, schema)]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
    return len(names)
