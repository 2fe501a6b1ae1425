# SPDX-License-Identifier: Apache-2.0
"""Recordings of cells: bitwise equal to the rows, readable by other libraries."""

from __future__ import annotations

import errno
import os
import re
import stat

import numpy as np
import pytest
from cell_names import DUAL

from multipanda_py import Cell
from multipanda_py.exceptions import LogError, UnknownName
from multipanda_py.realtime import recording as logs
from multipanda_py.realtime.recording import log_reader
from multipanda_py.realtime.recording.log_reader import FORMER_FIELDS, log_of_rows
from multipanda_py.realtime.recording.mcap_chunks import read_blocks
from multipanda_py.realtime.recording.mcap_file import FileSink, McapFile

reader = pytest.importorskip("mcap.reader")
typesys = pytest.importorskip("rosbags.typesys")
pytestmark = [pytest.mark.inline, pytest.mark.sim]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return a recording of an inline cell with a switch, and its rows."""
    path = tmp_path_factory.mktemp("logs") / "run.mcap"
    with Cell.from_yaml("config/dual_sim.yaml", placement="inline") as cell:
        cell.step(20)
        begin = cell.records()[0]
        cell.recorder.start(path, torque_terms=True)
        cell.step(100)
        cell.switch([DUAL], strictness="force_auto")
        cell.step(1500)
        found = cell.recorder.stop()
        rows = cell.records(begin)[1]
        yield path, found, rows, cell.config


def test_unknown_robot_is_refused_although_log_names_one(recorded):
    with pytest.raises(UnknownName, match="robot 'fr4'"):
        logs.read(recorded[0], robot="fr4")


def test_recording_with_former_field_names_could_not_be_read(recorded, monkeypatch):
    """The field names in the definitions are replaced by those of an older version."""
    former = {new: old for old, new in FORMER_FIELDS.items()}

    def older(path):
        content = read_blocks(path)
        for topic, (kind, text) in content.schemas.items():
            pattern = r"(?m)^((?:float64|int64)\S* )(\w+)"
            text = re.sub(pattern, lambda m: m[1] + former.get(m[2], m[2]), text)
            content.schemas[topic] = (kind, text)
        return content

    expected = logs.read(recorded[0])
    monkeypatch.setattr(log_reader, "read_blocks", older)
    found = logs.read(recorded[0])
    for name, log in expected.arms.items():
        assert found.arms[name].names == log.names
        np.testing.assert_array_equal(found.arms[name]["tau_desired"], log["tau_desired"])


def test_other_users_could_read_recording(recorded):
    assert stat.S_IMODE(recorded[0].stat().st_mode) == 0o600


def test_recording_equals_rows(recorded):
    path, found, rows, config = recorded
    assert (found.rows, found.dropped, found.files) == (len(rows), 0, (path,))
    assert found.size == path.stat().st_size
    read, direct = logs.read(path), log_of_rows(rows, config)
    assert list(read.arms) == ["left", "right"]
    for name, log in direct.arms.items():
        again = read.arms[name]
        assert again.names == log.names
        assert (again.robot, again.joints, again.laws) == (log.robot, log.joints, log.laws)
        for column in log.names:
            np.testing.assert_array_equal(again[column], log[column], err_msg=column)
        assert log["torque_terms"][-1].any()
    assert [m for m in read.marks if m.kind != "event"] == list(direct.marks)
    assert DUAL in {mark.text for mark in read.marks}


def test_other_libraries_read_every_message(recorded):
    """Compare with the reader of mcap, with checksums, and the deserialisation of rosbags."""
    path, _, rows, _ = recorded
    store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
    firsts, counts = {}, {}
    with path.open("rb") as file:
        read = reader.make_reader(file, validate_crcs=True)
        summary = read.get_summary()
        names = {attachment.name for attachment in read.iter_attachments()}
        for schema, channel, message in read.iter_messages(log_time_order=False):
            counts[channel.topic] = counts.get(channel.topic, 0) + 1
            if channel.topic not in firsts:
                if schema.name not in store.fielddefs:
                    text = schema.data.decode()
                    store.register(typesys.get_types_from_msg(text, schema.name))
                firsts[channel.topic] = store.deserialize_cdr(message.data, schema.name)
    assert {"cell.json", "robot_description.urdf"} == names
    assert summary.statistics.message_count == sum(counts.values())
    assert counts["/cycles"] == counts["/left/row"] == counts["/right/joint_states"] == len(rows)
    arm = rows[0]["arms"][0]
    state = firsts["/left/joint_states"]
    assert state.name == [f"left_fr3_joint{k}" for k in range(1, 8)]
    assert state.header.frame_id == "left_fr3_link0"
    np.testing.assert_array_equal(state.position, arm["q"])
    np.testing.assert_array_equal(state.effort, arm["tau_J"])
    np.testing.assert_array_equal(firsts["/left/joint_commands"].effort, arm["tau"])
    pose = firsts["/left/current_pose"].pose
    np.testing.assert_array_equal(
        [pose.position.x, pose.position.y, pose.position.z], arm["position_ee_in_base"]
    )
    pin = pytest.importorskip("pinocchio")
    q = pose.orientation
    rotation = pin.Quaternion(q.w, q.x, q.y, q.z).toRotationMatrix()
    np.testing.assert_allclose(rotation, arm["rotation_ee_in_base"], atol=1e-12)
    force = firsts["/left/external_wrench"].wrench.force
    np.testing.assert_array_equal([force.x, force.y, force.z], arm["wrench_ext_in_base"][:3])
    np.testing.assert_array_equal(firsts["/left/row"].tau_j, arm["tau_J"])
    assert firsts["/cycles"].cycle == rows[0]["cycle"]
    assert firsts["/left/target_pose"].header.stamp.sec >= 0


def test_message_definitions_are_those_of_ros(recorded):
    path, _, _, _ = recorded
    store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
    with path.open("rb") as file:
        schemas = reader.make_reader(file).get_summary().schemas.values()
    standard = [schema for schema in schemas if not schema.name.startswith("multipanda_py")]
    assert len(standard) == 5
    for schema in standard:
        types = typesys.get_types_from_msg(schema.data.decode(), schema.name)
        for name, fields in types.items():
            known = [(f, d) for f, d in store.fielddefs[name][1]]
            assert fields[1] == known, name


@pytest.mark.parametrize("fraction", [0.8, 0.6])
def test_truncated_file_is_read_up_to_its_end(recorded, tmp_path, fraction):
    """A killed recorder leaves a file without an index and with an incomplete chunk."""
    path, _, rows, _ = recorded
    torn = tmp_path / "torn.mcap"
    data = path.read_bytes()
    torn.write_bytes(data[: int(fraction * len(data))])
    log = logs.read(torn)
    left = log.arms["left"]
    assert "torn" in log.about
    assert 0 < len(left) < len(rows)
    np.testing.assert_array_equal(left.q, rows["arms"]["q"][: len(left), 0])


def test_large_recordings_continue_in_another_file(tmp_path):
    with Cell.from_yaml("config/single_sim.yaml", placement="inline") as cell:
        cell.recorder.start(tmp_path / "a" / "run.mcap", split=1.0)
        cell.step(3000)
        found = cell.recorder.stop()
        rows = cell.records()[1]
    assert [path.name for path in found.files] == ["run.mcap", "run_001.mcap", "run_002.mcap"]
    (log,) = logs.read(tmp_path / "a").arms.values()
    assert len(log) == 3000
    np.testing.assert_array_equal(log.time[-10:], rows["time"][-10:])


def test_invalid_recording_is_refused_without_file(tmp_path):
    (tmp_path / "there.mcap").write_text("mine")
    with Cell.from_yaml("config/single_sim.yaml", placement="inline") as cell:
        for path, pattern in (("there.mcap", "exists already"), ("run.bag", "allowed .mcap"),
                           ("there.mcap/run.mcap", "File exists")):  # fmt: skip
            with pytest.raises(LogError, match=pattern):
                cell.recorder.start(tmp_path / path)
        with pytest.raises(LogError, match="is not being recorded"):
            cell.recorder.stop()
        cell.recorder.start(tmp_path / "run.mcap")
        with pytest.raises(LogError, match="is being recorded already"):
            cell.recorder.start(tmp_path / "other.mcap")
    assert sorted(os.listdir(tmp_path)) == ["run.mcap", "there.mcap"]


def test_failed_start_of_recording_left_torque_terms_enabled(tmp_path, monkeypatch):
    """The loop continued to record them until the cell closed."""
    with Cell.from_yaml("config/single_sim.yaml", placement="inline") as cell:
        with monkeypatch.context() as patch:
            patch.setattr(FileSink, "open_file", full)
            with pytest.raises(LogError, match="No space left"):
                cell.recorder.start(tmp_path / "run.mcap", torque_terms=True)
        assert not cell.recorder.is_recording
        cell.step(2)
        assert not cell.latest_record()["arms"]["torque_terms_recorded"].any()


def test_full_disk_at_end_is_reported_and_cell_closes(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(FileSink, "finish", full)
    with Cell.from_yaml("config/single_sim.yaml", placement="inline") as cell:
        cell.recorder.start(tmp_path / "run.mcap")
        cell.step(2)
        with pytest.raises(LogError, match=r"run\.mcap: No space left"):
            cell.recorder.stop()
        cell.recorder.start(tmp_path / "other.mcap")
    assert "recording is incomplete" in capfd.readouterr().err


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_invalid_files_are_refused(tmp_path):
    (tmp_path / "text.mcap").write_text("no log")
    with pytest.raises(LogError, match="MCAP"):
        logs.read(tmp_path / "text.mcap")
    (tmp_path / "empty").mkdir()
    with pytest.raises(LogError, match="/empty: "):
        logs.read(tmp_path / "empty")


MAGIC = b"\x89MCAP0\r\n"


@pytest.mark.parametrize(
    "data",
    [
        MAGIC + b"\x05" + b"\xff" * 8 + b"xx",  # a record of 2^64 bytes exceeds the memory
        MAGIC + b"\x03" + (1 << 40).to_bytes(8, "little") + b"xx",
        MAGIC + b"\x03" + (2).to_bytes(8, "little") + b"\xff\xff",
        MAGIC,
    ],
)
def test_invalid_records_are_refused(data, tmp_path):
    (tmp_path / "run.mcap").write_bytes(data)
    with pytest.raises(LogError, match=r"run\.mcap: "):
        logs.read(tmp_path / "run.mcap")


def test_changed_byte_is_reported_or_changes_no_row(recorded, tmp_path):
    """A changed byte in a definition or a channel ended the program with a Python exception."""
    path, _, rows, _ = recorded
    data, rng = path.read_bytes(), np.random.default_rng(0)
    changed, refused = tmp_path / "changed.mcap", 0
    offsets = [*rng.integers(0, 4000, 40), *rng.integers(0, len(data), 20)]
    for offset in map(int, offsets):
        changed.write_bytes(data[:offset] + bytes([data[offset] ^ 0x91]) + data[offset + 1 :])
        try:
            left = logs.read(changed).arms.get("left")
        except LogError:
            refused += 1
            continue
        if left is not None:  # the changed byte may be in the name of the arm
            np.testing.assert_array_equal(left.q, rows["arms"]["q"][: len(left), 0])
    assert refused > 20


def test_elastic_actuator_states_are_in_rows_and_recordings(tmp_path):
    """Commands that were not given are NaN."""
    cell = Cell.from_yaml("config/compliant/two_joints.yaml", placement="inline")
    with cell:
        cell.switch(["arm/actuator_commands_controller"], strictness="force_auto")
        cell.recorder.start(tmp_path / "run.mcap")
        cell.command_actuators("arm", equilibrium_position={"joint_1": 0.2})
        cell.step(50)
        cell.recorder.stop()
        found, direct = cell.actuators("arm"), log_of_rows(cell.records()[1], cell.config)
    (read,) = logs.read(tmp_path / "run.mcap").arms.values()
    for name in ("motor_position", "spring_torque", "actuator_command", "actuator_mode"):
        assert read[name].shape[1:] == direct.arms["arm"][name].shape[1:]
        rows = direct.arms["arm"][name][-len(read.time) :]
        np.testing.assert_array_equal(read[name], rows)
    np.testing.assert_array_equal(read["motor_position"][-1], found.position)
    assert read["actuator_mode"][-1].tolist() == [6, 6]
    command = read["actuator_command"][-1]
    assert command[:, 0].tolist()[:2] == [6.0, 0.2]
    assert np.isnan(command[1:3, 1]).all()


def test_recording_kept_mode_of_replaced_file(tmp_path):
    path = tmp_path / "old.mcap"
    path.write_bytes(b"old")
    path.chmod(0o644)
    McapFile(path, [], {}, {}, 0).finish()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
