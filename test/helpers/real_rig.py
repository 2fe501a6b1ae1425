# SPDX-License-Identifier: Apache-2.0
"""Two simulated robots in lockstep, their node, and a client of the node."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count

import numpy as np
from cell_names import ARMS, IMPEDANCE
from controller_manager_msgs.srv import ListControllers
from geometry_msgs.msg import PoseStamped
from parameters_of import put
from processes import children, is_running, runs_module, shared_memory, wait_until
from robots import within_bounds
from std_srvs.srv import Trigger

FORCE_AUTO = 4
STEP = np.array([0.0, 0.0, 0.05])
"""Displacement of motions [m]."""
_numbers = count(1)


def position(message):
    point = message.pose.position
    return np.array([point.x, point.y, point.z])


class Rig:
    """Two simulated robots, their node, and a client of the node."""

    def __init__(self, sim, addresses, start, client, file, budget=0.5):
        self.sim, self.client = sim, client
        # Unique, because discovery still lists killed nodes for a while.
        self.space = f"/real_{next(_numbers)}"
        self.address = dict(zip(ARMS, addresses))
        overrides = ["realtime.priority:=0", "realtime.cpu:=-2", "cell.heartbeat_timeout:=5.0",
                     "controllets.odd.type:=misbehaving", "franka_names:=true",
                     f"arms.left.franka.lower_force_thresholds:={[10.0] * 6}"]  # fmt: skip
        for arm, address in self.address.items():
            overrides += [f"arms.{arm}.robot_ip:='{address}'", f"arms.{arm}.franka.priority:=0",
                          f"arms.{arm}.franka.answer_budget:={budget}"]  # fmt: skip
        self.node = start(*overrides, file=file, remap=[f"__ns:={self.space}"]).wait_for(
            "is active"
        )
        self.loop = self.node.loop_pid()
        _, self.driver_of_right = self.drivers()
        self.poses = {
            arm: client.listen(PoseStamped, f"{self.space}/{arm}/current_pose") for arm in ARMS
        }
        self.until(lambda: all(map(self.moves, ARMS)), "torque control")
        self.home = {
            arm: position(client.newest(PoseStamped, f"{self.space}/{arm}/current_pose"))
            for arm in ARMS
        }
        self.switch(*IMPEDANCE)
        self.reset()

    def until(self, condition, what, timeout=40.0):
        self.client.until(condition, timeout, what)

    def admin(self, arm, command, **arguments):
        return self.sim.admin(self.address[arm], command, **arguments)

    def stats(self, arm):
        return self.admin(arm, "stats")

    def moves(self, arm):
        return self.stats(arm)["mode"] == "move"

    def reset(self):
        for arm in ARMS:
            self.admin(arm, "reset_stats")

    def drivers(self):
        """Return the process ids of the drivers, initially in the order left, right."""
        return [
            p
            for p in children(self.loop)
            if runs_module(p, "multipanda_py.hardware.franka.driver")
        ]

    def driver_of_left(self):
        """Return the process id of the driver of the left arm, also after a restart."""
        return next(pid for pid in self.drivers() if pid != self.driver_of_right)

    def ask_to_switch(self, *names):
        return self.client.switch(names, (), FORCE_AUTO, self.space)

    def switch(self, *names):
        answer = self.ask_to_switch(*names)
        assert answer.ok, answer.message

    def active(self, arm):
        service = f"{self.space}/controller_manager/list_controllers"
        found = self.client.call(ListControllers, service).controller
        names = {c.name for c in found if c.state == "active" and c.name.startswith(arm)}
        return names - {f"{arm}/gripper"}  # always active

    def recover(self, arm=""):
        name = "/".join(filter(None, [self.space, arm, "error_recovery"]))
        return self.client.call(Trigger, name)

    def here(self, arm):
        return position(self.poses[arm]())

    def other_end(self, arm):
        """Return the next goal of an arm, STEP above home or home itself, (3,) [m]."""
        is_up = self.here(arm)[2] > self.home[arm][2] + 0.5 * STEP[2]
        return self.home[arm] + (0.0 if is_up else STEP)

    def target(self, arm, goal):
        """Return a message with a position, (3,) [m], and the current orientation."""
        now = self.poses[arm]()
        message = PoseStamped()
        message.header.frame_id = now.header.frame_id
        message.pose.orientation = now.pose.orientation
        message.pose.position.x, message.pose.position.y, message.pose.position.z = map(
            float, goal
        )
        return message

    def reaches(self, arm, goal):
        self.client.stream(
            f"{self.space}/{arm}/target_pose", self.target(arm, goal),
            lambda: np.linalg.norm(self.here(arm) - goal) < 0.005, f"{arm} at {goal}", 40.0,
        )  # fmt: skip

    def status(self, arm):
        return self.client.diagnosis(f"{self.node.name}/{arm}")[0]

    def reason(self, arm):
        """Return the reason of the fault of an arm in /diagnostics."""
        return self.client.diagnosis(f"{self.node.name}/{arm}")[1]["reason"]

    @contextmanager
    def path(self, arm):
        """Yield a list that collects the positions of the arm."""
        positions = []
        subscription = self.client.node.create_subscription(
            PoseStamped,
            f"{self.space}/{arm}/current_pose",
            lambda m: positions.append(position(m)),
            10,
        )
        yield positions
        self.client.node.destroy_subscription(subscription)

    def misbehave(self, how):
        """Set the fault of the test controllet of the left arm."""
        result = put(self.client, f"{self.space}/left/odd", fault=how)
        assert result.successful, result.reason

    def ends_without_a_trace(self, pids, memory):
        """Wait until processes and shared memory of a cell are gone and its robots are idle."""
        wait_until(lambda: not any(map(is_running, pids)), what=lambda: "end of all processes")
        assert shared_memory() <= memory
        for arm in ARMS:
            self.until(lambda arm=arm: self.stats(arm)["mode"] == "idle", f"{arm} at rest")
            stats = self.stats(arm)
            assert stats["errors"] == []
            within_bounds(stats)
