# SPDX-License-Identifier: Apache-2.0
"""Connection of a driver to its robot: settings, start, model, and messages about errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from multipanda_py.hardware.driver.memory import DriverStartError
from multipanda_py.hardware.franka.errors import COMMUNICATION_ERROR, fault_of_mode, names_of

Numbers = list[float]


class SettingRefused(Exception):
    """Error of a setting that the robot rejects, with the reason."""


@dataclass(frozen=True)
class DriverSettings:
    """Settings of a driver and its robot, in the form of libfranka's arguments.

    Poses are homogeneous transforms, (16,), and inertias are matrices, (9,), both in column-major
    order. Attributes that are not listed are arguments of the libfranka functions ``set_...``.

    Attributes:
        robot_ip: Address of the robot.
        torque_limits: Maximum torques, (7,) [Nm].
        motion_limits: Limits of commanded motions: lower and upper positions, velocities,
            accelerations, jerks, (5, 7).
        motion_controller: Internal controller of the robot under position or velocity control,
            ``joint_impedance`` or ``cartesian_impedance``.
        answer_budget: Maximum time for which the driver waits for the command of the loop [s].
        priority: Priority for SCHED_FIFO, 0 for none.
        cpus: Cores that the driver may use.
        EE_in_flange: Pose of the end effector in the flange frame.
        K_in_EE: Pose of the stiffness frame in the end-effector frame.
        load_mass: Mass of the load [kg].
        load_com: Centre of mass of the load in the flange frame, (3,) [m].
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
        """Message about a driver that does not respond, to which the timeout is appended."""
        return (
            f"{self.peer} accepts connections but does not respond: check that the address is "
            "that of a robot, and restart the robot if it is; waited"
        )

    def to_json(self) -> str:
        """Return the settings as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> DriverSettings:
        """Return the settings from a text of :meth:`to_json`."""
        return cls(**json.loads(line))


def apply(robot: Any, settings: DriverSettings) -> None:
    """Send the settings to the robot, which must not move.

    Raises:
        SettingRefused: If the robot rejects one of them.
        RuntimeError: If the link is broken (libfranka's NetworkException).
    """
    # The robot expects the end-effector frame relative to the nominal one, which is set in Desk.
    nominal = list(robot.read_once().F_T_NE)
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
        frame: Pose of the other frame, (16,), column-major.
        pose: Pose to convert, in the same coordinates as ``frame``, (16,), column-major.
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


PROBE_SPEED = 0.5
"""Speed of all joints for which the Coriolis torques of both models are compared [rad/s]."""


def open_robot(settings: DriverSettings) -> Any:
    """Connect to the robot, clear the error of a killed driver, and send the settings.

    A driver that was killed during a motion leaves the robot with a communication error. Other
    errors of the robot are not cleared.

    Raises:
        DriverStartError: If the robot cannot be used. The message tells users what to do.
    """
    ip = settings.robot_ip
    try:
        import pylibfranka
    except ImportError as error:
        raise DriverStartError(
            f"pylibfranka cannot be imported: {error}; "
            "install it with pip install 'multipanda_py[real]'",
            final=True,
        ) from None
    try:
        robot = pylibfranka.Robot(ip, pylibfranka.RealtimeConfig.kIgnore)
        state = fresh_state(robot)
        if state.robot_mode.name == "Reflex":
            if set(names_of(state.current_errors) or names_of(state.last_motion_errors)) <= {
                COMMUNICATION_ERROR
            }:
                robot.automatic_error_recovery()
        elif state.robot_mode.name != "Idle":
            kind, text = fault_of_mode(state.robot_mode.name, ())
            raise DriverStartError(f"robot {ip} is not ready ({kind}): {text}")
        apply(robot, settings)
    except SettingRefused as error:
        raise DriverStartError(
            f"robot {ip} rejects its settings: {error}", final=_is_idle(robot)
        ) from None
    except (RuntimeError, pylibfranka.FrankaException) as error:
        raise DriverStartError(describe_error(ip, type(error).__name__, str(error))) from None
    return robot


def _is_idle(robot: Any) -> bool:
    try:
        return bool(fresh_state(robot).robot_mode.name == "Idle")
    except RuntimeError:
        return False


def fresh_state(robot: Any) -> Any:
    """Return a current state; the first one may have waited in the socket and is discarded."""
    robot.read_once()
    return robot.read_once()


def measure(robot: Any) -> dict[str, Any]:
    """Return joint positions, frames and loads of the robot, and its model at these positions.

    The keys ``mass``, ``coriolis``, ``gravity`` and ``jacobian`` have the model; the other keys
    are fields of libfranka's ``RobotState``. Matrices are flat and column-major, as in libfranka.
    The Coriolis torques are computed for the speed :data:`PROBE_SPEED` of all joints.
    """
    model, state = robot.load_model(), fresh_state(robot)
    result: dict[str, Any] = {
        name: list(getattr(state, name))
        for name in ("q", "F_T_EE", "O_T_EE", "EE_T_K", "F_x_Cload", "F_x_Ctotal", "O_ddP_O")
    }
    result["m_load"], result["m_total"] = state.m_load, state.m_total
    state.dq = [PROBE_SPEED] * 7
    result["mass"], result["coriolis"] = list(model.mass(state)), list(model.coriolis(state))
    result["gravity"] = list(model.gravity(state))
    result["jacobian"] = list(model.zero_jacobian(state))
    return result


def describe_error(ip: str, exception_name: str, text: str) -> str:
    """Return a message about an error of libfranka, with its remedy."""
    text = text.removeprefix("libfranka: ").strip()
    low = text.lower()
    if "incompatible library version" in low:
        return (
            f"robot {ip} uses another version of the protocol: {text.partition('.')[0]}; "
            "pylibfranka of this version needs an FR3 with system 5.9 or newer. Update the robot, "
            "or install a matching pylibfranka"
        )
    if exception_name == "CommandException":
        return f"robot {ip} rejects the command: {text}"
    if exception_name == "NetworkException":
        if "refused" in low:
            return (
                f"robot {ip} refused the connection: activate FCI and unlock the joints in Desk, "
                "and check the address"
            )
        if "interrupted" in low or "closed" in low:
            return (
                f"robot {ip} closed the connection: robot in use by another client (only one may "
                "connect; end the other program), or FCI has just been deactivated"
            )
        if "udp" in low:
            return (
                f"robot {ip} responds, but its states do not arrive: allow UDP in the firewall, "
                "and connect without a router or a VPN"
            )
        return (
            f"robot {ip} cannot be reached ({text}): check the address, the cable and that this "
            "computer is in the robot's network (ping it)"
        )
    if exception_name == "RuntimeError":
        return f"robot {ip} is not an FR3 that libfranka supports: {text}"
    return f"robot {ip}: {exception_name}: {text}"


def ended_motion(robot: Any, text: str) -> tuple[str, tuple[str, str]]:
    """Return the robot's mode, and the fault that ended or prevented a motion.

    Args:
        robot: Connected robot, after the libfranka handle of the motion was deleted.
        text: Error text of libfranka, used if the robot's state shows no fault.

    Returns:
        Name of the robot mode, and kind and text of the fault.
    """
    state = fresh_state(robot)
    mode = state.robot_mode.name
    if mode in ("Idle", "Move"):
        return mode, (
            "aborted",
            f"the robot ended the motion: {text}. Recover the arm to continue",
        )
    return mode, fault_of_mode(mode, names_of(state.last_motion_errors))
