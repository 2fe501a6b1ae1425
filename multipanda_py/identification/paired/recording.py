# SPDX-License-Identifier: Apache-2.0
"""One motion on a twin and on a plant, recorded and aligned."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError, LogError, ValidationRefused
from multipanda_py.identification.paired.motions import LAWS, LawMotion, PairMotion
from multipanda_py.identification.validation.record import run_task
from multipanda_py.realtime.recording import ArmLog
from multipanda_py.state import Matrix

INTERVAL = 5.0
"""Half the confidence interval of rest, in standard deviations."""
SMALLEST = 2e-4
"""Half of it at least [rad, m]: a simulation without noise rests exactly."""
STAYS = 10
"""Samples that a joint has to be outside for its motion to have begun."""


def leaving_rest(q: Matrix, rest: int) -> int:
    r"""Return the first sample at which a joint leaves the confidence interval of its rest.

    .. math:: |q_k - \bar q_{rest}| > \max(5 \sigma_{rest}, 2 \cdot 10^{-4}\,\mathrm{rad})

    for ten samples in a row, of any joint.

    Args:
        q: Positions, (m, n) [rad, m].
        rest: Samples at the beginning during which the arm is at rest, 2 to m - 1.

    Raises:
        LogError: If ``rest`` is out of range, a number is not finite, or nothing moves.

    Source: Realeasy, section on data (start-point detection).
    """
    if not 2 <= rest < len(q):
        raise LogError(f"samples of rest: got {rest}, allowed 2 to {len(q) - 1}")
    if not np.isfinite(q).all():
        raise LogError("positions: got a number that is not finite, allowed finite ones")
    half = np.maximum(INTERVAL * q[:rest].std(axis=0), SMALLEST)
    outside = np.abs(q - q[:rest].mean(axis=0)) > half
    counts = np.cumsum(np.vstack([np.zeros((1, q.shape[1])), outside]), axis=0)
    begins = (counts[STAYS:] - counts[:-STAYS] == STAYS).any(axis=1)
    if not begins.any():
        raise LogError(f"nothing moves in {len(q)} samples")
    return int(begins.argmax())


def shift_by_correlation(first: Matrix, second: Matrix, most: int) -> int:
    r"""Return by how many samples the second of two recordings is later, for comparison.

    .. math:: \arg\max_{|s| \le s_{max}} \sum_k \dot q_1(k) \cdot \dot q_2(k + s)

    Args:
        first: Velocities, (m, n) [rad/s, m/s].
        second: Velocities, (p, n).
        most: Largest shift that is tried, below the length of both.

    Raises:
        LogError: If ``most`` is not allowed.
    """
    if not 0 <= most < min(len(first), len(second)):
        raise LogError(
            f"largest shift: got {most}, allowed 0 to {min(len(first), len(second)) - 1}"
        )
    length = min(len(first), len(second))
    sums = []
    for shift in range(-most, most + 1):
        begin, end = max(0, -shift), min(length, length - shift)
        sums.append(float(np.sum(first[begin:end] * second[begin + shift : end + shift])))
    return int(np.argmax(sums)) - most


RATE = 1000
"""At which motions are recorded [1/s]."""
AT_REST = (0.3, 0.5)
"""When an arm that has settled shows its rest, before its motion begins [s]."""
ALIGNMENTS = ("clock", "told", "rest", "correlation")
"""How both sides can be cut to one begin; the first is the default of simulated plants, the second
of real ones."""
TOLD = 1e-6
"""By how much a reference, which has no noise, leaves its rest [rad, m]."""
_MOST = 200


@dataclass(frozen=True, eq=False)
class Side:
    """What one side did in a motion, from when it was at rest on.

    Attributes:
        rows: Positions, velocities and torques, (m, 3 n) [rad, rad/s, Nm], 1000 a second.
        told: Sample at which the reference of its law left its rest.
    """

    rows: Matrix
    told: int


@dataclass(frozen=True, eq=False)
class AlignedPair:
    """What two sides did in one motion, each from when it was at rest on.

    Attributes:
        twin: Positions, velocities and torques, (m, 3 n) [rad, rad/s, Nm], 1000 a second.
        plant: The same of the plant, (p, 3 n).
        twin_start: Sample at which the twin left its rest.
        plant_start: The same of the plant.
        shift_by_correlation: By how many samples cross-correlation has the plant later.
        twin_told: Sample at which the reference of the twin's law left its rest.
        plant_told: The same of the plant's.
    """

    twin: Matrix
    plant: Matrix
    twin_start: int
    plant_start: int
    shift_by_correlation: int
    twin_told: int = 0
    plant_told: int = 0

    def cut(self, by: str = ALIGNMENTS[0]) -> tuple[Matrix, Matrix]:
        """Return both sides from the begin of the motion on, of one length, (k, 3 n) each.

        Args:
            by: ``clock``: both from the sample at which the first of them left its rest; both were
                told at the same sample, so what the plant is late by stays in the data. ``told``:
                the same, but for by how much later the reference of the plant's law began: a
                real arm is told over a channel that takes some cycles. ``rest``: each from where
                it left its own. ``correlation``: the twin from there, the plant as much later as
                cross-correlation has it.

        Raises:
            ConfigurationError: If ``by`` is none of :data:`ALIGNMENTS`.
        """
        first, second = self.twin_start, self.plant_start
        if by not in ALIGNMENTS:
            raise ConfigurationError(f"align: got {by!r}, allowed {', '.join(ALIGNMENTS)}")
        if by in ("clock", "told"):
            later = self.plant_told - self.twin_told if by == "told" else 0
            first = max(0, -later, min(first, second - later))
            second = first + later
        elif by == "correlation":
            first = max(first, -self.shift_by_correlation)
            second = first + self.shift_by_correlation
        length = min(len(self.twin) - first, len(self.plant) - second)
        return self.twin[first : first + length], self.plant[second : second + length]


def record_pair(
    motion: PairMotion,
    arm: str,
    twin: CellConfig,
    plant: CellConfig,
    seed: int,
    laws: tuple[str, str] = (LAWS[0], LAWS[0]),
) -> AlignedPair:
    """Do a motion on both sides.

    Args:
        motion: What is done.
        arm: Name of the arm that does it, in both cells.
        twin: A simulated cell.
        plant: Another one.
        seed: Of the noise.
        laws: By which the twin and the plant do it.

    Raises:
        ValidationRefused: If a side does not come to its end, or does not move.
    """
    sides = [side(motion, arm, *one, seed) for one in zip((twin, plant), laws)]
    return align_sides(*sides)


def side(motion: PairMotion, arm: str, cell: CellConfig, law: str, seed: int) -> Side:
    """Return what an arm of a simulated cell does, from when it is at rest on.

    Raises:
        ValidationRefused: If it does not come to its end.
    """
    task = LawMotion(arm, motion.points, law)
    run = run_task(task, cell, seed)
    if run.fault or run.seconds < motion.points[-1, 0]:
        why = run.fault or f"ended after {run.seconds:.2f} of {motion.points[-1, 0]:.2f} s"
        raise ValidationRefused(f"{motion.name}: {why}")
    return side_of(run.logs[arm], motion.name)


def side_of(log: ArmLog, name: str) -> Side:
    """Return what a log has of a motion, whose time begins with its first target.

    Raises:
        ValidationRefused: If it lacks something.
    """
    if log.dq is None or log.tau is None:
        raise ValidationRefused(f"{name}: velocities or torques were not recorded")
    begins = int(np.searchsorted(log.time, AT_REST[0]))
    rows = np.hstack([log.q, log.dq, log.tau])[begins:]
    if not np.isfinite(rows).all():
        raise ValidationRefused(f"{name}: a number that is not finite was recorded")
    return Side(rows, told_at(log.part(slice(begins, None))) if begins < len(log) else 0)


def told_at(log: ArmLog) -> int:
    """Return the sample at which the reference of an arm's law leaves its rest, 0 if none does."""
    if "target_joint" not in log.columns:
        return 0
    reference = log["target_joint"][:, 0]
    away = np.abs(reference - reference[0]).max(axis=1) > TOLD
    return int(away.argmax())


def align_sides(twin: Side, plant: Side) -> AlignedPair:
    """Find where each side leaves its rest, and by how much they are apart.

    Raises:
        ValidationRefused: If a side does not move.
    """
    found = align(twin.rows, plant.rows)
    return replace(found, twin_told=twin.told, plant_told=plant.told)


def align(twin: Matrix, plant: Matrix) -> AlignedPair:
    """Find where each side leaves its rest, and by how much they are apart.

    Args:
        twin: (m, 3 n), with rest first.
        plant: (p, 3 n).

    Raises:
        ValidationRefused: If a side does not move.
    """
    n = twin.shape[1] // 3
    rest = round((AT_REST[1] - AT_REST[0]) * RATE)
    try:
        starts = [leaving_rest(rows[:, :n], rest) for rows in (twin, plant)]
    except LogError as error:
        raise ValidationRefused(str(error)) from None
    shift = shift_by_correlation(
        twin[:, n : 2 * n], plant[:, n : 2 * n], min(_MOST, len(twin) - 1, len(plant) - 1)
    )
    return AlignedPair(twin, plant, starts[0], starts[1], shift)
