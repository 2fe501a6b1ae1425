# SPDX-License-Identifier: Apache-2.0
"""File of a trained residual network, with all data for running it."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files import open_regular, replacing
from multipanda_py.robots.residual.bodies import BodyDifference
from multipanda_py.robots.residual.inputs import Inputs, Normalisation
from multipanda_py.robots.residual.network import Arrays, PreciseNetwork, RealTimeNetwork, network
from multipanda_py.state import Matrix, Vector

MAX_SIZE = 1 << 26
"""Maximum size of all arrays of a file [bytes]; a network for seven joints has 150 kB."""
MAX_RATE = 1e6
"""Maximum sample rate of the states that a residual network receives [1/s]."""
DAMAGED_FILE_ERRORS = (
    EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RecursionError, MemoryError,
    OverflowError,
)  # fmt: skip
"""Exceptions of numpy, zipfile and json for damaged files, except ValueError and KeyError."""


def arrays_in(path: Path) -> dict[str, Any]:
    """Return the arrays of an npz file of limited size, without running code in it.

    Raises:
        OSError, ValueError: The file is missing or damaged. Other exceptions for damaged files are
            in :data:`DAMAGED_FILE_ERRORS`.
    """
    # NumPy may run code from files that are not npz, so the type is checked first.
    with open_regular(path, MAX_SIZE) as file:
        if not zipfile.is_zipfile(file):
            raise zipfile.BadZipFile("not an npz file, or truncated")
        with zipfile.ZipFile(file) as archive:
            size = sum(part.file_size for part in archive.infolist())
        if size > MAX_SIZE:
            raise ValueError(f"size of all arrays: got {size} bytes, allowed up to {MAX_SIZE}")
        file.seek(0)
        with np.load(file, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
    if others := [name for name, part in arrays.items() if not isinstance(part, np.ndarray)]:
        raise ValueError(
            f"{', '.join(others)}: no NumPy arrays, but the file may have no other data"
        )
    return arrays


def check_about(path: Path, about: Any, formats: tuple[int, ...]) -> None:
    """Check types and values of the metadata in a file, and its format version.

    Raises:
        ConfigurationError: A type or value is invalid, or the version is not in ``formats``.
    """
    if not isinstance(about, dict):
        raise ConfigurationError(f"{path}: about: got {about!r:.60}, allowed a map of values")
    if (form := about.get("format")) not in formats:
        known = " or ".join(map(str, formats))
        raise ConfigurationError(f"{path}: format: got {form!r:.60}, allowed {known}")
    for name in ("kind", "robot", "data"):
        if not isinstance(value := about.get(name, ""), str):
            raise ConfigurationError(f"{path}: {name}: got {value!r:.60}, allowed a text")
    rate, joints = about.get("rate", 1.0), about.get("joints", [])
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or abs(rate) > MAX_RATE:
        raise ConfigurationError(
            f"{path}: rate: got {rate!r:.60}, allowed a number up to {MAX_RATE:g}"
        )
    if not isinstance(joints, list) or not all(isinstance(one, str) for one in joints):
        raise ConfigurationError(f"{path}: joints: got {joints!r:.60}, allowed a list of names")


FORMAT_VERSION = 3
"""Version of the file format."""
PREVIOUS_FORMAT = 2
"""Previous format, which can still be read. It has no slip springs and no direct weights."""


@dataclass(frozen=True, eq=False)
class TrainedResidual:
    """Trained residual network, with all data for running it.

    Attributes:
        kind: Kind of network, from :data:`.KINDS`.
        arrays: Weights by name.
        normalisation: Scaling of states and residuals.
        robot: Name of the arm's model.
        joints: Names of the joints.
        rate: Sample rate of the states that the network receives [1/s].
        low: Minimum normalised state of the training data, (3 n,).
        high: Maximum normalised state of the training data, (3 n,).
        bound: Maximum normalised residual of the training data, (3 n,); it limits the prediction.
        data: Hash of the training data.
        speeds: Reference speeds of :class:`.Inputs`, (s,) [rad/s].
        bodies: Inertial differences between robot and simulation, or None. Their torques are added
            to the output of the network.
        distances: Slip distances of :class:`.SlipSprings`, (d,) [rad, m].
    """

    kind: str
    arrays: Arrays
    normalisation: Normalisation
    robot: str
    joints: tuple[str, ...]
    rate: float
    low: Vector
    high: Vector
    bound: Vector
    data: str
    speeds: Vector = field(default_factory=lambda: np.zeros(0))
    bodies: BodyDifference | None = None
    distances: Vector = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        n, size = len(self.joints), 3 * len(self.joints)
        shapes = {np.shape(part) for part in (self.low, self.high, self.bound)}
        net = self.network()
        if shapes != {(size,)} or 3 * self.normalisation.joints != size or net.size != size:
            raise ConfigurationError(
                f"residual of {n} joints: got weights for states of {net.size} numbers, and "
                f"ranges of shapes {shapes}, allowed {size} numbers in both"
            )
        if (inputs := self.inputs().size) != net.inputs:
            raise ConfigurationError(
                f"residual of {n} joints, {len(self.speeds)} speeds and {len(self.distances)} "
                f"springs: got weights for {net.inputs} inputs, allowed {inputs}"
            )
        if self.bodies is not None and len(self.bodies.parts["axes"]) != n:
            raise ConfigurationError(
                f"residual: got inertial differences of {len(self.bodies.parts['axes'])} links, "
                f"allowed {n}, one per joint"
            )
        numbers = [*self.arrays.values(), self.low, self.high, self.bound]
        if not all(np.isfinite(part).all() for part in numbers):
            raise ConfigurationError(
                "residual: got weights that are not finite. Train it again, or use an intact file"
            )
        if not 0.0 < self.rate < np.inf:
            raise ConfigurationError(
                f"residual: rate: got {self.rate:g} states per second, allowed a finite number "
                "above 0"
            )
        if (self.bound < 0.0).any():
            raise ConfigurationError(
                f"residual: bound: got {self.bound.min():g}, allowed 0 or more"
            )
        if (self.low > self.high).any():
            raise ConfigurationError(
                f"residual: training range: got {self.low.tolist()} to {self.high.tolist()}, "
                "allowed lower values that do not exceed the upper ones"
            )

    def network(self) -> RealTimeNetwork | PreciseNetwork:
        """Return a new network in its initial state."""
        return network(self.kind, self.arrays)

    def inputs(self) -> Inputs:
        """Return a new converter from normalised states to the network's inputs."""
        return Inputs(self.normalisation, self.speeds, self.distances)

    def run(self, states: Matrix) -> Matrix:
        """Return the normalised residuals of a motion, limited to ``bound``, (k, 3 n).

        ``states`` are the normalised states of the motion, (k, 3 n).
        """
        result = self.network().run(self.inputs().rows(states))
        if self.bodies is not None:
            n = len(self.joints)
            q, dq, _ = np.hsplit(self.normalisation.state_of(states), 3)
            span = self.normalisation.span[2 * n :]
            max_value = self.bound[2 * n :]
            result[:, 2 * n :] += np.clip(
                self.bodies.run(q, dq, self.rate) / span, -max_value, max_value
            )
        return np.clip(result, -self.bound, self.bound)

    def save(self, path: Path) -> None:
        """Write the network and its data to a file atomically.

        Raises:
            ConfigurationError: The file cannot be written.
        """
        about = {
            "format": FORMAT_VERSION, "kind": self.kind, "robot": self.robot,
            "joints": self.joints, "rate": self.rate, "data": self.data,
        }  # fmt: skip
        parts = {f"weights.{name}": np.asarray(part, float) for name, part in self.arrays.items()}
        parts |= {
            name: np.asarray(getattr(self, name), float) for name in ("low", "high", "bound")
        }
        parts |= {name: np.asarray(getattr(self, name), float) for name in ("speeds", "distances")}
        if self.bodies is not None:
            parts |= {f"bodies.{name}": part for name, part in self.bodies.parts.items()}
        parts |= {"scale_low": self.normalisation.low, "scale_high": self.normalisation.high}
        text = json.dumps(about, sort_keys=True)
        with replacing(path) as partial, partial.open("wb") as file:
            np.savez(file, about=text, digest=digest_of(text, parts), **parts)  # type: ignore[arg-type]


