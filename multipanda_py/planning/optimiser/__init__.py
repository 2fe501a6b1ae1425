# SPDX-License-Identifier: Apache-2.0
"""Optimisation of paths and configurations of arms and movable objects.

A path consists of slices. A slice has the variables of all arms and movable objects at one time,
see :class:`.Scene`.
"""

from __future__ import annotations

from multipanda_py.planning.optimiser.configuration import inverse_kinematics
from multipanda_py.planning.optimiser.distance import Distance, clearances
from multipanda_py.planning.optimiser.goals import (
    Axis,
    Orientation,
    PoseGoal,
    Position,
    RelativePose,
    Slides,
    Stays,
    Touches,
)
from multipanda_py.planning.optimiser.path_search import find_path
from multipanda_py.planning.optimiser.problem import Problem
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.solver import Solution, SolverSettings, Violation
from multipanda_py.planning.optimiser.term import (
    AccelerationLimits,
    Near,
    Objective,
    Rest,
    Smoothness,
    VelocityLimits,
    WithinLimits,
)

__all__ = [
    "AccelerationLimits",
    "Axis",
    "Distance",
    "Near",
    "Objective",
    "Orientation",
    "PoseGoal",
    "Position",
    "Problem",
    "RelativePose",
    "Rest",
    "Scene",
    "Slides",
    "Smoothness",
    "Solution",
    "SolverSettings",
    "Stays",
    "Touches",
    "VelocityLimits",
    "Violation",
    "WithinLimits",
    "clearances",
    "find_path",
    "inverse_kinematics",
]
