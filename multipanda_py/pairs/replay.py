# SPDX-License-Identifier: Apache-2.0
"""Pairs of what an arm was recorded doing, and of its twin doing the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from multipanda_py import logs
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.config.fingerprint import fingerprint
from multipanda_py.exceptions import LogError, ValidationRefused
from multipanda_py.extras import needed
from multipanda_py.files.regular_file import parts_of
from multipanda_py.logs import ArmLog, Log
from multipanda_py.pairs.at_once import LEFT_OUT, at_once, file_of, left_to_do, refuse_none
from multipanda_py.pairs.data_set import checked_alignment
from multipanda_py.pairs.folder import Folder, Name, key_of
from multipanda_py.pairs.law_motion import LAWS, known_law
from multipanda_py.pairs.logged_motions import LoggedMotion, logged_motions, names_of
from multipanda_py.pairs.recording import ALIGNMENTS, AlignedPair, align_sides, side
from multipanda_py.pairs.table import write_table
from multipanda_py.validation.task import SIMULATED


def replay_logs(
    twin: CellConfig,
    files: Sequence[Path],
    arm: str,
    folder: Path,
    *,
    of_log: str = "",
    robot: str | None = None,
    follow: str = "",
    law: str = LAWS[0],
    align: str = "",
    seed: int = 0,
    jobs: int = -1,
    parallel: str = "",
    cluster: str = "",
    say: Callable[[str], None] = lambda text: None,
) -> int:
    """Let a twin do what a plant was recorded doing, and write the table of both.

    The recording is cut into its motions from rest to rest. For each the twin begins at rest at
    the recorded posture and follows by its law what was commanded, or measured, at its times; so
    both sides have one clock. Motions that the twin does not end are left out and said.

    Args:
        twin: A simulated cell.
        files: Recordings of one arm, as :func:`multipanda_py.logs.read` takes them.
        arm: Name of the twin's arm.
        folder: Made if it is not there; goes on as :func:`.record_pairs` does.
        of_log: Name of the recorded arm, of several.
        robot: Its model, where the log does not say.
        follow: ``commanded`` or ``measured``; by default what the log has of them, in this order.
        law: Of the twin.
        align: As of :func:`.record_pairs`, ``clock`` by default.
        seed: Of the twin's noise and the split.
        jobs: How many processes, -1 for one per core.
        parallel: See :func:`.workers`.
        cluster: Likewise.
        say: Told what is done.

    Returns:
        How many motions the table has.

    Raises:
        ValidationRefused: If the twin is real, the log is none of such an arm, see
            :func:`.logged_motions`, or no motion was done.
        ConfigurationError: If the folder has motions of something else, or cannot be written.
        MissingExtra: If a library is missing.
    """
    needed("joblib")
    needed("pyarrow")
    known_law(law, "--law")
    align = checked_alignment(align, ALIGNMENTS[0])
    if any(other.backend != SIMULATED for other in twin.arms.values()):
        raise ValidationRefused(f"twin: got arms that are not simulated, allowed {SIMULATED}")
    described = describe_arm(arm, twin.arms[arm])
    try:
        recordings = [_arm_of(logs.read(path, robot), of_log, arm) for path in files]
    except LogError as error:
        raise ValidationRefused(str(error)) from None
    motions, follow, left_out = logged_motions(recordings, described, follow, law)
    for sentence in left_out:
        say(LEFT_OUT + sentence)
    say(f"{len(motions)} motions; the twin follows what was {follow} by {law}")
    digests = [_digest(path) for path in files]
    names = [log.arm for log in recordings]
    key = key_of(fingerprint(twin), digests, arm, names, seed, follow, law)
    kept = Folder(folder, names_of(motions), key)
    left = set(left_to_do(kept, say))
    tasks = [
        (replay_one, (twin, arm, one, law, seed))
        for one, name in zip(motions, names_of(motions))
        if name in left
    ]
    at_once(kept, tasks, (parallel, cluster, jobs), say)
    refuse_none(kept)
    about = {
        "wished": {"seed": seed},
        "twin": fingerprint(twin),
        "plant": digests,
        "laws": {"twin": law, "plant": sorted({one for log in recordings for one in log.laws})},
        "twin_follows": follow,
        "logs": [path.name for path in files],
    }
    return write_table(kept, described, seed, align, about)


def _arm_of(log: Log, of_log: str, arm: str) -> ArmLog:
    """Return the recording of an arm: that named, that of the twin's name, or the only one."""
    return log.the_arm(of_log or (arm if arm in log.arms else None))


def replay_one(
    twin: CellConfig, arm: str, one: LoggedMotion, law: str, seed: int
) -> tuple[Name, bytes]:
    """Let the twin do a motion; return its name and what its file is to have."""
    name, joints = (one.motion.kind, one.motion.number), describe_arm(arm, twin.arms[arm]).n_joints
    make = partial(_pair, twin, arm, one, law, seed)
    return name, file_of(name, joints, make)


def _pair(twin: CellConfig, arm: str, one: LoggedMotion, law: str, seed: int) -> AlignedPair:
    return align_sides(side(one.motion, arm, twin, law, seed), one.plant)


def _digest(path: Path) -> str:
    """Return that of a file, or of the files of a folder."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    found = hashlib.sha256()
    for file in files:
        for part in parts_of(file):
            found.update(part)
    return found.hexdigest()
