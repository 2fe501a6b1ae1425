# SPDX-License-Identifier: Apache-2.0
"""Backends of joblib and controllets that simulate paired motions."""

from __future__ import annotations

import importlib.util
import json
import sys

import numpy as np
import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError, MissingExtra
from multipanda_py.identification.paired.data_set import DataSetSpec, record_pairs
from multipanda_py.identification.paired.folder import RECORDED_FOLDER, TABLE_FILE, workers

pytestmark = pytest.mark.inline

joblib = pytest.importorskip("joblib")
parquet = pytest.importorskip("pyarrow.parquet")
CELL = CellConfig.from_dict({"arms": {"arm": {}}})


def backend():
    return type(joblib.parallel.get_active_backend()[0]).__name__


def test_default_backend_is_that_of_parallel_config():
    with joblib.parallel_config("threading"):
        with workers():
            assert backend() == "ThreadingBackend"
        with workers("loky"):
            assert backend() == "LokyBackend"
        assert backend() == "ThreadingBackend"


@pytest.mark.long
@pytest.mark.timeout(120)
def test_dask_backend_starts_local_cluster():
    pytest.importorskip("distributed")
    with workers("dask", jobs=1):
        assert backend() == "DaskDistributedBackend"
        found = joblib.Parallel()(joblib.delayed(pow)(k, 2) for k in range(4))
    assert found == [0, 1, 4, 9]


@pytest.mark.parametrize(
    ("names", "reported"),
    [
        (("ray",), "^--parallel: .*'ray'.*loky, dask"),
        (("loky", "host:1"), "^--cluster: .*'host:1'.*--parallel dask"),
    ],
)
def test_invalid_parallel_backend_is_rejected(names, reported):
    with pytest.raises(ConfigurationError, match=reported), workers(*names):
        pass


def test_missing_dask_names_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(MissingExtra, match=r"multipanda_py\[cluster\]"),
        workers("dask"),
    ):
        pass


@pytest.mark.sim
def test_twin_and_plant_use_separate_controllets(tmp_path):
    """A torque bias deflects the impedance controllet but not the position controllet."""
    assert importlib.util.find_spec("mujoco")
    plant = CellConfig.from_dict(
        {"arms": {"arm": {"perturbation": {"torque_bias": [0.4, 0, 0, 0, 0, 0, 0]}}}}
    )
    spec, laws = DataSetSpec(0, 1, 0, seed=264), ("joint_trajectory", "joint_position")
    assert record_pairs(CELL, plant, "arm", tmp_path, spec, controllets=laws, jobs=1) == 1
    about = json.loads(parquet.read_schema(tmp_path / TABLE_FILE).metadata[b"multipanda_pairs"])
    assert about["laws"] == {"twin": "joint_trajectory", "plant": "joint_position"}
    with np.load(tmp_path / RECORDED_FOLDER / "single-00000.npz") as data:
        rest = data["plant"][:300, 0] - data["twin"][:300, 0]
    assert np.abs(rest).max() < 0.5 * 0.4 / 600.0
    with pytest.raises(ConfigurationError, match="controllet or version"):
        record_pairs(CELL, plant, "arm", tmp_path, spec, jobs=1)
