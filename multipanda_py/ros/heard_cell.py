# SPDX-License-Identifier: Apache-2.0
"""What a node says of its cell: the newest of every topic, read when it is asked for."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
from geometry_msgs.msg import PoseStamped, WrenchStamped
from numpy.typing import NDArray
from rcl_interfaces.msg import Log
from sensor_msgs.msg import JointState

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms, movable_things
from multipanda_py.config.node_names import NODE
from multipanda_py.ros.conversions import read_numbers, read_pose
from multipanda_py.ros.node_link import NodeLink
from multipanda_py.ros.node_status import LINES, NodeStatus
from multipanda_py.state import ArmSnapshot

WARNING = 30
"""Level of a line of a log from which on it is shown."""


class HeardCell:
    """Hear what it takes to show a cell, and read it when it is shown.

    Args:
        link: To the node; not started yet.
        root: Namespace of the cell, with a slash in front, or nothing.
        config: The cell.

    Attributes:
        status: What diagnostics say.

    Thread: callbacks the link's, all else any.
    """

    def __init__(self, link: NodeLink, root: str, config: CellConfig) -> None:
        self._arms = describe_arms(config)
        self._index = {arm.name: index for index, arm in enumerate(self._arms)}
        self._logger = f"{root}/{NODE}".strip("/").replace("/", ".")
        self._begin: float | None = None
        self.status = NodeStatus(config, link.node)
        self._order: dict[tuple[str, ...], list[tuple[int, list[int], list[int]]]] = {}
        most = max(arm.n_joints for arm in self._arms)
        of_arm = np.dtype([(name, np.float64, most) for name in ("q", "dq", "tau")]
                          + [("fingers", np.float64, 2)])  # fmt: skip
        kind = [("time", np.float64), ("arms", of_arm, len(self._arms)),
                ("objects", np.float64, (len(list(movable_things(config))), 7))]  # fmt: skip
        self._row = np.zeros((), np.dtype(kind))
        read_wrench = partial(read_numbers, WrenchStamped, ("force", "torque"))
        self._joints = link.hear(JointState, f"{root}/joint_states")
        self._poses = {
            arm.name: link.hear(PoseStamped, f"{root}/{arm.name}/current_pose", read=read_pose)
            for arm in self._arms
        }
        self._wrenches = {
            arm.name: link.hear(
                WrenchStamped, f"{root}/{arm.name}/external_wrench", read=read_wrench
            )
            for arm in self._arms
        }
        self._things = [
            link.hear(PoseStamped, f"{root}/objects/{thing}/pose", read=read_pose)
            for thing in movable_things(config)
        ]
        link.node.create_subscription(Log, "/rosout", self._take_line, LINES)

    def silent(self) -> list[str]:
        """Return what was not heard of yet, of what it takes to show the cell."""
        needed = [self._joints, *self._poses.values(), *self._wrenches.values()]
        missing = [topic.name for topic in needed if not topic.count]
        return missing if self.status.is_known else [*missing, "/diagnostics"]

    def row(self) -> NDArray[np.void]:
        """Return where everything is, as far as :meth:`.SceneView.show` wants it."""
        row, message = self._row, self._joints.message()
        names = tuple(message.name)
        if names not in self._order:
            self._order[names] = self._places(names)
        for index, joints, fingers in self._order[names]:
            arm = row["arms"][index]
            for field, values in (("q", message.position), ("dq", message.velocity),
                                  ("tau", message.effort)):  # fmt: skip
                arm[field][: len(joints)] = [values[place] for place in joints]
            if fingers:
                arm["fingers"][:] = [message.position[place] for place in fingers]
        stamp = message.header.stamp
        now = stamp.sec + 1e-9 * stamp.nanosec
        self._begin = now if self._begin is None else self._begin
        row["time"] = now - self._begin
        for place, thing in enumerate(self._things):
            if thing.count:
                pose = thing.message().pose
                row["objects"][place] = [*pose.position, *np.roll(pose.quaternion_xyzw, 1)]
        return row

    def state(self, arm: str) -> ArmSnapshot:
        """Return what an arm does; ``tau`` is what was measured."""
        row, index = self.row(), self._index[arm]
        n = self._arms[index].n_joints
        found = row["arms"][index]
        pose, wrench = self._poses[arm].message().pose, self._wrenches[arm].message().numbers
        status = self.status.arms[arm]
        return ArmSnapshot(
            name=arm, time=float(row["time"]), q=found["q"][:n].copy(), dq=found["dq"][:n].copy(),
            tau_J=found["tau"][:n].copy(), tau_ext=np.full(n, np.nan),
            tau=found["tau"][:n].copy(), position_ee_in_base=pose.position,
            rotation_ee_in_base=pose.rotation, twist_ee_in_base=np.full(6, np.nan),
            wrench_ext_in_base=np.array(wrench), fingers=found["fingers"].copy(),
            owner=status.owner, fault=status.fault,
        )  # fmt: skip

    def silence(self, arm: str) -> float:
        """Return how long ago the newest pose of an arm came [s]."""
        return time.monotonic() - self.heard(arm)

    def heard(self, arm: str) -> float:
        """Return when the newest pose of an arm came, CLOCK_MONOTONIC [s]."""
        return self._poses[arm].heard

    def _places(self, names: tuple[str, ...]) -> list[tuple[int, list[int], list[int]]]:
        """Return where in a message the joints and fingers are of each arm that is in it."""
        found = []
        for index, arm in enumerate(self._arms):
            if set(arm.joint_names) <= set(names):
                fingers = [names.index(one) for one in arm.finger_joint_names if one in names]
                found.append((index, [names.index(one) for one in arm.joint_names], fingers))
        return found

    def _take_line(self, line: Log) -> None:
        level = line.level if isinstance(line.level, int) else line.level[0]
        if line.name == self._logger and level >= WARNING:
            self.status.say(line.msg, time.monotonic_ns())
