# SPDX-License-Identifier: Apache-2.0
"""Refusal of damaged or forged weight files, without unpacking large members."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.residual.weights import load_residual

pytestmark = pytest.mark.inline

SHIPPED = Path(__file__).parents[3] / "config" / "residual" / "geared_plant.npz"


@pytest.fixture(scope="module")
def parts():
    with np.load(SHIPPED) as data:
        return {name: data[name] for name in data.files}


def write(path: Path, parts, **changed):
    """Write parts with a valid digest, as a forger can."""
    parts = {**parts, **changed}
    text, _ = str(parts.pop("about")), parts.pop("digest")
    digest = hashlib.sha256(text.encode())
    for name in sorted(parts):
        try:
            part = np.ascontiguousarray(np.real(parts[name]), float)
        except (TypeError, ValueError):
            continue
        digest.update(f"{name}{part.shape}".encode() + part.tobytes())
    np.savez(path, about=text, digest=digest.hexdigest(), **parts)


@pytest.mark.parametrize("kind", ["U", "S", complex, int, bool, np.float16, np.float32, "M8[s]"])
def test_numbers_of_other_types_were_numpy_errors_or_accepted(tmp_path, parts, kind):
    given = parts["low"]
    write(tmp_path / "a.npz", parts, low=given.astype(int).astype(kind) if kind == "M8[s]"
          else given.astype(kind))  # fmt: skip
    with pytest.raises(ConfigurationError, match=r"low: .*\bfloat64\b"):
        load_residual(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("change", "reported"),
    [({"rate": "x"}, "rate: got 'x'"), ({"rate": [1]}, "rate: got"), ({"rate": True}, "rate"),
     ({"rate": 10**400}, "rate: got 1000"), ({"joints": 7}, "joints: got 7"),
     ({"joints": None}, "joints: got None"), ({"joints": [1, 2]}, "joints: got"),
     ({"robot": []}, "robot: got"), ({"kind": []}, "kind: got"), ({"data": 3}, "data: got 3"),
     ({"format": []}, "format"), ({"format": 99}, r"format.*\b99\b.*\b2\b.*\b3\b")],
)  # fmt: skip
def test_metadata_of_other_types_was_python_error(tmp_path, parts, change, reported):
    about = json.loads(str(parts["about"])) | change
    write(tmp_path / "a.npz", parts, about=json.dumps(about))
    with pytest.raises(ConfigurationError, match=rf"a\.npz: .*{reported}"):
        load_residual(tmp_path / "a.npz")


@pytest.mark.parametrize("text", ["[]", "3", "null", "{", "[" * 100_000, "9" * 5000])
def test_text_without_metadata_is_refused(tmp_path, parts, text):
    write(tmp_path / "a.npz", parts, about=text)
    with pytest.raises(ConfigurationError, match=r"a\.npz: "):
        load_residual(tmp_path / "a.npz")


def test_members_other_than_arrays_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(SHIPPED.read_bytes())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("readme.txt", b"hello")
    with pytest.raises(ConfigurationError, match=r"readme\.txt"):
        load_residual(path)


def test_megabyte_that_unpacks_to_gigabytes_was_unpacked(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(SHIPPED.read_bytes())
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.npy", bytes(1 << 27))
    with pytest.raises(ConfigurationError, match=r"\b67108864\b"):
        load_residual(path)


def test_truncation_and_flipped_bits_are_refused_in_one_line(tmp_path):
    whole, path = SHIPPED.read_bytes(), tmp_path / "a.npz"
    rng, reported = np.random.default_rng(1), []
    damaged = [whole[:size] for size in (0, 1, 22, 1000, len(whole) // 2, len(whole) - 1)]
    for _ in range(40):
        flipped = bytearray(whole)
        flipped[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(flipped))
    for content in damaged:
        path.write_bytes(content)
        try:
            load_residual(path)
        except ConfigurationError as error:
            reported.append(str(error))
    assert len(reported) >= len(damaged) - 4, "a flipped bit may be in a date of the archive"
    assert not [one for one in reported if "\n" in one]
