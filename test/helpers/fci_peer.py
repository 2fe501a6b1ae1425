# SPDX-License-Identifier: Apache-2.0
"""Simulated robot without sockets, and its client."""

from __future__ import annotations

import numpy as np

from multipanda_py.simulation.fci.requests import handle
from multipanda_py.simulation.fci.robot import FciRobot
from multipanda_py.simulation.fci.wire import COMMAND, MOVE, STATE, RobotRequest


class Peer:
    """Robot with the requests and answers of a client."""

    def __init__(self):
        self.answers = []
        self.robot = FciRobot(
            lambda request, counter, body: self.answers.append((request, body[0]))
        )

    def request(self, request, body=b""):
        answer = handle(self.robot, request, 7, body)
        return None if answer is None else answer[0]

    def move(self, controller, generator, asynchronous=False, speed=1.0):
        body = MOVE.pack(controller, generator, *[1.0] * 6, asynchronous, *[speed] * 7)
        return self.request(RobotRequest.MOVE, body)

    def cycle(self, **fields):
        """Run a cycle with a command of these fields, or without a command if there are none."""
        command = None
        if fields:
            command = np.zeros(1, COMMAND)[0]
            command["message_id"] = self.robot.message_id
            for name, value in fields.items():
                command[name] = value
        return np.frombuffer(bytes(self.robot.cycle(command)), STATE)[0]
