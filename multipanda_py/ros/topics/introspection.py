# SPDX-License-Identifier: Apache-2.0
"""Introspection topics for PlotJuggler: torque terms and reports of controllets."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray
from pal_statistics_msgs.msg import StatisticsNames, StatisticsValues
from rclpy.node import Node

from multipanda_py.cell import Cell
from multipanda_py.ros.node.qos import DATA_QOS, LATCHED
from multipanda_py.ros.topics.state_topic import Fresh, Pace
from multipanda_py.state import Vector

TOPIC = "introspection_data"


class Introspection:
    """Publisher of named values, and of their names when these change.

    ``<arm>/tau/<joint>`` is the commanded torque [Nm]. It is the sum of ``<arm>/law/...`` (the
    controllet), ``<arm>/<feature>/...``, ``<arm>/blend/...`` and ``<arm>/bounds/...``; see
    :meth:`.RowFollower.terms`.
    ``<arm>/tau_ext/...`` is the external torque. ``<controllet>/<report>`` are reports of active
    controllets. ``loop/...`` are lateness and computation time of the cycle.

    The list of names has a version, which every message of values contains. The loop computes the
    terms only while there is a subscriber.

    Args:
        node: Node that publishes.
        cell: Cell of the values.
    """

    def __init__(self, node: Node, cell: Cell) -> None:
        self._cell, self._pace = cell, Pace(cell.config.cell.introspection_rate)
        self._follower = cell.follow_rows()
        self._reporting = [spec for spec in cell.specs if spec.law.report_names]
        self._joints = {
            arm: [joint.name for joint in description.robot.joints]
            for arm, description in cell.descriptions.items()
        }
        self._names: list[str] = []
        self._version, self._is_traced = 0, False
        self._name_topic = node.create_publisher(StatisticsNames, f"{TOPIC}/names", LATCHED)
        self._value_topic = node.create_publisher(StatisticsValues, f"{TOPIC}/values", DATA_QOS)

    def send(self, fresh: Fresh) -> None:
        """Publish the values, if there are subscribers and the period has passed."""
        if not self._pace.is_due(fresh.row):
            return
        has_subscribers = bool(self._value_topic.get_subscription_count())
        if has_subscribers != self._is_traced:
            self._is_traced = has_subscribers
            self._cell.trace_torques(has_subscribers)
        if not has_subscribers:
            return
        numbers = self._numbers(fresh.row)
        if list(numbers) != self._names:
            self._names = list(numbers)
            self._version += 1
            named = StatisticsNames(names=self._names, names_version=self._version)
            named.header.stamp.sec, named.header.stamp.nanosec = fresh.stamp
            self._name_topic.publish(named)
        message = StatisticsValues(names_version=self._version)
        message.header.stamp.sec, message.header.stamp.nanosec = fresh.stamp
        message.values = array("d", numbers.values())
        self._value_topic.publish(message)

    def _numbers(self, row: NDArray[np.void]) -> dict[str, float]:
        numbers: dict[str, float] = {}
        for arm, record in zip(self._cell.arms, row["arms"]):
            vectors: dict[str, Vector] = {"tau": record["tau"], "tau_ext": record["tau_ext"]}
            vectors.update(self._follower.terms(row, arm))
            for name, vector in vectors.items():
                for joint, value in zip(self._joints[arm], vector.tolist()):
                    numbers[f"{arm}/{name}/{joint}"] = value
        active = self._cell.active
        for spec in self._reporting:
            if spec.name in active:
                values = row["reports"][spec.index].tolist()
                for title, value in zip(spec.law.report_names, values):
                    numbers[f"{spec.name}/{title}"] = value
        numbers["loop/lateness [us]"] = 1e-3 * float(row["wake_ns"] - row["deadline_ns"])
        numbers["loop/compute [us]"] = 1e-3 * float(row["compute_ns"])
        return numbers
