# SPDX-License-Identifier: Apache-2.0
"""Client of the soak: targets at 1 kHz for both arms; switches and parameters every second."""

from __future__ import annotations

import itertools
import math
import time

import rclpy
from controller_manager_msgs.srv import ListControllers, SwitchController
from geometry_msgs.msg import PoseStamped
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters

ARMS = ("left", "right")
JOINT, CONTROLLET = "joint_impedance_controller", "cartesian_impedance_controller"
PERIOD = 0.001  # of targets [s]
TARGETS_PER_REQUEST = 1000
STIFFNESS = (400.0, 300.0)


def main() -> None:
    """Publish targets and send requests until a signal ends the process."""
    rclpy.init()
    node = rclpy.create_node("soak_user")
    newest: dict[str, PoseStamped] = {}
    publishers = {}
    for arm in ARMS:
        node.create_subscription(
            PoseStamped, f"/{arm}/current_pose", lambda m, arm=arm: newest.setdefault(arm, m), 1
        )
        publishers[arm] = node.create_publisher(PoseStamped, f"/{arm}/target_pose", 1)
    switch = node.create_client(SwitchController, "/controller_manager/switch_controller")
    lister = node.create_client(ListControllers, "/controller_manager/list_controllers")
    setters = [
        node.create_client(SetParameters, f"/{arm}/{CONTROLLET}/set_parameters") for arm in ARMS
    ]
    while len(newest) < len(ARMS) or not all(
        client.service_is_ready() for client in (switch, *setters)
    ):
        rclpy.spin_once(node, timeout_sec=0.1)
    home = {arm: message.pose.position.z for arm, message in newest.items()}
    started = time.monotonic()
    for tick in itertools.count(1):
        if (wait := started + tick * PERIOD - time.monotonic()) > 0.0:
            time.sleep(wait)
        for arm, message in newest.items():
            message.header.stamp.sec = message.header.stamp.nanosec = 0
            message.pose.position.z = home[arm] + 0.02 * (1.0 - math.cos(tick * PERIOD))
            publishers[arm].publish(message)
        if tick % TARGETS_PER_REQUEST == 0:
            for controllet in (JOINT, CONTROLLET):
                names = [f"{arm}/{controllet}" for arm in ARMS]
                switch.call_async(
                    SwitchController.Request(activate_controllers=names, strictness=4)
                )
            k = STIFFNESS[tick // TARGETS_PER_REQUEST % 2]
            value = ParameterValue(
                type=ParameterType.PARAMETER_DOUBLE_ARRAY,
                double_array_value=[k, k, k, 20.0, 20.0, 20.0],
            )
            for client in setters:
                client.call_async(
                    SetParameters.Request(parameters=[Parameter(name="stiffness", value=value)])
                )
            lister.call_async(ListControllers.Request())
        if tick % 10 == 0:
            rclpy.spin_once(node, timeout_sec=0.0)


if __name__ == "__main__":
    main()
