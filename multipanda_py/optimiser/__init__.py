# SPDX-License-Identifier: Apache-2.0
"""Optimisation of paths and postures of arms and movable things, by several slices at a time."""

from __future__ import annotations

from multipanda_py.optimiser.clearances import clearances
from multipanda_py.optimiser.contacts import Slides, Stays, Touches
from multipanda_py.optimiser.distance import Distance
from multipanda_py.optimiser.goals import Axis, Orientation, PoseGoal, Position, RelativePose
from multipanda_py.optimiser.motion import (
    AccelerationLimits,
    Near,
    Rest,
    Smoothness,
    VelocityLimits,
    WithinLimits,
)
from multipanda_py.optimiser.objective import Objective
from multipanda_py.optimiser.path_search import find_path
from multipanda_py.optimiser.posture import inverse_kinematics
from multipanda_py.optimiser.problem import Problem
from multipanda_py.optimiser.scene import Scene
from multipanda_py.optimiser.solution import Solution, Violation
from multipanda_py.optimiser.solver import SolverSettings

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
