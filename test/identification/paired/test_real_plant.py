# SPDX-License-Identifier: Apache-2.0
"""Plants in real time: the mock backend, and manually robots behind the real driver.

The manual run takes minutes and needs a machine without other real-time processes:
``MULTIPANDA_LONG=1 pytest -s test/identification/paired/test_real_plant.py``.
"""

from __future__ import annotations

import json
import uuid

import numpy as np
import pytest
from processes import wait_until
from requirements import needs_pylibfranka
from robots import unused_address

from multipanda_py import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError, LoopError, ValidationRejected
from multipanda_py.identification.paired.data_set import (
    DataSetSpec,
    Sides,
    motion_of,
    record_pairs,
)
from multipanda_py.identification.paired.folder import RECORDED_FOLDER, TABLE_FILE
from multipanda_py.identification.paired.real_plant import check_standing, with_fault
from multipanda_py.identification.paired.recording import AlignedPair, Side, align_sides

pytest.importorskip("joblib")
pytest.importorskip("scipy")
parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = [pytest.mark.sim, pytest.mark.inline]

TWIN = CellConfig.from_dict(
    {
        "arms": {"arm": {}},
        "objects": {
            "wall": {"shape": "box", "size": [0.1, 0.1, 0.1], "position": [-1.5, 0.0, 0.1]},
            "box": {
                "shape": "box", "size": [0.1] * 3, "position": [-1.5, 1.0, 0.1], "mass": 1.0,
            },
        },
    }
)  # fmt: skip
SPEC = DataSetSpec(multi=1, single=0, linear=0, seed=2706)  # a seed with a short motion


def plant(arms, **settings):
    cell = {"name": f"plant_{uuid.uuid4().hex[:8]}"}
    spare = {"priority": 0, "cpu": -2}
    return CellConfig.from_dict({"cell": cell, "realtime": spare, "arms": arms, **settings})


def recorded(folder, name="multi-00000"):
    with np.load(folder / RECORDED_FOLDER / f"{name}.npz") as data:
        return AlignedPair(data["twin"], data["plant"], *map(int, data["starts"]))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_real_time_plant_matches_twin_after_warning(tmp_path):
    """The mock has no model errors, so that both sides agree after alignment by command."""
    begin = motion_of(TWIN, "arm", SPEC, "multi", 0).points[0, 1:8]
    near = (begin + 0.03 * np.sign(TWIN.arms["arm"].q_start - begin)).tolist()
    reported, cell = [], plant({"arm": {"backend": "mock", "q_start": near}})
    assert record_pairs(TWIN, cell, "arm", tmp_path, SPEC, log=reported.append) == 1
    assert reported[0].startswith("REAL ARMS MOVE: arm of plant_")
    assert reported[1:] == ["1 of 1 motions: multi 0"]
    pair = recorded(tmp_path)
    twin, other = pair.cut("command")
    assert len(twin) > 900
    assert np.abs(twin[:, :7] - other[:, :7]).max() < 1e-5
    about = json.loads(parquet.read_schema(tmp_path / TABLE_FILE).metadata[b"multipanda_pairs"])
    assert (about["aligned_by"], about["plant_is_real"]) == ("command", True)
    assert about["laws"] == {"twin": "joint_trajectory", "plant": "joint_trajectory"}
    reported.clear()  # no motion remains, so there is no warning
    assert record_pairs(TWIN, cell, "arm", tmp_path, SPEC, log=reported.append) == 1
    assert reported == ["1 of 1 motions are already done"]


def test_standby_arm_away_from_start_configuration_is_rejected():
    """Collision checks assume the standby arm in its start configuration."""
    cell = plant({"arm": {"backend": "mock"}, "other": {"backend": "mock", "position": [0, 2, 0]}})
    start = np.array(cell.arms["other"].q_start)
    check_standing(cell, "arm", {"arm": start + 1.0, "other": start + 0.05})
    with pytest.raises(ValidationRejected, match=r"^other .*0\.20 rad.*q_start"):
        check_standing(cell, "arm", {"arm": start, "other": start - 0.2})


