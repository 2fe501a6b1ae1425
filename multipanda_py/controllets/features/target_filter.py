# SPDX-License-Identifier: Apache-2.0
"""Low-pass filter for targets with steps or noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.context import Context
from multipanda_py.feature import Feature
from multipanda_py.parameters import number
from multipanda_py.state import ArmState, Vector

_dot, _exp3, _log3 = np.dot, pin.exp3, pin.log3
_ARRIVAL_GAP = 1e-9
"""Gap below which the filter output equals the target [m, rad]."""


@dataclass(frozen=True, eq=False)
class TargetFilterParams:
    """Parameters of ``TargetFilter``."""

    time_constant: float = number(
        0.1, unit="s", low=0, high=10,
        doc="time constant of the low-pass filter on targets; 0 disables it",
    )  # fmt: skip


class TargetFilter(Feature[TargetFilterParams]):
    """Low-pass filter of poses, object poses and joint targets.

    Equations::

        x[k+1] = x[k] + s (x_d - x[k])
        R[k+1] = exp(s log(R_d R[k]^T)) R[k]
        s      = 1 - exp(-T / T_f)

    - x: Filtered position, joint positions or joint velocities; x_d: target.
    - R, R_d: Filtered and target rotation.
    - s: Filter gain per cycle; T: cycle time [s]; T_f: ``time_constant`` [s].

    The output ends exactly at the target, and follows a ramp with a lag of T_f. Twists are not
    filtered.

    Source: CRISP, section III-G.
    """

    Params = TargetFilterParams
    order = -2

    def __init__(self, context: Context, params: TargetFilterParams) -> None:
        self._parts: list[tuple[bool, Vector, Vector]] = []
        self._bound = False
        super().__init__(context, params)

    def on_parameters(self) -> None:
        time = self.params.time_constant
        self._filter_gain = -math.expm1(-self.context.period / time) if time > 0.0 else 1.0

    def on_activate(self, states: Sequence[ArmState], target: Any) -> None:
        """Start all filters at the initial target of the controllet."""
        if not self._bound:
            self._parts = [
                (name != "joint", record, np.zeros(len(record)))
                for name in ("pose", "joint", "object")
                for record in target.data.get(name, ())
            ]
            self._bound = True
        for _, record, filtered in self._parts:
            filtered[:] = record

    def prepare(self, states: Sequence[ArmState], target: Any, period: float) -> None:
        """Advance the filters by one cycle, and write their outputs to ``target``."""
        for is_pose, record, filtered in self._parts:
            if record.tobytes() == filtered.tobytes():
                continue
            if is_pose:
                self._follow(record[:3], filtered[:3])
                self._filter_rotation(record[3:].reshape(3, 3), filtered[3:].reshape(3, 3))
            else:
                self._follow(record, filtered)
            record[:] = filtered

    def _follow(self, goal: Vector, filtered: Vector) -> None:
        gap = goal - filtered
        if math.sqrt(_dot(gap, gap)) < _ARRIVAL_GAP:
            filtered[:] = goal
        else:
            filtered += self._filter_gain * gap

    def _filter_rotation(self, goal: Vector, filtered: Vector) -> None:
        gap = _log3(_dot(goal, filtered.T))
        if math.sqrt(_dot(gap, gap)) < _ARRIVAL_GAP:
            filtered[:] = goal
        else:
            filtered[:] = _dot(_exp3(self._filter_gain * gap), filtered)
