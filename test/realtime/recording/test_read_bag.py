# SPDX-License-Identifier: Apache-2.0
"""Joint states that others recorded, in bags of both kinds."""

from __future__ import annotations

import numpy as np
import pytest
from recordings import PANDA, needs_panda

from multipanda_py.exceptions import LogError
from multipanda_py.realtime import recording as logs
from multipanda_py.realtime.recording.log import check_log

rosbag2 = pytest.importorskip("rosbags.rosbag2")
typesys = pytest.importorskip("rosbags.typesys")
pytestmark = pytest.mark.inline
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
def test_joint_states_come_in_with_their_stamps_and_without_fingers(tmp_path, plugin, folder):
    write(tmp_path / "bag", getattr(rosbag2.StoragePlugin, plugin))
    files = [path for path in (tmp_path / "bag").iterdir() if path.suffix != ".yaml"]
    log = logs.read(tmp_path / "bag" if folder else files).the_arm("left")
    assert (log.robot, log.joints[0], len(log.joints)) == ("fer", "joint1", 7)
    np.testing.assert_allclose(log.time, 0.1 * np.arange(20), atol=1e-9)
    np.testing.assert_allclose(log.tau[4], 3 * (np.arange(7) + 0.4))


def test_messages_without_stamps_have_the_time_they_were_written(tmp_path):
    write(tmp_path / "bag", rosbag2.StoragePlugin.SQLITE3, stamped=False)
    log = logs.read(tmp_path / "bag").the_arm("left")
    np.testing.assert_allclose(log.time, 0.05 * np.arange(20), atol=1e-9)


def test_a_file_that_is_no_bag_is_refused(tmp_path):
    (tmp_path / "bag.db3").write_text("no bag")
    with pytest.raises(LogError, match=r"bag\.db3: "):
        logs.read(tmp_path / "bag.db3")


@needs_panda
def test_a_real_panda_raises_no_doubt():
    log = logs.read(PANDA).the_arm()
    assert (log.robot, len(log)) == ("fer", 727)
    assert log.rate == pytest.approx(30.0, abs=0.01)
    assert check_log(log, shortest=20.0) == []
