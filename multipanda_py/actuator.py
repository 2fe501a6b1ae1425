# SPDX-License-Identifier: Apache-2.0
"""Contract of a compliant actuator: springs between one or two motors and a joint.

To add an actuator, write one file with its parameters and the two methods ``elastic_torque`` and
``link_stiffness``. In these methods, ``self.of`` has the parameters by name, (n,) for n joints.

The first motor sets the equilibrium angle of the joint. A second motor, if any, sets the joint
stiffness by its position, the *stiffness preset*. Two antagonistic motors set angle and stiffness
together. For another relation, also override ``references``, ``equilibrium_of`` and ``preset_of``.
Example::

    @dataclass(frozen=True)
    class CubicParams(ActuatorParams):
        stiffness: float = number(50.0, unit="Nm/rad", low=0, doc="stiffness at zero deflection")
        hardening: float = number(300.0, unit="Nm/rad^3", low=0, doc="cubic stiffness term")

    class Cubic(Actuator[CubicParams]):
        Params, preset_unit = CubicParams, ""  # no second motor

        def elastic_torque(self, q, theta_1, theta_2):
            d = self.clipped(theta_1 - q)
            torque = self.of["stiffness"] * d + self.of["hardening"] * d**3
            return ElasticTorque(link=torque, motor_1=torque, motor_2=np.zeros_like(torque))
        ...

All angles [rad] and torques [Nm] are given on the joint side of the gears.

Sources: Mengacci et al., An open-source ROS-Gazebo toolbox for simulating robots with compliant
actuators, Frontiers in Robotics and AI 8, 2021. Grioli et al., Variable stiffness actuators: the
user's point of view, IJRR 34, 2015.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.exceptions import ActuatorRejected, ParameterRejected
from multipanda_py.parameters import Spec, number, specs_of
from multipanda_py.state import Vector


@dataclass(frozen=True)
class ActuatorParams:
    """Spring parameters common to all actuators, each with one number, or one number per joint."""

    max_deflection: float = number(
        0.8,
        unit="rad",
        low=0,
        exclusive_low=True,
        doc="maximum deflection of a spring; its torque saturates there",
    )
    damping: float = number(0.0, unit="Nm s/rad", low=0, doc="damping between motors and joint")


@dataclass(frozen=True)
class PresetParams(ActuatorParams):
    """Spring parameters of an actuator whose second motor sets the joint stiffness."""

    preset_low: float = number(0.0, unit="rad", doc="minimum stiffness preset")
    preset_high: float = number(0.0, unit="rad", doc="maximum stiffness preset")
    damping_per_preset: float = number(
        0.0, unit="Nm s/rad^2", low=0, doc="increase of the damping per unit of preset"
    )


@dataclass(frozen=True)
class AntagonisticParams(PresetParams):
    """Spring parameters of an actuator with two antagonistic motors."""

    coupling: float = number(
        0.0, unit="Nm/rad", low=0, doc="stiffness of an additional spring between the two motors"
    )


def values_by_name(
    kind: str, params: type, values: Mapping[str, ArrayLike], n_joints: int
) -> dict[str, Vector]:
    """Return all parameters of an actuator by name, each as a read-only array (n_joints,).

    Args:
        kind: Name of the actuator, for error messages.
        params: Dataclass that declares the parameters.
        values: Parameters that differ from the defaults, each one number or one number per joint.
        n_joints: Number of joints.

    Raises:
        ActuatorRejected: If a parameter is unknown, out of bounds, or has a wrong shape.
    """
    specs = _specs(params)
    for name in values:
        if name not in specs:
            known = ", ".join(specs)
            raise ActuatorRejected(f"{kind}: parameter {name!r} does not exist; known: {known}")
    return {
        name: _values(kind, spec, values.get(name, spec.default), n_joints)
        for name, spec in specs.items()
    }


def numbers_of_joints(description: str, value: ArrayLike, n_joints: int) -> Vector:
    """Return one number per joint, (n_joints,). Infinite numbers and NaN are allowed.

    Args:
        description: Name of the quantity, with which an error message begins.
        value: One number for all joints, or one number per joint.
        n_joints: Number of joints.

    Raises:
        ActuatorRejected: If the count is neither 1 nor ``n_joints``, or a value is not a number.
    """
    try:
        text = np.asarray(value)
    except ValueError:  # NumPy rejects lists of different lengths.
        text = np.array(None)
    # Reject bools and texts such as "1", which a conversion to float would accept.
    if text.dtype.kind not in "fiu":
        raise ActuatorRejected(f"{description}: got {value!r:.60}, allowed numbers")
    values = text.astype(np.float64)
    if values.shape not in ((), (n_joints,)):
        raise ActuatorRejected(
            f"{description}: got {values.size} numbers, allowed one or {n_joints}"
        )
    return np.broadcast_to(values, (n_joints,)).copy()


def finite_numbers(description: str, value: ArrayLike, n_joints: int) -> Vector:
    """Return one finite number per joint, (n_joints,).

    Args:
        description: Name of the quantity, with which an error message begins.
        value: One number for all joints, or one number per joint.
        n_joints: Number of joints.

    Raises:
        ActuatorRejected: If the count is neither 1 nor ``n_joints``, or a value is not finite.
    """
    values = numbers_of_joints(description, value, n_joints)
    for joint in np.flatnonzero(~np.isfinite(values)):
        raise ActuatorRejected(
            f"{description} of joint {joint + 1}: got {values[joint]:g}, allowed a finite number"
        )
    return values


def whole_number(description: str, value: Any) -> int:
    """Check that a value is an integer of 1 or more, and return it.

    Args:
        description: Name of the value, with which an error message begins.
        value: Value to check.

    Raises:
        ActuatorRejected: If the value is below 1, a bool or not an integer.
    """
    is_number = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_number or value < 1:
        raise ActuatorRejected(f"{description}: got {value!r:.40}, allowed an integer >= 1")
    return int(value)


def positive_number(description: str, value: Any, unit: str) -> float:
    """Check that a number is finite and above 0, and return it.

    Args:
        description: Name of the value, with which an error message begins.
        value: Value to check.
        unit: Unit of the value, for the error message.

    Raises:
        ActuatorRejected: If the value is a bool, not a scalar number, infinite, or not above 0.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0.0 < value < math.inf:
        raise ActuatorRejected(f"{description}: got {value!r:.40}, allowed more than 0 {unit}")
    return float(value)


