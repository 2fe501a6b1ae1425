# SPDX-License-Identifier: Apache-2.0
"""Paired motions as training data of residual networks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files import parts_of
from multipanda_py.identification.residual.networks import Scaling
from multipanda_py.registry import needed
from multipanda_py.robots.residual.bodies import BodyDifference
from multipanda_py.robots.residual.inputs import SIDES, Inputs, Normalisation, row_labels
from multipanda_py.state import Matrix, Vector

MAX_EXCESS = 0.25
"""Maximum excess of a state component beyond its limits, relative to their distance. A larger
excess is a recording error, which would enlarge the bound of the residual."""
MIN_SAMPLES = 20
"""Minimum number of samples of a motion."""
SPLITS = ("train", "validation", "test")
_TABLE_COLUMNS = ("motion", "kind", "split", "time")
_REQUIRED_METADATA = ("normalisation", "robot", "joints", "rate")


@dataclass(frozen=True, eq=False)
class PairedMotion:
    """Motion executed by twin and plant.

    Attributes:
        kind: Kind of the motion: ``multi``, ``single`` or ``linear``.
        split: Use of the motion: ``train``, ``validation`` or ``test``.
        twin: States of the twin, (k, 3 n): positions, velocities and torques, each normalised by
            the joint limits to 0 to 1.
        plant: States of the plant, (k, 3 n), normalised in the same way.
    """

    kind: str
    split: str
    twin: Matrix
    plant: Matrix

    @property
    def residual(self) -> Matrix:
        """Normalised states of the plant minus those of the twin, (k, 3 n)."""
        difference: Matrix = self.plant - self.twin
        return difference


@dataclass(frozen=True, eq=False)
class PairedMotions:
    """All motions of a table of a paired data set.

    Attributes:
        motions: Motions in the order of the table.
        normalisation: Ranges of positions, velocities and torques that normalise states.
        robot: Model of the arm.
        joints: Names of the joints.
        rate: Samples per second [Hz].
        digest: SHA-256 digest of the table.
    """

    motions: tuple[PairedMotion, ...]
    normalisation: Normalisation
    robot: str
    joints: tuple[str, ...]
    rate: float
    digest: str

    def select(self, split: str, kinds: Collection[str] = ()) -> list[PairedMotion]:
        """Return the motions of a split.

        Args:
            split: Name of the split, such as ``test``.
            kinds: Kinds of motions; empty for all kinds.
        """
        return [
            one for one in self.motions if one.split == split and (not kinds or one.kind in kinds)
        ]


def read_pairs(path: Path) -> PairedMotions:
    """Read a table of paired motions.

    Raises:
        ConfigurationError: If the file is no table of paired motions. Also if a motion has gaps,
            less than 20 samples, or values that are not finite or far beyond the joint limits.
        MissingExtra: If pyarrow is missing.
    """
    parquet = needed("pyarrow.parquet")
    try:
        result = hashlib.sha256()
        for part in parts_of(path):
            result.update(part)
        digest = result.hexdigest()
        table = parquet.read_table(path)
        about: dict[str, Any] = json.loads(table.schema.metadata[b"multipanda_pairs"])
    except OSError as error:
        reason = error.strerror or "not a table"
        raise ConfigurationError(f"{path}: cannot be read: {reason}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{path}: not a table of multipanda pairs: {error}") from None
    labels = _checked_state_labels(path, about, table.column_names)
    scale = Normalisation(**{side: np.array(v) for side, v in about["normalisation"].items()})
    if scale.joints != len(about["joints"]):
        raise ConfigurationError(
            f"{path}: has limits of {scale.joints} joints, but {len(about['joints'])} joint names"
        )
    for name in (f"{side}_{label}" for side in SIDES for label in labels):
        if (kind := str(table[name].type)) not in ("double", "float", "int64"):
            raise ConfigurationError(f"{path}: column {name}: got {kind}, allowed double")
    sides = [
        scale.state(np.stack([table[f"{side}_{label}"].to_numpy() for label in labels], axis=1))
        for side in SIDES
    ]
    number, time = table["motion"].to_numpy(), table["time"].to_numpy()
    kinds, splits = table["kind"].to_pylist(), table["split"].to_pylist()
    if unknown := set(splits) - set(SPLITS):
        raise ConfigurationError(
            f"{path}: got split {min(unknown)!r}, allowed {', '.join(SPLITS)}"
        )
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    motions = []
    for first, last in zip(starts, [*starts[1:], len(number)]):
        parts = [side[first:last] for side in sides]
        _check(f"{path}: motion {number[first]}", time[first:last], parts, about["rate"])
        motions.append(PairedMotion(kinds[first], splits[first], *parts))
    return PairedMotions(
        tuple(motions), scale, about["robot"], tuple(about["joints"]), float(about["rate"]), digest
    )


def _checked_state_labels(
    path: Path, about: dict[str, Any], columns: Collection[str]
) -> list[str]:
    lost = [name for name in _REQUIRED_METADATA if name not in about]
    if lost:
        raise ConfigurationError(f"{path}: not a table of multipanda pairs: lacks {lost[0]}")
    rate = about["rate"]
    if not isinstance(rate, (int, float)) or not 0.0 < rate < np.inf:
        raise ConfigurationError(f"{path}: got {rate!r} samples per second, allowed more than 0")
    labels = row_labels(len(about["joints"]))
    allowed = [*_TABLE_COLUMNS, *(f"{side}_{label}" for side in SIDES for label in labels)]
    missing = [name for name in allowed if name not in columns]
    if missing:
        raise ConfigurationError(f"{path}: columns are missing: {', '.join(missing)[:80]}")
    return labels


def _check(path: str, time: Matrix, sides: list[Matrix], rate: float) -> None:
    if len(time) < MIN_SAMPLES:
        raise ConfigurationError(f"{path}: got {len(time)} samples, allowed {MIN_SAMPLES} or more")
    if np.abs(np.diff(time) * rate - 1.0).max() > 0.01:
        raise ConfigurationError(
            f"{path}: has a gap. Use motions with {rate:g} samples per second."
        )
    if not all(np.isfinite(side).all() for side in sides):
        raise ConfigurationError(f"{path}: contains values that are not finite")
    farthest = max(float(np.abs(side - 0.5).max()) - 0.5 for side in sides)
    if farthest > MAX_EXCESS:
        raise ConfigurationError(
            f"{path}: positions, velocities or torques exceed the robot's limits by "
            f"{farthest:.3g} of their range, allowed {MAX_EXCESS:g}. Record motions within the "
            "limits"
        )


MIN_DEVIATION = 1e-9
"""Standard deviation of an input, or root mean square of a residual, below which it is not
normalised."""
EARLY_START_FRACTION = 1.0 / 3.0
"""Maximum time of a random interval start before the motion, relative to the length of the
interval. Such a start is set to the first sample, so that more intervals start at rest."""


@dataclass(frozen=True, eq=False)
class TrainingMotion:
    """Inputs and desired outputs of a residual network in one motion of k samples.

    Attributes:
        inputs: Network inputs, (k, m).
        residual: Normalised states of the plant minus those of the twin, (k, 3 n). If inertial
            differences of plant and twin are known, their torques are subtracted.
    """

    inputs: Matrix
    residual: Matrix

    @classmethod
    def select(
        cls, motion: PairedMotion, pairs: PairedMotions, inputs: Inputs,
        bodies: BodyDifference | None,
    ) -> TrainingMotion:  # fmt: skip
        """Convert a motion of a table to inputs and residuals of a network.

        Args:
            motion: Motion of the table.
            pairs: Table of the motion.
            inputs: Definition of the network inputs.
            bodies: Inertial differences whose torques are subtracted from the residuals, or None.
        """
        scale, n = pairs.normalisation, pairs.normalisation.joints
        residual = motion.residual.copy()
        if bodies is not None:
            q, dq, _ = np.hsplit(scale.state_of(motion.twin), 3)
            residual[:, 2 * n :] -= bodies.run(q, dq, pairs.rate) / scale.span[2 * n :]
        return cls(inputs.rows(motion.twin), residual)


def standard_of(motions: list[TrainingMotion]) -> Scaling:
    """Return mean and scale of the inputs and residuals in motions.

    Constant components have the scale 1.
    """
    inputs = np.vstack([one.inputs for one in motions])
    spread, size = inputs.std(axis=0), np.sqrt(_squares(motions))
    usual = (
        np.where(spread > MIN_DEVIATION, spread, 1.0),
        np.where(size > MIN_DEVIATION, size, 1.0),
    )
    return Scaling(inputs.mean(axis=0), *usual)


def _squares(motions: list[TrainingMotion]) -> Vector:
    squares: Vector = np.square(np.vstack([one.residual for one in motions])).mean(axis=0)
    return squares


def weights_of(motions: list[TrainingMotion], weights: tuple[float, float, float]) -> Vector:
    """Return the weight of every component of a residual in the loss, (3 n,).

    Args:
        motions: Training motions. Weights are divided by the mean squares of their residuals.
        weights: Weights of the residuals of positions, velocities and torques.
    """
    squares = _squares(motions)
    result: Vector = np.repeat(weights, len(squares) // 3) / np.maximum(squares, 1e-12)
    return result


def intervals_of(
    motions: list[TrainingMotion], length: int, batch: int, rng: np.random.Generator
) -> tuple[Matrix, Matrix]:
    """Return a batch of intervals that start at random samples of the motions.

    Args:
        motions: Training motions.
        length: Number of samples of an interval.
        batch: Number b of intervals.
        rng: Random generator.

    Returns:
        Inputs, (b, length, m), and residuals, (b, length, 3 n).
    """
    chosen = rng.integers(len(motions), size=batch)
    early = -int(EARLY_START_FRACTION * length)
    starts = [
        max(0, int(rng.integers(early, len(motions[k].inputs) - length + 1))) for k in chosen
    ]
    parts = [(motions[k], slice(s, s + length)) for k, s in zip(chosen, starts)]
    inputs = np.stack([one.inputs[part] for one, part in parts])
    residuals = np.stack([one.residual[part] for one, part in parts])
    return inputs, residuals
