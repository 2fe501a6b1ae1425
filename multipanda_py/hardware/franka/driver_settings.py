# SPDX-License-Identifier: Apache-2.0
"""What a driver is told by the loop, and how it tells the robot."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

Numbers = list[float]


class SettingRefused(Exception):
    """Report which setting the robot has not taken, and why."""


@dataclass(frozen=True)
class DriverSettings:
    """One driver's start-up configuration, in the forms that libfranka wants.

    Poses are homogeneous transforms in column-major order, (16,), inertias are too, (9,).

    Attributes:
        robot_ip: Address of the robot.
        torque_limits: Largest torques, (7,) [Nm].
        motion_limits: Smallest and largest positions, largest velocities, accelerations and jerks
            of commanded positions, (5, 7).
        motion_controller: Which of the robot's own controllers follows those.
        answer_budget: How long to wait for the loop's torque [s].
        priority: SCHED_FIFO priority, 0 for none.
        cpus: Cores to run on.
        EE_in_flange: Pose of the end effector.
        K_in_EE: Pose of the stiffness frame.
        load: Mass [kg], centre of mass in the flange [m] and inertia [kg m^2].
        Others: Arguments of libfranka's functions of these names.
    """

    robot_ip: str
    torque_limits: Numbers
    motion_limits: list[Numbers]
    motion_controller: str
    answer_budget: float
    priority: int
    cpus: list[int]
    collision_behavior: list[Numbers]
    joint_impedance: Numbers
    cartesian_impedance: Numbers
    EE_in_flange: Numbers
    K_in_EE: Numbers
    load_mass: float
    load_com: Numbers
    load_inertia: Numbers

    @property
    def peer(self) -> str:
        """The robot, in words."""
        return f"robot {self.robot_ip}"

    @property
    def no_answer(self) -> str:
        """What it means if the driver has nothing to say of it."""
        return (
            f"{self.peer} accepts connections but does not answer: check that the address is a "
            "robot's; restart the robot if it is; waited"
        )

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> DriverSettings:
        """Read what :meth:`to_json` wrote."""
        return cls(**json.loads(line))


def apply(robot: Any, settings: DriverSettings) -> None:
    """Tell the robot its settings; it must not be moving.

    Args:
        robot: A ``pylibfranka.Robot``.
        settings: What to tell it.

    Raises:
        SettingRefused: If the robot does not take one; says which, and why.
        RuntimeError: If the link is broken (libfranka's NetworkException).
    """
    nominal = list(robot.read_once().F_T_NE)  # set in Desk
    steps: list[tuple[str, Callable[..., None], tuple[Any, ...]]] = [
        ("collision thresholds", robot.set_collision_behavior, tuple(settings.collision_behavior)),
        ("joint_impedance", robot.set_joint_impedance, (settings.joint_impedance,)),
        ("cartesian_impedance", robot.set_cartesian_impedance, (settings.cartesian_impedance,)),
        ("end effector frame", robot.set_EE, (from_frame(nominal, settings.EE_in_flange),)),
        ("stiffness frame", robot.set_K, (settings.K_in_EE,)),
        ("load", robot.set_load,
         (settings.load_mass, settings.load_com, settings.load_inertia)),
    ]  # fmt: skip
    for name, function, arguments in steps:
        try:
            function(*arguments)
        except (RuntimeError, ValueError) as error:
            if type(error).__name__ not in ("CommandException", "ValueError"):
                raise
            given = ", ".join(str(argument) for argument in arguments)
            raise SettingRefused(f"{name}: got {given}; the robot says: {error}") from None


def from_frame(frame: Numbers, pose: Numbers) -> Numbers:
    r"""Return a pose as seen from another frame, :math:`T_{frame}^{-1} T_{pose}`.

    Args:
        frame: (16,), column-major, in some frame.
        pose: Likewise, in the same one.
    """
    seen = [0.0] * 16
    for column in range(4):
        v = pose[4 * column : 4 * column + 4]
        offset = [v[i] - (frame[12 + i] if column == 3 else 0.0) for i in range(3)]
        for row in range(3):
            axis = frame[4 * row : 4 * row + 3]
            seen[4 * column + row] = sum(a * b for a, b in zip(axis, offset))
    seen[15] = 1.0
    return seen
