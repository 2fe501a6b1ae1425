# SPDX-License-Identifier: Apache-2.0
"""What ``multipanda bench`` measures, how, and how it reports.

Only the parts that measure know of one another; a report is made from plain figures. Whatever
speaks ROS is a process of its own, out of ``ros/``.
"""
