# SPDX-License-Identifier: Apache-2.0
"""Motion planning: paths, trajectories, tasks, and configuration files for MoveIt 2."""