@cache
def _specs(params: type) -> dict[str, Spec]:
    return {spec.name: spec for spec in specs_of(params)}


def _values(kind: str, spec: Spec, value: Any, n_joints: int) -> Vector:
    several = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim)
    elements = list(value) if several else [value]
    if several and len(elements) != n_joints:
        raise ActuatorRejected(
            f"{kind}: {spec.name}: got {len(elements)} numbers, allowed one or {n_joints}"
        )
    try:
        checked = [spec.check(_plain(element)) for element in elements]
    except ParameterRejected as error:
        raise ActuatorRejected(f"{kind}: {error}") from None
    values = np.full(n_joints, checked, dtype=np.float64)
    values.setflags(write=False)
    return values


def _plain(element: Any) -> Any:
    return element.item() if isinstance(element, (np.generic, np.ndarray)) else element


MAX_ITERATIONS = 100
"""Maximum number of iterations of the equilibrium search. Newton needs about 10, bisection alone
about 50."""
_STEP_TOLERANCE = 1e-13
"""Step size at which the equilibrium search has converged [rad]."""
_BISECTION_STEPS = 40
"""Number of bisection steps for the torque that the motors can hold. They resolve it to 1e-12 of
the deflection range."""
PINION_RADIUS = 0.015
"""Default radius of the pinion by which a second motor moves a pivot [m]."""
_MAX_MAGNITUDE = 1e12
"""Upper bound of spring torques and stiffnesses, so that their squares stay finite [Nm,
Nm/rad]."""
_MIN_CHANGE = 0.01
"""Minimum difference of the stiffnesses at both ends of the preset range, as a fraction of the
larger one. With a smaller one, the parameters of an actuator are rejected."""


class ElasticTorque(NamedTuple):
    r"""Spring torques on joints and motors, (n,) each [Nm], or (k, n) for k configurations.

    .. math::
        \tau_{link} = -\partial V / \partial q, \qquad \tau_i = \partial V / \partial \theta_i

    with the elastic energy V, the joint angle q and the position :math:`\theta_i` of motor i. Do
    not write to these arrays: two of them may be the same object.

    Attributes:
        link: Torque :math:`\tau_{link}` on the joints.
        motor_1: Load :math:`\tau_1` of the first motors, which acts against the motor torque.
        motor_2: Load :math:`\tau_2` of the second motors; a force [N] if they move linearly.
    """

    link: Vector
    motor_1: Vector
    motor_2: Vector


