# SPDX-License-Identifier: Apache-2.0
"""ROS topics of an arm for states and commands, in a separate DDS participant."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

import rclpy
from rclpy.context import Context
from rclpy.executors import Executor, SingleThreadedExecutor
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from multipanda_py.hardware.ros2_control.settings import ARRAY, TopicDriverSettings
from multipanda_py.realtime.system.dds import announce_without_types

# States are received with best effort, because only the newest one matters. This also matches
# reliable publishers. Commands are sent reliably, because controllers subscribe as reliable and
# would not match a best-effort publisher.
_STATES = QoSProfile(
    depth=1, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT
)
_COMMANDS = QoSProfile(
    depth=1, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.RELIABLE
)


class Topics:
    """Subscriber of an arm's joint states and publisher of its commands.

    Attributes:
        on_state: Function that receives every message; :meth:`spin` calls it.

    Thread: the one that created this object.
    """

    def __init__(self, settings: TopicDriverSettings) -> None:
        self._settings = settings
        self.on_state: Callable[[Any], None] = lambda message: None
        announce_without_types()
        self._context = Context()
        rclpy.init(args=[], context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self._node = rclpy.create_node(
            f"{settings.arm}_ros2_control_driver", context=self._context, enable_rosout=False,
            start_parameter_services=False,
        )  # fmt: skip
        self._executor = _make_executor(self._context)
        self._executor.add_node(self._node)
        self._subscription = self._node.create_subscription(
            JointState, settings.state_topic, self._receive, _STATES
        )
        is_array = settings.command_type == ARRAY
        self._command: Any = Float64MultiArray() if is_array else JointState()
        if not is_array:
            self._command.name = settings.joint_names
        self._publisher = self._node.create_publisher(
            type(self._command), settings.command_topic, _COMMANDS
        )
        self._field = "data" if is_array else settings.command_interface

    def _receive(self, message: JointState) -> None:
        self.on_state(message)

    def spin(self, seconds: float) -> None:
        """Process one message; wait up to ``seconds`` [s] for it."""
        self._executor.spin_once(timeout_sec=seconds)

    def send(self, command: Sequence[float]) -> None:
        """Publish a command: efforts, (n,) [Nm], or positions, (n,) [rad]."""
        setattr(self._command, self._field, array("d", command))
        self._publisher.publish(self._command)

    def publishers(self) -> int:
        """Return the number of publishers of states."""
        return int(self._node.count_publishers(self._settings.state_topic))

    def listeners(self) -> int:
        """Return the number of subscribers of commands."""
        return int(self._publisher.get_subscription_count())

    def close(self) -> None:
        """Remove the node and its DDS participant."""
        self._executor.shutdown()
        self._node.destroy_node()
        rclpy.shutdown(context=self._context)


def _make_executor(context: Context) -> Executor:
    """Return an events executor, or a single-threaded one if rclpy has no events executor."""
    try:
        from rclpy.experimental.events_executor import EventsExecutor
    except ImportError:
        return SingleThreadedExecutor(context=context)
    return EventsExecutor(context=context)
