# SPDX-License-Identifier: Apache-2.0
"""Bounds on position and speed of a target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pinocchio as pin
from numpy import add, dot, multiply, subtract

from multipanda_py.context import Context
from multipanda_py.control.reference.held_reference import HeldReferenceReporter
from multipanda_py.feature import Feature
from multipanda_py.parameters import number, vector
from multipanda_py.state import ArmState, Matrix, Vector
from multipanda_py.targets import CartesianTarget

_log3, _exp3 = pin.log3, pin.exp3
REPORT_DISTANCE = 0.01
"""Distance of a target from the box above which the target is reported [m]."""


@dataclass(frozen=True, eq=False)
class WorkspaceParams:
    """Parameters of ``Workspace``: corners of the box and maximum speeds."""

    lower: Vector = vector(
        -0.9, -0.9, -0.3, unit="m", low=-2, high=2, doc="minimum target position in the base"
    )
    upper: Vector = vector(
        0.9, 0.9, 1.2, unit="m", low=-2, high=2, doc="maximum target position in the base"
    )
    linear_speed: float = number(
        0.5, unit="m/s", low=0.001, high=3, doc="maximum speed of the reference"
    )
    angular_speed: float = number(
        1.5, unit="rad/s", low=0.001, high=10, doc="maximum angular speed of the reference"
    )


class Workspace(Feature[WorkspaceParams]):
    """Limit of the target to a box and to maximum speeds.

    Equations::

        p_k = p_(k-1) + delta min(1, v T / |delta|)
        delta = clamp(p_d, l, u) - p_(k-1)

    - p_k: Reference position in cycle k, (3,) [m].
    - p_d: Target position, (3,) [m]; delta: desired step, (3,) [m].
    - l, u: ``lower`` and ``upper`` corners of the box, (3,) [m].
    - v: ``linear_speed`` [m/s]; T: cycle time [s].

    The rotation is limited to ``angular_speed`` in the same manner. A target twist is scaled to
    the same speeds. The box is along the axes of each arm's base. If ``lower`` exceeds ``upper``,
    ``lower`` applies. At the activation, the reference is the measured pose, even outside the box.
    The first target moves it into the box.
    """

    Params = WorkspaceParams
    requires = ("position_ee_in_base", "rotation_ee_in_base")
    order = -1

    def __init__(self, context: Context, params: WorkspaceParams) -> None:
        n = context.n_arms
        self._commanded_positions = [np.zeros(3) for _ in range(n)]
        self._goal = [np.zeros(3) for _ in range(n)]
        self._goal_rotation: list[Matrix] = [np.eye(3) for _ in range(n)]
        self._position = [np.zeros(3) for _ in range(n)]
        self._rotation: list[Matrix] = [np.eye(3) for _ in range(n)]
        self._is_requested, self._moving, self._turning = ([False] * n for _ in range(3))
        self._step, self._rotation_step = np.zeros(3), np.zeros((3, 3))
        self._outside, self._cycle = [0.0] * n, 0
        self._held = [HeldReferenceReporter(context, arm.name) for arm in context.arms]
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Limit the current targets to the new box."""
        for arm in range(self.context.n_arms):
            if self._is_requested[arm]:
                self._clamp(arm)

    def _clamp(self, arm: int) -> None:
        p = self.params
        self._goal[arm][:] = np.maximum(
            np.minimum(self._commanded_positions[arm], p.upper), p.lower
        )
        self._outside[arm] = float(np.abs(self._goal[arm] - self._commanded_positions[arm]).max())
        self._moving[arm] = True

    def on_activate(self, states: Sequence[ArmState], target: Any) -> None:
        """Start all references at the initial target of the controllet."""
        for arm in range(len(states)):
            self._position[arm][:] = target.position_ee_in_base[arm]
            self._rotation[arm][:] = target.rotation_ee_in_base[arm]
            self._is_requested[arm] = self._moving[arm] = self._turning[arm] = False
            self._outside[arm] = 0.0
            self._held[arm].reset()

    def on_target(self, channel: str, arm_index: int, target: CartesianTarget) -> None:
        """Store a target pose, or scale a target twist."""
        if channel == "pose":
            self._commanded_positions[arm_index][:] = target.position_ee_in_base[arm_index]
            self._goal_rotation[arm_index][:] = target.rotation_ee_in_base[arm_index]
            self._is_requested[arm_index] = self._turning[arm_index] = True
            self._clamp(arm_index)
        elif channel == "twist":
            twist = target.data["twist"][arm_index]
            for part, bound in (
                (twist[:3], self.params.linear_speed),
                (twist[3:], self.params.angular_speed),
            ):
                part *= bound / max(math.sqrt(dot(part, part)), bound)

    def prepare(self, states: Sequence[ArmState], target: CartesianTarget, period: float) -> None:
        """Advance every reference towards its target."""
        self._cycle += 1
        for arm in range(len(states)):
            if self._moving[arm]:
                self._move(arm, self.params.linear_speed * period)
            if self._turning[arm]:
                self._rotate(arm, self.params.angular_speed * period)
            if self._is_requested[arm]:
                target.position_ee_in_base[arm][:] = self._position[arm]
                target.rotation_ee_in_base[arm][:] = self._rotation[arm]
            is_held, held = self._outside[arm] > REPORT_DISTANCE, self._held[arm]
            if is_held or held.cycles:
                held.update(is_held, self._cycle, partial(self._exceeded_bound_text, arm))

    def _exceeded_bound_text(self, arm: int) -> str:
        axis = int(np.abs(self._goal[arm] - self._commanded_positions[arm]).argmax())
        requested, bound = self._commanded_positions[arm][axis], self._goal[arm][axis]
        return (
            f"workspace ends at {'xyz'[axis]} = {bound:.3f} m. The target is at {requested:.3f} m"
        )

    def _move(self, arm: int, max_value: float) -> None:
        position, goal = self._position[arm], self._goal[arm]
        step = subtract(goal, position, self._step)
        length = math.sqrt(dot(step, step))
        if length <= max_value:
            position[:] = goal
            self._moving[arm] = False
        else:
            add(position, multiply(step, max_value / length, step), position)

    def _rotate(self, arm: int, max_value: float) -> None:
        rotation, goal = self._rotation[arm], self._goal_rotation[arm]
        rotation_angle = _log3(dot(goal, rotation.T, self._rotation_step))
        angle = math.sqrt(dot(rotation_angle, rotation_angle))
        if angle <= max_value:
            rotation[:] = goal
            self._turning[arm] = False
        else:
            rotation[:] = dot(
                _exp3(rotation_angle * (max_value / angle)), rotation, self._rotation_step
            )
