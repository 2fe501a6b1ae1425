# SPDX-License-Identifier: Apache-2.0
"""Cameras of a cell file: validation, and no rendering without subscribers."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import rclpy
from geometry_msgs.msg import WrenchStamped
from processes import wait_until
from sensor_msgs.msg import CompressedImage, Image

from multipanda_py import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.sections import CameraConfig
from multipanda_py.exceptions import ConfigurationError, TopicLost
from multipanda_py.learning.gym import CellEnv
from multipanda_py.ros.client.topic_sensors import TopicSensors
from multipanda_py.ros.topics.camera_node import CameraTopics, camera_info
from multipanda_py.ros.topics.publishers import SceneCameras
from multipanda_py.simulation.scene_view import SceneView

pytestmark = [pytest.mark.sim, pytest.mark.node]
FRONT = {"position": [1.5, 0.0, 0.8], "look_at": [0.4, 0.0, 0.3], "width": 64, "height": 48}


def config(cameras, **arm):
    data = {
        "cell": {"name": "seen", "placement": "thread"},
        "realtime": {"priority": 0, "cpu": -2},
        "arms": {"arm": arm},
        "cameras": cameras,
    }
    return CellConfig.from_dict(data)


@pytest.fixture
def node(ros):
    node = rclpy.create_node("cell_of_cameras")
    yield node
    node.destroy_node()


@pytest.mark.parametrize(
    ("cameras", "arm", "reported"),
    [
        ({"front": {}}, {}, r"cameras\.front\.position: "),
        ({"front": {**FRONT, "look_at": FRONT["position"]}}, {}, r"front\.look_at: "),
        ({"overview": {"fovy": 45.0}}, {}, r"overview\.fovy: "),
        ({"arm": FRONT}, {}, r"cameras\.arm: "),
        ({"front": FRONT}, {"backend": "franka", "robot_ip": "1.2.3.4"}, r"cameras: .*franka"),
        ({"front": {**FRONT, "width": 4000}}, {}, r"cameras\.front\.width"),
    ],
)
def test_camera_faults_are_reported(cameras, arm, reported):
    with pytest.raises(ConfigurationError, match=reported):
        config(cameras, **arm)


def test_downward_camera_has_world_x_upward():
    view = SceneView(config({"top": {"position": [0.5, 0.0, 2.0], "look_at": [0.5, 0.0, 0.0]}}))
    rotation = view.data.cam_xmat[view.model.camera("top").id].reshape(3, 3)
    assert rotation[:, 2] == pytest.approx([0.0, 0.0, 1.0]), "view along -z"
    assert rotation[:, 1] == pytest.approx([1.0, 0.0, 0.0])


def test_intrinsics_of_ideal_camera():
    info = camera_info(90.0, 200, 100)
    assert info.k.tolist() == pytest.approx([50.0, 0.0, 99.5, 0.0, 50.0, 49.5, 0.0, 0.0, 1.0])
    assert info.p.reshape(3, 4)[:, :3].ravel().tolist() == pytest.approx(info.k.tolist())


def test_no_rendering_without_subscribers(node, client):
    topics = CameraTopics(node, "front", CameraConfig(**FRONT, rate=10.0),
                          SceneView(config({"front": FRONT})))  # fmt: skip
    assert not topics.is_due(100.0)
    client.listen(CompressedImage, "front/image_raw/compressed")
    (packed,) = (one for one in node.publishers if one.topic_name.endswith("/compressed"))
    wait_until(lambda: packed.get_subscription_count() > 0, 20.0)
    assert not topics.is_due(100.05), "the period of 0.1 s has not passed"
    assert topics.is_due(100.1)


@pytest.mark.slow
def test_disabled_rendering_is_reported_once_and_cell_continues(node, monkeypatch, capfd):
    monkeypatch.setenv("MUJOCO_GL", "off")
    with Cell(config({"front": FRONT})) as cell:
        cameras = SceneCameras(node, cell)
        reported = ""

        def is_reported():
            nonlocal reported
            reported += capfd.readouterr().err
            return "rendering is switched off" in reported

        wait_until(is_reported, 60.0, lambda: reported)
        process = cameras.process
        wait_until(lambda: process.poll() is not None, 60.0)
        cameras.check()
        assert process.returncode == 0
        assert reported.count("no images of the scene: MUJOCO_GL is 'off'") == 1
        cell.check()
        cameras.close()


def test_environment_observes_external_sensor_topics(node, client):
    estimated = node.create_publisher(WrenchStamped, "ft/wrench", 1)
    received = node.create_publisher(Image, "usb/image", 1)
    wrench, image = WrenchStamped(), Image(height=2, width=3, encoding="bgr8", step=10)
    wrench.wrench.force.z, wrench.wrench.torque.x = -7.0, 0.5
    rows = np.zeros((2, 10), np.uint8)  # every row ends with a padding byte
    rows[1, 6:9] = (1, 2, 3)
    image.data = rows.tobytes()
    timer = node.create_timer(0.02, lambda: (estimated.publish(wrench), received.publish(image)))
    served = rclpy.executors.SingleThreadedExecutor()
    served.add_node(node)
    ended = threading.Event()

    def serve():
        while not ended.is_set():
            served.spin_once(timeout_sec=0.05)

    thread = threading.Thread(target=serve)
    thread.start()
    env = None
    try:
        env = CellEnv("reach", topics={"ft": "/ft/wrench", "usb": ("/usb/image", 20.0)})
        observed, _ = env.reset(seed=0)
        assert env.observation_space.contains(observed)
        assert observed["sensors"]["ft"] == pytest.approx([0.0, 0.0, -7.0, 0.5, 0.0, 0.0])
        assert observed["images"]["usb"][1, 2].tolist() == [3, 2, 1], "red, green, blue"
        timer.cancel()
        with pytest.raises(TopicLost, match=r"/ft/wrench: .*\d s.*\b1 s\b"):
            steps(env)
    finally:
        ended.set()
        thread.join()
        served.shutdown()
        if env is not None:
            env.close()
    with pytest.raises(TopicLost, match=r"/nothing: .*\b0\.1 s"):
        TopicSensors({"nothing": "/nothing"}, timeout=0.1)


def steps(env):
    for _ in range(100_000):
        env.step(env.hold_action())
