# SPDX-License-Identifier: Apache-2.0
"""What a cell records is what its rows were, to the last bit, and others can read it."""

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
    """A recording of an inline cell that is switched, and its rows."""
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


def test_a_robot_that_is_none_is_refused_where_the_log_says_one_too(recorded):
    with pytest.raises(UnknownName, match="robot 'fr4'"):
        logs.read(recorded[0], robot="fr4")


def test_a_recording_with_former_names_of_fields_could_not_be_read(recorded, monkeypatch):
    """The definitions in a file name its fields: they are renamed as an older version had them."""
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


def test_other_users_could_read_a_recording(recorded):
    assert stat.S_IMODE(recorded[0].stat().st_mode) == 0o600


def test_what_is_read_is_what_the_rows_were(recorded):
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


def test_another_library_reads_every_message(recorded):
    """Against mcap's reader, with checksums, and rosbags' deserialisation."""
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
    turned = pin.Quaternion(q.w, q.x, q.y, q.z).toRotationMatrix()
    np.testing.assert_allclose(turned, arm["rotation_ee_in_base"], atol=1e-12)
    force = firsts["/left/external_wrench"].wrench.force
    np.testing.assert_array_equal([force.x, force.y, force.z], arm["wrench_ext_in_base"][:3])
    np.testing.assert_array_equal(firsts["/left/row"].tau_j, arm["tau_J"])
    assert firsts["/cycles"].cycle == rows[0]["cycle"]
    assert firsts["/left/target_pose"].header.stamp.sec >= 0


def test_definitions_are_those_of_ros(recorded):
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


@pytest.mark.parametrize("share", [0.8, 0.6])
def test_a_file_that_was_torn_off_is_read_as_far_as_it_goes(recorded, tmp_path, share):
    """As a recorder that is killed leaves it: without an index, and with half a chunk."""
    path, _, rows, _ = recorded
    torn = tmp_path / "torn.mcap"
    data = path.read_bytes()
    torn.write_bytes(data[: int(share * len(data))])
    log = logs.read(torn)
    left = log.arms["left"]
    assert "torn" in log.about
    assert 0 < len(left) < len(rows)
    np.testing.assert_array_equal(left.q, rows["arms"]["q"][: len(left), 0])


def test_large_recordings_go_on_in_another_file(tmp_path):
    with Cell.from_yaml("config/single_sim.yaml", placement="inline") as cell:
        cell.recorder.start(tmp_path / "a" / "run.mcap", split=1.0)
        cell.step(3000)
        found = cell.recorder.stop()
        rows = cell.records()[1]
    assert [path.name for path in found.files] == ["run.mcap", "run_001.mcap", "run_002.mcap"]
    (log,) = logs.read(tmp_path / "a").arms.values()
    assert len(log) == 3000
    np.testing.assert_array_equal(log.time[-10:], rows["time"][-10:])


def test_what_cannot_be_recorded_is_refused_and_nothing_is_written(tmp_path):
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


def test_a_recording_that_did_not_begin_leaves_no_torque_terms_on(tmp_path, monkeypatch):
    """The loop went on recording them for as long as the cell ran."""
    with Cell.from_yaml("config/single_sim.yaml", placement="inline") as cell:
        with monkeypatch.context() as patch:
            patch.setattr(FileSink, "open_file", full)
            with pytest.raises(LogError, match="No space left"):
                cell.recorder.start(tmp_path / "run.mcap", torque_terms=True)
        assert not cell.recorder.is_recording
        cell.step(2)
        assert not cell.latest_record()["arms"]["torque_terms_recorded"].any()


def test_a_disk_that_is_full_at_the_end_is_said_and_the_cell_still_closes(
    tmp_path, monkeypatch, capfd
):
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


def test_damaged_and_foreign_files_are_refused(tmp_path):
    (tmp_path / "text.mcap").write_text("no log")
    with pytest.raises(LogError, match="is not an MCAP file"):
        logs.read(tmp_path / "text.mcap")
    (tmp_path / "empty").mkdir()
    with pytest.raises(LogError, match="/empty: "):
        logs.read(tmp_path / "empty")


MAGIC = b"\x89MCAP0\r\n"


@pytest.mark.parametrize(
    "data",
    [
        MAGIC + b"\x05" + b"\xff" * 8 + b"xx",  # a record of 2^64 bytes: no memory for it
        MAGIC + b"\x03" + (1 << 40).to_bytes(8, "little") + b"xx",
        MAGIC + b"\x03" + (2).to_bytes(8, "little") + b"\xff\xff",
        MAGIC,
    ],
)
def test_bytes_that_are_no_records_are_refused(data, tmp_path):
    (tmp_path / "run.mcap").write_bytes(data)
    with pytest.raises(LogError, match=r"run\.mcap: "):
        logs.read(tmp_path / "run.mcap")


def test_a_byte_that_is_another_one_is_told_or_changes_no_row(recorded, tmp_path):
    """One in a definition or a channel ended the program with what Python says of it."""
    path, _, rows, _ = recorded
    data, rng = path.read_bytes(), np.random.default_rng(0)
    changed, refused = tmp_path / "changed.mcap", 0
    places = [*rng.integers(0, 4000, 40), *rng.integers(0, len(data), 20)]
    for place in map(int, places):
        changed.write_bytes(data[:place] + bytes([data[place] ^ 0x91]) + data[place + 1 :])
        try:
            left = logs.read(changed).arms.get("left")
        except LogError:
            refused += 1
            continue
        if left is not None:  # it may be called otherwise now
            np.testing.assert_array_equal(left.q, rows["arms"]["q"][: len(left), 0])
    assert refused > 20


def test_motors_behind_springs_are_in_rows_and_recordings_of_cells_that_have_some(tmp_path):
    """Their commands are no numbers where nobody has commanded anything."""
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


def test_a_recording_kept_the_mode_of_the_file_that_it_replaced(tmp_path):
    path = tmp_path / "old.mcap"
    path.write_bytes(b"old")
    path.chmod(0o644)
    McapFile(path, [], {}, {}, 0).finish()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