def test_impossible_request_is_rejected_before_connection(tmp_path):
    mock = plant({"arm": {"backend": "mock"}})
    with pytest.raises(ConfigurationError, match=r"joint_position.*position"):
        record_pairs(
            TWIN,
            mock,
            "arm",
            tmp_path / "a",
            SPEC,
            controllets=("joint_trajectory", "joint_position"),
        )
    with pytest.raises(ValidationRejected, match=r"^--plant-controllet: .*'hold'.*joint_traj"):
        record_pairs(
            TWIN, mock, "arm", tmp_path / "b", SPEC, controllets=("joint_impedance", "hold")
        )
    with pytest.raises(ValidationRejected, match=r"^twin: "):
        record_pairs(mock, mock, "arm", tmp_path / "c", SPEC)
    other = plant({"arm": {"backend": "mock", "model": "ur5e"}})
    with pytest.raises(ValidationRejected, match="same joints"):
        record_pairs(TWIN, other, "arm", tmp_path / "d", SPEC)


def test_collision_cell_has_fixed_objects_and_base_of_plant():
    mock = plant({"arm": {"backend": "mock", "position": [1.0, 0.0, 0.0]}})
    room = Sides(TWIN, mock, "arm").collision_cell
    assert set(room.objects) == {"wall"}
    assert list(room.arms["arm"].position) == [1.0, 0.0, 0.0]
    assert Sides(TWIN, TWIN, "arm").collision_cell is TWIN


def test_error_after_stop_did_not_name_fault():
    law = {"type": "joint_impedance", "params": {"governor.enabled": False}}
    data = {"cell": {"placement": "inline"}, "arms": {"arm": {}}, "controllets": {"law": law}}
    with Cell(CellConfig.from_dict({**data, "active": ["arm/law"]})) as cell:
        target = cell.state("arm").q.copy()
        target[0] += 0.25  # exceeds the velocity limit
        cell.set_target("arm", q=target)
        while not cell.state("arm").fault:
            cell.step(10)
        error = LoopError("the motion ended in a fault")
        reported = str(with_fault(cell, error))
        assert "velocity_limit (arm, arm/law)" in reported
        assert with_fault(cell, error) is error  # no further fault


@pytest.mark.parametrize("late", [-7, 0, 4])
def test_late_plant_is_aligned_by_command(late):
    """The twin moves 12 samples after the command; friction delays the plant by 30 samples."""
    number = np.arange(1000, dtype=float)
    moves = np.clip(number - 312, 0, None)[:, None] * 1e-3
    sticks = np.clip(number - 342 - late, 0, None)[:, None] * 1e-3
    twin, other = (
        np.hstack([q, np.gradient(q, axis=0), number[:, None]]) for q in (moves, sticks)
    )
    pair = align_sides(Side(twin, 300), Side(other, 300 + late))
    first, second = pair.cut("command")
    assert (second[:, 2] - first[:, 2] == late).all()
    assert first[0, 2] == 313


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("law", ["joint_trajectory", "joint_position"])
@needs_pylibfranka
def test_recording_resumes_after_reflex_of_robot(law, tmp_path):
    from multipanda_py.simulation.fci import FciSim

    address, reported = unused_address(), []
    robot = {"backend": "franka", "robot_ip": address, "gripper": True}
    cell = plant({"arm": robot}, realtime={})  # real-time priority, because the robot needs it
    spec, laws = DataSetSpec(multi=2, single=0, linear=0, seed=5), ("joint_trajectory", law)

    def report(text):
        reported.append(text)
        if text.startswith("1 of 2"):
            sim.admin(address, "reflex")

    with FciSim([address], tidy=True, priority=40) as sim:
        with pytest.raises(ValidationRejected, match=r"(?s)^multi-00001: .*1 of 2"):
            record_pairs(TWIN, cell, "arm", tmp_path, spec, controllets=laws, log=report)
        assert not (tmp_path / TABLE_FILE).exists()
        sim.admin(address, "reboot", seconds=0.0)
        wait_until(lambda: sim.admin(address, "stats")["running"])
        assert (
            record_pairs(TWIN, cell, "arm", tmp_path, spec, controllets=laws, log=reported.append)
            == 2
        )
    assert any(text.startswith("1 of 2 ") for text in reported)
    for name in ("multi-00000", "multi-00001"):
        twin, other = recorded(tmp_path, name).cut("command")
        assert np.abs(twin[:, :7] - other[:, :7]).max() < 0.05
