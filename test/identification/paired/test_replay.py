# SPDX-License-Identifier: Apache-2.0
"""Recordings are cut from rest to rest, done again by the twin, and refused where they are bad."""

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
SWING, OFF = 0.4, np.arange(1.0, 8.0)
"""How far joint 4 goes [rad], and what the torques of the plant are [Nm]."""


def recording(rate=500.0, begins=(1.0, 3.5), **changes):
    """Return joint 4 that swings twice within a second, over 5.5 s, as somebody recorded it."""
    time = np.arange(0.0, 5.5, 1.0 / rate)
    q, dq = np.tile(READY, (len(time), 1)), np.zeros((len(time), 7))
    points = np.zeros((2, 1 + 3))
    points[:, 0], points[1, 1] = (0.0, 1.0), SWING
    for sign, begin in zip((1.0, -1.0), begins):
        now = evaluate(points, np.clip(time - begin, 0.0, 1.0))
        q[:, 3] += sign * now[:, 0, 0]
        dq[:, 3] += sign * now[:, 1, 0]
    found = {"arm": "some", "robot": None, "joints": NAMES, "time": time, "q": q, "dq": dq,
             "tau": np.tile(OFF, (len(time), 1))}  # fmt: skip
    return ArmLog(**(found | changes))


@pytest.mark.parametrize("rate", [100.0, 500.0, 1000.0])
def test_a_recording_is_cut_into_its_motions_from_rest_to_rest(rate):
    found, follow, left_out = logged_motions([recording(rate)], ARM, controllet="joint_trajectory")
    assert (len(found), follow, left_out) == (2, "measured", [])
    for one, begin in zip(found, (1.0, 3.5)):
        n = len(one.plant.rows)
        assert 1400 < n < 1800  # 0.3 s of rest, 0.1 s before a joint moves, a second, and rest
        assert one.plant.rows[:, 14:] == pytest.approx(np.tile(OFF, (n, 1)))
        received = evaluate(one.motion.points, 0.3 + np.arange(n) / 1000)[:, 0]
        assert received == pytest.approx(one.plant.rows[:, :7], abs=2e-3)
        moves = np.flatnonzero(np.abs(np.diff(one.plant.rows[:, 3])) > 1e-5)
        speed = np.interp(0.02, [0.0, 0.6], [0.0, 0.25])  # a joint needs so long to be that fast
        assert 0.25 < moves[0] / 1000 < 0.45 + speed, begin


def test_what_was_commanded_is_followed_where_it_was_recorded():
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
    # one of two recordings lacks it, so it is not told for both
    assert logged_motions([commanded, log], ARM)[1] == "measured"
    with pytest.raises(ValidationRejected, match="--follow measured"):
        logged_motions([commanded, log], ARM, "commanded")


def without(rows):
    """Return a recording that lacks some samples."""
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
        (recording(gravity_in_tau=False), "^some: .*gravity.*torques"),
        (
            recording(joints=NAMES[:6], q=np.zeros((2750, 6)), dq=np.zeros((2750, 6)),
                      tau=np.zeros((2750, 6))),
            r"^some: .* 6 .*\b7\b.*\bfr3\b",
        ),
        (recording(begins=(9.0, 9.0)), r"^some: .* 0\.45 s"),
        (recording(begins=(-0.5, 5.0)), r"^some: .* 0\.45 s"),
        (recording(gravity_in_base=np.array([0.0, -9.81, 0.0])), "^some: .*gravity.* base"),
        (recording(q=np.degrees(recording().q)), "some: "),
    ],
)  # fmt: skip
def test_a_recording_from_which_nothing_can_be_learned_is_refused(log, reported):
    with pytest.raises(ValidationRejected, match=reported):
        logged_motions([log], ARM)


def test_a_motion_that_128_points_are_too_few_for_is_left_out():
    time = np.arange(0.0, 42.0, 0.01)
    q, dq = np.tile(READY, (len(time), 1)), np.zeros((len(time), 7))
    on = (time > 1.0) & (time < 41.0)
    q[on, 3] += 0.1 * (1.0 - np.cos(2.0 * np.pi * (time[on] - 1.0)))
    dq[on, 3] = 0.2 * np.pi * np.sin(2.0 * np.pi * (time[on] - 1.0))
    log = recording(time=time, q=q, dq=dq, tau=np.tile(OFF, (len(q), 1)))
    with pytest.raises(ValidationRejected, match="--controllet joint_impedance"):
        logged_motions([log], ARM, controllet="joint_trajectory")
    assert len(logged_motions([log], ARM)[0]) == 1


def test_the_twin_does_what_was_recorded_at_its_times_and_the_table_says_how(tmp_path):
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
    assert data["plant_tau_2"].tolist() == pytest.approx([OFF[1]] * len(data))
    assert data["twin_tau_4"].abs().median() > 10.0  # what carries the twin
    about = json.loads(table.schema.metadata[b"multipanda_pairs"])
    assert (about["aligned_by"], about["twin_follows"]) == ("clock", "measured")
    assert (about["laws"]["twin"], about["logs"]) == ("joint_trajectory", ["run.csv"])
    assert replay_logs(TWIN, [file], "arm", folder, jobs=1, report=reported.append) == 2
    assert reported[-1].startswith("2 of 2 motions")
    with pytest.raises(ConfigurationError, match="Use another folder"):
        replay_logs(TWIN, [file], "arm", folder, jobs=1, controllet="joint_position")
    with pytest.raises(ValidationRejected, match=r"none\.csv"):
        replay_logs(TWIN, [tmp_path / "none.csv"], "arm", folder)
