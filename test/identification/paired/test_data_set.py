# SPDX-License-Identifier: Apache-2.0
"""A data set that was broken off becomes the same table, and says what it is of."""

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
"""Of motors [Nm], and of the law that follows trajectories, which gives way by it [Nm/rad]."""
PLANT = CellConfig.from_dict(
    {"arms": {"arm": {"perturbation": {"torque_bias": [BIAS, 0, 0, 0, 0, 0, 0]}}}}
)
WISHED = DataSetSpec(multi=1, single=1, linear=0, seed=2706)  # whose motions are short


@pytest.mark.slow
def test_a_resumed_data_set_is_the_whole_one_to_the_last_bit(tmp_path):
    class Broken(Exception):
        pass

    def stop(text):
        if text.startswith("1 of 2"):
            raise Broken

    whole, again, reported = tmp_path / "whole", tmp_path / "again", []
    with pytest.raises(Broken):
        record_pairs(TWIN, PLANT, "arm", whole, WISHED, jobs=1, log=stop)
    assert not (whole / TABLE_FILE).exists()
    first = {file.name for file in (whole / RECORDED_FOLDER).glob("*.npz")}
    assert record_pairs(TWIN, PLANT, "arm", whole, WISHED, jobs=1, log=reported.append) == 2
    assert "of 2 motions" in reported[0]
    shutil.copytree(whole, again)  # as it was broken off before the motion that came first here
    for file in (again / TABLE_FILE, *(again / RECORDED_FOLDER / name for name in first)):
        file.unlink()
    assert record_pairs(TWIN, PLANT, "arm", again, WISHED, jobs=1) == 2
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
    away = (data["plant_q_1"] - data["twin_q_1"]).to_numpy()
    assert away == pytest.approx(np.full(len(away), BIAS / STIFFNESS), rel=1e-2)

    file = next((again / RECORDED_FOLDER).glob("*.npz"))
    sound = file.read_bytes()
    for damaged in (sound[:3000], b"", b"a text", sound[:-30]):
        file.write_bytes(damaged)
        with pytest.raises(ConfigurationError, match=rf"\b{file.name}: .*lacks"):
            record_pairs(TWIN, PLANT, "arm", again, WISHED, jobs=1)
    (again / RECORDED_FOLDER / "key.txt").unlink()
    with pytest.raises(ConfigurationError, match=r"\bkey\.txt\b"):
        record_pairs(TWIN, PLANT, "arm", again, WISHED, jobs=1)

    with pytest.raises(
        ConfigurationError, match=r"^align:.*'eye'.*clock, command, rest, correlation"
    ):
        record_pairs(TWIN, PLANT, "arm", whole, WISHED, align="eye")
    with pytest.raises(ConfigurationError, match="cell, plant, arm, seed"):
        record_pairs(TWIN, TWIN, "arm", whole, WISHED, jobs=1)


def test_real_arms_and_other_robots_are_refused(tmp_path):
    other = CellConfig.from_dict({"arms": {"arm": {"model": "ur5e"}}})
    with pytest.raises(ValidationRejected, match="same joints"):
        record_pairs(TWIN, other, "arm", tmp_path / "a", WISHED)
    with pytest.raises(ValidationRejected, match="'left'"):
        record_pairs(TWIN, PLANT, "left", tmp_path / "a", WISHED)
    assert not (tmp_path / "a").exists()
