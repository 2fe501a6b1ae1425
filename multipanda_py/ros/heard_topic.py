# SPDX-License-Identifier: Apache-2.0
"""The newest message of a topic, kept in bytes: most of them nobody reads."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from rclpy.qos import QoSProfile

from multipanda_py.exceptions import TargetRejected, TopicLost
from multipanda_py.ros.conversions import read_message
from multipanda_py.ros.qos import TARGETS


class HeardTopic:
    """The newest message of a topic, which is read when it is asked for.

    Args:
        node: Subscribes.
        kind: Type of the messages.
        topic: Name.
        stale: How old the newest may be [s].
        read: Makes of a message what :meth:`message` returns; may refuse it.
        qos: Best effort by default, which every publisher matches.

    Attributes:
        name: In full.
        count: Messages so far.

    Thread: any.
    """

    def __init__(
        self,
        node: Any,
        kind: type,
        topic: str,
        stale: float = math.inf,
        read: Callable[[bytes], Any] | None = None,
        qos: QoSProfile = TARGETS,
    ) -> None:
        self.name, self.stale, self.count = node.resolve_topic_name(topic), stale, 0
        self._newest, self._last = (b"", -1e9), (b"", None)
        self._read = read or partial(read_message, kind)
        node.create_subscription(kind, topic, self._take, qos, raw=True)

    def _take(self, raw: bytes) -> None:
        self._newest, self.count = (raw, time.monotonic()), self.count + 1

    @property
    def heard(self) -> float:
        """When the newest message came, by the monotonic clock [s]."""
        return self._newest[1]

    @property
    def is_new(self) -> bool:
        """Whether the newest message is new enough."""
        return bool(self.count) and time.monotonic() - self.heard <= self.stale

    def check(self) -> None:
        """Raise if there is nothing new enough.

        Raises:
            TopicLost: With the name of the topic.
        """
        if not self.count:
            raise TopicLost(f"{self.name}: nothing heard yet")
        if (silence := time.monotonic() - self.heard) > self.stale:
            raise TopicLost(
                f"{self.name}: nothing heard for {silence:.2f} s, allowed {self.stale:g} s"
            )

    def message(self) -> Any:
        """Return the newest message.

        Raises:
            TopicLost: If it is too old, or none has come, or it cannot be read.
        """
        self.check()
        raw = self._newest[0]
        if raw is not self._last[0]:
            try:
                self._last = raw, self._read(raw)
            except TargetRejected as error:
                raise TopicLost(f"{self.name}: {error}") from None
        return self._last[1]
