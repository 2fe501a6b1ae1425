# SPDX-License-Identifier: Apache-2.0
"""Requests, goals and targets of the maximum size, and far above it."""

from __future__ import annotations

import time
from typing import Any

from builtin_interfaces.msg import Duration
from client import Client
from control_msgs.action import FollowJointTrajectory
from controller_manager_msgs.srv import ListControllers, SwitchController
from rcl_interfaces.msg import Parameter, ParameterValue
from rcl_interfaces.srv import GetParameters, SetParameters
from request_inputs import Requests
from sensor_msgs.msg import JointState
from stage import Program, Stage
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

TOO_MANY = 100_000  # entries or points
MAX_ENTRIES = 1000  # of a request
MAX_POINTS = 5000  # of a trajectory
CONTROLLET = "left/cartesian_impedance_controller"
KIND = "large requests, goals and targets"


class LargeInputs:
    """Send large inputs to a simulated cell; check for answers, and that no arm holds."""

    def __init__(self, stage: Stage, client: Client, node: Program, number: int) -> None:
        self.stage, self.client, self.node = stage, client, node
        self.requests = Requests(stage, client, node, number)

    def send(self, count: int) -> None:
        """Send each input ``count`` times."""
        switch, manager = SwitchController, "controller_manager/switch_controller"
        names = ["x"] * TOO_MANY
        for _ in range(count):
            self.client.switch([CONTROLLET, "right/cartesian_impedance_controller"])
            self._call(SetParameters, f"{CONTROLLET}/set_parameters",
                      SetParameters.Request(parameters=_parameters(TOO_MANY)))  # fmt: skip
            self._call(SetParameters, f"{CONTROLLET}/set_parameters",
                      SetParameters.Request(parameters=_parameters(MAX_ENTRIES)))  # fmt: skip
            self._call(
                GetParameters, f"{CONTROLLET}/get_parameters", GetParameters.Request(names=names)
            )
            self._call(switch, manager, switch.Request(activate_controllers=names, strictness=2))
            self._publish(JointState(name=names, position=[0.0] * TOO_MANY), "left/target_joint")
            self._publish(Float64MultiArray(data=[1.0] * 10 * TOO_MANY), "left/target_stiffness")
            self.client.switch(["left/joint_trajectory_controller"])
            for points in (TOO_MANY, MAX_POINTS):
                self._check(lambda points=points: self.requests.act(KIND, _goal(points), True))

    def _call(self, kind: Any, name: str, request: Any) -> None:
        def call() -> None:
            self.stage.ledger.count(KIND)
            self.client.call(kind, name, request, KIND)

        self._check(call)

    def _publish(self, message: Any, topic: str) -> None:
        def publish() -> None:
            self.stage.ledger.count(KIND)
            self.client.publisher(type(message), topic).publish(message)

        self._check(publish)

    def _check(self, work: Any) -> None:
        """Send an input; check that no arm holds and that the next request is answered."""
        before = self.node.log.count("client_silent")
        work()
        started = time.monotonic()
        manager = "controller_manager/list_controllers"
        self.client.call(
            ListControllers, manager, ListControllers.Request(), "after a large input"
        )
        seconds, silent = time.monotonic() - started, self.node.log.count("client_silent") - before
        self.stage.ledger.expect(silent == 0, KIND, f"arms hold; {seconds:.1f} s")
        self.stage.ledger.expect(self.node.runs, KIND, "the node has ended")
        self.stage.judge(KIND, self.node)


def _parameters(count: int) -> list[Parameter]:
    return [Parameter(name="x", value=ParameterValue(type=3, double_value=1.0))] * count


def _goal(count: int) -> FollowJointTrajectory.Goal:
    names = [f"left_fr3_joint{number}" for number in range(1, 8)]
    trajectory = JointTrajectory(joint_names=names)
    for number in range(1, count + 1):
        seconds, rest = divmod(number * 4_000_000, 10**9)
        trajectory.points.append(JointTrajectoryPoint(
            positions=[0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785],
            time_from_start=Duration(sec=seconds, nanosec=rest)))  # fmt: skip
    return FollowJointTrajectory.Goal(trajectory=trajectory)
