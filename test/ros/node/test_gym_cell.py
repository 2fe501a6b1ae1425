# SPDX-License-Identifier: Apache-2.0
"""Environments and policies on the arms of a running node, behind the gates of the node."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest
import yaml
from geometry_msgs.msg import PoseStamped
from processes import wait_until
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, JointState
from simulation_interfaces.srv import SetEntityState, SetSimulationState
from std_msgs.msg import String
from std_srvs.srv import Trigger
from tf2_msgs.msg import TFMessage

from multipanda_py.exceptions import (
    ActionRejected,
    ConfigurationError,
    LoopError,
    MotionFailed,
    TopicLost,
    UnknownName,
)
from multipanda_py.learning.datasets import Dataset, EpisodeRecorder
from multipanda_py.learning.datasets.replay import check
from multipanda_py.learning.gym import CellEnv, GymTask
from multipanda_py.learning.policies import PolicyRunner, ThreadInference
from multipanda_py.ros.client.cell import RosCell
from multipanda_py.ros.node.conversions import write_pose
from multipanda_py.ros.node.qos import LATCHED

CELL = Path(__file__).with_name("gym_cell.yaml")
LAB = "/gym_lab"
LONG = 60.0  # timeout on a busy machine [s]
pytestmark = [pytest.mark.sim, pytest.mark.timeout(300), pytest.mark.clock, pytest.mark.node]


class Down(GymTask):
    """Task: move the tool 5 cm below the start of the episode."""

    arms = {"arm": {}}
    goal_size = 1
    time_limit = 100.0

    def reset(self, scene, random):
        return np.array([scene.tool_pose("arm").position[2] - 0.05])

    def reward(self, scene):
        return float(scene.tool_pose("arm").position[2] < scene.goal[0] + 0.01)

    def is_success(self, scene):
        return bool(self.reward(scene))


@pytest.fixture(scope="module")
def lab(tmp_path_factory, node_process):
    node = node_process(
        tmp_path_factory.mktemp("lab"), file=CELL, remap=(f"__ns:={LAB}",),
        environment={"MUJOCO_GL": "egl"},
    )  # fmt: skip
    node.wait_for("is active", LONG)
    yield node
    assert node.end() == 0, node.log
    assert "Traceback" not in node.log, node.log


@pytest.fixture(scope="module")
def cell(lab):
    cell = RosCell(LAB, timeout=LONG)
    yield cell
    cell.close()


@pytest.fixture
def env(cell):
    """An environment that is not closed, as this would close the shared cell."""
    return CellEnv(Down(), cell=cell, rate=10.0)


def stay(env):
    for _ in range(600):
        env.step(env.hold_action())


def test_policy_acts_on_node_with_same_code(lab, cell, request):
    topics = {"side": (f"{LAB}/side/image_raw", LONG), "felt": f"{LAB}/arm/external_wrench"}
    env = CellEnv(Down(), cell=cell, rate=10.0, control="pose", topics=topics)
    request.addfinalizer(env.sensors.close)

    def policy(observed):
        poses = np.repeat(observed["arm"]["target"][None, :], 20, axis=0)
        poses[:, 2] -= 0.01 * np.arange(20)
        return np.hstack([poses, np.ones((20, 1))])  # with an open gripper

    runner = PolicyRunner(env, ThreadInference(policy), rate=10.0, timeout=LONG)
    info = runner.run(seed=0)
    assert info["is_success"], info
    assert not info["policy"]
    obs = runner.observation
    assert env.observation_space.contains(obs)
    assert obs["images"]["side"].shape == (120, 160, 3)
    assert obs["objects"]["box"][:2] == pytest.approx([0.5, -0.3], abs=0.01)
    assert obs["sensors"]["felt"] == pytest.approx(obs["arm"]["wrench"], abs=2.0)
    assert obs["arm"]["gripper"] == pytest.approx([1.0], abs=0.05)
    assert (np.diff(runner.log["time"]) > 0.0).all()


@pytest.mark.long
def test_topic_sensors_are_recorded(lab, cell, request, tmp_path):
    topics = {"side": (f"{LAB}/side/image_raw", LONG), "felt": f"{LAB}/arm/external_wrench"}
    env = CellEnv(Down(), cell=cell, rate=10.0, topics=topics)
    request.addfinalizer(env.sensors.close)
    observed = []
    with EpisodeRecorder(env, tmp_path / "set", instruction="stay") as recorder:
        observed.append(recorder.start_episode(0)[0]["sensors"]["felt"])
        observed += [recorder.step(env.hold_action())[0]["sensors"]["felt"] for _ in range(3)]
        recorder.end(success=True)
    dataset = Dataset(tmp_path / "set")
    names = dataset.info["features"]["observation.state"]["names"]
    offset = names.index("sensors.felt.0")
    rows = np.stack(list(dataset[0]["observation.state"]))
    assert rows[:, offset : offset + 6] == pytest.approx(np.stack(observed[:3]), abs=1e-6)
    assert dataset.video_keys == ("observation.images.side",)
    assert not [one for one in check(dataset) if "from its nominal time" not in one]


@pytest.mark.long
def test_unserved_client_cell_had_only_old_states(lab):
    cell = RosCell(LAB, timeout=LONG)
    try:
        received = cell.states.arms["arm"].topics[0]
        wait_until(lambda: not received.is_new, LONG)  # no executor spins before start()
        cell.start()
        assert np.isfinite(cell.state("arm").q).all()
    finally:
        cell.close()


def test_reset_returns_to_start_and_places_objects(lab, env, cell):
    from multipanda_py.pose import Pose

    class Placed(Down):
        def reset(self, scene, random):
            scene.set_object_pose("box", Pose(np.array([0.45, -0.35, 0.05]), np.eye(3)))
            return super().reset(scene, random)

    env.task = Placed()
    observed, info = env.reset(seed=1)
    assert observed["arm"]["q"] == pytest.approx(cell.config.arms["arm"].q_start, abs=0.03)
    assert observed["objects"]["box"][:2] == pytest.approx([0.45, -0.35], abs=0.01)
    assert not info["fault"]


def test_nan_action_is_rejected_before_any_target_is_sent(lab, env, cell):
    env.reset(seed=2)
    sent = cell.targets.sent["arm"]
    with pytest.raises(ActionRejected, match=r"\b1\b.*\bnan\b"):
        env.step([0.0, np.nan, 0.0, 0.0, 0.0, 0.0, 0.5])
    assert cell.targets.sent["arm"] == sent


def test_gripper_closes_and_arm_holds_after_actions_stop(lab, env, cell):
    env.reset(seed=3)
    for _ in range(3):
        env.step([0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    lab.wait_for("stale", LONG)
    cell.wait(lambda: np.abs(cell.state("arm").dq).max() < 0.01, LONG, "rest")
    cell.wait(lambda: cell.gripper("arm").state().width < 0.01, LONG, "a closed gripper")


@pytest.mark.slow
def test_loss_of_arm_raises_loop_error(lab, env, client):
    env.reset(seed=4)
    assert client.call(Trigger, f"{LAB}/stop").success
    with pytest.raises(LoopError, match=r"\barm/hold\b.*\barm/compliant\b"):
        stay(env)


@pytest.mark.slow
def test_zero_action_moved_arm_to_stale_target(lab, env, cell):
    """Another client may have moved the arm and reactivated the controllet in between."""
    env.reset(seed=6)
    env.step([0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5])
    cell.wait(lambda: cell.targets.target_age("arm") > 1.05, LONG, "a stale target")
    sent = cell.targets.sent["arm"]
    with pytest.raises(LoopError, match=r"^arm:.*\d s\b.*\b1 s\b"):
        env.step(env.hold_action())
    assert cell.targets.sent["arm"] == sent


@pytest.mark.slow
def test_target_of_another_sender_raises_loop_error(lab, env, cell, client):
    env.reset(seed=7)
    env.step(env.hold_action())
    here = PoseStamped()
    here.header.frame_id = "base"
    write_pose(here.pose, cell.pose("arm"))
    client.publish(f"{LAB}/arm/target_pose", here)
    with pytest.raises(LoopError, match=rf"^arm: .*{LAB}/arm/target_pose"):
        stay(env)
    env.reset(seed=7)
    for _ in range(5):
        env.step(env.hold_action())


def test_arm_returned_to_previous_position_after_heartbeat_timeout(lab, env, cell, client):
    """The hold commanded a joint configuration instead of a stop; the arm overshot by 3 cm."""
    env.reset(seed=9)
    start = cell.state("arm").q
    cell.switch(["arm/joint_trajectory_controller"], strictness="force_auto")
    names = list(cell.descriptions["arm"].joint_names)
    far = JointState(name=names, position=(start + [0.8, 0, 0, 0, 0, 0, 0]).tolist())
    target = f"{LAB}/arm/target_joint"
    client.stream(target, far, lambda: cell.state("arm").q[0] > start[0] + 0.02, "motion")
    heartbeat = String(data="somebody arm")
    client.stream(
        f"{LAB}/heartbeat", heartbeat, lambda: cell.state("arm").q[0] > start[0] + 0.1, "motion"
    )
    lab.wait_for("arm holds: no heartbeat for 0.5 s from 'somebody'", LONG)
    positions, speeds = [], []

    def is_at_rest():
        state = cell.state("arm")
        positions.append(state.q[0])
        speeds.append(abs(state.dq[0]))
        return len(speeds) >= 50 and max(speeds[-50:]) < 0.01

    wait_until(is_at_rest, LONG)
    assert max(positions) - positions[-1] < 0.01, positions
    assert positions[-1] < start[0] + 0.75


class Interrupted(Exception):
    pass


@pytest.mark.slow
def test_client_without_selected_controllets_could_not_move_arm(lab):
    client = RosCell(LAB, timeout=LONG)
    try:
        client.start()
        client.switch(["arm/joint_trajectory_controller"], strictness="force_auto")
        goal = client.state("arm").q + np.array([0.1, 0, 0, 0, 0, 0, 0])
        client.move_to({"arm": goal})
        assert client.state("arm").q == pytest.approx(goal, abs=0.02)
    finally:
        client.close()


@pytest.mark.long
def test_arm_continued_to_start_after_client_was_interrupted(lab, env, cell, client):
    heartbeats = client.listen(String, f"{LAB}/heartbeat")
    env.reset(seed=8)
    start = cell.state("arm").q
    follower = "arm/joint_trajectory_controller"
    cell.switch([follower], strictness="force_auto")

    def interrupt(*_):
        raise Interrupted

    def to_and_fro():
        while True:
            cell.move_to({"arm": start + np.array([0.8, 0, 0, 0, 0, 0, 0])})
            cell.move_to({"arm": start})

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 3.0)
        with pytest.raises(Interrupted):
            to_and_fro()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    lab.wait_for("arm holds: no heartbeat for 0.5 s from 'cell_client_", LONG)
    cell.wait(lambda: np.abs(cell.state("arm").dq).max() < 0.01, LONG, "rest")
    client.until(lambda: heartbeats() is not None, 5.0, "a heartbeat")
    assert heartbeats().data.startswith("cell_client_")
    env.reset(seed=8)


@pytest.mark.slow
def test_node_silence_raises_topic_lost(lab, env, client, cell):
    env.reset(seed=5)
    sent = cell.targets.sent["arm"]

    def set_state(state):
        request = SetSimulationState.Request()
        request.state.state = state
        client.call(SetSimulationState, f"{LAB}/set_simulation_state", state=request.state)

    set_state(2)
    try:
        with pytest.raises(TopicLost, match=r"joint_states: "):
            stay(env)
        sent = cell.targets.sent["arm"]
        with pytest.raises(TopicLost):
            env.step(env.hold_action())
        assert cell.targets.sent["arm"] == sent
    finally:
        set_state(1)


@pytest.mark.long
def test_reset_did_not_recover_stopped_arm(node_process, tmp_path):
    """The arm presses on a block beyond its collision thresholds."""
    data = yaml.safe_load(CELL.read_text(encoding="utf-8"))
    cell = data["/**"]["ros__parameters"]
    cell["cell"]["name"] = "gym_stopped"
    del cell["cameras"]
    sensitive = {name: [5.0] * 6 for name in ("upper_force_thresholds", "lower_force_thresholds")}
    cell["arms"]["arm"] = {"backend": "mujoco", "gripper": False, "franka": sensitive}
    cell["objects"] = {
        "block": {"shape": "box", "size": [0.1, 0.1, 0.05], "position": [0.31, 0.0, 0.48]}
    }
    cell["controllets"]["compliant"]["features"] = ["coriolis"]
    file = tmp_path / "stopped.yaml"
    file.write_text(yaml.safe_dump(data), encoding="utf-8")
    node = node_process(tmp_path, file=file, remap=("__ns:=/gym_stopped",))
    node.wait_for("is active", LONG)
    env = CellEnv("reach", cell=RosCell("/gym_stopped", timeout=LONG), rate=10.0, objects=False)
    try:
        env.reset(seed=0)
        for _ in range(40):
            _, _, ends, _, info = env.step([0.0, 0.0, -1.0, 0.0, 0.0, 0.0])
            if ends:
                break
        assert "cartesian_reflex" in info["fault"]
        with pytest.raises(MotionFailed, match=r"arm_stopped \(reflex: .*'recover': True"):
            env.reset(seed=0)
        _, info = env.reset(seed=0, options={"recover": True})
        assert not info["fault"]
        assert not env.step(np.zeros(6))[4]["fault"]
    finally:
        env.close()
    assert node.end() == 0, node.log


def test_unusable_cells_and_options_are_reported(lab, cell):
    with pytest.raises(TopicLost, match=r"/nowhere/multimode_controller/list_parameters: "):
        RosCell("/nowhere", timeout=0.4)
    with pytest.raises(ConfigurationError, match=r"stiff\.target_timeout: .*\b0\b"):
        CellEnv(Down(), cell=cell, control="joint")
    with pytest.raises(ConfigurationError, match=r"target_timeout: .*\b1 s\b"):
        CellEnv(Down(), cell=cell, rate=1.0)
    with pytest.raises(UnknownName, match=r"left.*known: arm"):
        CellEnv("reach_two", cell=cell)
    with pytest.raises(ConfigurationError, match=r"^features: "):
        CellEnv(Down(), cell=cell, features=["nullspace"])
    with pytest.raises(UnknownName, match=r"kind of cell 'dds'.*ros"):
        CellEnv(Down(), cell="dds:/lab")
    with pytest.raises(ConfigurationError, match=r"arm/joint_states .*sensor_msgs/msg/JointState"):
        CellEnv(Down(), cell=cell, topics={"q": f"{LAB}/arm/joint_states"})


def test_image_shows_object_where_frames_and_camera_info_predict(lab, client):
    move = SetEntityState.Request(entity="box").state
    move.pose.position.x, move.pose.position.y, move.pose.position.z = 0.6, -0.1, 0.04
    move.pose.orientation.w = 1.0
    info = client.newest(CameraInfo, f"{LAB}/side/camera_info", LONG)
    frames = {}
    client.listen(TFMessage, "/tf_static", LATCHED)
    client.until(lambda: _frames(client, frames), LONG, "the frame of the camera")
    offset, camera_rotation = frames["side_optical_frame"]
    before = client.newest(Image, f"{LAB}/side/image_raw", LONG)
    assert client.call(SetEntityState, f"{LAB}/set_entity_state", entity="box", state=move)
    pixel = _pixel(info, offset, camera_rotation, np.array([0.6, -0.1, 0.05]))
    assert not _is_red(before, pixel)
    get = client.listen(Image, f"{LAB}/side/image_raw")
    client.until(lambda: get() is not None and _is_red(get(), pixel), LONG, "the box in the image")
    after = get()
    assert _time(after) > _time(before)
    assert after.header.frame_id == info.header.frame_id == "side_optical_frame"
    packed = client.newest(CompressedImage, f"{LAB}/side/image_raw/compressed", LONG)
    assert packed.format.startswith("rgb8; jpeg")
    assert bytes(packed.data[:2]) == b"\xff\xd8"
    small = client.newest(Image, f"{LAB}/overview/image_raw", LONG)
    assert (small.width, small.height, small.step) == (64, 48, 192)


def _frames(client, frames):
    get = client.listen(TFMessage, "/tf_static", LATCHED)
    for item in get().transforms if get() else ():
        p, q = item.transform.translation, item.transform.rotation
        frames[item.child_frame_id] = np.array([p.x, p.y, p.z]), np.array([q.x, q.y, q.z, q.w])
    return "side_optical_frame" in frames


def _pixel(info, offset, quaternion, point):
    """Return the pixel (row, column) of a point of the world by the pinhole model."""
    x, y, z, w = quaternion
    v = point - offset
    u = -np.array([x, y, z])  # the inverse rotation
    observed = v + 2.0 * np.cross(u, np.cross(u, v) + w * v)
    column, row, depth = np.array(info.k).reshape(3, 3) @ observed
    return round(row / depth), round(column / depth)


def _is_red(message, pixel):
    image = np.frombuffer(message.data, np.uint8).reshape(message.height, message.width, 3)
    red, green, blue = image[pixel].astype(int)
    return red > 80 and red > 2 * max(green, blue)


def _time(message):
    return message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec
