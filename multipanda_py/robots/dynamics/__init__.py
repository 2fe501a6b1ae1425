# SPDX-License-Identifier: Apache-2.0
"""Kinematics and dynamics of arms: inertia, gravity and external torques."""
