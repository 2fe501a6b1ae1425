# SPDX-License-Identifier: Apache-2.0
"""Switch controllets during a task: approach a table, press, slide along it, lift off.

Free motion uses an impedance controllet, contact a force controllet. One request switches both
arms in one cycle. Measured poses and forces end each phase.

Start the cell first (make sim CELL=config/contact_sim.yaml), then:
.venv/bin/python examples/10_switch_through_a_task.py
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from copy import deepcopy

import rclpy
import rclpy.utilities
from controller_manager_msgs.srv import SwitchController
from geometry_msgs.msg import PoseStamped, WrenchStamped
from rclpy.node import Node

MOVE, PRESS = "cartesian_impedance_controller", "force_impedance_controller"
TABLE, CLEARANCE = 0.3, 0.005  # Height of the table in the bases, distance before contact [m].
FORCE, DISTANCE, SPEED = 10.0, 0.08, 0.04  # Force [N], distance along x and up [m], speed [m/s].
RATE, TIMEOUT, AUTO = 50.0, 20.0, 4  # [Hz], [s], strictness FORCE_AUTO: others may be deactivated.


class Task(Node):
    """Node that streams targets to some arms until a condition is met."""

    def __init__(self, arms: list[str]) -> None:
        super().__init__("task")
        self.arms, self.pose, self.wrench = arms, {}, {}
        self.poses, self.wrenches = {}, {}
        for arm in arms:
            self.poses[arm] = self.create_publisher(PoseStamped, f"{arm}/target_pose", 1)
            self.wrenches[arm] = self.create_publisher(WrenchStamped, f"{arm}/target_wrench", 1)
            self.create_subscription(
                PoseStamped,
                f"{arm}/current_pose",
                lambda m, arm=arm: self.pose.update({arm: m}),
                1,
            )
            self.create_subscription(
                WrenchStamped, f"{arm}/external_wrench",
                lambda m, arm=arm: self.wrench.update({arm: m}), 1,
            )  # fmt: skip

    def switch(self, controllet: str) -> None:
        """Switch all arms to a controllet, in one cycle."""
        client = self.create_client(SwitchController, "controller_manager/switch_controller")
        client.wait_for_service(timeout_sec=TIMEOUT) or sys.exit("is the cell running?")
        names = [f"{arm}/{controllet}" for arm in self.arms]
        request = SwitchController.Request(activate_controllers=names, strictness=AUTO)
        future = client.call_async(request)
        rclpy.spin_until_future_complete(self, future, timeout_sec=TIMEOUT)
        answer = future.result() or sys.exit("no answer to the switch")
        print(answer.message)
        answer.ok or sys.exit(1)

    def run(
        self, phase: str, step: Callable[[float], None], done: Callable[[float], bool]
    ) -> None:
        """Call a step at 50 Hz until it is done; end the program after a timeout."""
        begin = time.monotonic()
        while not done(t := time.monotonic() - begin):
            t < TIMEOUT or sys.exit(f"{phase}: not done after {TIMEOUT:g} s")
            step(t)
            until = time.monotonic() + 1.0 / RATE
            while time.monotonic() < until:
                rclpy.spin_once(self, timeout_sec=until - time.monotonic())
        for arm in self.arms:
            at, force = self.pose[arm].pose.position, self.force(arm)
            print(f"{phase}: {arm} at x {at.x:.3f} z {at.z:.3f} m with {force:.1f} N", flush=True)

    def force(self, arm: str) -> float:
        """Return the vertical contact force of an arm [N]."""
        return abs(self.wrench[arm].wrench.force.z)

    def send(self, start: dict[str, PoseStamped], dx: float = 0.0, dz: float = 0.0) -> None:
        """Publish the start pose of every arm with an offset [m]."""
        for arm, message in deepcopy(start).items():
            message.header.stamp = self.get_clock().now().to_msg()
            message.pose.position.x += dx
            message.pose.position.z += dz
            self.poses[arm].publish(message)

    def press(self, force: float) -> None:
        """Request a downward force from every arm [N]."""
        for arm in self.arms:
            message = WrenchStamped()
            message.header.stamp = self.get_clock().now().to_msg()
            message.header.frame_id = "world"
            message.wrench.force.z = -force
            self.wrenches[arm].publish(message)


def main() -> None:
    """Run the task once."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--arms", nargs="+", default=["left", "right"])
    options = parser.parse_args(rclpy.utilities.remove_ros_args()[1:])
    rclpy.init()
    task = Task(options.arms)

    def all_arms(condition: Callable[[str], bool]) -> Callable[[float], bool]:
        return lambda _: all(map(condition, task.arms))

    def height(arm: str) -> float:
        return task.pose[arm].pose.position.z

    task.run("wait", lambda _: None, all_arms(lambda arm: arm in task.pose and arm in task.wrench))
    task.switch(MOVE)
    begin = deepcopy(task.pose)
    down = max(map(height, task.arms)) - TABLE - CLEARANCE
    task.run(
        "approach", lambda t: task.send(begin, dz=-min(SPEED * t, down)),
        all_arms(lambda arm: height(arm) < TABLE + CLEARANCE + 0.002),
    )  # fmt: skip

    task.switch(PRESS)
    task.run(
        "contact", lambda _: task.press(FORCE), all_arms(lambda arm: task.force(arm) > 0.9 * FORCE)
    )

    on_table = deepcopy(task.pose)

    def slide(t: float) -> None:
        task.press(FORCE)
        task.send(on_table, dx=min(SPEED * t, DISTANCE))

    def has_slid(arm: str) -> bool:
        start_x = on_table[arm].pose.position.x
        return task.pose[arm].pose.position.x > start_x + DISTANCE - 0.005

    task.run("slide", slide, all_arms(has_slid))

    task.switch(MOVE)
    there = deepcopy(task.pose)
    task.run(
        "lift", lambda t: task.send(there, dz=min(SPEED * t, DISTANCE)),
        all_arms(lambda arm: height(arm) > TABLE + DISTANCE - 0.005),
    )  # fmt: skip


if __name__ == "__main__":
    main()
