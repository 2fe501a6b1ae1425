# SPDX-License-Identifier: Apache-2.0
"""What a policy asked for, what laws were told, and where the tools went."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.gym.control import Control
from multipanda_py.state import Matrix, Vector


class RunLog:
    """Keep a row a step, and how far compliant arms were from what they were to do.

    Args:
        controls: What actions mean, by arm.

    Attributes:
        arms: Names.
    """

    def __init__(self, controls: Mapping[str, Control]) -> None:
        self.arms = tuple(controls)
        self._followed = {arm: control.followed for arm, control in controls.items()}
        self._rows: dict[str, list[Any]] = {}

    def add(
        self, *, time: float, action: Vector, age: float, held: bool, seen: Mapping[str, Any]
    ) -> None:
        """Add a step.

        Args:
            time: At its beginning [s].
            action: That was sent, (k,).
            age: Of the observation that it comes from [s]; nan in hold.
            held: Whether there was no action of the policy.
            seen: Observation after the step.
        """
        row: dict[str, Any] = {"time": time, "action": action, "age": age, "held": held}
        for arm in self.arms:
            row[f"{arm}/target"] = seen[arm]["target"]
            row[f"{arm}/measured"] = seen[arm][self._followed[arm]]
        for key, value in row.items():
            self._rows.setdefault(key, []).append(np.array(value))

    def __len__(self) -> int:
        return len(self._rows.get("time", ()))

    def __getitem__(self, key: str) -> Any:
        """Return a column, a step a row: ``time``, ``action``, ``left/target`` ..."""
        return np.array(self._rows[key])

    def residual(self, arm: str) -> Matrix:
        """Return target minus measured after each step, (n, m).

        Positions [m] and two columns of the rotation, or joints [rad, m].
        """
        measured = self[f"{arm}/measured"]
        difference: Matrix = self[f"{arm}/target"][:, : measured.shape[1]] - measured
        return difference

    def distance(self, arm: str) -> Vector:
        """Return how far the target was away, (n,): of a tool [m], of the furthest joint [rad]."""
        residual = self.residual(arm)
        if self._followed[arm] == "pose":
            apart: Vector = np.linalg.norm(residual[:, :3], axis=1)
            return apart
        furthest: Vector = np.abs(residual).max(axis=1)
        return furthest

    def save(self, path: str | Path) -> None:
        """Write all columns and residuals to an ``.npz`` file."""
        columns: dict[str, Any] = {key: self[key] for key in self._rows}
        columns |= {f"{arm}/residual": self.residual(arm) for arm in self.arms}
        np.savez(path, **columns)
