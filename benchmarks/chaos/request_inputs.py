# SPDX-License-Identifier: Apache-2.0
"""Valid and invalid requests to all services and actions; check of answers and counters."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration
from client import Client
from control_msgs.action import FollowJointTrajectory, GripperCommand
from controller_manager_msgs.srv import (
    ConfigureController,
    LoadController,
    SwitchController,
    UnloadController,
)
from draw import NUMBERS, TEXTS, draw
from hypothesis import strategies as st
from rcl_interfaces.msg import Parameter, ParameterValue
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.action import ActionClient
from stage import Program, Stage
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

STRICT = 2
PER_ARM = ["cartesian_impedance", "joint_impedance", "joint_trajectory", "joint_velocity",
           "force_impedance", "operational_space", "admittance"]  # fmt: skip
CONTROLLETS = [f"{arm}/{kind}_controller" for arm in ("left", "right") for kind in PER_ARM] + [
    "dual_cartesian_impedance_controller", "coupled_impedance_controller"]  # fmt: skip
NAMES = st.one_of(st.sampled_from(CONTROLLETS), st.sampled_from(["left/hold", "hold"]), TEXTS)
LISTS = st.lists(st.one_of(st.sampled_from(CONTROLLETS), NAMES), max_size=3)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
PARAMETERS = st.one_of(
    st.sampled_from(["stiffness", "damping_ratio", "error_clip", "gain_frame", "governor.enabled",
                     "nullspace.stiffness", "use_sim_time", "feedforward", "load_com",
                     "upper_torque_thresholds", "answer_budget"]), TEXTS)  # fmt: skip


def values() -> st.SearchStrategy[ParameterValue]:
    """Return parameter values of all types, including undefined ones."""
    return st.builds(
        ParameterValue,
        type=st.integers(0, 255) | st.integers(1, 9),
        bool_value=st.booleans(),
        integer_value=INTEGERS,
        double_value=NUMBERS,
        string_value=TEXTS,
        byte_array_value=st.binary(max_size=8).map(lambda data: [bytes([b]) for b in data]),
        integer_array_value=st.lists(INTEGERS, max_size=6),
        double_array_value=st.lists(NUMBERS, max_size=7),
        string_array_value=st.lists(TEXTS, max_size=3),
    )


class Requests:
    """Requests to a simulated cell, and comparison of its answers with its state."""

    def __init__(self, stage: Stage, client: Client, node: Program, number: int) -> None:
        self.stage, self.client, self.node, self.number = stage, client, node, number
        self.ledger, self.rng = stage.ledger, random.Random(number)
        self._actions: dict[str, Any] = {}

    def switches(self, count: int) -> None:
        """Send random switch requests; check that all sources list the same active controllets."""
        kind = "switch requests"
        request = st.tuples(LISTS, LISTS, st.sampled_from([0, 1, 2, 3, 4]) | st.integers(-99, 99))
        before, active, refused = self._refused("switches"), self.client.active(), 0
        for on, off, strictness in self._draw(request, count):
            requested = SwitchController.Request(
                activate_controllers=on, deactivate_controllers=off, strictness=strictness
            )
            answer = self.client.call(
                SwitchController, "controller_manager/switch_controller", requested, kind
            )
            now = self.client.active()
            if answer is None:
                return
            refused += not answer.ok
            self.ledger.count(kind, 1, not answer.ok)
            text = f"{on} on, {off} off, strictness {strictness}: ok={answer.ok}"
            if not answer.ok:
                self.ledger.expect(
                    now == active, kind, f"{text}, active {active} before, {now} after"
                )
            elif strictness == STRICT:
                is_complete = now >= set(on) and not now & (
                    set(off) - set(on) - {"hold", "left/hold"}
                )
                self.ledger.expect(is_complete, kind, f"{text}, active {now}")
            active = now
        self._expect_consistent_lists(kind)
        self._expect_counted(kind, "switches", before, refused)

    def lifecycle(self, count: int) -> None:
        """Send random requests to load, configure and unload controllets."""
        kind = "load, configure and unload requests"
        services = {"load_controller": LoadController, "configure_controller": ConfigureController,
                    "unload_controller": UnloadController}  # fmt: skip
        for name, controllet in self._draw(
            st.tuples(st.sampled_from(list(services)), NAMES), count
        ):
            request = services[name].Request(name=controllet)
            answer = self.client.call(services[name], f"controller_manager/{name}", request, kind)
            self.ledger.count(kind, 1, answer is not None and not answer.ok)
        for controllet in CONTROLLETS:  # restore all for the next tests
            self.client.call(LoadController, "controller_manager/load_controller",
                            LoadController.Request(name=controllet))  # fmt: skip
            self.client.call(ConfigureController, "controller_manager/configure_controller",
                            ConfigureController.Request(name=controllet))  # fmt: skip
        self.stage.judge(kind)

    def parameters(self, count: int, nodes_count: int = 100) -> None:
        """Set random parameters of controllets and of the node."""
        kind = "parameters set"
        nodes = st.sampled_from(
            ["multimode_controller", "left/franka", *CONTROLLETS][:nodes_count]
        )
        lists = st.lists(st.builds(Parameter, name=PARAMETERS, value=values()), max_size=3)
        before, refused = self._refused("parameters"), 0
        for node, parameters, atomically in self._draw(
            st.tuples(nodes, lists, st.booleans()), count
        ):
            if atomically:
                service, name = SetParametersAtomically, "set_parameters_atomically"
            else:
                service, name = SetParameters, "set_parameters"
            request = service.Request(parameters=parameters)
            answer = self.client.call(service, f"{node}/{name}", request, kind)
            if answer is None:
                return
            results = [answer.result] if atomically else answer.results
            rejected = sum(not result.successful for result in results)
            refused += rejected
            self.ledger.count(kind, 1, rejected > 0)
            has_reasons = all(result.reason for result in results if not result.successful)
            self.ledger.expect(has_reasons, kind, f"rejected without reason: {node} {parameters}")
        self._expect_counted(kind, "parameters", before, refused)

    def triggers(self, count: int) -> None:
        """Call services without arguments in random order."""
        kind = "stop, recovery, tare and gripper services"
        names = ["stop", "error_recovery", *(
            f"{arm}/{name}" for arm in ("left", "right")
            for name in ("error_recovery", "tare", "gripper/open", "gripper/close",
                         "gripper/stop", "gripper/homing")
        )]  # fmt: skip
        for name in self.rng.choices(names, k=count):
            answer = self.client.call(Trigger, name, Trigger.Request(), kind)
            self.ledger.count(kind, 1, answer is not None and not answer.success)
            if answer is not None and not answer.success:
                self.ledger.expect(bool(answer.message), kind, f"{name} failed without reason")
        self.stage.judge(kind)

    def goals(self, count: int) -> None:
        """Send random goals of trajectories and grippers, and cancel some."""
        kind = "action goals"
        self.client.switch(["left/joint_trajectory_controller"])
        joints = [f"left_fr3_joint{number}" for number in range(1, 8)]
        points = st.lists(
            st.builds(
                JointTrajectoryPoint,
                positions=st.lists(NUMBERS, min_size=5, max_size=8),
                velocities=st.just([]) | st.lists(NUMBERS, max_size=7),
                accelerations=st.just([]) | st.lists(NUMBERS, max_size=7),
                time_from_start=st.builds(Duration, sec=st.integers(-1, 3)),
            ),
            max_size=5,
        )
        names = st.just(joints) | st.permutations(joints) | st.lists(TEXTS, max_size=8)
        trajectory = st.builds(JointTrajectory, joint_names=names, points=points).map(
            lambda t: FollowJointTrajectory.Goal(trajectory=t)
        )

        def gripper(position: float, effort: float) -> Any:
            goal = GripperCommand.Goal()
            goal.command.position, goal.command.max_effort = position, effort
            return goal

        goals = st.one_of(trajectory, trajectory, st.builds(gripper, NUMBERS, NUMBERS))
        before = self._counters_of_left()
        rejected, aborted = Counter[str](), Counter[str]()
        for goal, cancel in self._draw(st.tuples(goals, st.booleans()), count):
            counter = (
                "targets" if isinstance(goal, FollowJointTrajectory.Goal) else "gripper goals"
            )
            status = self.act(kind, goal, cancel)
            rejected[counter] += status is None
            aborted[counter] += status == GoalStatus.STATUS_ABORTED
        after = self._counters_of_left()
        for counter, counted in after.items():
            counted -= before[counter]
            minimum, maximum = rejected[counter], rejected[counter] + aborted[counter]
            self.ledger.expect(
                minimum <= counted <= maximum, kind,
                f"{counter}: {minimum} rejected, {aborted[counter]} aborted, {counted} counted",
            )  # fmt: skip
        self.stage.judge(kind)

    def _counters_of_left(self) -> dict[str, int]:
        """Return the numbers of rejected goals of the left arm in /diagnostics."""
        status = self.stage.watcher.status(f"{self.stage.name}/left")
        return {name: int(status[f"rejected {name}"]) for name in ("targets", "gripper goals")}

    def act(self, kind: str, goal: Any, cancel: bool) -> int | None:
        """Send a goal; return its final status, None if it is rejected, or -1 without answer."""
        is_trajectory = isinstance(goal, FollowJointTrajectory.Goal)
        action = FollowJointTrajectory if is_trajectory else GripperCommand
        name = ("left/joint_trajectory_controller/follow_joint_trajectory" if is_trajectory
                else "left/gripper/gripper_action")  # fmt: skip
        if name not in self._actions:
            self._actions[name] = ActionClient(self.client.node, action, name)
            self.client.until(self._actions[name].server_is_ready, 20.0)
            self.client.until(lambda: False, 0.5)
        future = self._actions[name].send_goal_async(goal)
        if not self.ledger.expect(self.client.until(future.done), kind, f"no answer to {goal}"):
            return -1
        handle = future.result()
        self.ledger.count(kind, 1, not handle.accepted)
        if not handle.accepted:
            return None
        result = handle.get_result_async()
        if cancel:
            handle.cancel_goal_async()
        done = self.client.until(result.done, 30.0)
        self.ledger.expect(done, kind, f"no result of {goal}")
        return int(result.result().status) if done else -1

    def _draw(self, strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
        self.number += 1
        return draw(strategy, count, self.number)

    def _refused(self, requests: str) -> int:
        return int(self.stage.watcher.status(self.stage.name)[f"refused {requests}"])

    def _expect_counted(self, kind: str, requests: str, before: int, refused: int) -> None:
        """Check the number of rejected requests in /diagnostics."""
        counted = self._refused(requests) - before
        self.ledger.expect(counted == refused, kind, f"{refused} rejected, {counted} counted")
        self.ledger.expect(self.node.runs, kind, "the node has ended")
        self.stage.judge(kind)

    def _expect_consistent_lists(self, kind: str) -> None:
        """Check that services of the cell and of each arm agree with /diagnostics."""
        active = self.client.active()
        status = self.stage.watcher.status(self.stage.name)
        reported = {name for name in status["active"].split(", ") if name}
        self.ledger.expect(
            reported == active, kind, f"listed {active}, in /diagnostics {reported}"
        )
        for arm in ("left", "right"):
            owner = self.stage.watcher.request("statuses")[f"{self.stage.name}/{arm}"]["owner"]
            own = {name for name in active if name.startswith(f"{arm}/")}
            listed = self.client.active(arm)
            self.ledger.expect(listed == own, kind, f"{arm} lists {listed}, the cell {own}")
            self.ledger.expect(owner in active, kind, f"{owner} owns {arm} but is not active")
