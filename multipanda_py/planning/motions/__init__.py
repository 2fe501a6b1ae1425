# SPDX-License-Identifier: Apache-2.0
"""Motions of arms: collision-free motions, and paths through configurations, poses and circles."""
