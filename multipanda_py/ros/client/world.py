# SPDX-License-Identifier: Apache-2.0
"""Simulated world of a running node, in which a client can move objects."""

from __future__ import annotations

from collections.abc import Mapping

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import first_arm_without_simulation
from multipanda_py.exceptions import SimulationRefused, TopicLost
from multipanda_py.pose import Pose
from multipanda_py.ros.client.node_link import LatestMessage, NodeLink
from multipanda_py.ros.node.conversions import write_pose
from multipanda_py.ros.services.entity_helpers import WORLD

try:
    from simulation_interfaces.msg import Result
    from simulation_interfaces.srv import SetEntityState
except ImportError:  # Not every distribution has this package.
    SetEntityState = None


class RemoteWorld:
    """Client that moves objects in the simulated world.

    Args:
        link: Link to the node.
        root: Namespace of the cell.
        config: Configuration of the cell.
        things: Topics of the object poses, by name.
        patience: Timeout of answers [s].
    """

    def __init__(
        self,
        link: NodeLink,
        root: str,
        config: CellConfig,
        things: Mapping[str, LatestMessage],
        patience: float,
    ) -> None:
        self._link, self._name, self._objects = link, f"{root}/set_entity_state", things
        self._real, self._timeout = first_arm_without_simulation(config), patience
        if not self.refusal():
            link.offer(SetEntityState, self._name)

    def refusal(self) -> str:
        """Return why no object of this cell can be moved, or an empty string."""
        if self._real:
            return f"got {self._real}, allowed simulated arms"
        return "" if SetEntityState is not None else "simulation_interfaces is not installed"

    def ask_pose(self, object_name: str, pose: Pose) -> int:
        """Set the pose of an object at rest, and wait until the node publishes it.

        Raises:
            SimulationRefused: If the pose is rejected; the message has the reason.
            TopicLost: If the node does not answer.
        """
        request = SetEntityState.Request(entity=object_name)
        request.state.header.frame_id = WORLD
        write_pose(request.state.pose, pose)
        answer = self._link.ask(self._name, request, self._timeout).result
        if answer.result != Result.RESULT_OK:
            raise SimulationRefused(f"{object_name}: {answer.error_message}")
        topic, before = self._objects[object_name], self._objects[object_name].count
        if not self._link.until(lambda: topic.count > before + 1, self._timeout):
            raise TopicLost(f"{topic.name}: no message within {self._timeout:g} s")
        return 0

    def is_placed(self, object_name: str, number: int) -> bool:
        """Return True, because :meth:`ask_pose` waits for the answer."""
        return True
