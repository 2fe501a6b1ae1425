# SPDX-License-Identifier: Apache-2.0
"""Smooth targets that come in steps or with noise."""

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
_ARRIVED = 1e-9
"""Gap that is closed at once [m, rad]."""


@dataclass(frozen=True, eq=False)
class TargetFilterParams:
    """Filter of :class:`TargetFilter`."""

    time_constant: float = number(
        0.1, unit="s", low=0, high=10, doc="of the low pass on targets; 0 is off"
    )


class TargetFilter(Feature[TargetFilterParams]):
    r"""Let poses, object poses and joint targets follow what was asked for with a time constant.

    .. math::
        x {+}= s\, (x_d - x), \qquad
        R \leftarrow \exp\left( s \log(R_d R^T) \right) R, \qquad s = 1 - e^{-T / T_f}

    which is a spherical interpolation for rotations, and exact for targets that stay as they are
    during a cycle. It ends on the target. Velocities of joint targets are filtered alike; twists
    are not. A ramp is followed with a lag of :math:`T_f`. Source: CRISP, section III-G.
    """

    Params = TargetFilterParams
    order = -2

    def __init__(self, context: Context, params: TargetFilterParams) -> None:
        self._parts: list[tuple[bool, Vector, Vector]] = []
        self._bound = False
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Prepare the share s."""
        time = self.params.time_constant
        self._share = -math.expm1(-self.context.period / time) if time > 0.0 else 1.0

    def on_activate(self, states: Sequence[ArmState], target: Any) -> None:
        """Begin where the law begins."""
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
        """Move the filters on, and write what they give to the target."""
        for is_pose, record, filtered in self._parts:
            if record.tobytes() == filtered.tobytes():
                continue
            if is_pose:
                self._follow(record[:3], filtered[:3])
                self._turn(record[3:].reshape(3, 3), filtered[3:].reshape(3, 3))
            else:
                self._follow(record, filtered)
            record[:] = filtered

    def _follow(self, goal: Vector, filtered: Vector) -> None:
        gap = goal - filtered
        if math.sqrt(_dot(gap, gap)) < _ARRIVED:
            filtered[:] = goal
        else:
            filtered += self._share * gap

    def _turn(self, goal: Vector, filtered: Vector) -> None:
        gap = _log3(_dot(goal, filtered.T))
        if math.sqrt(_dot(gap, gap)) < _ARRIVED:
            filtered[:] = goal
        else:
            filtered[:] = _dot(_exp3(self._share * gap), filtered)
