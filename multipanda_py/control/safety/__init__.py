# SPDX-License-Identifier: Apache-2.0
"""Limits of torque, speed and distance."""
