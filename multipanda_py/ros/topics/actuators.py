# SPDX-License-Identifier: Apache-2.0
"""Topics of compliant actuators, with the names of the ROS-Gazebo toolbox of Mengacci et al.

The paper of the toolbox is https://doi.org/10.3389/frobt.2021.713083.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray

from multipanda_py.cell import Cell
from multipanda_py.cell.state_reader import ActuatorSnapshot
from multipanda_py.ros.topics.state_topic import Fresh, PlainTopic, Stamp, StateTopic
from multipanda_py.state import Vector


class ActuatorTopics:
    """Topics of the arms with compliant actuators, for all joints together and for each joint.

    Args:
        plain_names: True if joint names in messages omit the name of the arm.

    Thread: executor.
    """

    def __init__(self, node: Node, cell: Cell, plain_names: bool) -> None:
        self._cell = cell
        self._arms = {
            index: _SprungArmTopics(node, cell, arm, plain_names)
            for index, arm in enumerate(cell.arms)
            if cell.descriptions[arm].actuated is not None
        }

    def send(self, fresh: Fresh) -> None:
        """Publish the topics that have subscribers, from the newest states."""
        for index, stamp in zip(fresh.arms, fresh.stamps):
            if index in self._arms and (desired := self._arms[index].subscribed()):
                actuators = self._cell.actuators(self._cell.arms[index], fresh.row)
                for topics in desired:
                    topics.send(actuators, stamp)


class _SprungArmTopics:
    """Topics of one arm with compliant actuators, and of its joints."""

    def __init__(self, node: Node, cell: Cell, arm: str, plain_names: bool) -> None:
        description = cell.descriptions[arm]
        joints = description.actuated
        prefix = f"{arm}_" if plain_names else ""
        names = [
            description.joint_names[index].removeprefix(prefix)
            for index in (joints.joint_indices.tolist() if joints else ())
        ]
        every = np.arange(len(names))
        self._all: list[_StateTopics | _JointNumbers] = [
            _StateTopics(node, arm, "robot_state", names, every)
        ]
        for index, joint in enumerate(joints.names if joints else ()):
            own, at = f"{arm}/{joint}", np.array([index])
            self._all.append(_StateTopics(node, own, "link_state", [names[index]], at))
            self._all.append(_JointNumbers(node, own, index))

    def subscribed(self) -> list[_StateTopics | _JointNumbers]:
        """Return the topics that have subscribers."""
        return [topics for topics in self._all if topics.subscribed()]


class _StateTopics:
    """Topics with the states of joints (links) and of the two motors of each joint.

    Args:
        at: Indices of the joints, counted among the compliant actuators of the arm, (k,).
    """

    def __init__(
        self,
        node: Node,
        where: str,
        links: str,
        names: Sequence[str],
        at: NDArray[np.intp],
    ) -> None:
        self._at = at
        self._topics = [
            StateTopic(node, JointState, f"{where}/{name}")
            for name in (links, "motor_1_state", "motor_2_state")
        ]
        for topic in self._topics:
            topic.message.name = list(names)

    def subscribed(self) -> bool:
        return any(topic.has_subscribers() for topic in self._topics)

    def send(self, result: ActuatorSnapshot, stamp: Stamp) -> None:
        motors = zip(result.position, result.velocity, result.motor_torque)
        for topic, numbers in zip(self._topics, [(result.q, result.dq, result.torque), *motors]):
            if topic.has_subscribers():
                position, velocity, effort = (self._array(one) for one in numbers)
                message = topic.message
                message.position, message.velocity = position, velocity
                message.effort = effort
                topic.send(stamp)

    def _array(self, numbers: Vector) -> array[float]:
        return array("d", numbers[self._at].tolist())


class _JointNumbers:
    """Topics of one joint, without stamps: link state, and spring torque on each motor."""

    def __init__(self, node: Node, where: str, place: int) -> None:
        self._index = place
        self._link = PlainTopic(node, Float64MultiArray, f"{where}/link_state_array")
        self._loads = [
            PlainTopic(node, Float64, f"{where}/torque_el{motor}_state") for motor in (1, 2)
        ]

    def subscribed(self) -> bool:
        return any(topic.has_subscribers() for topic in (self._link, *self._loads))

    def send(self, result: ActuatorSnapshot, stamp: Stamp) -> None:
        index = self._index
        if self._link.has_subscribers():
            numbers = (result.q, result.dq, *result.reference, result.torque, result.stiffness)
            self._link.message.data = array("d", [float(one[index]) for one in numbers])
            self._link.send()
        for topic, load in zip(self._loads, result.load):
            if topic.has_subscribers():
                topic.message.data = float(load[index])
                topic.send()
