# SPDX-License-Identifier: Apache-2.0
"""Folder of recorded motions, parallel recording of missing ones, and the table of all motions."""

from __future__ import annotations

import hashlib
import io
import json
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError, ValidationRejected
from multipanda_py.files import open_regular, read_text, replacing
from multipanda_py.identification.paired.recording import RATE, AlignedPair
from multipanda_py.registry import VERSION, needed
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.residual.inputs import SIDES, Normalisation, row_labels
from multipanda_py.robots.residual.weights import DAMAGED_FILE_ERRORS
from multipanda_py.state import Matrix

TABLE_FILE, RECORDED_FOLDER = "pairs.parquet", "recorded"
Name = tuple[str, int]


def packed(pair: AlignedPair | None, joints: int, message: str) -> bytes:
    """Return the contents of the file that stores the recordings of a motion.

    Args:
        pair: Recordings of twin and plant, or None for a skipped motion.
        joints: Number of joints.
        message: Name of the motion, or the reason why it was skipped.
    """
    rows: dict[str, Any] = {side: np.zeros((0, 3 * joints)) for side in ("twin", "plant")}
    starts = [0, 0, 0]
    if pair is not None:
        rows = {"twin": pair.twin, "plant": pair.plant}
        starts = [pair.twin_start, pair.plant_start, pair.shift_by_correlation]
        starts += [pair.twin_command_start, pair.plant_command_start]
    written = io.BytesIO()
    np.savez_compressed(written, starts=starts, said=message, **rows)
    return written.getvalue()


class Folder:
    """Folder of a data set with one file for each recorded or skipped motion.

    Args:
        path: Folder, created if missing.
        names: Names of all motions of the data set.
        key: Values that identify the data set, see :func:`key_of`.

    Attributes:
        path: Folder of the data set.

    Raises:
        ConfigurationError: If the folder belongs to another data set or cannot be written.
    """

    def __init__(self, path: Path, names: Sequence[Name], key: Sequence[object]) -> None:
        self.path, parts = path, path / RECORDED_FOLDER
        _create_or_check_folder(path, parts, hashlib.sha256(json.dumps(key).encode()).hexdigest())
        self._files = {name: parts / f"{name[0]}-{name[1]:05d}.npz" for name in names}

    def __len__(self) -> int:
        return len(self._files)

    def left(self) -> list[Name]:
        """Return the motions that are neither recorded nor skipped."""
        return [name for name, file in self._files.items() if not file.is_file()]

    def put(self, name: Name, data: bytes) -> None:
        with replacing(self._files[name]) as partial:
            partial.write_bytes(data)

    def pair(self, name: Name) -> AlignedPair:
        """Return the recordings of a motion on twin and plant, empty for a skipped motion."""
        data = self._read(name)
        return AlignedPair(data["twin"], data["plant"], *map(int, data["starts"]))

    def motions(self) -> list[Name]:
        """Return the names of the recorded motions."""
        return [name for name in self._files if len(self._read(name)["twin"])]

    def note(self, name: Name) -> str:
        """Return the message about a motion: its name, or the reason why it was skipped."""
        return str(self._read(name)["said"])

    def first_note(self) -> str:
        """Return the :meth:`note` of the first motion."""
        return self.note(next(iter(self._files)))

    def _read(self, name: Name) -> dict[str, Matrix]:
        file = self._files[name]
        try:
            with open_regular(file) as opened, np.load(opened, allow_pickle=False) as data:
                result = {key: data[key] for key in data.files}
            lost = {"twin", "plant", "starts", "said"}.difference(result)
        except (*DAMAGED_FILE_ERRORS, OSError, ValueError):
            lost = {"its whole content"}
        if lost:
            raise ConfigurationError(
                f"{file}: truncated or changed: lacks {min(lost)}. Delete the file, and run the "
                "same command to record its motion again."
            )
        return result


