# SPDX-License-Identifier: Apache-2.0
"""Requests, goals and targets that are far too large, or as large as is allowed."""

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

MANY = 100_000
ALLOWED = 1000  # entries of a request
POINTS = 5000  # of a trajectory
LAW = "left/cartesian_impedance_controller"
KIND = "large requests, goals and targets"


class LargeInputs:
    """Throw large inputs at a simulated cell: all are answered, and no arm holds for them."""

    def __init__(self, stage: Stage, client: Client, node: Program, number: int) -> None:
        self.stage, self.client, self.node = stage, client, node
        self.requests = Requests(stage, client, node, number)

    def throw(self, count: int) -> None:
        """Throw each of them ``count`` times."""
        switch, manager = SwitchController, "controller_manager/switch_controller"
        names = ["x"] * MANY
        for _ in range(count):
            self.client.switch([LAW, "right/cartesian_impedance_controller"])
            self._ask(SetParameters, f"{LAW}/set_parameters",
                      SetParameters.Request(parameters=_parameters(MANY)))  # fmt: skip
            self._ask(SetParameters, f"{LAW}/set_parameters",
                      SetParameters.Request(parameters=_parameters(ALLOWED)))  # fmt: skip
            self._ask(GetParameters, f"{LAW}/get_parameters", GetParameters.Request(names=names))
            self._ask(switch, manager, switch.Request(activate_controllers=names, strictness=2))
            self._publish(JointState(name=names, position=[0.0] * MANY), "left/target_joint")
            self._publish(Float64MultiArray(data=[1.0] * 10 * MANY), "left/target_stiffness")
            self.client.switch(["left/joint_trajectory_controller"])
            for points in (MANY, POINTS):
                self._held_back(lambda points=points: self.requests.act(KIND, _goal(points), True))

    def _ask(self, kind: Any, name: str, request: Any) -> None:
        def ask() -> None:
            self.stage.ledger.throw(KIND)
            self.client.ask(kind, name, request, KIND)

        self._held_back(ask)

    def _publish(self, message: Any, topic: str) -> None:
        def publish() -> None:
            self.stage.ledger.throw(KIND)
            self.client.publisher(type(message), topic).publish(message)

        self._held_back(publish)

    def _held_back(self, work: Any) -> None:
        """Do something, and expect that no arm holds for it and others are answered."""
        before = self.node.log.count("client_silent")
        work()
        begun = time.monotonic()
        manager = "controller_manager/list_controllers"
        self.client.ask(ListControllers, manager, ListControllers.Request(), "after a large input")
        seconds, silent = time.monotonic() - begun, self.node.log.count("client_silent") - before
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
