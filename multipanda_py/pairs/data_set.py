# SPDX-License-Identifier: Apache-2.0
"""A folder of paired motions: recorded in processes, resumed where it was broken off."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py import __version__
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.config.fingerprint import fingerprint
from multipanda_py.exceptions import ConfigurationError, ValidationRefused
from multipanda_py.extras import needed
from multipanda_py.identification.clearance import clearance_in
from multipanda_py.machine.whole_file import replacing
from multipanda_py.pairs.lines import linear_motion
from multipanda_py.pairs.motions import PairMotion, joint_motion
from multipanda_py.pairs.recording import ALIGNMENTS, RATE, AlignedPair, record_pair
from multipanda_py.pairs.split import split_of
from multipanda_py.residual.normalisation import SIDES, Normalisation, row_labels

USED = 100
"""Samples a second in the table, of the 1000 that are recorded."""
TABLE, RECORDED = "pairs.parquet", "recorded"
Name = tuple[str, int]


@dataclass(frozen=True)
class Wished:
    """What a data set is to have.

    Attributes:
        multi: Motions of several joints.
        single: Motions of one joint.
        linear: Straight moves of the tool.
        margin: Least distance to floor, things and other arms [m].
        seed: Of the motions, the noise and the split.
    """

    multi: int = 850
    single: int = 870
    linear: int = 50
    margin: float = 0.03
    seed: int = 0

    def names(self) -> list[Name]:
        """Return kind and number of every motion."""
        counts = {"multi": self.multi, "single": self.single, "linear": self.linear}
        return [(kind, k) for kind, count in counts.items() for k in range(count)]


def record_pairs(
    twin: CellConfig,
    plant: CellConfig,
    arm: str,
    folder: Path,
    wished: Wished,
    *,
    align: str = ALIGNMENTS[0],
    jobs: int = -1,
    say: Callable[[str], None] = lambda text: None,
) -> int:
    """Record a data set: a file per motion at 1 kHz, then one table at 100 Hz.

    Motions that are there already, of the same cells, seed and margin, are not done again; the
    table is the same to the last bit however often recording was broken off. A motion that a
    side does not end is left out and said. Processes are those of joblib.

    Args:
        twin: A simulated cell.
        plant: Another one.
        arm: Name of the arm that moves, in both.
        folder: Made if it is not there.
        wished: What is recorded.
        align: How both sides are cut for the table, one of :data:`.ALIGNMENTS`; what is recorded
            is not cut.
        jobs: How many processes, -1 for one per core.
        say: Told what is done.

    Returns:
        How many motions the table has.

    Raises:
        ConfigurationError: If the folder has motions of other cells, or cannot be written.
        ValidationRefused: If an arm is real, the arms differ, or no motion was recorded.
        MissingExtra: If joblib or pyarrow is missing.
    """
    joblib = needed("joblib")
    needed("pyarrow")
    _check(twin, plant, arm)
    if align not in ALIGNMENTS:
        raise ConfigurationError(f"align: got {align!r}, allowed {', '.join(ALIGNMENTS)}")
    if not wished.names():
        raise ConfigurationError("motions: got none, allowed at least one")
    parts = folder / RECORDED
    _claim(folder, parts, _key(twin, plant, arm, wished))
    files = {name: parts / f"{name[0]}-{name[1]:05d}.npz" for name in wished.names()}
    left = [name for name, file in files.items() if not file.is_file()]
    if len(left) < len(files):
        say(f"{len(files) - len(left)} of {len(files)} motions are there already")
    done = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(
        joblib.delayed(record_one)(twin, plant, arm, wished, *name, files[name]) for name in left
    )
    for number, said in enumerate(done, start=len(files) - len(left) + 1):
        say(f"{number} of {len(files)} motions: {said}")
    kept = [name for name, file in files.items() if len(_read(file)["twin"])]
    if not kept:
        why = _read(next(iter(files.values())))["said"]
        raise ValidationRefused(f"{folder}: no motion was recorded: {why}")
    _write_table(folder / TABLE, twin, plant, arm, wished, align, [(n, files[n]) for n in kept])
    return len(kept)


def motion_of(twin: CellConfig, arm: str, wished: Wished, kind: str, number: int) -> PairMotion:
    """Return a motion of a data set.

    Raises:
        ConfigurationError: If there is none that is clear.
    """
    missing = clearance_in(twin, arm, wished.margin).missing
    if kind == "linear":
        return linear_motion(twin, arm, number, wished.seed, missing)
    limits = describe_arm(arm, twin.arms[arm]).limits
    return joint_motion(kind, number, wished.seed, limits, missing)


def record_one(
    twin: CellConfig,
    plant: CellConfig,
    arm: str,
    wished: Wished,
    kind: str,
    number: int,
    file: Path,
) -> str:
    """Record one motion into its file, and return what is to be said of it."""
    n = describe_arm(arm, twin.arms[arm]).n_joints
    rows: dict[str, Any] = {"twin": np.zeros((0, 3 * n)), "plant": np.zeros((0, 3 * n))}
    said, starts = f"{kind} {number}", [0, 0, 0]
    try:
        motion = motion_of(twin, arm, wished, kind, number)
        pair = record_pair(motion, arm, twin, plant, wished.seed)
        rows = {"twin": pair.twin, "plant": pair.plant}
        starts = [pair.twin_start, pair.plant_start, pair.shift_by_correlation]
    except (ConfigurationError, ValidationRefused) as error:
        said = f"left out: {' '.join(str(error).split())}"
    with replacing(file) as partial, partial.open("wb") as opened:
        np.savez_compressed(opened, starts=starts, said=said, **rows)
    return said


def _read(file: Path) -> dict[str, Any]:
    with np.load(file, allow_pickle=False) as data:
        return {key: data[key] for key in data.files}


def _check(twin: CellConfig, plant: CellConfig, arm: str) -> None:
    for side, cell in zip(SIDES, (twin, plant)):
        if arm not in cell.arms:
            raise ValidationRefused(f"{side}: has no arm {arm!r}, allowed {', '.join(cell.arms)}")
        if any(other.backend != "mujoco" for other in cell.arms.values()):
            raise ValidationRefused(f"{side}: got arms that are not simulated, allowed mujoco")
    robots = [describe_arm(arm, cell.arms[arm]).robot for cell in (twin, plant)]
    if [j.name for j in robots[0].joints] != [j.name for j in robots[1].joints]:
        raise ValidationRefused(
            f"{arm}: got {robots[0].name} as the twin and {robots[1].name} as the plant, allowed "
            "arms with the same joints"
        )


def _key(twin: CellConfig, plant: CellConfig, arm: str, wished: Wished) -> str:
    text = [fingerprint(twin), fingerprint(plant), arm, wished.seed, wished.margin, __version__]
    return hashlib.sha256(json.dumps(text).encode()).hexdigest()


def _claim(folder: Path, parts: Path, key: str) -> None:
    """Make the folder, or see that what is in it belongs to this data set."""
    mark = parts / "key.txt"
    try:
        parts.mkdir(parents=True, exist_ok=True)
        if not mark.exists():
            with replacing(mark) as partial:
                partial.write_text(key, encoding="utf-8")
        other = mark.read_text(encoding="utf-8") != key
    except OSError as error:
        raise ConfigurationError(f"{folder}: cannot be written: {error.strerror}") from None
    if other:
        raise ConfigurationError(
            f"{folder}: has motions of another cell, plant, arm, seed, margin or version; allowed "
            "another folder"
        )


def _write_table(
    path: Path,
    twin: CellConfig,
    plant: CellConfig,
    arm: str,
    wished: Wished,
    align: str,
    files: Sequence[tuple[Name, Path]],
) -> None:
    """Write every tenth sample of all motions, with what they are of."""
    arrow, parquet = needed("pyarrow"), needed("pyarrow.parquet")
    described = describe_arm(arm, twin.arms[arm])
    limits, n = described.limits, described.n_joints
    lower, upper = limits.span
    scale = Normalisation.of_limits(lower, upper, limits.velocity, limits.torque)
    labels = row_labels(n)
    splits = split_of([kind for (kind, _), _ in files], wished.seed)
    metadata = {
        "robot": described.robot.name,
        "joints": [joint.name for joint in described.robot.joints],
        "arm": arm,
        "rate": USED,
        "recorded_rate": RATE,
        "aligned_by": align,
        "wished": asdict(wished),
        "twin": fingerprint(twin),
        "plant": fingerprint(plant),
        "normalisation": {"low": scale.low.tolist(), "high": scale.high.tolist()},
        "versions": {
            "multipanda_py": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "mujoco": needed("mujoco").__version__,
        },
    }
    fields = [("motion", arrow.int32()), ("kind", arrow.string()), ("split", arrow.string()),
              ("time", arrow.float64())]  # fmt: skip
    fields += [(f"{side}_{label}", arrow.float64()) for side in SIDES for label in labels]
    schema = arrow.schema(fields, metadata={"multipanda_pairs": json.dumps(metadata)})
    with replacing(path) as partial, parquet.ParquetWriter(partial, schema) as writer:
        for ((kind, _), file), split, motion in zip(files, splits, range(len(files))):
            data = _read(file)
            sides = AlignedPair(data["twin"], data["plant"], *map(int, data["starts"])).cut(align)
            rows = np.hstack([side[:: RATE // USED] for side in sides])
            m = len(rows)
            columns = [np.full(m, motion, np.int32), [kind] * m, [split] * m, np.arange(m) / USED]
            columns += list(rows.T)
            arrays = [arrow.array(c, type=field.type) for c, field in zip(columns, schema)]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
