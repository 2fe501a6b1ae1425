# SPDX-License-Identifier: Apache-2.0
"""The ROS 2 face of a cell; the only part of the package that imports rclpy."""
