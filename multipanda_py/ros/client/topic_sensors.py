# SPDX-License-Identifier: Apache-2.0
"""Image and wrench topics as observations of an environment."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from geometry_msgs.msg import WrenchStamped
from numpy.typing import NDArray
from PIL import Image as Pillow
from PIL import UnidentifiedImageError
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CompressedImage, Image

from multipanda_py.exceptions import ConfigurationError, TopicLost
from multipanda_py.ros.client.node_link import LatestMessage, NodeLink, unique_node_name
from multipanda_py.ros.node.qos import TARGET_QOS
from multipanda_py.state import Vector

TIMEOUT = 20.0
"""Timeout of the first message of each topic [s]."""
MAX_MESSAGE_AGE = 1.0
"""Default maximum age of the newest message [s]."""
MAX_OBSERVATION = float(np.finfo(np.float32).max)
"""Maximum absolute value of an observation, the largest single-precision number."""
_ORDERS = {"rgb8": [0, 1, 2], "bgr8": [2, 1, 0], "rgba8": [0, 1, 2], "bgra8": [2, 1, 0],
           "mono8": [0, 0, 0]}  # fmt: skip
"""Indices of red, green and blue in a pixel, by encoding."""
_BYTES = {"rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4, "mono8": 1}


class TopicSensors:
    """Subscriptions to topics of type Image, CompressedImage or WrenchStamped.

    The present publishers of a topic determine its type.

    Args:
        topics: Topic name by observation name. A pair of topic name and maximum message age [s]
            replaces the default age :data:`MAX_MESSAGE_AGE`.
        timeout: Timeout of the first message of each topic [s].

    Attributes:
        images: Height and width of each image by observation name [pixels].
        numbers: Number of values of each wrench by observation name: always 6.

    Raises:
        TopicLost: If a topic has no publisher or no message.
        ConfigurationError: If the type of a topic or the encoding of an image is not supported.

    Thread: one; a separate thread receives messages.
    """

    def __init__(
        self, topics: Mapping[str, str | tuple[str, float]], timeout: float = TIMEOUT
    ) -> None:
        self._link = NodeLink(unique_node_name("sensors"))
        self._latest: dict[str, LatestMessage] = {}
        self._readers: dict[str, Callable[[LatestMessage], NDArray[Any]]] = {}
        self.images: dict[str, tuple[int, int]] = {}
        self.numbers: dict[str, int] = {}
        try:
            for name, topic in topics.items():
                topic_name, max_age = (topic, MAX_MESSAGE_AGE) if isinstance(topic, str) else topic
                self._listen(name, topic_name, float(max_age), timeout)
            for name, received in self._latest.items():
                self._wait_for_first_message(name, received, timeout)
        except Exception:
            self._link.close()
            raise
        self._link.start()

    def _listen(self, name: str, topic: str, max_age: float, timeout: float) -> None:
        node = self._link.node
        if not self._link.until(lambda: node.count_publishers(topic) > 0, timeout):
            raise TopicLost(f"{topic}: no publisher within {timeout:g} s. Check its name")
        offers = node.get_publishers_info_by_topic(topic)
        kind = offers[0].topic_type
        if kind not in KINDS:
            raise ConfigurationError(
                f"topics.{name}: {topic} has type {kind}, allowed {', '.join(KINDS)}"
            )
        # Best-effort transport often loses one of the many packets of an image, so prefer reliable
        # transport if it is offered.
        reliable = all(one.qos_profile.reliability == ReliabilityPolicy.RELIABLE for one in offers)
        self._latest[name] = self._link.hear(
            KINDS[kind][0], topic, max_age, qos=QoSProfile(depth=1) if reliable else TARGET_QOS
        )
        self._readers[name] = KINDS[kind][1]

    def _wait_for_first_message(self, name: str, received: LatestMessage, timeout: float) -> None:
        if not self._link.until(lambda: received.count > 0, timeout):
            raise TopicLost(f"{received.name}: no message within {timeout:g} s")
        result = self._readers[name](received)
        if result.ndim == 3:
            self.images[name] = result.shape[:2]
        else:
            self.numbers[name] = len(result)

    def read(self) -> tuple[dict[str, NDArray[Any]], dict[str, Vector], float]:
        """Return the newest messages.

        Returns:
            Images by name, (height, width, 3); wrenches by name, (6,) [N, Nm]; age of the oldest
            image [s].

        Raises:
            TopicLost: If a message is too old, or an image has another size than the first one.
        """
        now, age = time.monotonic(), 0.0
        images, numbers = {}, {}
        for name, received in self._latest.items():
            result = self._readers[name](received)
            if name in self.numbers:
                numbers[name] = result
                continue
            if result.shape[:2] != self.images[name]:
                raise TopicLost(
                    f"{received.name}: got {result.shape[:2]} pixels, allowed {self.images[name]} "
                    "as in the first image"
                )
            images[name], age = result, max(age, now - received.received_at)
        return images, numbers, age

    def close(self) -> None:
        """Close all subscriptions; safe to call twice."""
        self._link.close()


def image_of(topic: LatestMessage) -> NDArray[Any]:
    """Return the pixels of an Image, (height, width, 3).

    Raises:
        ConfigurationError: If the encoding of the image is not supported.
        TopicLost: If the message is too old, or has too few bytes.
    """
    message = topic.message()
    if message.encoding not in _ORDERS:
        raise ConfigurationError(
            f"{topic.name}: got encoding {message.encoding!r}, allowed {', '.join(_ORDERS)}"
        )
    height, width, size = message.height, message.width, _BYTES[message.encoding]
    data = np.frombuffer(message.data, np.uint8)
    if message.step < width * size or len(data) < height * message.step:
        raise TopicLost(
            f"{topic.name}: got {len(data)} bytes in rows of {message.step} bytes, allowed "
            f"{height} rows of {width * size} bytes or more"
        )
    rows = data[: height * message.step].reshape(height, message.step)[:, : width * size]
    return rows.reshape(height, width, size)[..., _ORDERS[message.encoding]]


def compressed_image_of(topic: LatestMessage) -> NDArray[Any]:
    """Return the pixels of a CompressedImage, (height, width, 3).

    Raises:
        TopicLost: If the message is too old, or its data are not an image.
    """
    packed = bytes(topic.message().data)
    try:
        return np.array(Pillow.open(io.BytesIO(packed)).convert("RGB"))
    except (UnidentifiedImageError, OSError) as error:
        raise TopicLost(f"{topic.name}: not a valid image ({error})") from None


def wrench_of(topic: LatestMessage) -> NDArray[Any]:
    """Return force and torque of a WrenchStamped, (6,) [N, Nm].

    Raises:
        TopicLost: If the message is too old, or a value does not fit into a single-precision
            number.
    """
    wrench = topic.message().wrench
    parts = (wrench.force, wrench.torque)
    result = np.array([getattr(part, axis) for part in parts for axis in "xyz"])
    if not (np.abs(result) <= MAX_OBSERVATION).all():
        raise TopicLost(
            f"{topic.name}: got {result.tolist()}, allowed values up to {MAX_OBSERVATION:.3g}"
        )
    return result


KINDS: dict[str, tuple[type, Callable[[LatestMessage], NDArray[Any]]]] = {
    "sensor_msgs/msg/Image": (Image, image_of),
    "sensor_msgs/msg/CompressedImage": (CompressedImage, compressed_image_of),
    "geometry_msgs/msg/WrenchStamped": (WrenchStamped, wrench_of),
}
"""Message class and reader, by type of the topic."""
