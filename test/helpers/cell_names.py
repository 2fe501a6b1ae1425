# SPDX-License-Identifier: Apache-2.0
"""Names of arms, joints and controllets in the shipped cells of two arms."""

from __future__ import annotations

ARMS = ("left", "right")
CARTESIAN, JOINT = "cartesian_impedance_controller", "joint_impedance_controller"
TRAJECTORY = "joint_trajectory_controller"
DUAL = "dual_cartesian_impedance_controller"
LEFT_CARTESIAN, LEFT_JOINT = f"left/{CARTESIAN}", f"left/{JOINT}"
LEFT_JOINTS = [f"left_fr3_joint{number}" for number in range(1, 8)]
"""Names of the joints of the left arm."""
IMPEDANCE = [f"{arm}/{CARTESIAN}" for arm in ARMS]
"""Cartesian impedance of each arm."""
