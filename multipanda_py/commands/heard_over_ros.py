# SPDX-License-Identifier: Apache-2.0
"""What a cell says of its arms over ROS, as logs, piece by piece: from any machine."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.dynamics.tool_jacobian import ToolJacobian
from multipanda_py.exceptions import ShadowRefused
from multipanda_py.extras import require
from multipanda_py.logs.arm_log import ArmLog
from multipanda_py.machine.discovery import where_to_look
from multipanda_py.machine.line_process import LineProcess
from multipanda_py.robots import ArmDescription
from multipanda_py.state import Matrix

PATIENCE = 20.0
"""For the first state of every arm to be heard [s]."""
MOST = 1000
"""States of an arm that wait for another arm which is silent."""


class HeardOverRos:
    """Listen to ``joint_states`` and ``external_wrench`` of arms, by a node of its own process.

    Torques are those that were measured, and what an arm feels is what its wrench says. What was
    lost on its way is missing.

    Args:
        namespace: Of the cell.
        config: The cell that describes the arms.
        names: Of the arms that are listened to.

    Attributes:
        config: As given.
        dropped: States that waited too long for those of a silent arm.

    Raises:
        MissingExtra: If there is no ROS 2.

    Thread: one at a time.
    """

    def __init__(self, namespace: str, config: CellConfig, names: tuple[str, ...]) -> None:
        require("rclpy", "sensor_msgs", "geometry_msgs")
        self.config, self.dropped = config, 0
        self._root = f"/{namespace.strip('/')}".rstrip("/")
        self._arms = {name: describe_arm(name, config.arms[name]) for name in names}
        self._tools = {name: ToolJacobian(arm) for name, arm in self._arms.items()}
        self._begin, self._silent = time.monotonic(), set(names)
        self._said: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        self._node = LineProcess("multipanda_py.ros.state_listener", self._root or "/", *names)

    @property
    def is_there(self) -> bool:
        """Whether the node still listens."""
        return self._node.is_alive

    def take(self) -> dict[str, ArmLog]:
        """Return what was heard since the last call, by arm; empty unless of all arms.

        Raises:
            ShadowRefused: If an arm was never heard, or is another one.
        """
        for line in self._node.lines():
            state = json.loads(line)
            said = self._said[state["arm"]]
            if not said or state["time"] > said[-1]["time"]:
                said.append(state)
            if len(said) > MOST:
                said.pop(0)
                self.dropped += 1
        self._silent -= {name for name, said in self._said.items() if said}
        if self._silent and time.monotonic() > self._begin + PATIENCE:
            raise ShadowRefused(self._silence())
        if not all(self._said.values()):
            return {}
        logs = {name: self._log(name, said) for name, said in self._said.items()}
        self._said = {name: [] for name in logs}
        return logs

    def close(self) -> None:
        """End the node."""
        self._node.close()

    def _silence(self) -> str:
        topics = ", ".join(f"{self._root}/{name}/joint_states" for name in sorted(self._silent))
        return f"nothing was heard on {topics} within {PATIENCE:g} s{where_to_look()}"

    def _log(self, name: str, said: list[dict[str, Any]]) -> ArmLog:
        arm = self._arms[name]
        order = _order(arm, said[0]["joints"])
        q, dq, tau, wrench = (
            np.array([state[key] for state in said], dtype=np.float64).reshape(len(said), -1)
            for key in ("q", "dq", "tau", "wrench")
        )
        if not all(rows.shape[1] > max(order) for rows in (q, dq, tau)):
            raise ShadowRefused(
                f"{name}: its joint_states have no velocities or no efforts: nothing moves a twin"
            )
        q = q[:, order]
        tool = self._tools[name]
        felt: Matrix = np.array([tool.at(row).T @ pull for row, pull in zip(q, wrench)])
        return ArmLog(
            name,
            arm.robot.name,
            tuple(joint.name for joint in arm.robot.joints),
            np.array([state["time"] for state in said]),
            q,
            dq[:, order],
            tau[:, order],
            columns={"tau_ext": felt, "wrench_ext_in_base": wrench},
        )


def _order(arm: ArmDescription, names: list[str]) -> list[int]:
    """Return where the joints of an arm are among names, with or without the arm's own in front.

    Raises:
        ShadowRefused: If one is not.
    """
    found = []
    for joint in arm.joint_names:
        known = (joint, joint.removeprefix(f"{arm.name}_"))
        place = next((k for k, name in enumerate(names) if name in known), None)
        if place is None:
            raise ShadowRefused(
                f"{arm.name}: got joints {', '.join(names)}, allowed those of the twin, "
                f"{', '.join(arm.joint_names)}"
            )
        found.append(place)
    return found
