# SPDX-License-Identifier: Apache-2.0
"""Measured torques and positions of one elastic joint."""

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
"""Torque columns and the corresponding fields of :class:`.ElasticTorque`."""
POSITION_COLUMNS = ("q", "theta_1", "theta_2", "equilibrium", "preset", "deflection")
_FORMS = (
    "q, theta_1 and theta_2, or q, equilibrium and preset, or deflection and preset (without "
    "theta_2 and preset if there is one motor)"
)


@dataclass(frozen=True, eq=False)
class SpringData:
    """Positions of a joint and its motors and the spring torques of N samples.

    Attributes:
        q: Joint angles, (N,) [rad].
        theta_1: Positions of the first motor, (N,) [rad].
        theta_2: Positions of the second motor, (N,) [rad or unit of the preset].
        torques: Measured torques, (N, m) [Nm].
        names: Names of the torque columns from ``TORQUES``, (m,).
    """

    q: Vector
    theta_1: Vector
    theta_2: Vector
    torques: Matrix
    names: tuple[str, ...]

    @classmethod
    def of(cls, columns: Mapping[str, ArrayLike], springs: Actuator[Any], path: str) -> SpringData:
        """Convert measured columns. Unknown columns are ignored.

        Args:
            columns: Torques ``tau`` and optionally ``tau_1`` and ``tau_2`` [Nm], and positions of
                joint and motors. The positions are ``q``, ``theta_1`` and ``theta_2``, or ``q``,
                ``equilibrium`` and ``preset``, or ``deflection`` and ``preset``. The deflection is
                the equilibrium minus the joint angle.
            springs: Actuator of one joint, which maps equilibrium and preset to motor positions.
            path: Prefix of error messages.

        Raises:
            IdentificationRefused: If columns are missing, have different lengths or are not
                finite.
        """
        names = tuple(name for name in TORQUES if name in columns)
        if not names:
            raise IdentificationRefused(
                f"{path}: torques: missing, allowed {', '.join(TORQUES)}; got {_list(columns)}"
            )
        result = _numbers(columns, (*names, *(p for p in POSITION_COLUMNS if p in columns)), path)
        return cls(
            *_positions(result, springs, path, _list(columns)),
            np.column_stack([result[name] for name in names]),
            names,
        )

    def __len__(self) -> int:
        return len(self.q)

    def every(self, count: int) -> SpringData:
        """Return up to ``count`` evenly spaced samples."""
        rows = np.linspace(0, len(self) - 1, min(count, len(self))).astype(int)
        at = (self.q[rows], self.theta_1[rows], self.theta_2[rows])
        return SpringData(*at, self.torques[rows], self.names)

    def predicted_torques(self, springs: Actuator[Any]) -> NDArray[np.float64]:
        """Return the torques that the springs of k joints predict, (N, k, m)."""
        columns = (self.q[:, None], self.theta_1[:, None], self.theta_2[:, None])
        result = springs.elastic_torque(*columns)
        shape = (len(self), springs.n_joints)
        return np.stack(
            [np.broadcast_to(getattr(result, TORQUES[name]), shape) for name in self.names], -1
        )


def _positions(
    positions: Mapping[str, Vector], springs: Actuator[Any], path: str, source: str
) -> tuple[Vector, Vector, Vector]:
    """Return the positions of the joint and of its motors."""
    zero = np.zeros(len(next(iter(positions.values()))))
    second = springs.n_motors == 2
    if {"q", "theta_1"} <= set(positions) and ("theta_2" in positions or not second):
        return positions["q"], positions["theta_1"], positions["theta_2"] if second else zero
    if "preset" in positions or not second:
        preset = positions["preset"] if second else zero
        if "deflection" in positions:
            return (zero, *springs.references(positions["deflection"], preset))
        if {"q", "equilibrium"} <= set(positions):
            return (positions["q"], *springs.references(positions["equilibrium"], preset))
    raise IdentificationRefused(f"{path}: positions: got {source}, allowed {_FORMS}")


def _numbers(
    columns: Mapping[str, ArrayLike], names: tuple[str, ...], path: str
) -> dict[str, Vector]:
    numbers = {}
    for name in names:
        try:
            values = np.asarray(columns[name], dtype=np.float64)
        except (TypeError, ValueError):
            raise IdentificationRefused(
                f"{path}: {name}: contains values that are not numbers"
            ) from None
        if values.ndim != 1:
            raise IdentificationRefused(
                f"{path}: {name}: got an array of shape {values.shape}, allowed a column"
            )
        for row in np.flatnonzero(~np.isfinite(values)):
            raise IdentificationRefused(
                f"{path}: {name}: got {values[row]:g} in row {row + 1}, allowed finite numbers"
            )
        numbers[name] = values
    lengths = {name: len(values) for name, values in numbers.items()}
    if len(set(lengths.values())) > 1:
        text = ", ".join(f"{count} of {name}" for name, count in lengths.items())
        raise IdentificationRefused(f"{path}: got {text} values, allowed equal numbers of each")
    return numbers


def _list(columns: Mapping[str, Any]) -> str:
    return ", ".join(map(str, columns)) or "none"
