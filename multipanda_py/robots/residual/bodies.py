# SPDX-License-Identifier: Apache-2.0
"""Torques from differences between the link inertias of a robot and of its simulation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.state import Matrix, Vector

_rnea = pin.rnea
MIN_MASS_DIFFERENCE = 1e-4
"""Minimum absolute difference of a mass [kg], since pinocchio divides first moments by masses."""
PART_SHAPES = {"placements": (4, 4), "axes": (3,), "slides": (), "parameters": (10,)}
"""Shapes of the stored arrays, per joint."""


class BodyDifference:
    r"""Torques from the differences of inertial parameters between a robot and its simulation.

    .. math:: \tau_b = Y(q, \dot q, \ddot q)\, \Delta\pi

    with the regressor Y (Atkeson, An and Hollerbach, Int. J. Robotics Research 1986) and the
    differences :math:`\Delta\pi`.

    Args:
        placements: Pose of every joint in the parent link, (n, 4, 4).
        axes: Axis of every joint in its frame, (n, 3).
        slides: 1 for prismatic joints, 0 for revolute joints, (n,).
        gravity: Gravity in the base, (3,) [m/s^2].
        parameters: Differences :math:`\Delta\pi` (robot minus simulation) of mass, first and
            second moments about the joint's frame, in the order of pinocchio, (n, 10).

    Raises:
        ConfigurationError: A shape does not fit, or a number is not finite.

    Thread: one at a time.
    """

    def __init__(
        self, placements: Matrix, axes: Matrix, slides: Vector, gravity: Vector, parameters: Matrix
    ) -> None:
        self.parts = {
            "placements": placements, "axes": axes, "slides": slides, "gravity": gravity,
            "parameters": parameters,
        }  # fmt: skip
        n = len(axes)
        for name, part in self.parts.items():
            allowed = (3,) if name == "gravity" else (n, *PART_SHAPES[name])
            if np.shape(part) != allowed or not np.isfinite(part).all():
                raise ConfigurationError(
                    f"bodies' {name}: got shape {np.shape(part)}, allowed shape {allowed} with "
                    "finite numbers"
                )
        self._model = pin.Model()
        for number in range(n):
            kind = pin.JointModelPrismaticUnaligned if slides[number] else _turning
            placement = pin.SE3(placements[number, :3, :3], placements[number, :3, 3])
            joint = self._model.addJoint(
                number, kind(axes[number]), placement, f"joint_{number + 1}"
            )
            self._model.inertias[joint] = _inertia_from_differences(parameters[number])
        self._model.gravity = pin.Motion(np.asarray(gravity, float), np.zeros(3))
        self._data: Any = self._model.createData()

    @classmethod
    def of_parts(cls, parts: Mapping[str, Any]) -> BodyDifference:
        """Create the object from the named arguments of its constructor, as stored in a file.

        Raises:
            ConfigurationError: An argument is missing or has a wrong shape.
        """
        missing = [name for name in (*PART_SHAPES, "gravity") if name not in parts]
        if missing:
            raise ConfigurationError(f"bodies: parts are missing: {', '.join(missing)}")
        return cls(**{name: np.asarray(parts[name], float) for name in (*PART_SHAPES, "gravity")})

    @property
    def gravity(self) -> Vector:
        """Gravitational acceleration in the base, (3,) [m/s^2]."""
        gravity: Vector = np.array(self.parts["gravity"])
        return gravity

    def torques(self, q: Vector, dq: Vector, ddq: Vector) -> Vector:
        """Return the torques of a state, (n,) [Nm]; the next call changes the array.

        Args:
            q: Joint positions, (n,) [rad].
            dq: Joint velocities, (n,) [rad/s].
            ddq: Joint accelerations, (n,) [rad/s^2].
        """
        torques: Vector = _rnea(self._model, self._data, q, dq, ddq)
        return torques

    def run(self, q: Matrix, dq: Matrix, rate: float) -> Matrix:
        """Return the torques of a motion, (k, n) [Nm]. Accelerations are backward differences.

        Args:
            q: Joint positions, (k, n) [rad].
            dq: Joint velocities, (k, n) [rad/s].
            rate: Sample rate [Hz].
        """
        ddq = accelerations(dq, rate)
        return np.array([self.torques(*row).copy() for row in zip(q, dq, ddq)]).reshape(q.shape)


def accelerations(dq: Matrix, rate: float) -> Matrix:
    """Return backward differences of velocities, (k, n) [rad/s^2]; zero for the first sample."""
    accelerations: Matrix = np.diff(dq, axis=0, prepend=dq[:1]) * rate
    return accelerations


def _turning(axis: Vector) -> Any:
    return pin.JointModelRevoluteUnaligned(axis)


def _inertia_from_differences(parameters: Vector) -> Any:
    value = np.array(parameters, float)
    if abs(value[0]) < MIN_MASS_DIFFERENCE:  # pinocchio divides by the mass.
        value[0] = MIN_MASS_DIFFERENCE
    return pin.Inertia.FromDynamicParameters(value)
