# SPDX-License-Identifier: Apache-2.0
"""MuJoCo simulation of arms: scene, drivetrains, compliant actuators, grippers and rendering."""
