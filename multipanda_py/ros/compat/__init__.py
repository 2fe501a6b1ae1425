# SPDX-License-Identifier: Apache-2.0
"""Names and messages of franka_ros2 and CRISP."""
