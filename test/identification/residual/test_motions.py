# SPDX-License-Identifier: Apache-2.0
"""Tables of paired motions: normalisation, splits and rejected input."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as parquet
import pytest
from paired_table import LIMITS, write_table

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.identification.residual.motions import read_pairs

pytestmark = pytest.mark.inline


def test_motions_are_normalised_and_split(tmp_path):
    path = tmp_path / "pairs.parquet"
    written = write_table(path)
    found = read_pairs(path)
    assert [len(found.select(split)) for split in ("train", "validation", "test")] == [12, 3, 3]
    assert (found.robot, found.joints, found.rate) == ("robot", ("one", "two"), 100.0)
    assert len(found.select("test", ["linear"])) == 3
    assert not found.select("test", ["single"])
    for one, (twin, plant) in zip(found.motions, written):
        assert one.twin == pytest.approx((twin + LIMITS) / (2.0 * LIMITS))
        assert one.residual * 2.0 * LIMITS == pytest.approx(plant - twin, abs=1e-12)
    assert read_pairs(path).digest == found.digest
    write_table(path, seed=1)
    assert read_pairs(path).digest != found.digest


def with_gap(rows):
    return rows[:30] + rows[31:]


def with_nan(rows):
    rows[70][6] = np.nan
    return rows


def beyond_span(rows):
    """One outlier determined the maximum of the residual."""
    rows[70][6] = 20.0 * LIMITS[6 - 4]
    return rows


def with_text(rows):
    return [[*row[:-1], str(row[-1])] for row in rows]


@pytest.mark.parametrize(
    ("how", "reported"),
    [
        ({"change": with_gap}, r"motion 0: .*gap.*\b100\b"),
        ({"change": with_nan}, "motion 1: .*finite"),
        ({"change": beyond_span}, r"motion 1: .*\b9\.5\b"),
        ({"change": with_text}, "plant_.*: .*string.*double"),
        ({"samples": 12}, r"motion 0: .*\b12\b.*\b20\b"),
        ({"joints": ["one", "two", "three"]}, "columns.*twin_q_3"),
        ({"joints": ["one"]}, r"limits.*\b2\b.*\b1\b"),
        ({"rate": 50}, r"motion 0: .*gap.*\b50\b"),
        ({"rate": 0}, r"\b0\b.*\b0\b"),
        ({"rate": "fast"}, "'fast'"),
        ({"counts": {"train": 3, "exam": 1}}, "split 'exam'.*train, validation, test"),
    ],
)
def test_unusable_table_is_rejected(tmp_path, how, reported):
    path = tmp_path / "pairs.parquet"
    write_table(path, **how)
    with pytest.raises(ConfigurationError, match=reported):
        read_pairs(path)


@pytest.mark.parametrize("name", ["robot", "joints", "rate", "normalisation"])
def test_table_without_metadata_raised_key_error(tmp_path, name):
    path = tmp_path / "pairs.parquet"
    write_table(path)
    table = parquet.read_table(path)
    about = json.loads(table.schema.metadata[b"multipanda_pairs"])
    del about[name]
    about = {"multipanda_pairs": json.dumps(about)}
    parquet.write_table(table.replace_schema_metadata(about), path)
    with pytest.raises(ConfigurationError, match=rf"pairs\.parquet: .*\b{name}\b"):
        read_pairs(path)
    for column in ("time", "split"):
        write_table(path)
        parquet.write_table(parquet.read_table(path).drop_columns([column]), path)
        with pytest.raises(ConfigurationError, match=rf"columns.*\b{column}\b"):
            read_pairs(path)


def test_missing_or_non_parquet_file_is_rejected(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_pairs(tmp_path / "none.parquet")
    other = tmp_path / "other.parquet"
    other.write_text("time,q1\n0,1\n")
    with pytest.raises(ConfigurationError, match=r"other\.parquet"):
        read_pairs(other)
