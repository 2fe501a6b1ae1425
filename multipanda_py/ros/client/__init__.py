# SPDX-License-Identifier: Apache-2.0
"""Clients of a running node, and processes that pass its topics to programs without ROS."""
