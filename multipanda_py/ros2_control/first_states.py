# SPDX-License-Identifier: Apache-2.0
"""Find out whether there is an arm behind the topics, and whether it is the one that was told."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from multipanda_py.drivers.loop_connection import LoopConnection
from multipanda_py.drivers.refused import Refused
from multipanda_py.ros2_control.driver_settings import TopicDriverSettings
from multipanda_py.ros2_control.joint_states import JointReading, StateInvalid

if TYPE_CHECKING:
    from multipanda_py.ros2_control.topics import Topics

TICK = 0.005
"""Longest wait for a message before the loop is looked at [s]."""
CONNECT_TIME = 8.0
"""For both topics to be found, and for the first states [s]."""
ENOUGH = 25
"""States from which the rate is taken."""
RATES = (0.8, 1.25)
"""What the rate may be of the one that was told."""


def first_states(
    topics: Topics, settings: TopicDriverSettings, loop: LoopConnection
) -> JointReading:
    """Return the newest of the first states, when somebody takes commands, too.

    Raises:
        Refused: If that does not happen, or the states are not those of the arm.
    """
    reading = JointReading(
        settings.joint_names,
        settings.velocity_limits,
        settings.endless,
        settings.state_timeout,
        settings.slides,
    )
    times, wrong = [], []
    came = 0

    def take(message: Any) -> None:
        nonlocal came
        came += 1
        try:
            if reading.take(message):
                times.append(reading.time)
        except StateInvalid as error:
            wrong.append(str(error))

    topics.on_state = take
    deadline = time.monotonic() + CONNECT_TIME
    while len(times) < ENOUGH or not topics.listeners():
        topics.spin(TICK)
        loop.beat()
        if wrong:
            raise Refused(f"{settings.state_topic}: {wrong[0]}", final=True)
        if loop.ended():
            raise Refused("the loop has gone")
        if time.monotonic() > deadline:
            raise Refused(_why_not(topics, settings, came))
    rate = 1.0 / float(np.median(np.diff(times[-ENOUGH:])))
    if not RATES[0] < rate / settings.rate < RATES[1]:
        raise Refused(
            f"{settings.state_topic}: got {rate:.4g} states per second by their stamps, "
            f"allowed {settings.rate:g}: change rate here and cell.rate, or the other side",
            final=True,
        )
    return reading


def _why_not(topics: Topics, settings: TopicDriverSettings, came: int) -> str:
    if not topics.publishers():
        return (
            f"nobody publishes {settings.state_topic}: start the other side with its "
            "joint_state_broadcaster, and compare ROS_DOMAIN_ID"
        )
    if not topics.listeners():
        return (
            f"nobody takes commands on {settings.command_topic}: activate the "
            f"{settings.command_interface} controller of the other side"
        )
    return (
        f"{settings.state_topic}: got {came} messages in {CONNECT_TIME:g} s, allowed {ENOUGH} or "
        f"more with newer and newer stamps of joints {settings.joint_names}"
    )
