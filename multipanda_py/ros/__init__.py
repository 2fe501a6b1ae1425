# SPDX-License-Identifier: Apache-2.0
"""ROS 2 interface of a cell; only this package imports rclpy."""
