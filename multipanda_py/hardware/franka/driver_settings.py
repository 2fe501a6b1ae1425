# SPDX-License-Identifier: Apache-2.0
"""Settings of a driver, and their transfer to the robot."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

Numbers = list[float]


class SettingRefused(Exception):
    """Error of a setting that the robot rejects, with the reason."""


@dataclass(frozen=True)
class DriverSettings:
    """Start-up configuration of one driver, in the form of libfranka's arguments.

    Poses are homogeneous transforms, (16,), and inertias are matrices, (9,), both in column-major
    order. Other attributes are arguments of libfranka's functions of the same name.

    Attributes:
        robot_ip: Address of the robot.
        torque_limits: Maximum torques, (7,) [Nm].
        motion_limits: Limits of commanded motions: lower and upper positions, velocities,
            accelerations, jerks, (5, 7).
        motion_controller: Name of the robot's controller that follows commanded motions.
        answer_budget: Time for which the driver waits for the torque of the loop [s].
        priority: Priority for SCHED_FIFO, 0 for none.
        cpus: Cores that the driver may use.
        EE_in_flange: Pose of the end effector.
        K_in_EE: Pose of the stiffness frame.
        load_mass: Mass of the load [kg].
        load_com: Centre of mass of the load in the flange frame [m].
        load_inertia: Inertia of the load [kg m^2].
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
        """Name of the robot for messages."""
        return f"robot {self.robot_ip}"

    @property
    def no_answer(self) -> str:
        """Explanation if the driver does not respond."""
        return (
            f"{self.peer} accepts connections but does not respond: check that the address is "
            "that of a robot, and restart the robot if it is; waited"
        )

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> DriverSettings:
        """Return the settings from a text of :meth:`to_json`."""
        return cls(**json.loads(line))


def apply(robot: Any, settings: DriverSettings) -> None:
    """Send the settings to the robot, which must not move.

    Args:
        robot: A ``pylibfranka.Robot``.
        settings: Settings to send.

    Raises:
        SettingRefused: If the robot rejects one of them.
        RuntimeError: If the link is broken (libfranka's NetworkException).
    """
    nominal = list(robot.read_once().F_T_NE)  # Nominal end-effector frame from Desk.
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
            arguments_text = ", ".join(str(argument) for argument in arguments)
            raise SettingRefused(
                f"{name}: got {arguments_text}; the robot reports: {error}"
            ) from None


def from_frame(frame: Numbers, pose: Numbers) -> Numbers:
    """Return a pose relative to another frame, :math:`T_{frame}^{-1} T_{pose}`.

    Args:
        frame: Pose of the frame, (16,), column-major.
        pose: Pose in the same reference frame, (16,), column-major.
    """
    matrix = [0.0] * 16
    for column in range(4):
        v = pose[4 * column : 4 * column + 4]
        offset = [v[i] - (frame[12 + i] if column == 3 else 0.0) for i in range(3)]
        for row in range(3):
            axis = frame[4 * row : 4 * row + 3]
            matrix[4 * column + row] = sum(a * b for a, b in zip(axis, offset))
    matrix[15] = 1.0
    return matrix
