# SPDX-License-Identifier: Apache-2.0
"""Services and actions of franka_ros2: settings, error recovery and ``franka_gripper``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from rclpy.action import CancelResponse, GoalResponse
from std_srvs.srv import Trigger

from multipanda_py.cell import Cell
from multipanda_py.exceptions import MultipandaError, SettingsRejected, shortened
from multipanda_py.robots.franka import INERTIALS
from multipanda_py.robots.geometry import rpy_from_rotation
from multipanda_py.robots.gripper import GripperMotion, GripperResult
from multipanda_py.ros.node.deferred_responses import Work
from multipanda_py.ros.node.guard import GuardedNode, PlainActionServer
from multipanda_py.ros.node.parameter_requests import set_together
from multipanda_py.ros.node.running import every
from multipanda_py.ros.services.arms import RecoveryServices
from multipanda_py.ros.services.grippers import GripperAction, GripperServers, Hand

PERIOD = 0.02
"""Period at which the action checks recoveries [s]."""
_ORTHONORMAL = 1e-5  # Tolerance of the orthonormality of a rotation matrix.
Values = dict[str, Any]
SETTINGS_SECTION = "franka"
"""Settings section of real and simulated Franka arms; other simulated arms may have it too."""
GRIPPER_ACTIONS = ("franka_gripper/gripper_action",)
MISSING_MESSAGE = (
    "franka_names: franka_msgs is not installed. Its services, actions and robot_state are not "
    "offered, only topics of standard types"
)


class FrankaServices:
    """Services ``<arm>/service_server/...`` and action ``<arm>/action_server/error_recovery``.

    Args:
        robots: Nodes with the settings of each Franka as parameters, by arm.

    Raises:
        ImportError: If franka_msgs is not installed.

    Thread: executor.
    """

    def __init__(
        self, node: GuardedNode, robots: Mapping[str, GuardedNode], recovery: RecoveryServices
    ) -> None:
        from franka_msgs import srv
        from franka_msgs.action import ErrorRecovery

        self._robots, self._logger, self._recovery = robots, node.get_logger(), recovery
        self._kind, self._work = ErrorRecovery, dict[str, tuple[Any, Any, Work]]()
        self._servers: dict[str, PlainActionServer] = {}
        services: list[tuple[str, type, Callable[[Any], Values]]] = [
            ("set_load", srv.SetLoad, _load),
            ("set_joint_stiffness", srv.SetJointStiffness, _joint_stiffness),
            ("set_cartesian_stiffness", srv.SetCartesianStiffness, _cartesian_stiffness),
            ("set_stiffness_frame", srv.SetStiffnessFrame, _stiffness_frame),
            ("set_tcp_frame", srv.SetTCPFrame, _tcp_frame),
            ("set_force_torque_collision_behavior", srv.SetForceTorqueCollisionBehavior,
             _thresholds),
            ("set_full_collision_behavior", srv.SetFullCollisionBehavior, _lowest_thresholds),
        ]  # fmt: skip
        for arm in robots:
            for name, kind, read in services:
                full = f"{arm}/service_server/{name}"
                node.serve(kind, full, partial(self._change_settings, arm, name, read))
            self._servers[arm] = PlainActionServer(
                node,
                ErrorRecovery,
                f"{arm}/action_server/error_recovery",
                execute_callback=partial(self._start, arm),
                goal_callback=lambda _: GoalResponse.ACCEPT,
                cancel_callback=lambda _: CancelResponse.REJECT,
            )
        every(node, PERIOD, self._tick)

    def _change_settings(
        self, arm: str, name: str, read: Callable[[Any], Values], request: Any, response: Any
    ) -> Work:
        try:
            reason = yield from set_together(self._robots[arm], read(request))
        except MultipandaError as error:
            reason = str(error)
        response.success, response.error = not reason, shortened(reason)
        if reason:
            self._logger.warning(f"{arm}/service_server/{name}: rejected: {response.error}")

    def _start(self, arm: str, handle: Any) -> None:
        response = Trigger.Response()
        key = bytes(handle.goal_id.uuid).hex()
        work = self._recovery.recover((arm,), None, response)
        self._work[key] = (self._servers[arm], handle, _run_and_get_success(work, response))

    def _tick(self) -> None:
        for key, (server, handle, work) in list(self._work.items()):
            try:
                next(work)
            except StopIteration as end:
                del self._work[key]
                server.finish(handle, "succeed" if end.value else "abort", self._kind.Result())


def _run_and_get_success(work: Work, response: Any) -> Any:
    yield from work
    return bool(response.success)


def _load(request: Any) -> Values:
    inertia = np.reshape(request.load_inertia, (3, 3))
    if not np.allclose(inertia, inertia.T):
        raise SettingsRejected(
            f"load_inertia: got {list(request.load_inertia)}, allowed a symmetric matrix"
        )
    (xx, xy, xz), (_, yy, yz), (*_, zz) = inertia.tolist()
    # Robots accept the zero inertia of a point mass. The dynamics model needs a positive inertia.
    is_point = not inertia.any()
    return {
        "load_mass": float(request.mass),
        "load_com": list(map(float, request.center_of_mass)),
        "load_inertia": [1e-4] * 3 + [0.0] * 3 if is_point else [xx, yy, zz, xy, xz, yz],
    }


def _joint_stiffness(request: Any) -> Values:
    return {"joint_impedance": list(map(float, request.joint_stiffness))}


def _cartesian_stiffness(request: Any) -> Values:
    return {"cartesian_impedance": list(map(float, request.cartesian_stiffness))}


def _stiffness_frame(request: Any) -> Values:
    """Return position [m] and rpy [rad] of the stiffness frame in the end effector (EE_T_K)."""
    # The matrix is column-major, as in libfranka.
    pose = np.reshape(request.transformation, (4, 4), order="F")
    rotation = pose[:3, :3]
    is_rigid = np.allclose(rotation @ rotation.T, np.eye(3), atol=_ORTHONORMAL)
    if not is_rigid or np.linalg.det(rotation) < 0.0 or not np.allclose(pose[3], [0, 0, 0, 1]):
        raise SettingsRejected(
            "transformation: not a rigid motion, allowed a homogeneous matrix, column by column"
        )
    rpy = rpy_from_rotation(rotation)
    return {"stiffness_position": pose[:3, 3].tolist(), "stiffness_rpy": list(map(float, rpy))}


def _tcp_frame(request: Any) -> Values:
    raise SettingsRejected(
        "transformation: cannot change while the cell runs, because controllets use it. Set "
        "`tool` of the arm in the cell file"
    )


def _thresholds(request: Any, end: str = "_nominal") -> Values:
    return {
        f"{bound}_{description}_thresholds": list(
            map(float, getattr(request, f"{bound}_{description}_thresholds{end}"))
        )
        for bound in ("lower", "upper")
        for description in ("torque", "force")
    }


def _lowest_thresholds(request: Any) -> Values:
    # The settings have one threshold for steady and accelerated motion.
    steady, fast = _thresholds(request), _thresholds(request, "_acceleration")
    return {name: np.minimum(steady[name], fast[name]).tolist() for name in steady}


class FrankaHandActions:
    """Actions ``<arm>/franka_gripper/{homing,move,grasp}`` and service ``stop`` of one gripper.

    Args:
        hand: Other interfaces of the same gripper, with this package's names. Their
            :meth:`.Hand.poll` also answers the goals of these actions.

    Raises:
        ImportError: If franka_msgs is not installed.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell, arm: str, hand: Hand) -> None:
        from franka_msgs.action import Grasp, Homing, Move

        self._gripper = cell.gripper(arm)
        for name, kind, start in (
            ("homing", Homing, self._homing),
            ("move", Move, self._move),
            ("grasp", Grasp, self._grasp),
        ):

            def feedback(motion: GripperMotion, kind: Any = kind) -> Any:
                return kind.Feedback(current_width=self._gripper.state().width)

            def result(motion: GripperMotion, result: GripperResult, kind: Any = kind) -> Any:
                text = "" if result.succeeded else shortened(result.text)
                return kind.Result(success=result.succeeded, error=text)

            def refused(reason: str, kind: Any = kind) -> Any:
                return kind.Result(success=False, error=shortened(reason))

            action = GripperAction(kind, start, feedback, result, refused)
            hand.goals.offer(f"{arm}/franka_gripper/{name}", action)
        node.serve(Trigger, f"{arm}/franka_gripper/stop", hand.stop)

    def _homing(self, goal: Any) -> GripperMotion:
        return self._gripper.homing()

    def _move(self, goal: Any) -> GripperMotion:
        return self._gripper.move(goal.width, goal.speed)

    def _grasp(self, goal: Any) -> GripperMotion:
        wide = goal.epsilon
        return self._gripper.grasp(goal.width, goal.speed, goal.force, wide.inner, wide.outer)


def franka_arms(cell: Cell) -> list[str]:
    """Return the names of the arms that are Frankas."""
    return [
        name
        for name, arm in cell.config.arms.items()
        if arm.section == SETTINGS_SECTION and arm.robot.name in INERTIALS
    ]


class FrankaNames:
    """Services and actions of franka_ros2, if franka_msgs is installed; otherwise a warning.

    Args:
        robots: Nodes with the settings of each robot as parameters, by arm.
        grippers: Gripper interfaces of this package, to which the actions ``franka_gripper`` are
            added.
    """

    def __init__(
        self,
        node: GuardedNode,
        cell: Cell,
        robots: Mapping[str, GuardedNode],
        recovery: RecoveryServices,
        grippers: GripperServers,
    ) -> None:
        if find_spec("franka_msgs") is None:
            node.get_logger().warning(MISSING_MESSAGE)
            return
        arms = franka_arms(cell)
        self._services = FrankaServices(node, {arm: robots[arm] for arm in arms}, recovery)
        hands = grippers.hands
        self._hands = [
            FrankaHandActions(node, cell, arm, hands[arm]) for arm in arms if arm in hands
        ]
