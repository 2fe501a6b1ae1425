# SPDX-License-Identifier: Apache-2.0
"""Process that publishes images of the simulated scene.

The cell's node starts it as ``python -m multipanda_py.ros.topics.camera_node FD NAMESPACE``, and
sends the configuration as JSON on the first line of standard input. ``FD`` is the file descriptor
of shared memory, from which this process reads the states of the cell. The process ends when
standard input ends.

It renders only subscribed topics, at low priority (nice) and not on the core of the loop. On a
busy machine images are late, but the loop is not.
"""

from __future__ import annotations

import io
import math
import os
import sys
import threading
import time
from array import array

import mujoco
import numpy as np
import rclpy
from geometry_msgs.msg import TransformStamped
from PIL import Image as Pillow
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from tf2_msgs.msg import TFMessage

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.parameter_file import CAMERA_NODE
from multipanda_py.config.sections import CameraConfig
from multipanda_py.exceptions import MultipandaError
from multipanda_py.pose import quaternion_from_rotation
from multipanda_py.realtime.running_cell import RecordFollower
from multipanda_py.realtime.system.child_process import end_of_input, leave, read_data
from multipanda_py.realtime.system.dds import announce_without_types, keep_own_memory_private
from multipanda_py.ros.node.clock import NodeClock
from multipanda_py.ros.node.conversions import WORLD
from multipanda_py.ros.node.qos import LATCHED, STATE_QOS
from multipanda_py.ros.node.running import make_executor
from multipanda_py.ros.topics.state_topic import Stamp, world_time
from multipanda_py.simulation import rendering
from multipanda_py.simulation.rendering import Renderer
from multipanda_py.simulation.scene_view import SceneView

OPTICAL_FRAME = "{}_optical_frame"
"""Optical frame of a camera: z along its view, x to the right, y down (REP 103)."""
JPEG_QUALITY = 90
"""JPEG quality of compressed images, 0 to 100."""
_OPTICAL = np.diag([1.0, -1.0, -1.0])


class CameraTopics:
    """Topics of one camera: ``image_raw``, ``image_raw/compressed`` and ``camera_info``.

    Attributes:
        name: Name of the camera.
        width: Width of the images [pixels].
        height: Height of the images [pixels].
        next_time: Time at which the next image is due, CLOCK_MONOTONIC [s].

    Thread: one.
    """

    def __init__(self, node: Node, name: str, settings: CameraConfig, view: SceneView) -> None:
        self.name, self.width, self.height = name, settings.width, settings.height
        self._period, self.next_time, self._cycle = 1.0 / settings.rate, 0.0, -1
        frame = OPTICAL_FRAME.format(name)
        self._raw = node.create_publisher(Image, f"{name}/image_raw", STATE_QOS)
        self._packed = node.create_publisher(
            CompressedImage, f"{name}/image_raw/compressed", STATE_QOS
        )
        self._info = node.create_publisher(CameraInfo, f"{name}/camera_info", STATE_QOS)
        self._image = Image(
            height=self.height, width=self.width, encoding="rgb8", step=3 * self.width
        )
        self._compressed = CompressedImage(format="rgb8; jpeg compressed bgr8")
        self._about = camera_info(float(view.model.camera(name).fovy[0]), self.width, self.height)
        self._messages = (self._image, self._compressed, self._about)
        for message in self._messages:
            message.header.frame_id = frame

    def is_due(self, now: float) -> bool:
        """Return True if an image is due at ``now``, CLOCK_MONOTONIC [s], and has subscribers.

        A due image sets :attr:`next_time`.
        """
        if now < self.next_time:
            return False
        self.next_time += self._period
        # After a late image, the period restarts instead of catching up.
        if self.next_time <= now:
            self.next_time = now + self._period
        return any(
            topic.get_subscription_count() for topic in (self._raw, self._packed, self._info)
        )

    def send(self, image: rendering.Image, stamp: Stamp, cycle: int) -> None:
        """Publish an image, unless the last one shows the same control cycle.

        Args:
            image: Image, (height, width, 3).
            stamp: Time stamp of the state that it shows.
            cycle: Number of the control cycle that it shows.
        """
        if cycle == self._cycle:
            return
        self._cycle = cycle
        for message in self._messages:
            message.header.stamp.sec, message.header.stamp.nanosec = stamp
        if self._raw.get_subscription_count():
            self._image.data = array("B", image.tobytes())
            self._raw.publish(self._image)
        if self._packed.get_subscription_count():
            buffer = io.BytesIO()
            Pillow.fromarray(image).save(buffer, "JPEG", quality=JPEG_QUALITY)
            self._compressed.data = array("B", buffer.getvalue())
            self._packed.publish(self._compressed)
        if self._info.get_subscription_count():
            self._info.publish(self._about)


