# SPDX-License-Identifier: Apache-2.0
"""Kinematics, dynamics and distances of arms."""
