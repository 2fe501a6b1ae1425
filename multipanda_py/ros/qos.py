# SPDX-License-Identifier: Apache-2.0
"""Quality of service of every topic; doc/ros_interface.md has it topic by topic."""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

TARGETS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Asks for the least, so that every publisher matches; only the newest target counts."""
STATES = QoSProfile(depth=1)
"""Offered reliably, so that subscribers of either kind match; only the newest counts."""
KEPT = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""Said once, and kept for who comes later: descriptions, fixed transforms, names."""
TRANSFORMS = QoSProfile(depth=100)
"""What tf2's listeners ask for."""
NUMBERS = QoSProfile(depth=10)
"""Of which a plot wants every one: diagnostics, introspection."""
CLOCK = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""As whoever lives by ``/clock`` asks for."""
REQUESTS = QoSProfile(depth=1000)
"""Of services, of all clients together: of more that come while the node is busy the middleware
drops the oldest, and who asked waits for ever. ROS 2 has 10 unless told otherwise."""
