# SPDX-License-Identifier: Apache-2.0
"""What was measured of the springs of one joint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.actuator import Actuator
from multipanda_py.exceptions import IdentificationRefused
from multipanda_py.state import Matrix, Vector

TORQUES = {"tau": "link", "tau_1": "motor_1", "tau_2": "motor_2"}
"""Columns with torques, and what of :class:`.ElasticTorque` they are."""
PLACES = ("q", "theta_1", "theta_2", "equilibrium", "preset", "deflection")
_FORMS = (
    "q, theta_1 and theta_2, or q, equilibrium and preset, or deflection and preset (without "
    "theta_2 and preset if there is one motor)"
)


@dataclass(frozen=True, eq=False)
class SpringData:
    """Where a joint and its motors stood, and what the springs exerted; a row for each sample.

    Attributes:
        q: Angle of the joint, (N,) [rad].
        theta_1: Of the first motor, likewise.
        theta_2: Of the second motor, likewise [rad, or in the unit of the preset].
        torques: Measured torques, (N, m) [Nm].
        names: Which of ``TORQUES`` they are, m of them.
    """

    q: Vector
    theta_1: Vector
    theta_2: Vector
    torques: Matrix
    names: tuple[str, ...]

    @classmethod
    def of(
        cls, columns: Mapping[str, ArrayLike], springs: Actuator[Any], where: str
    ) -> SpringData:
        """Return the data that columns hold; others are not looked at.

        Args:
            columns: ``tau``, and if measured ``tau_1`` and ``tau_2`` [Nm]; and where joint and
                motors stood: ``q``, ``theta_1`` and ``theta_2``, or ``q``, ``equilibrium`` and
                ``preset``, or ``deflection`` and ``preset``, where the deflection is that of the
                equilibrium from the joint.
            springs: Of one joint, for the map from equilibrium and preset to motors.
            where: For messages.

        Raises:
            IdentificationRefused: If columns are missing, of different lengths or not finite.
        """
        names = tuple(name for name in TORQUES if name in columns)
        if not names:
            raise IdentificationRefused(
                f"{where}: torques: missing, allowed {', '.join(TORQUES)}; got {_list(columns)}"
            )
        found = _numbers(columns, (*names, *(p for p in PLACES if p in columns)), where)
        return cls(
            *_positions(found, springs, where, _list(columns)),
            np.column_stack([found[name] for name in names]),
            names,
        )

    def __len__(self) -> int:
        return len(self.q)

    def every(self, count: int) -> SpringData:
        """Return at most so many of the rows, evenly."""
        rows = np.linspace(0, len(self) - 1, min(count, len(self))).astype(int)
        at = (self.q[rows], self.theta_1[rows], self.theta_2[rows])
        return SpringData(*at, self.torques[rows], self.names)

    def told_by(self, springs: Actuator[Any]) -> NDArray[np.float64]:
        """Return what springs of k joints would exert here, (N, k, m)."""
        columns = (self.q[:, None], self.theta_1[:, None], self.theta_2[:, None])
        found = springs.elastic_torque(*columns)
        shape = (len(self), springs.n_joints)
        return np.stack(
            [np.broadcast_to(getattr(found, TORQUES[name]), shape) for name in self.names], -1
        )


def _positions(
    found: Mapping[str, Vector], springs: Actuator[Any], where: str, given: str
) -> tuple[Vector, Vector, Vector]:
    """Return where the joint and its motors stood."""
    zero = np.zeros(len(next(iter(found.values()))))
    second = springs.n_motors == 2
    if {"q", "theta_1"} <= set(found) and ("theta_2" in found or not second):
        return found["q"], found["theta_1"], found["theta_2"] if second else zero
    if "preset" in found or not second:
        preset = found["preset"] if second else zero
        if "deflection" in found:
            return (zero, *springs.references(found["deflection"], preset))
        if {"q", "equilibrium"} <= set(found):
            return (found["q"], *springs.references(found["equilibrium"], preset))
    raise IdentificationRefused(f"{where}: places: got {given}, allowed {_FORMS}")


def _numbers(
    columns: Mapping[str, ArrayLike], names: tuple[str, ...], where: str
) -> dict[str, Vector]:
    found = {}
    for name in names:
        try:
            values = np.asarray(columns[name], dtype=np.float64)
        except (TypeError, ValueError):
            raise IdentificationRefused(f"{where}: {name}: got what are no numbers") from None
        if values.ndim != 1:
            raise IdentificationRefused(
                f"{where}: {name}: got an array of shape {values.shape}, allowed a column"
            )
        for row in np.flatnonzero(~np.isfinite(values)):
            raise IdentificationRefused(
                f"{where}: {name}: got {values[row]:g} in row {row + 1}, allowed finite numbers"
            )
        found[name] = values
    lengths = {name: len(values) for name, values in found.items()}
    if len(set(lengths.values())) > 1:
        text = ", ".join(f"{count} of {name}" for name, count in lengths.items())
        raise IdentificationRefused(f"{where}: got {text}, allowed as many of each")
    return found


def _list(columns: Mapping[str, Any]) -> str:
    return ", ".join(map(str, columns)) or "none"
