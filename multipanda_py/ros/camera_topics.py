# SPDX-License-Identifier: Apache-2.0
"""The topics of one camera, and its frame."""

from __future__ import annotations

import io
import math
from array import array

import mujoco
import numpy as np
from geometry_msgs.msg import TransformStamped
from PIL import Image as Pillow
from rclpy.node import Node
from sensor_msgs.msg import CameraInfo, CompressedImage, Image

from multipanda_py.config.sections import CameraConfig
from multipanda_py.pose import quaternion_from_rotation
from multipanda_py.ros.fresh_states import Stamp
from multipanda_py.ros.qos import STATES
from multipanda_py.view import rendering
from multipanda_py.view.scene_view import SceneView

FRAME = "{}_optical_frame"
"""Of a camera: z along its view, x to the right, y down (REP 103)."""
QUALITY = 90
"""Of compressed pictures, of 100."""
_OPTICAL = np.diag([1.0, -1.0, -1.0])


class CameraTopics:
    """``<camera>/image_raw``, ``<camera>/image_raw/compressed`` and ``<camera>/camera_info``.

    Args:
        node: Publishes.
        name: Of the camera, in the scene too.
        settings: Of the camera.
        view: Of the scene.

    Attributes:
        name: The same.
        width: Of its pictures [pixels].
        height: Likewise.
        due: When it is looked at next, by the monotonic clock [s].

    Thread: one.
    """

    def __init__(self, node: Node, name: str, settings: CameraConfig, view: SceneView) -> None:
        self.name, self.width, self.height = name, settings.width, settings.height
        self._period, self.due, self._cycle = 1.0 / settings.rate, 0.0, -1
        frame = FRAME.format(name)
        self._raw = node.create_publisher(Image, f"{name}/image_raw", STATES)
        self._packed = node.create_publisher(
            CompressedImage, f"{name}/image_raw/compressed", STATES
        )
        self._info = node.create_publisher(CameraInfo, f"{name}/camera_info", STATES)
        self._image = Image(
            height=self.height, width=self.width, encoding="rgb8", step=3 * self.width
        )
        self._compressed = CompressedImage(format="rgb8; jpeg compressed bgr8")
        self._about = camera_info(float(view.model.camera(name).fovy[0]), self.width, self.height)
        self._messages = (self._image, self._compressed, self._about)
        for message in self._messages:
            message.header.frame_id = frame

    def is_due(self, now: float) -> bool:
        """Return whether a picture is wanted now, and count it as drawn [s]."""
        if now < self.due:
            return False
        self.due += self._period
        if self.due <= now:  # it was late
            self.due = now + self._period
        return any(
            topic.get_subscription_count() for topic in (self._raw, self._packed, self._info)
        )

    def send(self, picture: rendering.Image, stamp: Stamp, cycle: int) -> None:
        """Send a picture, (height, width, 3), once for every cycle that it is of."""
        if cycle == self._cycle:
            return
        self._cycle = cycle
        for message in self._messages:
            message.header.stamp.sec, message.header.stamp.nanosec = stamp
        if self._raw.get_subscription_count():
            self._image.data = array("B", picture.tobytes())
            self._raw.publish(self._image)
        if self._packed.get_subscription_count():
            kept = io.BytesIO()
            Pillow.fromarray(picture).save(kept, "JPEG", quality=QUALITY)
            self._compressed.data = array("B", kept.getvalue())
            self._packed.publish(self._compressed)
        if self._info.get_subscription_count():
            self._info.publish(self._about)


def camera_info(fovy: float, width: int, height: int) -> CameraInfo:
    r"""Return what an ideal camera does to points.

    .. math:: f = \frac{h / 2}{\tan(\varphi / 2)}, \qquad
        c = \left(\frac{w - 1}{2}, \frac{h - 1}{2}\right)

    as whole numbers are middles of pixels (REP 104, image_pipeline's CameraInfo).

    Args:
        fovy: Angle between the upper and the lower edge, :math:`\varphi` [deg].
        width: w [pixels].
        height: h [pixels].
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
    """Return where the optical frame of a camera that rests is in the world."""
    camera = mujoco.mj_name2id(view.model, mujoco.mjtObj.mjOBJ_CAMERA, name)
    found = TransformStamped(child_frame_id=FRAME.format(name))
    found.header.frame_id = world
    place, turn = found.transform.translation, found.transform.rotation
    place.x, place.y, place.z = view.data.cam_xpos[camera].tolist()
    rotation = view.data.cam_xmat[camera].reshape(3, 3) @ _OPTICAL
    turn.x, turn.y, turn.z, turn.w = quaternion_from_rotation(rotation)
    return found
