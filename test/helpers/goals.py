# SPDX-License-Identifier: Apache-2.0
"""Action client that stores the feedback."""

from __future__ import annotations

import time

from rclpy.action import ActionClient


class Goals:
    """Send goals to an action and wait for their results."""

    def __init__(self, client, kind, name):
        self._client, self.feedback = client, []
        self._action = ActionClient(client.node, kind, name)
        client.until(self._action.server_is_ready, 10.0, name)
        self._answered = False

    def send(self, goal):
        """Send a goal and return its handle; the first goal is repeated after a timeout."""
        self.feedback.clear()
        for timeout in [10.0] if self._answered else [3.0, 10.0]:
            sent = self._action.send_goal_async(
                goal, lambda message: self.feedback.append(message.feedback)
            )
            deadline = time.monotonic() + timeout
            self._client.until(lambda s=sent, d=deadline: s.done() or time.monotonic() > d, 15.0)
            if sent.done():
                break
        assert sent.done(), "timeout of a goal"
        self._answered = True
        return sent.result()

    def result(self, handle, timeout=15.0):
        """Return status and result of an accepted goal."""
        assert handle.accepted
        future = handle.get_result_async()
        self._client.until(future.done, timeout, "result")
        return future.result().status, future.result().result

    def run(self, *goal):
        return self.result(self.send(*goal))
