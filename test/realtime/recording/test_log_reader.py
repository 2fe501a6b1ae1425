# SPDX-License-Identifier: Apache-2.0
"""Logs from other sources: bags, CSV and Parquet tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from recordings import PANDA, needs_panda

from multipanda_py.exceptions import LogError, UnknownName
from multipanda_py.realtime import recording as logs
from multipanda_py.realtime.recording.log import check_log, check_recording, joined_logs

pytestmark = pytest.mark.inline


rosbag2 = pytest.importorskip("rosbags.rosbag2")
typesys = pytest.importorskip("rosbags.typesys")
NAMES = [f"panda_joint{k}" for k in range(1, 8)] + ["panda_finger_joint1"]


def write(path, plugin, n=20, stamped=True):
    store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
    types = store.types
    state, header = types["sensor_msgs/msg/JointState"], types["std_msgs/msg/Header"]
    clock = types["builtin_interfaces/msg/Time"]
    with rosbag2.Writer(path, version=9, storage_plugin=plugin) as bag:
        topic = bag.add_connection("/left/joint_states", state.__msgtype__, typestore=store)
        for k in range(n):
            stamp = clock(sec=k // 10, nanosec=(k % 10) * 100_000_000) if stamped else clock(0, 0)
            values = np.arange(8) + 0.1 * k
            message = state(header(stamp, ""), NAMES, values, 2 * values, 3 * values)
            raw = store.serialize_cdr(message, state.__msgtype__)
            bag.write(topic, 50_000_000 * k, raw)


@pytest.mark.parametrize("plugin", ["SQLITE3", "MCAP"])
@pytest.mark.parametrize("folder", [True, False])
def test_joint_states_are_read_with_stamps_and_without_fingers(tmp_path, plugin, folder):
    write(tmp_path / "bag", getattr(rosbag2.StoragePlugin, plugin))
    files = [path for path in (tmp_path / "bag").iterdir() if path.suffix != ".yaml"]
    log = logs.read(tmp_path / "bag" if folder else files).the_arm("left")
    assert (log.robot, log.joints[0], len(log.joints)) == ("fer", "joint1", 7)
    np.testing.assert_allclose(log.time, 0.1 * np.arange(20), atol=1e-9)
    np.testing.assert_allclose(log.tau[4], 3 * (np.arange(7) + 0.4))


def test_messages_without_stamps_use_time_of_recording(tmp_path):
    write(tmp_path / "bag", rosbag2.StoragePlugin.SQLITE3, stamped=False)
    log = logs.read(tmp_path / "bag").the_arm("left")
    np.testing.assert_allclose(log.time, 0.05 * np.arange(20), atol=1e-9)


def test_file_that_is_not_bag_is_refused(tmp_path):
    (tmp_path / "bag.db3").write_text("no bag")
    with pytest.raises(LogError, match=r"bag\.db3: "):
        logs.read(tmp_path / "bag.db3")


@needs_panda
def test_log_of_real_panda_has_no_warnings():
    log = logs.read(PANDA).the_arm()
    assert (log.robot, len(log)) == ("fer", 727)
    assert log.rate == pytest.approx(30.0, abs=0.01)
    assert check_log(log, shortest=20.0) == []


pandas = pytest.importorskip("pandas")


def columns(names="q dq tau", first=1, joints=7, n=50):
    draw = np.random.default_rng(1)
    table = {"time": np.arange(n) * 0.01}
    for name in names.split():
        table |= {f"{name}{k + first}": draw.normal(size=n) for k in range(joints)}
    return pandas.DataFrame(table)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_table_is_read_by_column_names(tmp_path, suffix):
    table = columns().sample(frac=1.0, axis=1, random_state=3)  # in any order
    path = tmp_path / f"arm.{suffix}"
    table.to_csv(path, index=False) if suffix == "csv" else table.to_parquet(path)
    log = logs.read(path, robot="fer").the_arm()
    assert (log.arm, log.robot, log.joints[0]) == ("arm", "fer", "joint1")
    np.testing.assert_allclose(log.tau[:, 3], table["tau4"])
    np.testing.assert_allclose(log.dq[:, 0], table["dq1"])
    assert log.rate == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("q", "tau", "first"),
    [("position_", "effort_", 0), ("Position", "Torque", 1), ("q_", "tau_J_", 1)],
)
def test_other_column_spellings_are_recognised(tmp_path, q, tau, first):
    table = columns(f"{q} {tau}", first).rename(columns={"time": "Timestamp"})
    table.to_csv(tmp_path / "arm.csv", index=False)
    log = logs.read(tmp_path / "arm.csv").the_arm()
    np.testing.assert_allclose(log.tau[:, 0], table[f"{tau}{first}"])


def test_exported_table_is_read_back(tmp_path):
    parts = [columns().assign(arm=name, contact=1.5) for name in ("left", "right")]
    pandas.concat(parts).to_csv(tmp_path / "two.csv", index=False)
    log = logs.read(tmp_path / "two.csv")
    log.to_pandas().to_parquet(tmp_path / "again.parquet")
    again = logs.read(tmp_path / "again.parquet")
    assert list(again.arms) == ["left", "right"]
    np.testing.assert_array_equal(again.arms["right"].q, log.arms["right"].q)
    assert again.arms["left"]["contact"][0] == 1.5


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda t: t.drop(columns="time"), "column 'time' .* is missing"),
        (
            lambda t: t.rename(columns={f"q{k}": f"angle{k}" for k in range(1, 8)}),
            "joint positions .* are missing",
        ),
        (lambda t: t.drop(columns="tau3"), r"joint 3 of tau.*\b1, 2, 4\b"),
        (lambda t: t.drop(columns="tau7"), r"\b6\b.*\btau\b.*\b7\b.*\bq\b"),
        (lambda t: t.drop(columns="q1"), "joint 1 of q"),
        (lambda t: t.assign(position2=t.q2), "q2.*position2"),
        (lambda t: t.rename(columns={"dq2": "dq1"}), r"\bdq1\b"),
        (lambda t: t.assign(q3="broken"), "are not numeric"),
        (lambda t: t.iloc[::-1], "time has to increase"),
        (lambda t: t.iloc[:0], "no samples"),
        (lambda t: t.drop(columns=["q7", "dq7", "tau7"]), r"\b6\b.*\bfr3\b.*\b7\b"),
    ],
)
def test_invalid_tables_are_refused_with_reason(tmp_path, change, text):
    change(columns()).to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(LogError, match=text):
        logs.read(tmp_path / "bad.csv", robot="fr3")


def test_unreadable_or_missing_files_are_refused(tmp_path):
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "log.txt").write_text("x")
    for name, text in (("torn.parquet", "cannot be read"), ("empty.csv", "cannot be read"),
                       ("log.txt", "allowed .csv"), ("none.csv", "no such file")):  # fmt: skip
        with pytest.raises(LogError, match=text):
            logs.read(tmp_path / name)
    with pytest.raises(LogError, match="got no log"):
        logs.read([])
    columns().to_csv(tmp_path / "arm.csv", index=False)
    with pytest.raises(UnknownName, match="robot 'fr4'"):
        logs.read(tmp_path / "arm.csv", robot="fr4")


def test_several_logs_are_joined_into_one_data_set(tmp_path):
    columns().to_csv(tmp_path / "arm.csv", index=False)
    (tmp_path / "b").mkdir()
    columns().to_csv(tmp_path / "b" / "arm.csv", index=False)
    log = logs.read([tmp_path / "arm.csv", tmp_path / "b" / "arm.csv"]).the_arm("arm")
    assert len(log) == 100
    assert log.segments() == [slice(0, 50), slice(50, 100)]


def test_lost_records_of_later_joined_logs_were_not_reported(tmp_path):
    columns().to_csv(tmp_path / "arm.csv", index=False)
    single = logs.read(tmp_path / "arm.csv")
    parts = [replace(single, about={"dropped": lost}) for lost in ("0", "3", "4")]
    (message,) = check_recording(joined_logs(parts))
    assert "7 cycle records" in message
    assert check_recording(joined_logs(parts[:1] * 2)) == []
