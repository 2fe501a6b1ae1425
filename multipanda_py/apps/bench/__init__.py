# SPDX-License-Identifier: Apache-2.0
"""Measurements of ``multipanda bench`` and their reports.

Modules that measure return plain dictionaries, which :mod:`.report` formats. Code that uses ROS
runs in child processes.
"""