def camera_info(fovy: float, width: int, height: int) -> CameraInfo:
    r"""Return the intrinsic parameters of an ideal pinhole camera.

    .. math:: f = \frac{h / 2}{\tan(\varphi / 2)}, \qquad
        c = \left(\frac{w - 1}{2}, \frac{h - 1}{2}\right)

    with focal length f and principal point c [pixels]. Integer coordinates are the centers of
    pixels (REP 104, image_pipeline's CameraInfo).

    Args:
        fovy: Vertical field of view, :math:`\varphi` [deg].
        width: Width of the image, w [pixels].
        height: Height of the image, h [pixels].
    """
    f = height / 2.0 / math.tan(math.radians(fovy) / 2.0)
    cx, cy = (width - 1) / 2.0, (height - 1) / 2.0
    k = [f, 0.0, cx, 0.0, f, cy, 0.0, 0.0, 1.0]
    return CameraInfo(
        height=height, width=width, distortion_model="plumb_bob", d=[0.0] * 5, k=k,
        r=np.eye(3).ravel().tolist(),
        p=[f, 0.0, cx, 0.0, 0.0, f, cy, 0.0, 0.0, 0.0, 1.0, 0.0],
    )  # fmt: skip


def optical_frame(view: SceneView, name: str, world: str) -> TransformStamped:
    """Return the pose of a fixed camera's optical frame in the world."""
    camera = mujoco.mj_name2id(view.model, mujoco.mjtObj.mjOBJ_CAMERA, name)
    optical_frame = TransformStamped(child_frame_id=OPTICAL_FRAME.format(name))
    optical_frame.header.frame_id = world
    translation, angle = optical_frame.transform.translation, optical_frame.transform.rotation
    translation.x, translation.y, translation.z = view.data.cam_xpos[camera].tolist()
    rotation = view.data.cam_xmat[camera].reshape(3, 3) @ _OPTICAL
    angle.x, angle.y, angle.z, angle.w = quaternion_from_rotation(rotation)
    return optical_frame


NICENESS = 10
"""Niceness of the process, so that it does not delay control."""
SHADOW_RESOLUTION, PIXEL_SAMPLES = 1024, 4
"""Resolution of shadows [pixels], and samples per pixel; half of those of videos."""
MAX_END_CHECK_PERIOD = 0.2
"""Maximum time between two checks for the end [s]."""


def main() -> int:
    """Publish images until the cell's node ends."""
    # Without a GPU, Mesa renders on the CPU and must not use all cores.
    os.environ.setdefault("LP_NUM_THREADS", "1")
    options = read_data()
    config = CellConfig.from_dict(options["cell"])
    ended = end_of_input()
    announce_without_types()
    # No signal handlers, because the parent process ends this process.
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node(
        CAMERA_NODE, namespace=sys.argv[2], start_parameter_services=False,
        parameter_overrides=[Parameter("use_sim_time", value=options["use_sim_time"])],
    )  # fmt: skip
    keep_own_memory_private()
    try:
        _publish_images(node, config, RecordFollower(config, int(sys.argv[1])), ended)
    except MultipandaError as error:
        node.get_logger().warning(f"no images of the scene: {error}")
    node.destroy_node()
    rclpy.try_shutdown()
    return 0


def _publish_images(
    node: rclpy.node.Node, config: CellConfig, follower: RecordFollower, ended: threading.Event
) -> None:
    view, renderers = SceneView(config), dict[tuple[int, int], Renderer]()
    view.model.vis.quality.shadowsize, view.model.vis.quality.offsamples = (
        SHADOW_RESOLUTION,
        PIXEL_SAMPLES,
    )
    for camera in config.cameras.values():
        size = (camera.width, camera.height)
        if size not in renderers:
            renderers[size] = Renderer(view.model, *size)
    topics = [CameraTopics(node, name, one, view) for name, one in config.cameras.items()]
    fixed = node.create_publisher(TFMessage, "/tf_static", LATCHED)
    if config.cell.tf_rate:  # With a rate of 0, another node publishes all frames.
        frames = [optical_frame(view, name, WORLD) for name in config.cameras]
        fixed.publish(TFMessage(transforms=frames))
    clock, executor = NodeClock(node.get_clock()), make_executor()
    executor.add_node(node)
    os.nice(NICENESS)  # Set after discovery, which must not be delayed on a busy machine.
    while not ended.is_set():
        pause = min(topic.next_time for topic in topics) - time.monotonic()
        executor.spin_once(timeout_sec=min(max(pause, 0.0), MAX_END_CHECK_PERIOD))
        due_topics = [topic for topic in topics if topic.is_due(time.monotonic())]
        if not due_topics or (row := follower.newest()) is None or not clock.has_started:
            continue
        stamp = world_time(row) if config.cell.clock_rate else clock.stamp(int(row["wake_ns"]))
        view.show(row)
        for topic in due_topics:
            image = renderers[topic.width, topic.height].frame(view.data, topic.name)
            topic.send(image, stamp, int(row["cycle"]))
    executor.shutdown()
    for renderer in renderers.values():
        renderer.close()


if __name__ == "__main__":
    leave(main())  # Threads of OpenGL drivers delay a normal exit.
