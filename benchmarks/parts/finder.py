# SPDX-License-Identifier: Apache-2.0
"""Client that measures the discovery time of the controller managers of several namespaces.

    python finder.py NAMESPACE [NAMESPACE ...]      # "/": no namespace

Prints the time from the creation of its ROS node until all services have answered [s].
"""

from __future__ import annotations

import os
import sys
import time

import rclpy
from controller_manager_msgs.srv import ListControllers

TIMEOUT = 30.0
"""Timeout for all answers [s]."""


def main(namespaces: list[str]) -> int:
    """Call the service of each namespace; return 0 if all answer within the timeout."""
    rclpy.init()
    start = time.monotonic()
    node = rclpy.create_node(f"finder_{os.getpid()}", enable_rosout=False)
    clients = [
        node.create_client(
            ListControllers, f"{'' if one == '/' else one}/controller_manager/list_controllers"
        )
        for one in namespaces
    ]
    available = [client for client in clients if client.wait_for_service(TIMEOUT)]
    futures = [client.call_async(ListControllers.Request()) for client in available]
    while not all(future.done() for future in futures):
        if time.monotonic() > start + TIMEOUT:
            return 1
        rclpy.spin_once(node, timeout_sec=0.01)
    os.write(1, f"{time.monotonic() - start:.3f}\n".encode())
    return 0 if len(futures) == len(clients) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
