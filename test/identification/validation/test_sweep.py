# SPDX-License-Identifier: Apache-2.0
"""Sweeps over perturbed plants: resumption, Dask and rejected input."""

from __future__ import annotations

import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.perturbation import PerturbationSpec
from multipanda_py.exceptions import ValidationRejected
from multipanda_py.identification.validation.sweep import sweep

pytest.importorskip("joblib")
pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytestmark = [pytest.mark.sim, pytest.mark.inline]

CELL = CellConfig.from_dict({"arms": {"arm": {}}})
SPEC = PerturbationSpec.from_dict(
    {"arms": {"all": {"perturbation": {"torque_bias": {"range": [0.1, 0.5]}}}}}
)


def test_interrupted_sweep_is_resumed(tmp_path):
    target, reported = tmp_path / "sweep.parquet", []

    class Broken(Exception):
        pass

    def stop(text):
        reported.append(text)
        if text.startswith("1 of 2"):
            raise Broken

    with pytest.raises(Broken):
        sweep(CELL, SPEC, [1, 2], target, [1], seconds=0.5, report=stop)
    assert not target.exists()
    reported.clear()
    assert sweep(CELL, SPEC, [1, 2], target, [1], seconds=0.5, report=reported.append) == 2
    assert reported[0].startswith("1 of 2 plants ")
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.parquet"]
    table = pandas.read_parquet(target)
    assert table["seed"].tolist() == [1, 2]
    biases = table[[f"arms.arm.perturbation.torque_bias[{k}]" for k in range(7)]].max(axis=1)
    assert table["worst control error"].tolist() == pytest.approx(biases.tolist(), rel=0.05)


def test_sweep_runs_on_local_dask_cluster(tmp_path):
    pytest.importorskip("distributed")
    import joblib
    from distributed import Client

    target = tmp_path / "sweep.parquet"
    with (
        Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None),
        joblib.parallel_config("dask"),
    ):
        rows = sweep(CELL, SPEC, [3], target, [1], seconds=0.5, jobs=1)
    assert rows == 1


@pytest.mark.long
def test_sweep_resumed_with_results_of_other_parameters(tmp_path):
    robot, reported = tmp_path / "robot.yaml", []
    cell = {"arms": {"arm": {"perturbation": {"parameters": str(robot)}}}}

    class Broken(Exception):
        pass

    def stop(text):
        if text.startswith("1 of 2"):
            raise Broken

    target = tmp_path / "sweep.parquet"
    for friction, progress in ((0.1, stop), (0.4, reported.append)):
        robot.write_text(f"robot: fr3\nfriction: {[friction] * 7}\n")
        try:
            sweep(
                CellConfig.from_dict(cell), SPEC, [1, 2], target, [1], seconds=0.5, report=progress
            )
        except Broken:
            continue
    assert target.exists()
    assert not any("already done" in text for text in reported)


def test_sweep_without_comparable_plant_ended_as_success(tmp_path):
    """Each arm stops at once, because its payload exceeds the collision thresholds."""
    target = tmp_path / "sweep.parquet"
    low = {"upper_torque_thresholds": [5.0] * 7}
    cell = CellConfig.from_dict({"arms": {"arm": {"franka": low}}})
    heavy = PerturbationSpec.from_dict({"arms": {"all": {"perturbation": {"payload": 5.0}}}})
    with pytest.raises(ValidationRejected, match=r"^\S+sweep\.parquet: .*\bplant\b.*\b0\.\d\d s"):
        sweep(cell, heavy, [1], target, [1], seconds=0.5)
    assert len(pandas.read_parquet(target)) == 1


@pytest.mark.parametrize(
    ("arm", "task", "seconds", "words"),
    [
        ({}, 5, 0.5, r"\b1\b.*\b2\b"),
        ({}, 1, 1e9, r"\b0\.5 .*\b600 s"),
        ({"backend": "franka", "robot_ip": "127.0.0.1"}, 1, 0.5, "twin.*real"),
    ],
)
def test_impossible_sweep_ran_all_plants(arm, task, seconds, words, tmp_path):
    cell = CellConfig.from_dict({"arms": {"arm": arm}})
    with pytest.raises(ValidationRejected, match=words):
        sweep(cell, SPEC, [1, 2], tmp_path / "sweep.parquet", [task], seconds=seconds)
    assert not list(tmp_path.iterdir())
