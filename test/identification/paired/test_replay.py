# SPDX-License-Identifier: Apache-2.0
"""Replay of recordings by the twin: segmentation, targets and rejected logs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError, ValidationRejected
from multipanda_py.identification.paired.folder import TABLE_FILE
from multipanda_py.identification.paired.replay import logged_motions, replay_logs
from multipanda_py.planning.trajectory.quintic import evaluate
from multipanda_py.realtime.recording import ArmLog
from multipanda_py.robots import MODELS, ArmDescription

pytest.importorskip("joblib")
pytest.importorskip("scipy")
parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = [pytest.mark.sim, pytest.mark.inline]

ARM = ArmDescription("arm")
TWIN = CellConfig.from_dict({"arms": {"arm": {}}})
READY = np.array(MODELS["fr3"].ready)
NAMES = tuple(joint.name for joint in MODELS["fr3"].joints)
AMPLITUDE, PLANT_TORQUES = 0.4, np.arange(1.0, 8.0)
"""Displacement of joint 4 [rad] and torques of the plant [Nm]."""


def recording(rate=500.0, begins=(1.0, 3.5), **changes):
    """Return a third-party log of 5.5 s with two motions of joint 4, of 1 s each."""
    time = np.arange(0.0, 5.5, 1.0 / rate)
    q, dq = np.tile(READY, (len(time), 1)), np.zeros((len(time), 7))
    points = np.zeros((2, 1 + 3))
    points[:, 0], points[1, 1] = (0.0, 1.0), AMPLITUDE
    for sign, begin in zip((1.0, -1.0), begins):
        now = evaluate(points, np.clip(time - begin, 0.0, 1.0))
        q[:, 3] += sign * now[:, 0, 0]
        dq[:, 3] += sign * now[:, 1, 0]
    found = {"arm": "some", "robot": None, "joints": NAMES, "time": time, "q": q, "dq": dq,
             "tau": np.tile(PLANT_TORQUES, (len(time), 1))}  # fmt: skip
    return ArmLog(**(found | changes))


@pytest.mark.parametrize("rate", [100.0, 500.0, 1000.0])
def test_recording_is_segmented_at_rests(rate):
    found, follow, left_out = logged_motions([recording(rate)], ARM, controllet="joint_trajectory")
    assert (len(found), follow, left_out) == (2, "measured", [])
    for one, begin in zip(found, (1.0, 3.5)):
        n = len(one.plant.rows)
        assert 1400 < n < 1800  # 0.3 s of rest, 0.1 s before the motion, 1 s of motion, and rest
        assert one.plant.rows[:, 14:] == pytest.approx(np.tile(PLANT_TORQUES, (n, 1)))
        received = evaluate(one.motion.points, 0.3 + np.arange(n) / 1000)[:, 0]
        assert received == pytest.approx(one.plant.rows[:, :7], abs=2e-3)
        moves = np.flatnonzero(np.abs(np.diff(one.plant.rows[:, 3])) > 1e-5)
        speed = np.interp(0.02, [0.0, 0.6], [0.0, 0.25])  # time until detection
        assert 0.25 < moves[0] / 1000 < 0.45 + speed, begin


def test_recorded_commands_are_followed():
    log = recording()
    targets = np.stack([log.q + 0.01, log.dq], axis=1)
    commanded = log.with_columns(
        {name: log[name] for name in log.names} | {"target_joint": targets}
    )
    found, follow, _ = logged_motions([commanded], ARM)
    assert follow == "commanded"
    assert found[0].motion.points[0, 1:8] == pytest.approx(READY + 0.01)
    found, follow, _ = logged_motions([commanded], ARM, "measured")
    assert found[0].motion.points[0, 1:8] == pytest.approx(READY, abs=1e-6)
    # commands missing in one recording are used for none
    assert logged_motions([commanded, log], ARM)[1] == "measured"
    with pytest.raises(ValidationRejected, match="--follow measured"):
        logged_motions([commanded, log], ARM, "commanded")


def without(rows):
    """Return a recording without some samples."""
    log = recording()
    kept = np.delete(np.arange(len(log)), rows)
    return log.with_columns({name: log[name][kept] for name in log.names})


def with_nan():
    log = recording()
    tau = log["tau"].copy()
    tau[700, 2] = np.nan
    return log.with_columns({name: log[name] for name in log.names} | {"tau": tau})


@pytest.mark.parametrize(
    ("log", "reported"),
    [
        (without(slice(600, 640)), r"^some: .*\b1\b.* 1\.198 .* 1\.280 s"),
        (with_nan(), r"^some: tau of .*joint3 .*nan.* 1\.400 s"),
        (recording(30.0), r"^some: .* 30\.0 .*\b100\b"),
        (recording(robot="fer"), r"^some: .*\bfer\b.*\bfr3\b"),
        (recording(dq=None), "^some: .*q, dq.*tau"),
        (recording(tau=None), "^some: .*q, dq.*tau"),
        (recording(gravity_in_tau=False), "^some: .*torques.*gravity"),
        (
            recording(joints=NAMES[:6], q=np.zeros((2750, 6)), dq=np.zeros((2750, 6)),
                      tau=np.zeros((2750, 6))),
            r"^some: .*\b6 joints\b.*\bfr3\b.*\b7\b",
        ),
        (recording(begins=(9.0, 9.0)), r"^some: .* 0\.45 s"),
        (recording(begins=(-0.5, 5.0)), r"^some: .* 0\.45 s"),
        (recording(gravity_in_base=np.array([0.0, -9.81, 0.0])), "^some: .*gravity.* base"),
        (recording(q=np.degrees(recording().q)), "some: "),
    ],
)  # fmt: skip
def test_unusable_recording_is_rejected(log, reported):
    with pytest.raises(ValidationRejected, match=reported):
        logged_motions([log], ARM)


def test_motion_that_needs_more_than_128_points_is_rejected():
    time = np.arange(0.0, 42.0, 0.01)
    q, dq = np.tile(READY, (len(time), 1)), np.zeros((len(time), 7))
    is_moving = (time > 1.0) & (time < 41.0)
    q[is_moving, 3] += 0.1 * (1.0 - np.cos(2.0 * np.pi * (time[is_moving] - 1.0)))
    dq[is_moving, 3] = 0.2 * np.pi * np.sin(2.0 * np.pi * (time[is_moving] - 1.0))
    log = recording(time=time, q=q, dq=dq, tau=np.tile(PLANT_TORQUES, (len(q), 1)))
    with pytest.raises(ValidationRejected, match="--controllet joint_impedance"):
        logged_motions([log], ARM, controllet="joint_trajectory")
    assert len(logged_motions([log], ARM)[0]) == 1


def test_twin_replays_recording_and_table_has_metadata(tmp_path):
    pytest.importorskip("pandas")
    file, reported = tmp_path / "run.csv", []
    recording().to_pandas().to_csv(file, index=False)
    folder = tmp_path / "pairs"
    assert replay_logs(TWIN, [file], "arm", folder, jobs=1, report=reported.append) == 2
    assert reported[0].startswith("2 motions")
    assert reported[0].endswith("joint_trajectory")
    table = parquet.read_table(folder / TABLE_FILE)
    data = table.to_pandas()
    assert np.abs(data["twin_q_4"] - data["plant_q_4"]).max() < 2e-3
    assert data["plant_tau_2"].tolist() == pytest.approx([PLANT_TORQUES[1]] * len(data))
    assert data["twin_tau_4"].abs().median() > 10.0  # gravity torque of the twin
    about = json.loads(table.schema.metadata[b"multipanda_pairs"])
    assert (about["aligned_by"], about["twin_follows"]) == ("clock", "measured")
    assert (about["laws"]["twin"], about["logs"]) == ("joint_trajectory", ["run.csv"])
    assert replay_logs(TWIN, [file], "arm", folder, jobs=1, report=reported.append) == 2
    assert reported[-1].startswith("2 of 2 motions")
    with pytest.raises(ConfigurationError, match="Use another folder"):
        replay_logs(TWIN, [file], "arm", folder, jobs=1, controllet="joint_position")
    with pytest.raises(ValidationRejected, match=r"none\.csv"):
        replay_logs(TWIN, [tmp_path / "none.csv"], "arm", folder)
