# SPDX-License-Identifier: Apache-2.0
"""Measurements of ``multipanda bench`` and their reports.

Modules that measure do not depend on those that report. A report is made from plain dictionaries
of figures. All code that uses ROS runs in separate processes, from modules in ``ros/``.
"""
