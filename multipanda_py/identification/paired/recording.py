# SPDX-License-Identifier: Apache-2.0
"""Recording of one motion on twin and plant, and alignment of the two recordings in time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError, LogError, ValidationRejected
from multipanda_py.identification.paired.motions import CONTROLLETS, LawMotion, PairMotion
from multipanda_py.identification.validation.record import run_task
from multipanda_py.realtime.recording import ArmLog
from multipanda_py.state import Matrix

REST_DEVIATIONS = 5.0
"""Half width of the confidence interval of rest, in standard deviations."""
MIN_REST_HALF_WIDTH = 2e-4
"""Minimum half width of the rest interval [rad, m], for simulations without noise."""
START_SAMPLES = 10
"""Consecutive samples outside the interval that mark the start of a motion."""


def leaving_rest(q: Matrix, rest: int) -> int:
    r"""Return the first sample at which a joint has left its rest position beyond noise.

    .. math:: |q_k - \bar q_{rest}| > \max(5 \sigma_{rest}, 2 \cdot 10^{-4}\,\mathrm{rad}).

    Symbols: joint position :math:`q_k` in sample k, mean :math:`\bar q_{rest}` and standard
    deviation :math:`\sigma_{rest}` at rest. The condition holds for ten consecutive samples.

    Args:
        q: Joint positions, (m, n) [rad, m].
        rest: Number of samples at rest at the beginning, 2 to m - 1.

    Raises:
        LogError: If ``rest`` is out of range, a value is not finite, or no joint moves.

    Source: Dürr et al., Realeasy, IEEE CASE 2021, section on data (start-point detection).
    """
    if not 2 <= rest < len(q):
        raise LogError(f"rest: got {rest} samples at rest, allowed 2 to {len(q) - 1}")
    if not np.isfinite(q).all():
        raise LogError("positions: got a value that is not finite")
    half = np.maximum(REST_DEVIATIONS * q[:rest].std(axis=0), MIN_REST_HALF_WIDTH)
    outside = np.abs(q - q[:rest].mean(axis=0)) > half
    counts = np.cumsum(np.vstack([np.zeros((1, q.shape[1])), outside]), axis=0)
    begins = (counts[START_SAMPLES:] - counts[:-START_SAMPLES] == START_SAMPLES).any(axis=1)
    if not begins.any():
        raise LogError(f"no joint moves in {len(q)} samples")
    return int(begins.argmax())


def shift_by_correlation(first: Matrix, second: Matrix, max_shift: int) -> int:
    r"""Return the delay of the second recording in samples, by cross-correlation of velocities.

    .. math:: \arg\max_{|s| \le s_{max}} \sum_k \dot q_1(k) \cdot \dot q_2(k + s).

    Symbols: shift s, and joint velocities :math:`\dot q_1` and :math:`\dot q_2` of the recordings
    in sample k.

    Args:
        first: Joint velocities of the first recording, (m, n) [rad/s, m/s].
        second: Joint velocities of the second recording, (p, n).
        max_shift: Maximum shift in samples, below the length of both recordings.

    Raises:
        LogError: If ``max_shift`` is out of range.
    """
    if not 0 <= max_shift < min(len(first), len(second)):
        raise LogError(
            f"maximum shift: got {max_shift}, allowed 0 to {min(len(first), len(second)) - 1}"
        )
    length = min(len(first), len(second))
    sums = []
    for shift in range(-max_shift, max_shift + 1):
        start, end = max(0, -shift), min(length, length - shift)
        sums.append(float(np.sum(first[start:end] * second[start + shift : end + shift])))
    return int(np.argmax(sums)) - max_shift


RATE = 1000
"""Sample rate of recorded motions [Hz]."""
REST_INTERVAL = (0.3, 0.5)
"""Start and end of the interval at rest before a motion, in the time of the log [s]. The arm
settles before it."""
ALIGNMENTS = ("clock", "command", "rest", "correlation")
"""Alignments of twin and plant, see :meth:`AlignedPair.cut`. The first is the default for
simulated plants, the second for real ones."""
START_THRESHOLD = 1e-6
"""Deviation of a noise-free reference from its initial value that marks its start [rad, m]."""
_MAX_LAG = 200  # Maximum shift between the two recordings [samples].


@dataclass(frozen=True, eq=False)
class Side:
    """Recording of one motion on the twin or on the plant, starting at rest.

    Attributes:
        rows: Positions, velocities and torques at 1 kHz, (m, 3 n) [rad, rad/s, Nm].
        command_start: Sample at which the commanded position starts to move.
    """

    rows: Matrix
    command_start: int


@dataclass(frozen=True, eq=False)
class AlignedPair:
    """Recordings of one motion on twin and plant, each starting at rest.

    Attributes:
        twin: Positions, velocities and torques of the twin at 1 kHz, (m, 3 n) [rad, rad/s, Nm].
        plant: Positions, velocities and torques of the plant, (p, 3 n).
        twin_start: Sample at which the twin starts to move.
        plant_start: Sample at which the plant starts to move.
        shift_by_correlation: Delay of the plant relative to the twin, from cross-correlation
            [samples].
        twin_command_start: Sample at which the commanded position of the twin starts to move.
        plant_command_start: Sample at which the commanded position of the plant starts to move.
    """

    twin: Matrix
    plant: Matrix
    twin_start: int
    plant_start: int
    shift_by_correlation: int
    twin_command_start: int = 0
    plant_command_start: int = 0

    def cut(self, by: str = ALIGNMENTS[0]) -> tuple[Matrix, Matrix]:
        """Return twin and plant from the start of the motion on, with equal length, (k, 3 n) each.

        Args:
            by: Alignment of the recordings. ``clock`` cuts both at the same sample, at which the
                first of the two arms moves, which keeps the delay of the plant. ``command`` does
                so after a shift that makes both commanded positions start together. ``rest`` cuts
                each recording where its own arm starts to move. ``correlation`` cuts the twin
                there, and the plant by :attr:`shift_by_correlation` later.

        Raises:
            ConfigurationError: If ``by`` is not one of :data:`ALIGNMENTS`.
        """
        first, second = self.twin_start, self.plant_start
        if by not in ALIGNMENTS:
            raise ConfigurationError(f"align: got {by!r}, allowed {', '.join(ALIGNMENTS)}")
        if by in ("clock", "command"):
            later = self.plant_command_start - self.twin_command_start if by == "command" else 0
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
    controllets: tuple[str, str] = (CONTROLLETS[0], CONTROLLETS[0]),
) -> AlignedPair:
    """Simulate a motion on twin and plant.

    Args:
        motion: Motion to execute.
        arm: Name of the moving arm in both cells.
        twin: Simulated cell.
        plant: Simulated cell.
        seed: Random seed of the noise.
        controllets: Controllets of the twin and of the plant.

    Raises:
        ValidationRejected: If twin or plant does not complete the motion or does not move.
    """
    sides = [side(motion, arm, *one, seed) for one in zip((twin, plant), controllets)]
    return align_sides(*sides)


def side(motion: PairMotion, arm: str, cell: CellConfig, controllet: str, seed: int) -> Side:
    """Simulate a motion on twin or plant, and return its recording, which starts at rest.

    Raises:
        ValidationRejected: If the arm does not complete the motion.
    """
    task = LawMotion(arm, motion.points, controllet)
    run = run_task(task, cell, seed)
    if run.fault or run.seconds < motion.points[-1, 0]:
        reason = run.fault or f"ended after {run.seconds:.2f} of {motion.points[-1, 0]:.2f} s"
        raise ValidationRejected(f"{motion.name}: {reason}")
    return side_of(run.logs[arm], motion.name)


def side_of(log: ArmLog, name: str) -> Side:
    """Convert the log of a motion to a :class:`Side`.

    Args:
        log: Log of the arm. Its time starts at the first target.
        name: Name of the motion, for messages.

    Raises:
        ValidationRejected: If velocities or torques are missing, or a value is not finite.
    """
    if log.dq is None or log.tau is None:
        raise ValidationRejected(f"{name}: velocities or torques are missing. Record both.")
    begins = int(np.searchsorted(log.time, REST_INTERVAL[0]))
    rows = np.hstack([log.q, log.dq, log.tau])[begins:]
    if not np.isfinite(rows).all():
        raise ValidationRejected(f"{name}: got a value that is not finite in the recording")
    return Side(rows, command_start_of(log.part(slice(begins, None))) if begins < len(log) else 0)


def command_start_of(log: ArmLog) -> int:
    """Return the sample at which the commanded position starts to move.

    The result is 0 if this position was not recorded or does not move.
    """
    if "target_joint" not in log.columns:
        return 0
    reference = log["target_joint"][:, 0]
    away = np.abs(reference - reference[0]).max(axis=1) > START_THRESHOLD
    return int(away.argmax())


def align_sides(twin: Side, plant: Side) -> AlignedPair:
    """Find start samples and delay of two recordings, without cutting them.

    Raises:
        ValidationRejected: If the arm does not move in one of the recordings.
    """
    result = align(twin.rows, plant.rows)
    return replace(
        result, twin_command_start=twin.command_start, plant_command_start=plant.command_start
    )


def align(twin: Matrix, plant: Matrix) -> AlignedPair:
    """Find the start samples of two recordings and, by cross-correlation, the delay between them.

    Args:
        twin: Positions, velocities and torques of the twin, starting at rest, (m, 3 n).
        plant: Positions, velocities and torques of the plant, starting at rest, (p, 3 n).

    Raises:
        ValidationRejected: If the arm does not move in one of the recordings.
    """
    n = twin.shape[1] // 3
    rest = round((REST_INTERVAL[1] - REST_INTERVAL[0]) * RATE)
    try:
        starts = [leaving_rest(rows[:, :n], rest) for rows in (twin, plant)]
    except LogError as error:
        raise ValidationRejected(str(error)) from None
    shift = shift_by_correlation(
        twin[:, n : 2 * n], plant[:, n : 2 * n], min(_MAX_LAG, len(twin) - 1, len(plant) - 1)
    )
    return AlignedPair(twin, plant, starts[0], starts[1], shift)
