# SPDX-License-Identifier: Apache-2.0
"""Joint velocity commands to a velocity-controlled arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from multipanda_py.context import Context
from multipanda_py.controllet import Controllet
from multipanda_py.parameters import number
from multipanda_py.planning.trajectory.trajectory import max_stoppable_velocity
from multipanda_py.state import ArmState
from multipanda_py.targets import JointVelocityTarget, Report


@dataclass(frozen=True)
class JointRateParams:
    """Bounds of ``JointRate``."""

    timeout: float = number(
        0.1, unit="s", low=0.002, high=10,
        doc="time without a new target after which the velocity is zero",
    )  # fmt: skip
    velocity_scaling: float = number(
        0.8, low=0.01, high=1, doc="maximum joint speed as a fraction of the limits"
    )
    margin: float = number(
        0.05, unit="rad", low=0, high=1,
        doc="distance from a position limit at which a joint stops",
    )  # fmt: skip


class JointRate(Controllet[JointVelocityTarget, JointRateParams]):
    """Controllet that sends streamed joint velocities to the robot's velocity controller.

    Equation::

        |dq_c| <= min(s dq_max, v(d))

    - dq_c: Commanded joint velocities, (n,) [rad/s].
    - s: Parameter ``velocity_scaling``; dq_max: speed limits, (n,) [rad/s].
    - v(d): Maximum velocity from which a joint can stop within the distance d to its position
      limit (``max_stoppable_velocity``) [rad/s].

    The arm reaches the velocities as fast as its limits of acceleration and jerk allow. If a
    client does not renew the velocities within ``timeout``, the arm brakes. ``joint_velocity`` is
    the equivalent for torque-controlled arms.
    """

    Params, Target = JointRateParams, JointVelocityTarget
    command_interface = "velocity"
    plans_motion = True
    default_features: ClassVar[tuple[str, ...]] = ("collision_avoidance",)
    report_names = (Report("target age", "s", "time since the last target"),)

    def __init__(self, context: Context, params: JointRateParams) -> None:
        self._age = [np.inf] * context.n_arms
        super().__init__(context, params)

    def on_activate(self, states: Sequence[ArmState], target: JointVelocityTarget) -> None:
        """Command zero velocity."""
        for arm, state in enumerate(states):
            target.q[arm][:], target.dq[arm][:] = state.q, 0.0
            self._age[arm] = np.inf

    def on_target(self, channel: str, arm_index: int, target: JointVelocityTarget) -> None:
        """Restart the timeout of the desired velocities of an arm."""
        self._age[arm_index] = 0.0

    def update(
        self, states: Sequence[ArmState], target: JointVelocityTarget, period: float
    ) -> None:
        """Write the joint velocity commands of all arms."""
        p = self.params
        for arm, (state, desired, dq) in enumerate(zip(states, target.dq, self.command)):
            self._age[arm] += period
            if self._age[arm] > p.timeout:
                dq[:] = 0.0
                continue
            q, limits = state.joint_command[0], state.limits
            distance = np.where(desired > 0.0, limits.upper - q, q - limits.lower) - p.margin
            max_value = max_stoppable_velocity(distance, 0.3 * limits.acceleration, period)
            max_value = np.minimum(max_value, p.velocity_scaling * limits.velocity)
            dq[:] = np.minimum(np.maximum(desired, -max_value), max_value)
            dq *= self.velocity_scale(arm, dq)
        self.report[0] = min(max(self._age), 999.0)