def load_residual(path: Path) -> TrainedResidual:
    """Read a trained network.

    Raises:
        ConfigurationError: The file does not exist, is truncated or was changed.
    """
    try:
        residual = arrays_in(path)
        text, digest = str(residual.pop("about")), str(residual.pop("digest"))
        about = json.loads(text)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (*DAMAGED_FILE_ERRORS, KeyError, ValueError) as error:
        raise ConfigurationError(f"{path}: not a trained residual: {error}") from None
    for name, part in residual.items():
        if part.dtype != np.float64:
            raise ConfigurationError(f"{path}: {name}: got {part.dtype}, allowed float64")
    if digest_of(text, residual) != digest:
        raise ConfigurationError(
            f"{path}: was cut or changed: its digest does not match its data. Use an intact copy."
        )
    check_about(path, about, (PREVIOUS_FORMAT, FORMAT_VERSION))
    if about["format"] == PREVIOUS_FORMAT:
        residual["distances"] = np.zeros(0)
    weights = {
        name.removeprefix("weights."): part
        for name, part in residual.items() if name.startswith("weights.")
    }  # fmt: skip
    bodies = {
        name.removeprefix("bodies."): part
        for name, part in residual.items() if name.startswith("bodies.")
    }  # fmt: skip
    try:
        return TrainedResidual(
            about["kind"], weights, Normalisation(residual["scale_low"], residual["scale_high"]),
            about["robot"], tuple(about["joints"]), float(about["rate"]),
            residual["low"], residual["high"], residual["bound"],
            about["data"], residual["speeds"],
            BodyDifference.of_parts(bodies) if bodies else None, residual["distances"],
        )  # fmt: skip
    except KeyError as error:
        raise ConfigurationError(f"{path}: not a trained residual: {error} is missing") from None


def digest_of(text: str, parts: dict[str, Any]) -> str:
    """Return the SHA-256 of metadata as JSON and arrays by name, as hexadecimal digits."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(parts):
        part = np.ascontiguousarray(parts[name], float)
        digest.update(f"{name}{part.shape}".encode())
        digest.update(part.tobytes())
    return digest.hexdigest()
