# SPDX-License-Identifier: Apache-2.0
"""Move the joints of an arm that is commanded velocities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from multipanda_py.context import Context
from multipanda_py.controllet import Controllet
from multipanda_py.parameters import number
from multipanda_py.planning.trajectory.trajectory import stoppable_rate
from multipanda_py.state import ArmState
from multipanda_py.targets import RateTarget, Report


@dataclass(frozen=True)
class JointRateParams:
    """Bounds of :class:`JointRate`."""

    timeout: float = number(
        0.1, unit="s", low=0.002, high=10, doc="after which a velocity not renewed is zero"
    )
    speed: float = number(0.8, low=0.01, high=1, doc="share of the joints' speed limits")
    margin: float = number(
        0.05, unit="rad", low=0, high=1, doc="how far before a position limit a joint stops"
    )


class JointRate(Controllet[RateTarget, JointRateParams]):
    r"""Command the joint velocities that somebody keeps asking for.

    .. math:: |\dot q_c| \le \min\left(s\, \dot q_{max},\; v(d)\right)

    with the largest velocity v(d) that leaves room to stop before a position limit
    (:func:`.stoppable_rate`). The arm has them as fast as its limits of acceleration and jerk
    allow. Velocities must be renewed within ``timeout``, else the arm brakes; a target with
    positions is refused. As ``joint_velocity``, for arms that take velocities.
    """

    Params, Target = JointRateParams, RateTarget
    command_interface = "velocity"
    plans_motion = True
    default_features: ClassVar[tuple[str, ...]] = ("collision_avoidance",)
    report_names = (Report("age of target", "s", "since the last velocity came"),)

    def __init__(self, context: Context, params: JointRateParams) -> None:
        self._age = [np.inf] * context.n_arms
        super().__init__(context, params)

    def on_activate(self, states: Sequence[ArmState], target: RateTarget) -> None:
        """Command no motion."""
        for arm, state in enumerate(states):
            target.q[arm][:], target.dq[arm][:] = state.q, 0.0
            self._age[arm] = np.inf

    def on_target(self, channel: str, place: int, target: RateTarget) -> None:
        """Count from when the velocities came."""
        self._age[place] = 0.0

    def update(self, states: Sequence[ArmState], target: RateTarget, period: float) -> None:
        """Write the joint velocities of every arm."""
        p = self.params
        for arm, (state, wanted, dq) in enumerate(zip(states, target.dq, self.command)):
            self._age[arm] += period
            if self._age[arm] > p.timeout:
                dq[:] = 0.0
                continue
            q, limits = state.joint_command[0], state.limits
            room = np.where(wanted > 0.0, limits.upper - q, q - limits.lower) - p.margin
            most = stoppable_rate(room, 0.3 * limits.acceleration, period)
            most = np.minimum(most, p.speed * limits.velocity)
            dq[:] = np.minimum(np.maximum(wanted, -most), most)
            dq *= self.pace(arm, dq)
        self.report[0] = min(max(self._age), 999.0)
