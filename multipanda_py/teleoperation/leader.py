# SPDX-License-Identifier: Apache-2.0
"""An arm of another cell leads, and feels what the arms that follow it touch."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.teleoperation.ros_streams import SILENCE, RosStreams
from multipanda_py.teleoperation.source import Touch
from multipanda_py.teleoperation.wrench_feedback import WrenchFeedback

_PLACE = re.compile(r"(/[A-Za-z_][A-Za-z0-9_]*)+")
_HEARD = {"pose": "current_pose"}


class Leader(RosStreams):
    """Follow an arm that is led by hand in another cell, as the topics of that cell say.

    Of a leader at ``/north/left`` these are ``/north/left/current_pose``, and of whoever has the
    pedal ``/north/left/clutch`` and ``/north/left/gripper`` (Bool), both remembered. What the
    follower feels goes back as ``/north/left/target_felt_wrench``, if it is asked for: to a law
    with the feature ``felt_wrench`` and to no other, as that keeps the account of its energy and
    does not go on with a wrench that has become old.

    Args:
        leaders: The place of the leader of each arm.
        feedback: Share of the wrench that goes back, 0 to 1.
        frame: Along whose axes the follower moves as the leader does along those of its base: as
            in :class:`.HandCommand`.
        say: Takes a sentence for the user.

    Raises:
        ConfigurationError: If a place is no name of ROS, or the feedback not allowed.
        MissingExtra: If there is no ROS 2.

    Thread: one.
    """

    name = "leader"

    def __init__(
        self,
        leaders: Mapping[str, str],
        feedback: float = 0.0,
        frame: str = "",
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._places = {arm: f"/{place.strip('/')}" for arm, place in leaders.items()}
        for place in self._places.values():
            if not _PLACE.fullmatch(place):
                raise ConfigurationError(
                    f"leader: got {place!r}, allowed a namespace and an arm, as /north/left"
                )
        self._feedback = {arm: WrenchFeedback(feedback) for arm in leaders} if feedback else {}
        self._say, self._takers, self._told = say, dict.fromkeys(leaders, -1), set[str]()
        pairs = [text for pair in self._places.items() for text in pair]
        self._listen(tuple(leaders), frame, "multipanda_py.ros.leader_link", *pairs)

    def feel(self, arm: str, touch: Touch) -> None:
        """Send a leader what the arm that follows it feels."""
        if arm not in self._feedback:
            return
        wrench = self._feedback[arm].of(touch)
        if touch.is_following and self._takers[arm] == 0 and arm not in self._told:
            self._told.add(arm)
            self._say(
                f"{arm}: nothing is fed back: nobody listens to "
                f"{self._places[arm]}/target_felt_wrench; give the law of the leader the feature "
                "felt_wrench"
            )
        until = time.monotonic() + SILENCE
        said = {"arm": arm, "wrench": wrench.tolist(), "until": until}
        self.listener.tell_now(json.dumps(said))  # if it has ended, read says so

    def _topic(self, arm: str, kind: str) -> str:
        return f"{self._places[arm]}/{_HEARD.get(kind, kind)}"

    def _take(self, said: dict[str, Any]) -> None:
        if said["kind"] == "takers":
            self._takers[said["arm"]] = said["value"]
        else:
            super()._take(said)
