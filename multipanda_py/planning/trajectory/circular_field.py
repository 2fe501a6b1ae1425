# SPDX-License-Identifier: Apache-2.0
"""Reactive motion to a goal around obstacles, by artificial magnetic fields."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.state import Vector

_MIN_DISTANCE = 0.02
"""Distance below which a field no longer increases [m]."""
_MIN_SPEED = 1e-6
"""Speed below which the direction of motion is undefined [m/s]."""


@dataclass
class FieldObstacle:
    """Sphere with constant velocity, whose field deflects a point around it.

    Attributes:
        position: Position of the centre, (3,) [m].
        velocity: Velocity of the centre, (3,) [m/s].
        radius: Radius [m].
        axis: Axis about which the field leads around the sphere, unit vector, (3,).
    """

    position: Vector
    velocity: Vector
    radius: float
    axis: Vector


class CircularField:
    r"""Motion of a point to goals among obstacles whose surfaces carry circular currents.

    The field of an obstacle causes the acceleration

    .. math:: F = \frac{k}{d^2}\; \hat v \times (c \times \hat v).

    :math:`\hat v` is the direction of the velocity of the point relative to the obstacle, and d
    the distance from the surface. The current is c = n x b for the direction n to the centre and
    the axis b. The field leads around the obstacle without changing the speed. The goal
    :math:`x_g` attracts the point x, which has the velocity v,

    .. math:: a = k_v\,(\nu \tfrac{k_p}{k_v}(x_g - x) - v), \quad
              \nu = \min(1, \tfrac{v_{max}}{|k_p/k_v\,(x_g - x)|}).

    The factor :math:`\nu` limits the speed to :math:`v_{max}`.

    Sources: L. Singh et al. (ICRA 1996), S. Haddadin et al. (IFAC 2011), R. Laha et al. (IEEE T-RO
    40, 2024; reactive part of its planner, for one agent).

    Args:
        position: Initial position at rest, (3,) [m].
        obstacles: Obstacles, which :meth:`step` moves too.
        speed: Maximum speed towards the goal, :math:`v_{max}` [m/s].
        stiffness: Stiffness per unit mass, k_p [1/s^2].
        damping: Damping per unit mass, k_v [1/s].
        strength: Strength of the field, k [m^3/s^2].
        reach: Distance from a surface beyond which there is no field [m].

    Attributes:
        position: Position of the point, (3,) [m].
        velocity: Velocity of the point, (3,) [m/s].
    """

    def __init__(
        self,
        position: Vector,
        obstacles: list[FieldObstacle],
        speed: float = 0.15,
        stiffness: float = 20.0,
        damping: float = 9.0,
        strength: float = 4e-3,
        reach: float = 0.15,
    ) -> None:
        self.position, self.velocity = position.copy(), np.zeros(3)
        self.obstacles = obstacles
        self._speed, self._strength, self._reach = speed, strength, reach
        self._stiffness, self._damping = stiffness, damping

    def field_force(self, obstacle: FieldObstacle) -> Vector:
        """Return the acceleration by the field of one obstacle, (3,) [m/s^2]."""
        away = obstacle.position - self.position
        to_centre = float(np.sqrt(away @ away))
        distance = max(to_centre - obstacle.radius, _MIN_DISTANCE)
        motion = self.velocity - obstacle.velocity
        speed = float(np.sqrt(motion @ motion))
        if distance > self._reach or speed < _MIN_SPEED or away @ motion < 0.0:
            return np.zeros(3)
        current = _cross(away / to_centre, obstacle.axis)
        direction = motion / speed
        return (self._strength / distance**2) * _cross(direction, _cross(current, direction))

    def goal_force(self, goal: Vector) -> Vector:
        """Return the acceleration towards a goal, (3,) [m/s^2]."""
        desired = (self._stiffness / self._damping) * (goal - self.position)
        size = float(np.sqrt(desired @ desired))
        scale = min(1.0, self._speed / size) if size > 0.0 else 1.0
        force: Vector = self._damping * (scale * desired - self.velocity)
        return force

    def step(self, goal: Vector, period: float) -> Vector:
        """Integrate the motion to a goal for one period and return the new position, (3,) [m].

        Args:
            goal: Position of the goal, (3,) [m].
            period: Step size [s].
        """
        acceleration = self.goal_force(goal)
        for obstacle in self.obstacles:
            acceleration += self.field_force(obstacle)
            obstacle.position += period * obstacle.velocity
        self.velocity += period * acceleration
        self.position += period * self.velocity
        return self.position


def _cross(a: Vector, b: Vector) -> Vector:
    # Ten times as fast as numpy.cross.
    return np.array(
        [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    )
