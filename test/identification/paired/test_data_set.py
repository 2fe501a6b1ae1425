# SPDX-License-Identifier: Apache-2.0
"""Paired data sets: resumption, metadata and rejected input."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError, ValidationRejected
from multipanda_py.identification.paired.data_set import DataSetSpec, record_pairs
from multipanda_py.identification.paired.folder import RECORDED_FOLDER, TABLE_FILE

pytest.importorskip("joblib")
parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = [pytest.mark.sim, pytest.mark.inline]

TWIN = CellConfig.from_dict({"arms": {"arm": {}}})
BIAS, STIFFNESS = 0.4, 600.0
"""Torque bias of the plant [Nm] and stiffness of the trajectory controllet [Nm/rad]."""
PLANT = CellConfig.from_dict(
    {"arms": {"arm": {"perturbation": {"torque_bias": [BIAS, 0, 0, 0, 0, 0, 0]}}}}
)
SPEC = DataSetSpec(multi=1, single=1, linear=0, seed=2706)  # a seed with short motions


@pytest.mark.slow
def test_resumed_data_set_is_bit_identical(tmp_path):
    class Broken(Exception):
        pass

    def stop(text):
        if text.startswith("1 of 2"):
            raise Broken

    whole, again, reported = tmp_path / "whole", tmp_path / "again", []
    with pytest.raises(Broken):
        record_pairs(TWIN, PLANT, "arm", whole, SPEC, jobs=1, log=stop)
    assert not (whole / TABLE_FILE).exists()
    first = {file.name for file in (whole / RECORDED_FOLDER).glob("*.npz")}
    assert record_pairs(TWIN, PLANT, "arm", whole, SPEC, jobs=1, log=reported.append) == 2
    assert "of 2 motions" in reported[0]
    shutil.copytree(whole, again)  # as after an interruption before the first motion
    for file in (again / TABLE_FILE, *(again / RECORDED_FOLDER / name for name in first)):
        file.unlink()
    assert record_pairs(TWIN, PLANT, "arm", again, SPEC, jobs=1) == 2
    assert (whole / TABLE_FILE).read_bytes() == (again / TABLE_FILE).read_bytes()

    table = parquet.read_table(whole / TABLE_FILE)
    meta = json.loads(table.schema.metadata[b"multipanda_pairs"])
    assert (meta["robot"], meta["rate"], meta["wished"]["seed"]) == ("fr3", 100, 2706)
    data = table.to_pandas()
    assert np.isfinite(data.select_dtypes(float)).all(axis=None)
    for _, rows in data.groupby("motion"):
        assert rows["time"].tolist() == pytest.approx(np.arange(len(rows)) / 100)
        with np.load(whole / RECORDED_FOLDER / f"{rows['kind'].iloc[0]}-00000.npz") as recorded:
            cut = recorded["twin"][recorded["starts"][:2].min() :: 10]
            other = recorded["plant"][recorded["starts"][:2].min() :: 10]
        assert rows["plant_q_1"].tolist() == other[: len(rows), 0].tolist()
        assert rows["twin_q_1"].tolist() == cut[: len(rows), 0].tolist()
        assert len(cut) - 10 < len(rows) <= len(cut)
    position_error = (data["plant_q_1"] - data["twin_q_1"]).to_numpy()
    assert position_error == pytest.approx(
        np.full(len(position_error), BIAS / STIFFNESS), rel=1e-2
    )

    file = next((again / RECORDED_FOLDER).glob("*.npz"))
    sound = file.read_bytes()
    for damaged in (sound[:3000], b"", b"a text", sound[:-30]):
        file.write_bytes(damaged)
        with pytest.raises(ConfigurationError, match=rf"\b{file.name}: .*lacks"):
            record_pairs(TWIN, PLANT, "arm", again, SPEC, jobs=1)
    (again / RECORDED_FOLDER / "key.txt").unlink()
    with pytest.raises(ConfigurationError, match=r"\bkey\.txt\b"):
        record_pairs(TWIN, PLANT, "arm", again, SPEC, jobs=1)

    with pytest.raises(
        ConfigurationError, match=r"^align:.*'eye'.*clock, command, rest, correlation"
    ):
        record_pairs(TWIN, PLANT, "arm", whole, SPEC, align="eye")
    with pytest.raises(ConfigurationError, match="cell, plant, arm, seed"):
        record_pairs(TWIN, TWIN, "arm", whole, SPEC, jobs=1)


def test_other_robots_and_unknown_arms_are_rejected(tmp_path):
    other = CellConfig.from_dict({"arms": {"arm": {"model": "ur5e"}}})
    with pytest.raises(ValidationRejected, match="same joints"):
        record_pairs(TWIN, other, "arm", tmp_path / "a", SPEC)
    with pytest.raises(ValidationRejected, match="'left'"):
        record_pairs(TWIN, PLANT, "left", tmp_path / "a", SPEC)
    assert not (tmp_path / "a").exists()
