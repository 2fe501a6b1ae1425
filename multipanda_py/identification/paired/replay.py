# SPDX-License-Identifier: Apache-2.0
"""Paired data sets from recordings of an arm and their replay on a simulated twin."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from multipanda_py.config.cell_file import CellConfig, fingerprint
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import LogError, ValidationRejected
from multipanda_py.files import parts_of
from multipanda_py.identification.arm.stack import low_pass
from multipanda_py.identification.paired.data_set import checked_alignment
from multipanda_py.identification.paired.folder import (
    SKIPPED_PREFIX,
    Folder,
    Name,
    check_any_recorded,
    file_of,
    key_of,
    left_to_do,
    run_parallel,
    write_table,
)
from multipanda_py.identification.paired.motions import (
    CONTROLLETS,
    REST_TIME,
    STREAMED_CONTROLLET,
    PairMotion,
    known_law,
)
from multipanda_py.identification.paired.real_plant import resampled
from multipanda_py.identification.paired.recording import (
    ALIGNMENTS,
    RATE,
    REST_INTERVAL,
    AlignedPair,
    Side,
    align_sides,
    command_start_of,
    side,
)
from multipanda_py.identification.validation.task import SIMULATED_BACKEND
from multipanda_py.planning.trajectory.trajectory import thin
from multipanda_py.realtime import recording as logs
from multipanda_py.realtime.recording import ArmLog, Log
from multipanda_py.realtime.recording.log import check_columns, check_completeness
from multipanda_py.registry import needed
from multipanda_py.robots import MODELS, ArmDescription
from multipanda_py.state import Matrix
from multipanda_py.targets import TRAJECTORY_POINTS

MOTION_KIND = "log"
"""Kind of motions from recordings, in file names and tables."""
FOLLOWED_SIGNALS = ("commanded", "measured")
"""Recorded signals that the twin can follow. The first is the default if it was recorded."""
MIN_RATE = 100.0
"""Minimum sample rate of a recording [Hz], equal to that of the table."""
MOTION_SPEED = 0.02
"""Joint speed that counts as motion [rad/s, m/s]."""
TIME_BEFORE, MIN_REST, TIME_AFTER = 0.1, 0.45, 0.25
"""Time before the first movement that belongs to a motion, minimum rest before this movement, and
minimum rest after the motion [s]."""
CUTOFF_FREQUENCY, POINT_RATE = 10.0, 50
"""Cutoff of the filter of measured positions [Hz], and rate of the points for the twin [Hz]."""
MAX_DEVIATION = 1e-3
"""Maximum deviation of the trajectory for the twin from the recorded path [rad, m]."""
MAX_GRAVITY_DIFFERENCE = 0.1
"""Difference of gravity in the base frame that counts as another mounting [m/s^2]."""


@dataclass(frozen=True, eq=False)
class LoggedMotion:
    """Motion cut from a recording.

    Attributes:
        motion: Motion that the twin executes, from rest to rest.
        plant: Recording of the motion on the arm (the plant).
    """

    motion: PairMotion
    plant: Side


def logged_motions(
    recordings: Sequence[ArmLog],
    arm: ArmDescription,
    follow: str = "",
    controllet: str = STREAMED_CONTROLLET,
) -> tuple[list[LoggedMotion], str, list[str]]:
    """Cut recordings into motions from rest to rest.

    A motion is cut out if the recording contains 0.45 s of rest before it and 0.25 s of rest after
    it, with all joint velocities at 0.02 rad/s or less.

    Args:
        recordings: Recordings of the arm in chronological order.
        arm: Description of the twin's arm.
        follow: Positions that the twin follows, one of :data:`FOLLOWED_SIGNALS`. If empty, they
            are ``commanded`` if every sample has commanded positions, else ``measured``.
        controllet: Controllet of the twin. ``joint_impedance`` allows motions of any length. With
            other controllets, motions with too many trajectory points are skipped.

    Returns:
        Motions, the followed signal, and messages about skipped motions.

    Raises:
        ValidationRejected: If a recording is of another robot, has gaps or invalid values, lacks
            velocities or torques, or has less than 100 samples per second. Also if no recording
            contains a motion.
    """
    parts = [part for log in recordings for part in _parts(log)]
    for part in parts:
        check_log(part, arm)
    follow = _followed(parts, follow)
    result, left_out = list[LoggedMotion](), list[str]()
    for part in parts:
        for start, end in _motion_intervals(part):
            try:
                points = _twin_trajectory(part, start, end, follow, controllet)
            except ValidationRejected as error:
                left_out.append(f"{part.arm}, {start:.2f} to {end:.2f} s: {error}")
                continue
            motion = PairMotion(MOTION_KIND, len(result), (), points)
            result.append(LoggedMotion(motion, _plant_side(part, start, end)))
    if not result:
        reason = left_out[0] if left_out else (
            f"{', '.join(part.arm for part in parts)}: no motion that starts after {MIN_REST:g} "
            f"s of "
            f"rest and ends with {TIME_AFTER:g} s of rest (no joint faster than {MOTION_SPEED:g} "
            f"rad/s)"
        )  # fmt: skip
        raise ValidationRejected(reason)
    return result, follow, left_out


def _parts(log: ArmLog) -> list[ArmLog]:
    return [log.part(slice(*run)) for run in pairwise([*log.starts, len(log)])]


def check_log(log: ArmLog, arm: ArmDescription) -> None:
    """Check that a recording belongs to an arm and is complete and accurate enough for a data set.

    Raises:
        ValidationRejected: If a check fails.
    """
    n, name = arm.n_joints, arm.robot.name
    if len(log.joints) != n:
        raise ValidationRejected(
            f"{log.arm}: the recording has {len(log.joints)} joints, but {name} has {n}. Use a "
            "recording of this robot"
        )
    if log.robot is not None and log.robot != name:
        raise ValidationRejected(
            f"{log.arm}: recorded on {log.robot}, allowed {name} as in the twin"
        )
    if log.dq is None or log.tau is None or not log.gravity_in_tau:
        raise ValidationRejected(
            f"{log.arm}: got {', '.join(log.names[:8])}, allowed q, dq and measured tau of each "
            "joint. The torques have to include gravity."
        )
    if log.rate < 0.99 * MIN_RATE:
        raise ValidationRejected(
            f"{log.arm}: got {log.rate:.1f} samples per second, allowed {MIN_RATE:g} or more"
        )
    gaps = log.gaps()
    if len(gaps):
        raise ValidationRejected(
            f"{log.arm}: has {len(gaps)} gaps, the first from {gaps[0, 0]:.3f} to "
            f"{gaps[0, 1]:.3f} s. Cut the log into parts without gaps."
        )
    if warnings := check_completeness(log) + check_columns(log, name if name in MODELS else None):
        raise ValidationRejected(warnings[0])
    if log.gravity_in_base is not None:
        here = arm.rotation_base_in_world.T @ np.array([0.0, 0.0, -9.81])
        if np.abs(log.gravity_in_base - here).max() > MAX_GRAVITY_DIFFERENCE:
            raise ValidationRejected(
                f"{log.arm}: recorded with gravity {np.round(log.gravity_in_base, 2).tolist()} in "
                f"the base frame, but the twin has {np.round(here, 2).tolist()} m/s^2. Correct "
                "the mounting of the twin."
            )


def _followed(logs: Sequence[ArmLog], follow: str) -> str:
    if follow not in ("", *FOLLOWED_SIGNALS):
        raise ValidationRejected(
            f"--follow: got {follow!r}, allowed {', '.join(FOLLOWED_SIGNALS)}"
        )
    lacking = [
        log.arm
        for log in logs
        if "target_joint" not in log.columns or not np.isfinite(log["target_joint"]).all()
    ]
    if follow == FOLLOWED_SIGNALS[0] and lacking:
        raise ValidationRejected(
            f"{lacking[0]}: some commanded joint positions are missing in the log. "
            "Use --follow measured."
        )
    return follow or FOLLOWED_SIGNALS[1 if lacking else 0]


def _motion_intervals(log: ArmLog) -> list[tuple[float, float]]:
    """Return start and end of each motion from rest to rest [s]."""
    speed = np.abs(np.asarray(log.dq)).max(axis=1)
    moving = np.flatnonzero(speed > MOTION_SPEED)
    if not len(moving):
        return []
    time = log.time
    rests = np.diff(time[moving]) >= MIN_REST + TIME_AFTER
    firsts = moving[np.concatenate([[True], rests])]
    lasts = moving[np.concatenate([rests, [True]])]
    return [
        (float(time[a]) - TIME_BEFORE, float(time[b]) + TIME_AFTER)
        for a, b in zip(firsts.tolist(), lasts.tolist())
        if time[a] - time[0] >= MIN_REST and time[-1] - time[b] >= TIME_AFTER
    ]


def _twin_trajectory(
    log: ArmLog, start: float, end: float, followed_signal: str, controllet: str
) -> Matrix:
    """Return the trajectory of the twin: rest, then the recorded path, (p, 1 + 3 n)."""
    interpolate = needed("scipy.interpolate")
    reference = (
        log.q if followed_signal == FOLLOWED_SIGNALS[1] else np.asarray(log["target_joint"])[:, 0]
    )
    spline = interpolate.CubicSpline(log.time, reference)
    rate = min(RATE, round(log.rate))
    time = np.arange(start, end, 1.0 / rate)
    q = spline(time)
    if followed_signal == FOLLOWED_SIGNALS[1]:
        q = low_pass(q, CUTOFF_FREQUENCY, rate)
    dq = np.gradient(q, 1.0 / rate, axis=0)
    ddq = np.gradient(dq, 1.0 / rate, axis=0)
    rows = np.column_stack([time - start + REST_TIME, q, dq, ddq])[
        :: max(1, round(rate / POINT_RATE))
    ]
    # Trajectories have to start and end with zero velocity, but differentiated noise is not zero.
    rows[[0, -1], 1 + q.shape[1] :] = 0.0
    stands = rows[:1].copy()
    stands[0, 0] = 0.0
    if controllet == STREAMED_CONTROLLET:
        return np.vstack([stands, rows])
    rows, missed = thin(rows, TRAJECTORY_POINTS - 1)
    if missed.max() > MAX_DEVIATION:
        raise ValidationRejected(
            f"motion of {end - start:.1f} s: {TRAJECTORY_POINTS} trajectory points deviate by "
            f"{missed.max():.4f} rad from the path, allowed {MAX_DEVIATION:g} rad. Use "
            f"--controllet {STREAMED_CONTROLLET} for any length."
        )
    return np.vstack([stands, rows])


def _plant_side(log: ArmLog, start: float, end: float) -> Side:
    """Return the recording of a motion at 1 kHz, with the rest before it."""
    inside = log.between(start - (REST_TIME - REST_INTERVAL[0]) - 0.02, end + 0.02)
    part = resampled(inside, inside.time - (start - REST_TIME))
    part = part.between(REST_INTERVAL[0] - 1e-9, end - start + REST_TIME)
    columns: list[NDArray[np.float64]] = [part[name] for name in ("q", "dq", "tau")]
    return Side(np.hstack(columns), command_start_of(part))


def names_of(motions: Sequence[LoggedMotion]) -> list[tuple[str, int]]:
    """Return kind and number of each motion, which identify it in a data set."""
    return [(one.motion.kind, one.motion.number) for one in motions]


def replay_logs(
    twin: CellConfig,
    files: Sequence[Path],
    arm: str,
    folder: Path,
    *,
    of_log: str = "",
    robot: str | None = None,
    follow: str = "",
    controllet: str = CONTROLLETS[0],
    align: str = "",
    seed: int = 0,
    jobs: int = -1,
    parallel: str = "",
    cluster: str = "",
    report: Callable[[str], None] = lambda text: None,
) -> int:
    """Replay recordings of an arm (the plant) on a twin, and write the table of plant and twin.

    The recordings are cut into motions from rest to rest. Motions that the twin does not complete
    are skipped and reported.

    Args:
        twin: Simulated cell.
        files: Recordings of one arm, as accepted by :func:`multipanda_py.realtime.recording.read`.
        arm: Name of the twin's arm.
        folder: Folder of the data set, created if missing. An interrupted replay resumes.
        of_log: Name of the recorded arm, if a file contains several.
        robot: Robot model, if the files do not state it.
        follow: Positions that the twin follows: ``commanded`` or ``measured``. If empty, they are
            ``commanded`` if every sample has commanded positions, else ``measured``.
        controllet: Controllet of the twin.
        align: Alignment in time of twin and plant in the table, see :meth:`.AlignedPair.cut`.
            Default: ``clock``.
        seed: Random seed of noise, and of the choice of motions for training, validation and
            testing.
        jobs: Number of processes, -1 for one per core.
        parallel: Backend of joblib, see :func:`.workers`.
        cluster: Address of a Dask scheduler, see :func:`.workers`.
        report: Callback that receives progress messages.

    Returns:
        Number of motions in the table.

    Raises:
        ValidationRejected: If the twin is real, a log is unsuitable (see :func:`.logged_motions`),
            or no motion was completed.
        ConfigurationError: If the folder belongs to another data set or cannot be written.
        MissingExtra: If a library is missing.
    """
    needed("joblib")
    needed("pyarrow")
    known_law(controllet, "--controllet")
    align = checked_alignment(align, ALIGNMENTS[0])
    if any(other.backend != SIMULATED_BACKEND for other in twin.arms.values()):
        raise ValidationRejected(
            f"twin: got arms that are not simulated. Use the backend {SIMULATED_BACKEND}."
        )
    described = describe_arm(arm, twin.arms[arm])
    try:
        recordings = [_log_of_arm(logs.read(path, robot), of_log, arm) for path in files]
    except LogError as error:
        raise ValidationRejected(str(error)) from None
    motions, follow, left_out = logged_motions(recordings, described, follow, controllet)
    for sentence in left_out:
        report(SKIPPED_PREFIX + sentence)
    report(f"{len(motions)} motions; the twin follows the {follow} positions with {controllet}")

    digests = [_content_digest(path) for path in files]
    names = [log.arm for log in recordings]
    key = key_of(fingerprint(twin), digests, arm, names, seed, follow, controllet)
    data_folder = Folder(folder, names_of(motions), key)
    left = set(left_to_do(data_folder, report))
    tasks = [
        (replay_one, (twin, arm, one, controllet, seed))
        for one, name in zip(motions, names_of(motions))
        if name in left
    ]
    run_parallel(data_folder, tasks, (parallel, cluster, jobs), report)
    check_any_recorded(data_folder)
    about = {
        "wished": {"seed": seed},
        "twin": fingerprint(twin),
        "plant": digests,
        "laws": {
            "twin": controllet,
            "plant": sorted({one for log in recordings for one in log.laws}),
        },
        "twin_follows": follow,
        "logs": [path.name for path in files],
    }
    return write_table(data_folder, described, seed, align, about)


def _log_of_arm(recording: Log, recorded_arm: str, twin_arm: str) -> ArmLog:
    return recording.the_arm(recorded_arm or (twin_arm if twin_arm in recording.arms else None))


def replay_one(
    twin: CellConfig, arm: str, one: LoggedMotion, controllet: str, seed: int
) -> tuple[Name, bytes]:
    """Replay one motion on the twin and return its name and the contents of its file."""
    name, joints = (one.motion.kind, one.motion.number), describe_arm(arm, twin.arms[arm]).n_joints
    make = partial(_pair, twin, arm, one, controllet, seed)
    return name, file_of(name, joints, make)


def _pair(
    twin: CellConfig, arm: str, one: LoggedMotion, controllet: str, seed: int
) -> AlignedPair:
    return align_sides(side(one.motion, arm, twin, controllet, seed), one.plant)


def _content_digest(path: Path) -> str:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    digest = hashlib.sha256()
    for file in files:
        for part in parts_of(file):
            digest.update(part)
    return digest.hexdigest()