def key_of(*parts: object) -> list[object]:
    """Return the values that identify a data set: ``parts`` and the package version."""
    return [*parts, VERSION]


def _create_or_check_folder(folder: Path, parts: Path, key: str) -> None:
    mark = parts / "key.txt"
    try:
        parts.mkdir(parents=True, exist_ok=True)
        if not mark.exists() and any(parts.glob("*.npz")):
            raise ConfigurationError(
                f"{folder}: has motions, but {mark.name}, which identifies their data set, is "
                "missing. Use another folder."
            )
        if not mark.exists():
            with replacing(mark) as partial:
                partial.write_text(key, encoding="utf-8")
        other = read_text(mark) != key
    except OSError as error:
        raise ConfigurationError(f"{folder}: cannot be written: {error.strerror}") from None
    if other:
        raise ConfigurationError(
            f"{folder}: has motions of another cell, plant, arm, seed, margin, controllet or "
            "version. "
            "Use another folder."
        )


SPLITS = ("train", "validation", "test")
# Ends of training and validation motions as fractions of all motions: 80 % of the motions are for
# training, 15 % for validation, and 5 % for testing.
_SPLIT_FRACTIONS = (0.80, 0.95)


def split_of(kinds: Sequence[str], seed: int) -> list[str]:
    """Assign each motion at random to training (80 %), validation (15 %) or testing (5 %).

    The fractions apply to each kind of motion. Linear motions are only used for testing.
    """
    result = ["test"] * len(kinds)
    for kind in sorted(set(kinds) - {"linear"}):
        indices = [index for index, other in enumerate(kinds) if other == kind]
        rng = np.random.default_rng([seed, 7, len(kind), *kind.encode()])
        first, second = (round(fraction * len(indices)) for fraction in _SPLIT_FRACTIONS)
        for rank, which in enumerate(rng.permutation(len(indices))):
            result[indices[which]] = SPLITS[(rank >= first) + (rank >= second)]
    return result


TABLE_RATE = 100
"""Samples per second in the table, out of the 1000 recorded."""


