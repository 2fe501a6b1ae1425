# SPDX-License-Identifier: Apache-2.0
"""Simulated arm with the ROS 2 topics of a controller manager, in a separate process.

It publishes ``joint_states`` and applies the last effort or position on ``commands``, as a
JointGroupEffortController does. Its brakes are on before the first command and after a watchdog
timeout. Each line of JSON on standard input changes its behaviour. The response has its state.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from array import array

import mujoco
import numpy as np

from multipanda_py.robots import ArmDescription
from multipanda_py.simulation.scene_mjcf import build_scene

COMMAND_TIMEOUT = 0.2  # maximum wait for a command in lockstep [s]
WATCHDOG = 0.2  # command timeout, in simulated time [s]


class Arm:
    def __init__(self, model, q, heavy):
        self.arm = ArmDescription("robot", model, hand=False, compensates_gravity=not heavy)
        self.model = build_scene([self.arm], timestep=1e-3).compile()
        self.data = mujoco.MjData(self.model)
        self.data.qpos[:] = q
        mujoco.mj_forward(self.model, self.data)
        self.names = [joint.name for joint in self.arm.robot.joints]

    def follow(self, q, rate):
        """Move to a position without lag; return the fraction of the maximum acceleration."""
        before, dq = self.data.qvel.copy(), (np.array(q) - self.data.qpos) * rate
        self.data.qpos[:], self.data.qvel[:] = q, dq
        return float((np.abs(dq - before) * rate / self.arm.limits.acceleration).max())

    def step(self, tau, steps):
        self.data.ctrl[:] = tau
        mujoco.mj_step(self.model, self.data, steps)


def main(options):
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.qos import QoSProfile
    from sensor_msgs.msg import JointState
    from std_msgs.msg import Float64MultiArray

    rclpy.init()
    node = rclpy.create_node("effort_arm", namespace=options["namespace"])
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    arm = Arm(options["model"], options["q"], options["heavy"])
    n, rate, interface = len(options["q"]), options["rate"], options["interface"]
    observed = {"commands": 0, "refused": 0, "tau": None, "fastest": 0.0, "steepest": 0.0}
    command = {"spoil": "", "push": [0.0] * n, "clock": 100, "zero": 0.0}
    fresh = []

    def on_command(message):
        tau = list(message.data if hasattr(message, "data") else getattr(message, interface))
        if len(tau) != n:
            observed["refused"] += 1
            return
        observed["commands"] += 1
        observed["tau"] = tau
        fresh.append(tau)

    kind = JointState if options.get("command_type") == "joint_state" else Float64MultiArray
    node.create_subscription(kind, "commands", on_command, QoSProfile(depth=1))
    states = node.create_publisher(JointState, "joint_states", QoSProfile(depth=1))
    order = [*range(n)][::-1]  # reversed joint order
    tick, last, answered, due = 0, 0, False, time.monotonic()
    while True:
        for _ in iter(lambda: select.select([sys.stdin], [], [], 0.0)[0], []):
            line = sys.stdin.readline()
            if not line:
                return
            command.update(json.loads(line))
            answer = {**observed, "q": arm.data.qpos.tolist(), "dq": arm.data.qvel.tolist()}
            sys.stdout.write(json.dumps({**answer, "time": tick / rate}) + "\n")
            sys.stdout.flush()
            observed["fastest"] = observed["steepest"] = 0.0
            if "put" in command:  # the arm was moved by hand, and the remote controller restarted
                observed["tau"], arm.data.qpos[:] = None, command.pop("put")
        message = JointState()
        stamp = tick if command["spoil"] != "old" else min(tick, command.setdefault("at", tick))
        message.header.stamp.sec = int(command["clock"] + stamp // rate)
        message.header.stamp.nanosec = int(stamp % rate / rate * 1e9)
        message.name = ["gripper", *(arm.names[i] for i in order)]
        q, dq = arm.data.qpos.copy(), arm.data.qvel.copy()
        q[0] += command["zero"]
        if command["spoil"] == "nan":
            dq[1] = np.nan
        tau_J = (
            np.zeros(n)
            if observed["tau"] is None or interface == "position"
            else np.array(observed["tau"])
        )
        message.position = array("d", [0.0, *q[order]])
        message.velocity = array("d", [0.0, *dq[order]])
        message.effort = array("d", [0.0, *tau_J[order]])
        if command["spoil"] == "short":
            message.velocity = message.velocity[:-1]
        if command["spoil"] == "names":
            message.name[2] = "another"
        fresh.clear()
        if command["spoil"] != "nothing":
            states.publish(message)
        now = time.monotonic()  # in lockstep, the simulation may be ahead of the clock
        due = min(max(due + 1.0 / rate, now - 0.05), now + 1.0 / rate)
        waits = options["lockstep"] and answered and not command["spoil"]
        until = time.monotonic() + COMMAND_TIMEOUT if waits else due
        while (remaining := until - time.monotonic()) > 0:
            executor.spin_once(timeout_sec=remaining)
            if fresh and waits:
                break
        tick, answered = tick + 1, bool(fresh)  # wait only after an answered cycle
        if fresh:
            last = tick
        if observed["tau"] is not None and (
            tick - last < WATCHDOG * rate or not options["watchdog"]
        ):
            if interface == "position":
                observed["steepest"] = max(observed["steepest"], arm.follow(observed["tau"], rate))
            else:
                arm.data.qfrc_applied[:] = command["push"]
                arm.step(np.clip(observed["tau"], -200.0, 200.0), round(1000 / rate))
            observed["fastest"] = max(observed["fastest"], float(np.abs(arm.data.qvel).max()))
        else:
            arm.data.qvel[:] = 0.0


class EffortArm:
    """Handle of the process."""

    def __init__(self, namespace, **options):
        options = {
            "namespace": namespace, "model": "ur5e", "q": [0.4, -1.2, 1.4, -1.3, -1.4, 0.3],
            "rate": 500, "lockstep": True, "heavy": True, "watchdog": True,
            "interface": "effort", **options,
        }  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, __file__, json.dumps(options)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.settings = {
            "state_topic": f"{namespace}/joint_states", "command_topic": f"{namespace}/commands",
            "command_interface": options["interface"], "rate": float(options["rate"]),
            "answer_budget": 0.1, "state_timeout": 0.4,
        }  # fmt: skip

    def send(self, **what):
        """Change the behaviour of the arm and return its observations."""
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
