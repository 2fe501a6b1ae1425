# SPDX-License-Identifier: Apache-2.0
"""Cartesian pose control of a position-controlled arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.reference.differential_ik import PositionIK
from multipanda_py.controllet import Controllet
from multipanda_py.parameters import number
from multipanda_py.planning.trajectory.trajectory import max_stoppable_velocity
from multipanda_py.state import JOINTS, ArmState
from multipanda_py.targets import CartesianTarget, Channel, Joints, ReferenceMotion, Report


@dataclass(frozen=True)
class CartesianPoseParams:
    """Rates and bounds of ``CartesianPose``."""

    gain: float = number(
        20.0, unit="1/s", low=1, high=100, doc="rate at which a pose error decays"
    )
    nullspace_rate: float = number(
        1.0, unit="1/s", low=0, high=10,
        doc="rate of the nullspace motion towards the desired configuration",
    )  # fmt: skip
    velocity_scaling: float = number(
        0.6, low=0.01, high=0.95, doc="maximum joint speed as a fraction of the limits"
    )
    margin: float = number(
        0.05, unit="rad", low=0, high=1,
        doc="distance from a position limit at which a joint stops",
    )  # fmt: skip


class CommandedPoseTarget(CartesianTarget):
    """Cartesian target of position-controlled arms.

    Attributes:
        motion: Velocity and acceleration of the reference pose, per arm.
    """

    is_commanded = True

    def __init__(
        self,
        n_arms: int,
        extra: Sequence[str | Channel] = (),
        n_joints: Joints = JOINTS,
    ) -> None:
        super().__init__(n_arms, extra, n_joints)
        self.motion = [ReferenceMotion() for _ in range(n_arms)]

    def clear(self) -> None:
        """Clear targets and motions at the start of an activation."""
        super().clear()
        for motion in self.motion:
            motion.moving = False


class CartesianPose(Controllet[CommandedPoseTarget, CartesianPoseParams]):
    """Joint position commands that move the tool to a pose.

    Equations::

        q_c[k+1] = q_c[k] + T s dq
        s        = min(1, min_i dq_max,i / |dq_i|)

    - q_c: Commanded joint positions, (n,) [rad].
    - dq: Joint velocities of ``PositionIK`` for the reference of the governor, (n,) [rad/s].
    - dq_max: Joint speed bounds, (n,) [rad/s].
    - T: Cycle time [s].

    If one joint would be too fast, s slows all joints. A joint that reaches its position limit
    stops, and the other joints continue. Features slow the motion before obstacles.
    """

    Params, Target = CartesianPoseParams, CommandedPoseTarget
    command_interface = "position"
    default_features: ClassVar[tuple[str, ...]] = ("collision_avoidance",)
    report_names = (
        Report("max error", "m", "maximum position error of the commanded tool poses"),
        Report("min singular value", "", "minimum singular value of an arm's Jacobian"),
    )

    def __init__(self, context: Context, params: CartesianPoseParams) -> None:
        self._kinematics = [PositionIK(arm) for arm in context.arms]
        super().__init__(context, params)

    def on_activate(self, states: Sequence[ArmState], target: CommandedPoseTarget) -> None:
        """Hold the measured poses and configurations."""
        target.seed(states)
        for command, state in zip(self.command, states):
            command[:] = state.joint_command[0]

    def update(
        self, states: Sequence[ArmState], target: CommandedPoseTarget, period: float
    ) -> None:
        """Write the joint position commands of all arms."""
        p, largest, smallest = self.params, 0.0, np.inf
        for arm, (ik, state) in enumerate(zip(self._kinematics, states)):
            q, motion, limits = state.joint_command[0], target.motion[arm], state.limits
            twist = motion.twist if motion.moving else np.zeros(6)
            brake = 0.5 * limits.acceleration
            up = max_stoppable_velocity(limits.upper - p.margin - q, brake, period)
            down = max_stoppable_velocity(q - limits.lower - p.margin, brake, period)
            dq = ik.rate(
                q, target.position_ee_in_base[arm], target.rotation_ee_in_base[arm],
                twist, p.gain, target.nullspace_configuration[arm], p.nullspace_rate, (-down, up),
            )  # fmt: skip
            dq /= max(1.0, float((np.abs(dq) / (p.velocity_scaling * limits.velocity)).max()))
            dq *= self.velocity_scale(arm, dq)
            self.command[arm][:] = q + period * dq
            largest = max(largest, float(np.linalg.norm(ik.error[:3])))
            smallest = min(smallest, ik.smallest)
        self.report[0], self.report[1] = largest, smallest
