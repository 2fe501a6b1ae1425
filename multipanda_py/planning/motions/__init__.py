# SPDX-License-Identifier: Apache-2.0
"""Motions of arms: collision-free motions to goals, joint trajectories, and tool paths."""
