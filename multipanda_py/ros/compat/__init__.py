# SPDX-License-Identifier: Apache-2.0
"""Compatible names and messages for clients of franka_ros2 and CRISP."""
