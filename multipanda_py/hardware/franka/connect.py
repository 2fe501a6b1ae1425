# SPDX-License-Identifier: Apache-2.0
"""Connect a driver to its robot, and explain failures."""

from __future__ import annotations

from typing import Any

from multipanda_py.hardware.driver.memory import DriverStartError
from multipanda_py.hardware.franka import driver_settings as configuration
from multipanda_py.hardware.franka.driver_settings import DriverSettings
from multipanda_py.hardware.franka.errors import COMMUNICATION_ERROR, fault_of_mode, names_of

PROBE_SPEED = 0.5
"""Speed of all joints for which the Coriolis torques of both models are compared [rad/s]."""


def open_robot(settings: DriverSettings) -> Any:
    """Connect to the robot, clear the error of a killed driver, and send the settings.

    A driver that was killed during a motion causes a communication error. Only this error is
    cleared here.

    Raises:
        DriverStartError: If the robot cannot be used; the text states the remedy.
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
        configuration.apply(robot, settings)
    except configuration.SettingRefused as error:
        raise DriverStartError(
            f"robot {ip} rejects its settings: {error}", final=_is_idle(robot)
        ) from None
    except (RuntimeError, pylibfranka.FrankaException) as error:
        raise DriverStartError(describe_error(ip, type(error).__name__, str(error))) from None
    return robot


def _is_idle(robot: Any) -> bool:
    """Return True if the robot is in a mode in which it accepts settings."""
    try:
        return bool(fresh_state(robot).robot_mode.name == "Idle")
    except RuntimeError:
        return False


def fresh_state(robot: Any) -> Any:
    """Return a current state; the first one may have waited in the socket for seconds."""
    robot.read_once()
    return robot.read_once()


def measure(robot: Any) -> dict[str, Any]:
    """Return the robot's model at the measured configuration, and the frames that it uses.

    Matrices are flat and column-major, as in libfranka.
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


def describe_error(ip: str, kind: str, text: str) -> str:
    """Describe an error of libfranka with its remedy."""
    text = text.removeprefix("libfranka: ").strip()
    low = text.lower()
    if "incompatible library version" in low:
        return (
            f"robot {ip} uses another version of the protocol: {text.partition('.')[0]}; "
            "pylibfranka of this version needs an FR3 with system 5.9 or newer. Update the robot, "
            "or install a matching pylibfranka"
        )
    if kind == "CommandException":
        return f"robot {ip} rejects the command: {text}"
    if kind == "NetworkException":
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
    if kind == "RuntimeError":
        return f"robot {ip} is not an FR3 that libfranka supports: {text}"
    return f"robot {ip}: {kind}: {text}"


def ended_motion(robot: Any, text: str) -> tuple[str, tuple[str, str]]:
    """Return the robot's mode, and the fault that ended or prevented a motion.

    Args:
        robot: Reachable robot, without a motion handle in use.
        text: Error text of libfranka; the state has priority if it shows a fault.
    """
    state = fresh_state(robot)
    mode = state.robot_mode.name
    if mode in ("Idle", "Move"):
        return mode, (
            "aborted",
            f"the robot ended the motion: {text}. Recover the arm to continue",
        )
    return mode, fault_of_mode(mode, names_of(state.last_motion_errors))
