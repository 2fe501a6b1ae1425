# SPDX-License-Identifier: Apache-2.0
"""Measurements of ``multipanda bench`` and their reports.

Modules that measure return plain dictionaries; the report module formats these. All code that uses
ROS is in ``ros/`` and runs in child processes.
"""
