# SPDX-License-Identifier: Apache-2.0
"""A node that sends pictures of the simulated scene of a cell, in a process of its own.

Run by the cell's node as ``python -m multipanda_py.ros.camera_node FD NAMESPACE``: the cell comes
as JSON on the first line of standard input and its rows from the shared memory behind ``FD``,
which is only read. It ends with standard input. Draws what somebody listens to, and nothing else;
by its niceness after everything else, off the loop's core, so that pictures come late where there
is no time, and the loop never.
"""

from __future__ import annotations

import os
import sys
import threading
import time

import rclpy
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions
from tf2_msgs.msg import TFMessage

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.node_names import CAMERAS
from multipanda_py.exceptions import MultipandaError
from multipanda_py.loop.row_follower import RowFollower
from multipanda_py.machine.dds_memory import keep_own_memory_private
from multipanda_py.machine.discovery import announce_without_types
from multipanda_py.machine.owners_pipe import end_of_input, leave, read_data
from multipanda_py.ros.camera_topics import CameraTopics, optical_frame
from multipanda_py.ros.clock import NodeClock
from multipanda_py.ros.entities import WORLD
from multipanda_py.ros.fresh_states import world_time
from multipanda_py.ros.qos import KEPT
from multipanda_py.ros.running import make_executor
from multipanda_py.view.rendering import Renderer
from multipanda_py.view.scene_view import SceneView

NICENESS = 10
SHADOWS, SAMPLES = 1024, 4
"""Fineness of shadows [pixels] and of edges: half the work of what films have."""
LONGEST = 0.2
"""Between two looks at whether it is to end [s]."""


def main() -> int:
    """Send pictures until the cell's node ends."""
    os.environ.setdefault("LP_NUM_THREADS", "1")  # of Mesa, which draws where there is no GPU
    asked = read_data()
    config = CellConfig.from_dict(asked["cell"])
    ended = end_of_input()
    announce_without_types()
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)  # its owner ends it
    node = rclpy.create_node(
        CAMERAS, namespace=sys.argv[2], start_parameter_services=False,
        parameter_overrides=[Parameter("use_sim_time", value=asked["use_sim_time"])],
    )  # fmt: skip
    keep_own_memory_private()
    try:
        _send(node, config, RowFollower(config, int(sys.argv[1])), ended)
    except MultipandaError as error:
        node.get_logger().warning(f"no pictures of the scene: {error}")
    node.destroy_node()
    rclpy.try_shutdown()
    return 0


def _send(
    node: rclpy.node.Node, config: CellConfig, follower: RowFollower, ended: threading.Event
) -> None:
    """Draw whenever a camera is due.

    Raises:
        RenderingUnavailable: If nothing can be drawn here.
    """
    view, renderers = SceneView(config), dict[tuple[int, int], Renderer]()
    view.model.vis.quality.shadowsize, view.model.vis.quality.offsamples = SHADOWS, SAMPLES
    for camera in config.cameras.values():
        size = (camera.width, camera.height)
        if size not in renderers:
            renderers[size] = Renderer(view.model, *size)
    topics = [CameraTopics(node, name, one, view) for name, one in config.cameras.items()]
    fixed = node.create_publisher(TFMessage, "/tf_static", KEPT)
    if config.cell.tf_rate:  # else somebody else sends all frames
        frames = [optical_frame(view, name, WORLD) for name in config.cameras]
        fixed.publish(TFMessage(transforms=frames))
    clock, executor = NodeClock(node.get_clock()), make_executor()
    executor.add_node(node)
    os.nice(NICENESS)  # from here on; on a busy machine nobody would know that there are pictures
    while not ended.is_set():
        pause = min(topic.due for topic in topics) - time.monotonic()
        executor.spin_once(timeout_sec=min(max(pause, 0.0), LONGEST))
        due = [topic for topic in topics if topic.is_due(time.monotonic())]
        if not due or (row := follower.newest()) is None or not clock.has_begun:
            continue
        stamp = world_time(row) if config.cell.clock_rate else clock.stamp(int(row["wake_ns"]))
        view.show(row)
        for topic in due:
            picture = renderers[topic.width, topic.height].frame(view.data, topic.name)
            topic.send(picture, stamp, int(row["cycle"]))
    executor.shutdown()
    for renderer in renderers.values():
        renderer.close()


if __name__ == "__main__":
    leave(main())  # drivers of OpenGL leave threads that hold up a normal end