P = TypeVar("P", bound=ActuatorParams)


class Actuator(ABC, Generic[P]):
    """Base class of compliant actuators. One object has the springs of n joints.

    The stiffness preset of a joint is the position of its second motor. For two antagonistic
    motors, it is half the difference of their positions.

    Args:
        n_joints: Number of joints, n.
        params: Parameters by name, each one number or n numbers; missing ones take their defaults.

    Attributes:
        of: Parameters by name, (n,) each, read-only.
        n_joints: Number of joints.
        preset_low: Minimum stiffness presets, (n,) in ``preset_unit``; zero without second motor.
        preset_high: Maximum stiffness presets, (n,) in ``preset_unit``; zero without second motor.

    Raises:
        ActuatorRejected: If ``n_joints`` is below 1, a parameter is unknown or out of bounds, or
            minimum and maximum preset give nearly the same stiffness.

    Thread: any. Methods do not change the object.
    """

    Params: ClassVar[type[Any]]
    is_antagonistic: ClassVar[bool] = False
    """True if two motors act on the joint as antagonists: the equilibrium is their mean, the
    preset half their difference. Otherwise the first motor sets the equilibrium and the second
    one the preset."""
    preset_unit: ClassVar[str] = "rad"
    """Unit of the stiffness preset; empty if there is no second motor."""
    identified: ClassVar[tuple[str, ...]] = ()
    """Parameters that an identification fits to measured torques and deflections."""
    source: ClassVar[str] = ""
    """Source of the equations and the defaults."""

    def __init__(self, n_joints: int, params: Mapping[str, ArrayLike] | None = None) -> None:
        self.n_joints = n_joints = whole_number(f"{self.kind()}: joints", n_joints)
        self.of: dict[str, Vector] = values_by_name(
            self.kind(), self.Params, params or {}, n_joints
        )
        empty = np.zeros(n_joints)
        self.preset_low: Vector = self.of.get("preset_low", empty)
        self.preset_high: Vector = self.of.get("preset_high", empty)
        self._limit = self.of["max_deflection"]
        self._lower = -self._limit
        self._refuse_range()
        self.on_parameters()
        self._refuse_infinite_torques()
        self._refuse_presets_without_effect()

    @classmethod
    def kind(cls) -> str:
        """Return the name in cell files: the class name in snake case."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    @classmethod
    def rejected(cls, message: str) -> ActuatorRejected:
        """Return an error whose message begins with the name of this kind of actuator."""
        return ActuatorRejected(f"{cls.kind()}: {message}")

    @property
    def n_motors(self) -> int:
        """Motors per joint: 2 with stiffness presets, otherwise 1."""
        return 2 if self.preset_unit else 1

    @property
    def is_coupled(self) -> bool:
        """True if a spring connects the two motors."""
        own = type(self).coupling_torque is not Actuator.coupling_torque
        return own or bool(np.any(self.of.get("coupling", 0.0)))

    def on_parameters(self) -> None:
        """Check combinations of the parameters ``self.of``, and precompute values from them.

        The constructor calls it once. For an invalid combination, raise the error of
        :meth:`rejected`.
        """

    @abstractmethod
    def elastic_torque(self, q: Vector, theta_1: Vector, theta_2: Vector) -> ElasticTorque:
        """Return the spring torques on joints and motors.

        Args:
            q: Joint angles, (n,), or (k, n) for k configurations [rad].
            theta_1: Positions of the first motors, same shape [rad].
            theta_2: Positions of the second motors, same shape [rad, or m for a linear motor].
        """

    @abstractmethod
    def link_stiffness(self, q: Vector, theta_1: Vector, theta_2: Vector) -> Vector:
        r"""Return the joint stiffness at fixed motor positions, (n,) or (k, n) [Nm/rad].

        .. math:: \sigma = -\partial\tau_{link}/\partial q

        :math:`\tau_{link}` is the ``link`` torque of :meth:`elastic_torque`, q the joint angle.

        Args:
            q: Joint angles, (n,), or (k, n) for k configurations [rad].
            theta_1: Positions of the first motors, same shape [rad].
            theta_2: Positions of the second motors, same shape [rad, or m for a linear motor].
        """

    def references(self, equilibrium: Vector, preset: Vector) -> tuple[Vector, Vector]:
        """Return the positions of first and second motors for equilibria and presets, (n,) each.

        By default, these are equilibrium plus and minus preset for antagonistic motors, otherwise
        equilibrium and preset. Override :meth:`equilibrium_of` and :meth:`preset_of`, the inverse,
        together with this method.

        Args:
            equilibrium: Equilibrium angles of the joints, (n,) [rad].
            preset: Stiffness presets, (n,), in the unit of the second motor.
        """
        if self.is_antagonistic:
            return equilibrium + preset, equilibrium - preset
        return equilibrium, preset

    def preset_of(self, theta_1: Vector, theta_2: Vector) -> Vector:
        """Return the stiffness presets of given motor positions, (n,).

        Args:
            theta_1: Positions of the first motors, (n,) [rad].
            theta_2: Positions of the second motors, (n,) [rad, or m for a linear motor].
        """
        return 0.5 * (theta_1 - theta_2) if self.is_antagonistic else theta_2

    def equilibrium_of(self, theta_1: Vector, theta_2: Vector) -> Vector:
        """Return the equilibrium angles of the joints for given motor positions, (n,) [rad].

        Args:
            theta_1: Positions of the first motors, (n,) [rad].
            theta_2: Positions of the second motors, (n,) [rad, or m for a linear motor].
        """
        return 0.5 * (theta_1 + theta_2) if self.is_antagonistic else theta_1

    def coupling_torque(self, theta_1: Vector, theta_2: Vector) -> Vector:
        r"""Return the torque g of a spring between the two motors of a joint, (n,) [Nm].

        The motor loads of :class:`ElasticTorque` become :math:`\tau_1 + g` and :math:`\tau_2 - g`.
        By default, :math:`g = k_c (\theta_1 - \theta_2)` with the parameter ``coupling``,
        :math:`k_c`, and zero without this parameter.

        Args:
            theta_1: Positions of the first motors, (n,) [rad].
            theta_2: Positions of the second motors, (n,) [rad].
        """
        if "coupling" not in self.of:
            return np.zeros_like(theta_1)
        return self.of["coupling"] * (theta_1 - theta_2)

    def damping(self, theta_1: Vector, theta_2: Vector) -> Vector:
        r"""Return the damping coefficient d parallel to the springs, (n,) [Nm s/rad].

        The torque :math:`d (\dot\theta_{eq} - \dot q)` acts on the joint, with the equilibrium
        angle :math:`\theta_{eq}` and the joint angle q. The opposite torque acts on the first
        motor, or half of it on each of two antagonistic motors.

        Args:
            theta_1: Positions of the first motors, (n,) [rad].
            theta_2: Positions of the second motors, (n,) [rad, or m for a linear motor].
        """
        damping = self.of["damping"]
        if "damping_per_preset" in self.of:
            preset = np.abs(self.preset_of(theta_1, theta_2))
            damping = damping + self.of["damping_per_preset"] * preset
        return damping

    def clipped(self, deflection: Vector) -> Vector:
        """Return spring deflections, limited to plus and minus ``max_deflection`` [rad].

        Args:
            deflection: Deflections of one spring per joint, (n,) or (k, n) [rad].
        """
        result: Vector = np.minimum(np.maximum(deflection, self._lower), self._limit)
        return result

    def within(self, deflection: Vector) -> Vector:
        """Return 1 where a spring is deflected by less than ``max_deflection``, else 0.

        Multiply the stiffness by it: beyond this deflection, the spring torque is constant.

        Args:
            deflection: Deflections of one spring per joint, (n,) or (k, n) [rad].
        """
        # Unlike a comparison, heaviside returns NaN for NaN, which later checks find.
        result: Vector = np.heaviside(self._limit - np.abs(deflection), 0.0)
        return result

    def at_limit(self, q: Vector, theta_1: Vector, theta_2: Vector) -> NDArray[np.bool_]:
        """Return True for each joint with a spring at or beyond its maximum deflection, (n,).

        Args:
            q: Joint angles, (n,) [rad].
            theta_1: Positions of the first motors, (n,) [rad].
            theta_2: Positions of the second motors, (n,) [rad]; used for antagonistic motors only.
        """
        result: NDArray[np.bool_] = np.abs(theta_1 - q) >= self._limit
        if self.is_antagonistic:
            result = result | (np.abs(theta_2 - q) >= self._limit)
        return result

    def checked_preset(self, preset: ArrayLike) -> Vector:
        """Check stiffness presets, and return one per joint, (n,).

        Args:
            preset: One preset for all joints, or one per joint, in ``preset_unit``.

        Raises:
            ActuatorRejected: If their count is wrong, or one is outside the preset limits.
        """
        values = numbers_of_joints(f"{self.kind()}: stiffness preset", preset, self.n_joints)
        low, high = self.preset_low, self.preset_high
        for joint in np.flatnonzero(~((values >= low) & (values <= high))):
            raise self.rejected(
                f"stiffness preset of joint {joint + 1}: got {values[joint]:g}, allowed "
                f"{low[joint]:g} to {high[joint]:g} {self.preset_unit}".rstrip()
            )
        return values

    def equilibrium_for(self, q: ArrayLike, torque: ArrayLike, preset: ArrayLike = 0.0) -> Vector:
        r"""Return the equilibrium angles at which springs exert given joint torques, (n,) [rad].

        Solve :math:`\tau_{link}(q, \mathrm{references}(\theta_{eq}, p)) = \tau` for the
        equilibrium angle :math:`\theta_{eq}`, with joint angle q, torque :math:`\tau` and preset
        p.

        Args:
            q: Joint angles, one number or (n,) [rad].
            torque: Torque of the springs on the joints, one number or (n,) [Nm].
            preset: Stiffness presets, one number or (n,).

        Raises:
            ActuatorRejected: If the springs cannot exert the torque, a preset is out of range, a
                value is not finite, or a count is wrong.
        """
        q = finite_numbers(f"{self.kind()}: q", q, self.n_joints)
        desired = finite_numbers(f"{self.kind()}: torque", torque, self.n_joints)
        preset = self.checked_preset(preset)
        min_value, max_value = (
            self.elastic_torque(q, *self.references(end, preset)).link
            for end in self._full_deflection_equilibria(q, preset)
        )
        for joint in np.flatnonzero((desired < min_value) | (desired > max_value)):
            raise self.rejected(
                f"torque of joint {joint + 1}: got {desired[joint]:.4g} Nm, its springs "
                f"can exert {min_value[joint]:.4g} to {max_value[joint]:.4g} Nm"
            )
        return self.nearest_equilibrium(q, desired, preset)

    def nearest_equilibrium(
        self, q: Vector, torque: Vector, preset: Vector, start: Vector | None = None
    ) -> Vector:
        """Return the equilibrium angles of :meth:`equilibrium_for`, without checks, (n,) [rad].

        If the springs cannot exert a torque, return the angle at which they are fully deflected.

        Args:
            q: Joint angles, (n,) [rad].
            torque: Desired torque on the joints, (n,) [Nm].
            preset: Stiffness presets within their range, (n,).
            start: Initial guess, such as the last solution, (n,) [rad]; by default ``q``.
        """
        low, high = self._full_deflection_equilibria(q, preset)
        result = q if start is None else np.minimum(np.maximum(start, low), high)
        with np.errstate(divide="ignore", invalid="ignore"):
            for round_number in range(MAX_ITERATIONS):
                theta = self.references(result, preset)
                excess = self.elastic_torque(q, *theta).link - torque
                low = np.where(excess <= 0.0, result, low)
                high = np.where(excess >= 0.0, result, high)
                other = 0.5 * (low + high) if round_number else np.where(excess > 0.0, low, high)
                step = result - excess / self.link_stiffness(q, *theta)
                step = np.where((step >= low) & (step <= high), step, other)
                done = np.abs(step - result).max() < _STEP_TOLERANCE
                result = step
                if done:
                    break
        return result

    def torque_limit(self, preset: ArrayLike, motors: ArrayLike = np.inf) -> Vector:
        """Return the maximum torque of the springs on each joint, in both directions, (n,) [Nm].

        Deflection limits and motor torques limit it. It is zero if a motor is too weak to hold the
        preset of an unloaded joint.

        Args:
            preset: Stiffness presets, one number or (n,).
            motors: Maximum torques of the motors [Nm, or N for a linear second motor]: one number,
                (n,), or (2, n) with one row per motor. By default unlimited.

        Raises:
            ActuatorRejected: If a preset is out of range.
        """
        preset, empty = self.checked_preset(preset), np.zeros(self.n_joints)
        max_value, result = (
            np.broadcast_to(motors, (2, self.n_joints)),
            np.full(self.n_joints, np.inf),
        )
        for end in self._full_deflection_equilibria(empty, preset):
            held, beyond, fraction = empty, empty + 1.0, empty + 1.0
            torque = empty
            for _ in range(_BISECTION_STEPS):
                theta = self.references(fraction * end, preset)
                link, *loads = self.elastic_torque(empty, *theta)
                between = self.coupling_torque(*theta)
                holds = np.abs(loads[0] + between) <= max_value[0]
                holds &= np.abs(loads[1] - between) <= max_value[1]
                torque = np.where(holds, np.abs(link), torque)
                held, beyond = np.where(holds, fraction, held), np.where(holds, beyond, fraction)
                fraction = 0.5 * (held + beyond)
            result = np.minimum(result, torque)
        return result

    def _full_deflection_equilibria(self, q: Vector, preset: Vector) -> tuple[Vector, Vector]:
        """Return the equilibria below and above the joint angles, (n,) each [rad]."""
        reach = self._limit + np.abs(preset) if self.is_antagonistic else self._limit
        return q - reach, q + reach

    def _refuse_range(self) -> None:
        low, high, limit = self.preset_low, self.preset_high, self._limit
        for joint in np.flatnonzero(low > high):
            raise self.rejected(
                f"preset_low of joint {joint + 1}: got {low[joint]:g}, allowed up to preset_high "
                f"{high[joint]:g} {self.preset_unit}"
            )
        for joint in np.flatnonzero(self.is_antagonistic & (np.maximum(-low, high) >= limit)):
            raise self.rejected(
                f"presets of joint {joint + 1}: got {low[joint]:g} to {high[joint]:g} rad, "
                f"allowed less than max_deflection {limit[joint]:g} rad"
            )

    def _refuse_infinite_torques(self) -> None:
        empty = np.zeros(self.n_joints)
        with np.errstate(all="ignore"):
            for preset in (self.preset_low, self.preset_high):
                for end in self._full_deflection_equilibria(empty, preset):
                    theta = self.references(end, preset)
                    result = (
                        *self.elastic_torque(empty, *theta),
                        self.link_stiffness(empty, *self.references(0.999 * end, preset)),
                    )
                    # Bound the index of the joint: the array of a plug-in may have a wrong shape,
                    # which ``check_actuator`` reports.
                    for one in result:
                        over = np.flatnonzero(~(np.abs(one) < _MAX_MAGNITUDE))
                        if not over.size:
                            continue
                        joint = min(int(over[0]), self.n_joints - 1)
                        raise self.rejected(
                            f"max_deflection of joint {joint + 1}: got {self._limit[joint]:g} "
                            f"rad, where springs exceed {_MAX_MAGNITUDE:.0e} Nm or Nm/rad. Lower "
                            f"it."
                        )

    def _refuse_presets_without_effect(self) -> None:
        low, high, zero = self.preset_low, self.preset_high, np.zeros(self.n_joints)
        soft, stiff = (
            self.link_stiffness(zero, *self.references(zero, preset)) for preset in (low, high)
        )
        min_value = _MIN_CHANGE * np.maximum(np.abs(soft), np.abs(stiff))
        for joint in np.flatnonzero((low < high) & (np.abs(stiff - soft) <= min_value)):
            specs = [spec for spec in specs_of(self.Params) if spec.name in self.identified]
            units = ", ".join(f"{spec.name} [{spec.unit}]" for spec in specs)
            raise self.rejected(
                f"stiffness of joint {joint + 1}: got {soft[joint]:.4g} Nm/rad at preset "
                f"{low[joint]:g} and {stiff[joint]:.4g} at {high[joint]:g}, nearly the "
                f"same; were parameters exchanged? {units}".rstrip()
            )
