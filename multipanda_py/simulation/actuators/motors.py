# SPDX-License-Identifier: Apache-2.0
"""Motors behind springs with their position controllers, and position controllers of links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.actuator import PINION_RADIUS, Actuator, positive_number, whole_number
from multipanda_py.exceptions import ActuatorRejected
from multipanda_py.state import Matrix, Vector

_POSITIVE_PARAMETERS = ("inertia", "max_torque", "max_velocity")
_DIVIDED_BY_SQUARE = ("inertia", "damping", "friction_stiffness", "p", "i", "d")
_DIVIDED_BY_RADIUS = ("max_torque", "friction")


@dataclass(frozen=True, eq=False)
class Motors:
    r"""Two motors per joint with PID controllers: rows first and second motors, (2, n) each.

    .. math::
        J \ddot\theta = \mathrm{sat}(\tau_m) - \tau_{spring} - \tau_f - D \dot\theta, \qquad
        \tau_m = P (\theta^* - \theta) + I \int (\theta^* - \theta)\, dt - D_{pid} \dot\theta .

    Here :math:`\theta` is the motor angle on the joint side of the gear, :math:`\theta^*` its
    reference and :math:`\tau_f` the friction. sat limits to ``max_torque``. Values of missing
    second motors are ignored. For a second motor that moves a pivot, replace kg m^2 by kg, Nm by
    N and rad by m.

    Attributes:
        inertia: Inertia J [kg m^2].
        damping: Viscous damping D [Nm s/rad].
        max_torque: Maximum torque [Nm].
        max_velocity: Maximum speed [rad/s].
        min_position: Lower stop [rad].
        max_position: Upper stop [rad].
        friction: Coulomb friction [Nm].
        friction_stiffness: Stiffness of the motor while Coulomb friction holds it [Nm/rad].
        p: Proportional gain P [Nm/rad].
        i: Integral gain I [Nm/(rad s)]. The integral torque is limited to ``max_torque``.
        d: Derivative gain :math:`D_{pid}` [Nm s/rad].
    """

    inertia: Matrix
    damping: Matrix
    max_torque: Matrix
    max_velocity: Matrix
    min_position: Matrix
    max_position: Matrix
    friction: Matrix
    friction_stiffness: Matrix
    p: Matrix
    i: Matrix
    d: Matrix

    @classmethod
    def of(
        cls,
        actuators: Sequence[tuple[Actuator[Any], Sequence[int]]],
        *,
        inertia: ArrayLike = 0.0233,
        damping: ArrayLike = 0.2698,
        max_torque: ArrayLike = 6.0,
        max_velocity: ArrayLike = 6.0,
        min_position: ArrayLike = -np.inf,
        max_position: ArrayLike = np.inf,
        friction: ArrayLike = 0.02,
        friction_stiffness: ArrayLike = 1e3,
        p: ArrayLike = 125.0,
        i: ArrayLike = 0.0,
        d: ArrayLike = 4.5,
        pinion: float = PINION_RADIUS,
    ) -> Motors:
        """Build motors from values for a rotary motor; defaults of Mengacci et al., 2021.

        A value is one number for all motors, (n,) with one number per joint, or (2, n).

        A second motor that moves a pivot acts through a pinion of radius r. Its inertia, damping,
        stiffness and gains are the given values divided by :math:`r^2`, its torques those divided
        by r, and its maximum speed the given one times r. Its stops are the ends of the preset
        range.

        Args:
            actuators: Actuators, each with the indices of its joints.
            inertia: Inertia J [kg m^2].
            damping: Viscous damping D [Nm s/rad].
            max_torque: Maximum torque [Nm].
            max_velocity: Maximum speed [rad/s].
            min_position: Lower stop [rad].
            max_position: Upper stop [rad].
            friction: Coulomb friction [Nm].
            friction_stiffness: Stiffness of the motor while Coulomb friction holds it [Nm/rad].
            p: Proportional gain [Nm/rad].
            i: Integral gain [Nm/(rad s)].
            d: Derivative gain [Nm s/rad].
            pinion: Radius r of the pinion [m].

        Raises:
            ActuatorRejected: If a value is out of bounds or has a wrong shape.
        """
        pinion = positive_number("motors.pinion", pinion, "m")
        n = sum(len(joints) for _, joints in actuators)
        given = {
            "inertia": inertia, "damping": damping, "max_torque": max_torque,
            "max_velocity": max_velocity, "min_position": min_position,
            "max_position": max_position, "friction": friction,
            "friction_stiffness": friction_stiffness, "p": p, "i": i, "d": d,
        }  # fmt: skip
        values = {name: _two_rows(name, value, n) for name, value in given.items()}
        for actuator, joints in actuators:
            if actuator.preset_unit != "m":
                continue
            second, at = 1, np.asarray(joints)
            for name in _DIVIDED_BY_SQUARE:
                values[name][second, at] /= pinion * pinion
            for name in _DIVIDED_BY_RADIUS:
                values[name][second, at] /= pinion
            values["max_velocity"][second, at] *= pinion
            values["min_position"][second, at] = actuator.preset_low
            values["max_position"][second, at] = actuator.preset_high
        return cls(**values)

    def __post_init__(self) -> None:
        """Raise ``ActuatorRejected`` for an invalid parameter."""
        shape = np.shape(self.inertia)
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if np.shape(value) != shape or len(shape) != 2 or shape[0] != 2:
                raise ActuatorRejected(
                    f"motors.{name}: got an array of shape {np.shape(value)}, allowed (2, n)"
                )
            bad = ~np.isfinite(value)
            allowed = "a finite number"
            if name in ("min_position", "max_position"):
                bad, allowed = np.isnan(value), "a number"
            elif name in _POSITIVE_PARAMETERS:
                bad, allowed = bad | (value <= 0.0), "more than 0"
            else:
                bad, allowed = bad | (value < 0.0), "0 or more"
            for motor, joint in np.argwhere(bad):
                raise ActuatorRejected(
                    f"motors.{name} of motor {motor + 1} of joint {joint + 1}: got "
                    f"{value[motor, joint]:g}, allowed {allowed}"
                )
            value.setflags(write=False)
        for motor, joint in np.argwhere(self.min_position > self.max_position):
            raise ActuatorRejected(
                f"motors.min_position of motor {motor + 1} of joint {joint + 1}: got "
                f"{self.min_position[motor, joint]:g}, allowed up to max_position "
                f"{self.max_position[motor, joint]:g}"
            )

    @property
    def n_joints(self) -> int:
        return int(self.inertia.shape[1])


@dataclass(frozen=True, eq=False)
class LinkPid:
    """PID controllers that move links by torques on them, (n,) each.

    Attributes:
        p: Proportional gains [Nm/rad].
        i: Integral gains [Nm/(rad s)].
        d: Derivative gains [Nm s/rad].
        max_torque: Maximum torques [Nm].
    """

    p: Vector
    i: Vector
    d: Vector
    max_torque: Vector

    @classmethod
    def from_config(
        cls,
        n_joints: int,
        *,
        p: ArrayLike = 0.8,
        i: ArrayLike = 0.0,
        d: ArrayLike = 0.2,
        max_torque: ArrayLike = np.inf,
    ) -> LinkPid:
        """Build the PID controllers of n links; default gains are those of Mengacci et al., 2021.

        Args:
            n_joints: Number of joints n.
            p: Proportional gains, one number or (n,) [Nm/rad].
            i: Integral gains, one number or (n,) [Nm/(rad s)].
            d: Derivative gains, one number or (n,) [Nm s/rad].
            max_torque: Maximum torques, one number or (n,) [Nm].

        Raises:
            ActuatorRejected: If a value is negative, not finite, or has a wrong shape.
        """
        n_joints, result = whole_number("joints", n_joints), {}
        for name, value in (("p", p), ("i", i), ("d", d), ("max_torque", max_torque)):
            result[name] = _broadcast(f"link_pid.{name}", value, (n_joints,))
            max_value = np.inf if name == "max_torque" else np.finfo(float).max
            if not ((result[name] >= 0.0) & (result[name] <= max_value)).all():
                raise ActuatorRejected(f"link_pid.{name}: got {value!r:.60}, allowed 0 or more")
        return cls(**result)


def _two_rows(name: str, value: ArrayLike, n_joints: int) -> Matrix:
    return _broadcast(f"motors.{name}", value, (2, n_joints))


def _broadcast(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Matrix:
    try:
        numbers = np.asarray(value, dtype=np.float64)
        if numbers.shape not in ((), shape[-1:], shape):
            raise ValueError
    except (TypeError, ValueError):
        each = f"one number, {shape[-1]} numbers" + f" or 2 x {shape[-1]}" * (len(shape) == 2)
        raise ActuatorRejected(f"{name}: got {value!r:.60}, allowed {each}") from None
    return np.broadcast_to(numbers, shape).copy()
