# SPDX-License-Identifier: Apache-2.0
"""Run a policy that predicts chunks of actions at 10 Hz for both arms.

Each chunk has 1.6 s of poses, of which 0.8 s are used. The next chunk is requested with the
newest observation, while the rest of the current one is executed. It takes effect at the step at
which it arrives. Between two actions, the governor of the controllet moves the reference. Its
speed limit is set to the speed of the policy, and restored at the end.

Start the cell first (make sim), then: .venv/bin/python examples/07_chunked_policy.py
"""

from __future__ import annotations

import argparse
import math
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import rclpy
from geometry_msgs.msg import Point, Pose, PoseStamped
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

RATE, HORIZON, USED = 10.0, 16, 8  # Rate [Hz], actions of a chunk, and used actions of it.
LATENCY = 0.15  # Latency of the network [s].
MARGIN = 1.1  # Speed of the arms relative to that of the policy, as they accelerate in each step.
RADIUS, PERIOD = 0.05, 4.0  # Radius [m] and duration [s] of the learned circle.
SPEED = "governor.linear_speed"
Chunk = dict[int, dict[str, Pose]]


class Policy:
    """Replacement for a network: computes future actions from the observed poses."""

    def __init__(self, start: dict[str, PoseStamped]) -> None:
        self.start = {arm: message.pose for arm, message in start.items()}

    def infer(self, observed: dict[str, PoseStamped], first: int) -> Chunk:
        """Return the actions of the steps from ``first``."""
        time.sleep(LATENCY)
        return {step: self.action(step) for step in range(first, first + HORIZON)}

    def action(self, step: int) -> dict[str, Pose]:
        """Return the target pose of each tool, on a circle in the y-z plane."""
        phase = 2.0 * math.pi * step / RATE / PERIOD
        aside, up = RADIUS * math.sin(phase), RADIUS * (1.0 - math.cos(phase))
        action = {}
        for sign, (arm, start) in zip((1.0, -1.0), sorted(self.start.items())):
            p = start.position
            action[arm] = Pose(
                position=Point(x=p.x, y=p.y + sign * aside, z=p.z + up),
                orientation=start.orientation,
            )
        return action


class Player(Node):
    """Node that executes chunks: one action per arm and step, all arms with the same stamp."""

    def __init__(self, arms: list[str]) -> None:
        super().__init__("chunked_policy")
        self.arms, self.observed = arms, dict[str, PoseStamped]()
        self.outputs = {a: self.create_publisher(PoseStamped, f"{a}/target_pose", 1) for a in arms}
        for arm in arms:
            self.create_subscription(
                PoseStamped,
                f"{arm}/current_pose",
                lambda m, arm=arm: self.observed.update({arm: m}),
                1,
            )
        self.thread = ThreadPoolExecutor(1)
        self.policy: Policy | None = None
        self.chunk: Chunk = {}
        self.pending: Future[Chunk] | None = None
        self.next_step, self.used, self.chunks, self.waited = 0, 0, 0, 0
        self.timer = self.create_timer(1.0 / RATE, self.step)

    def call(self, kind: type, name: str, **fields: object) -> Any:
        """Return the response of a service."""
        client = self.create_client(kind, name)
        client.wait_for_service()
        future = client.call_async(kind.Request(**fields))
        rclpy.spin_until_future_complete(self, future)
        return future.result()

    def set_speeds(self, controllet: str, speeds: dict[str, ParameterValue]) -> None:
        """Set the maximum speed towards a target in the controllets of the arms."""
        for arm, speed in speeds.items():
            change = Parameter(name=SPEED, value=speed)
            (result,) = self.call(
                SetParameters, f"{arm}/{controllet}/set_parameters", parameters=[change]
            ).results
            if not result.successful:
                self.get_logger().warning(
                    f"{arm}: its speed was not set, so it may move in steps: {result.reason}"
                )

    def speeds(self, controllet: str) -> dict[str, ParameterValue]:
        """Return the current maximum speeds of the controllets of the arms."""
        services = {arm: f"{arm}/{controllet}/get_parameters" for arm in self.arms}
        return {
            arm: self.call(GetParameters, service, names=[SPEED]).values[0]
            for arm, service in services.items()
        }

    def step(self) -> None:
        """Use a received chunk, request the next one in time, and publish one action."""
        if len(self.observed) < len(self.arms):
            return
        self.policy = self.policy or Policy(self.observed)
        if self.pending is not None and self.pending.done():
            self.chunk, self.pending = self.pending.result(), None
            self.used, self.chunks = 0, self.chunks + 1
        if self.pending is None and (not self.chunk or self.used >= USED):
            self.pending = self.thread.submit(
                self.policy.infer, dict(self.observed), self.next_step
            )
        action = self.chunk.pop(self.next_step, None)
        if action is None:  # No first chunk yet, or the network is slower than its horizon.
            self.waited += 1
            return
        stamp = self.get_clock().now().to_msg()
        for arm, pose in action.items():
            target = PoseStamped(pose=pose)
            target.header.stamp = stamp
            target.header.frame_id = self.observed[arm].header.frame_id
            self.outputs[arm].publish(target)
        self.next_step, self.used = self.next_step + 1, self.used + 1


def main() -> None:
    """Run until interrupted, or for a number of steps."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--arms", nargs="+", default=["left", "right"])
    parser.add_argument("--law", default="cartesian_impedance_controller")
    parser.add_argument("--steps", type=int, default=0, help="number of steps, 0 for no end")
    options = parser.parse_args()
    # Without the handlers of rclpy, the speeds can still be restored after Ctrl-C.
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = Player(options.arms)
    before = node.speeds(options.law)
    # At this speed, each step takes almost the whole time until the next action.
    speed = MARGIN * 2.0 * math.pi * RADIUS / PERIOD
    value = ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=speed)
    try:
        node.set_speeds(options.law, dict.fromkeys(options.arms, value))
        while not options.steps or node.next_step < options.steps:
            rclpy.spin_once(node, timeout_sec=0.1)
    except KeyboardInterrupt:
        pass
    finally:
        node.timer.cancel()
        node.set_speeds(options.law, before)
    print(
        f"{node.next_step} actions of {node.chunks} chunks, {node.waited} steps without an action"
    )


if __name__ == "__main__":
    main()