def write_table(
    folder: Folder, arm: ArmDescription, seed: int, align: str, about: Mapping[str, Any]
) -> int:
    """Write the recorded motions of a data set to one table and return their number.

    Args:
        folder: Folder with all motions.
        arm: Description of the arm.
        seed: Random seed of the choice of motions for training, validation and testing.
        align: Alignment in time of twin and plant, see :meth:`.AlignedPair.cut`.
        about: Further metadata of the table.

    Raises:
        MissingExtra: If pyarrow is missing.
    """
    arrow, parquet = needed("pyarrow"), needed("pyarrow.parquet")
    names, limits = folder.motions(), arm.limits
    lower, upper = limits.span
    scale = Normalisation.of_limits(lower, upper, limits.velocity, limits.torque)
    metadata = {
        "robot": arm.robot.name,
        "joints": [joint.name for joint in arm.robot.joints],
        "arm": arm.name,
        "rate": TABLE_RATE,
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
        replacing(folder.path / TABLE_FILE) as partial,
        parquet.ParquetWriter(partial, schema) as writer,
    ):
        for motion, (name, split) in enumerate(zip(names, splits)):
            sides = folder.pair(name).cut(align)
            rows = np.hstack([side[:: RATE // TABLE_RATE] for side in sides])
            m = len(rows)
            columns = [np.full(m, motion, np.int32), [name[0]] * m, [split] * m]
            columns += [np.arange(m) / TABLE_RATE, *rows.T]
            arrays = [arrow.array(c, type=field.type) for c, field in zip(columns, schema)]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
    return len(names)


PARALLEL_BACKENDS = ("loky", "dask")
"""Backends of joblib available on the command line. Python callers can use any
backend of joblib."""
_TIMEOUT = 10.0  # Timeout of the connection to a Dask scheduler [s].


@contextmanager
def workers(parallel: str = "", cluster: str = "", jobs: int = -1) -> Iterator[None]:
    """Select the joblib backend for parallel processes within a context.

    Args:
        parallel: Backend, one of :data:`PARALLEL_BACKENDS`. If empty, the setting of
            ``joblib.parallel_config`` applies.
        cluster: Address of a Dask scheduler. Without one, a local cluster is created.
        jobs: Number of workers of the local cluster, -1 for one per core.

    Raises:
        ConfigurationError: If the backend does not exist or the scheduler does not answer.
        MissingExtra: If a library of the backend is missing.
    """
    joblib = needed("joblib")
    if parallel not in ("", *PARALLEL_BACKENDS):
        raise ConfigurationError(
            f"--parallel: got {parallel!r}, allowed {', '.join(PARALLEL_BACKENDS)}"
        )
    if cluster and parallel != "dask":
        raise ConfigurationError(f"--cluster: got {cluster!r} without Dask. Use --parallel dask.")
    if not parallel:
        yield
        return
    if parallel == "loky":
        with joblib.parallel_config("loky"):
            yield
        return
    distributed = needed("distributed")
    own = {"n_workers": joblib.effective_n_jobs(jobs), "threads_per_worker": 1}
    try:
        client = (
            distributed.Client(cluster, timeout=_TIMEOUT)
            if cluster
            else distributed.Client(**own, dashboard_address=None)
        )
    except (OSError, ValueError) as error:
        words = " ".join(str(error).split())
        raise ConfigurationError(f"--cluster: no answer from {cluster}: {words}") from None
    with client, joblib.parallel_config("dask"):
        yield


LogFunction = Callable[[str], None]
MotionJob = tuple[Callable[..., tuple[Name, bytes]], tuple[Any, ...]]
"""Function with its arguments for a worker process. It returns name and file
contents of a motion."""
SKIPPED_PREFIX = "left out: "


def left_to_do(folder: Folder, log: LogFunction) -> list[Name]:
    """Return the motions that a folder lacks, and log the number of those that it contains."""
    left = folder.left()
    if len(left) < len(folder):
        log(f"{len(folder) - len(left)} of {len(folder)} motions are already done")
    return left


def run_parallel(
    folder: Folder,
    tasks: Sequence[MotionJob],
    worker_options: tuple[str, str, int],
    log: LogFunction,
) -> None:
    """Record motions in parallel worker processes and store each as soon as it is done.

    Args:
        folder: Folder of the motions.
        tasks: Functions that record the missing motions, with their arguments.
        worker_options: Arguments ``parallel``, ``cluster`` and ``jobs`` of :func:`.workers`.
        log: Callback that receives a message per motion.

    Raises:
        ConfigurationError: If the backend does not exist.
        MissingExtra: If a library of the backend is missing.
    """
    joblib = needed("joblib")
    with workers(*worker_options):
        done = joblib.Parallel(n_jobs=worker_options[-1], return_as="generator_unordered")(
            joblib.delayed(function)(*arguments) for function, arguments in tasks
        )
        for number, (name, data) in enumerate(done, start=len(folder) - len(tasks) + 1):
            folder.put(name, data)
            log(f"{number} of {len(folder)} motions: {folder.note(name)}")


def file_of(name: Name, joints: int, make: Callable[[], AlignedPair]) -> bytes:
    """Record a motion and return the contents of its file.

    If the recording fails, the file marks the motion as skipped and contains the reason.
    """
    pair, note = None, f"{name[0]} {name[1]}"
    try:
        pair = make()
    except (ConfigurationError, ValidationRejected) as error:
        note = SKIPPED_PREFIX + " ".join(str(error).split())
    return packed(pair, joints, note)


def check_any_recorded(folder: Folder) -> None:
    """Refuse a folder in which all motions were skipped.

    Raises:
        ValidationRejected: If no motion was recorded, with the reason for the first motion.
    """
    if not folder.motions():
        raise ValidationRejected(f"{folder.path}: no motion was recorded: {folder.first_note()}")
