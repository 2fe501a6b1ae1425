# SPDX-License-Identifier: Apache-2.0
"""A client that says how long it took to find the switch service of every namespace it is told.

    python finder.py NAMESPACE [NAMESPACE ...]      # "/" for none

Prints the seconds from the making of its node until all answer, then ends.
"""

from __future__ import annotations

import os
import sys
import time

import rclpy
from controller_manager_msgs.srv import ListControllers

TIMEOUT_SCALE = 30.0
"""Of waiting for all [s]."""


def main(namespaces: list[str]) -> int:
    """Find all of them."""
    rclpy.init()
    begun = time.monotonic()
    node = rclpy.create_node(f"finder_{os.getpid()}", enable_rosout=False)
    clients = [
        node.create_client(
            ListControllers, f"{'' if one == '/' else one}/controller_manager/list_controllers"
        )
        for one in namespaces
    ]
    there = [client for client in clients if client.wait_for_service(TIMEOUT_SCALE)]
    waiting = [client.call_async(ListControllers.Request()) for client in there]
    while not all(future.done() for future in waiting):
        if time.monotonic() > begun + TIMEOUT_SCALE:
            return 1
        rclpy.spin_once(node, timeout_sec=0.01)
    os.write(1, f"{time.monotonic() - begun:.3f}\n".encode())
    return 0 if len(waiting) == len(clients) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
