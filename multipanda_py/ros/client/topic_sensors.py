# SPDX-License-Identifier: Apache-2.0
"""Topics that an environment has among what it sees: pictures and wrenches."""

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
from multipanda_py.ros.client.node_link import HeardTopic, NodeLink, name_of_own
from multipanda_py.ros.node.qos import TARGETS
from multipanda_py.state import Vector

PATIENCE = 20.0
"""For the first message of each [s]."""
STALE = 1.0
"""How old the newest message may be, where nobody says [s]."""
LARGEST = float(np.finfo(np.float32).max)
"""Largest number of an observation."""
_ORDERS = {"rgb8": [0, 1, 2], "bgr8": [2, 1, 0], "rgba8": [0, 1, 2], "bgra8": [2, 1, 0],
           "mono8": [0, 0, 0]}  # fmt: skip
"""Which bytes of a pixel are red, green and blue, by encoding."""
_BYTES = {"rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4, "mono8": 1}


class TopicSensors:
    """Hear Image, CompressedImage and WrenchStamped, by the type that a topic has.

    Args:
        topics: By the name of what they show; with how old that may be [s], or :data:`STALE`.
        patience: For the first message of each [s].

    Attributes:
        pictures: Height and width by name [pixels].
        numbers: How many numbers, by name: force and torque [N, Nm].

    Raises:
        TopicLost: If nobody publishes one, or nothing comes.
        ConfigurationError: If a topic has another type, or pictures another encoding.

    Thread: one; another one of its own hears.
    """

    def __init__(
        self, topics: Mapping[str, str | tuple[str, float]], patience: float = PATIENCE
    ) -> None:
        self._link = NodeLink(name_of_own("sensors"))
        self._heard: dict[str, HeardTopic] = {}
        self._readers: dict[str, Callable[[HeardTopic], NDArray[Any]]] = {}
        self.pictures: dict[str, tuple[int, int]] = {}
        self.numbers: dict[str, int] = {}
        try:
            for name, topic in topics.items():
                place, stale = (topic, STALE) if isinstance(topic, str) else topic
                self._listen(name, place, float(stale), patience)
            for name, heard in self._heard.items():
                self._hear_once(name, heard, patience)
        except Exception:
            self._link.close()
            raise
        self._link.start()

    def _listen(self, name: str, topic: str, stale: float, patience: float) -> None:
        node = self._link.node
        if not self._link.until(lambda: node.count_publishers(topic) > 0, patience):
            raise TopicLost(f"{topic}: nobody publishes it within {patience:g} s")
        offers = node.get_publishers_info_by_topic(topic)
        kind = offers[0].topic_type
        if kind not in KINDS:
            raise ConfigurationError(
                f"topics.{name}: {topic} is {kind}, allowed {', '.join(KINDS)}"
            )
        # A picture is many packets, of which best effort may lose one.
        reliable = all(one.qos_profile.reliability == ReliabilityPolicy.RELIABLE for one in offers)
        self._heard[name] = self._link.hear(
            KINDS[kind][0], topic, stale, qos=QoSProfile(depth=1) if reliable else TARGETS
        )
        self._readers[name] = KINDS[kind][1]

    def _hear_once(self, name: str, heard: HeardTopic, patience: float) -> None:
        """Wait for the first message, which says how large pictures are."""
        if not self._link.until(lambda: heard.count > 0, patience):
            raise TopicLost(f"{heard.name}: nothing heard within {patience:g} s")
        found = self._readers[name](heard)
        if found.ndim == 3:
            self.pictures[name] = found.shape[:2]
        else:
            self.numbers[name] = len(found)

    def read(self) -> tuple[dict[str, NDArray[Any]], dict[str, Vector], float]:
        """Return the newest pictures, (height, width, 3), and numbers.

        Returns:
            Both by name, and how long ago the oldest picture came [s].

        Raises:
            TopicLost: If one is too old, or a picture has another size than the first one.
        """
        now, age = time.monotonic(), 0.0
        pictures, numbers = {}, {}
        for name, heard in self._heard.items():
            found = self._readers[name](heard)
            if name in self.numbers:
                numbers[name] = found
                continue
            if found.shape[:2] != self.pictures[name]:
                raise TopicLost(
                    f"{heard.name}: got {found.shape[:2]} pixels, allowed {self.pictures[name]} "
                    "as at first"
                )
            pictures[name], age = found, max(age, now - heard.heard)
        return pictures, numbers, age

    def close(self) -> None:
        """Listen no more; safe to call twice."""
        self._link.close()


def picture_of(topic: HeardTopic) -> NDArray[Any]:
    """Return what an Image shows, (height, width, 3).

    Raises:
        ConfigurationError: If it has another encoding.
        TopicLost: If it is too old, or has too few bytes.
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
            f"{topic.name}: got {len(data)} bytes in rows of {message.step}, allowed "
            f"{height} rows of {width * size} at least"
        )
    rows = data[: height * message.step].reshape(height, message.step)[:, : width * size]
    return rows.reshape(height, width, size)[..., _ORDERS[message.encoding]]


def unpacked(topic: HeardTopic) -> NDArray[Any]:
    """Return what a CompressedImage shows, (height, width, 3).

    Raises:
        TopicLost: If it is too old, or no picture.
    """
    packed = bytes(topic.message().data)
    try:
        return np.array(Pillow.open(io.BytesIO(packed)).convert("RGB"))
    except (UnidentifiedImageError, OSError) as error:
        raise TopicLost(f"{topic.name}: got no picture ({error})") from None


def wrench_of(topic: HeardTopic) -> NDArray[Any]:
    """Return force and torque, (6,) [N, Nm].

    Raises:
        TopicLost: If it is too old, or no number that observations can have, which are singles.
    """
    wrench = topic.message().wrench
    parts = (wrench.force, wrench.torque)
    found = np.array([getattr(part, axis) for part in parts for axis in "xyz"])
    if not (np.abs(found) <= LARGEST).all():
        raise TopicLost(f"{topic.name}: got {found.tolist()}, allowed up to {LARGEST:.3g}")
    return found


KINDS: dict[str, tuple[type, Callable[[HeardTopic], NDArray[Any]]]] = {
    "sensor_msgs/msg/Image": (Image, picture_of),
    "sensor_msgs/msg/CompressedImage": (CompressedImage, unpacked),
    "geometry_msgs/msg/WrenchStamped": (WrenchStamped, wrench_of),
}
"""Types of topics: what messages are, and what is read of them."""
