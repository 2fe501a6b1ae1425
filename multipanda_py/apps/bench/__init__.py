# SPDX-License-Identifier: Apache-2.0
"""Measurements of ``multipanda bench`` and their reports.

Modules that measure do not import those that report: a report is made from plain dictionaries of
figures. All code that uses ROS runs in child processes, from modules in ``ros/``.
"""
