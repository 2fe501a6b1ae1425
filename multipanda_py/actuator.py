# SPDX-License-Identifier: Apache-2.0
"""Compliant actuators: springs between one or two motors and a joint.

An actuator of one's own is one file with its parameters and two methods, or three where the map
from equilibrium and preset to motors is another one::

    @dataclass(frozen=True)
    class CubicParams(ActuatorParams):
        stiffness: float = number(50.0, unit="Nm/rad", low=0, doc="of a small deflection")
        hardening: float = number(300.0, unit="Nm/rad^3", low=0, doc="how it grows")

    class Cubic(Actuator[CubicParams]):
        Params, preset_unit = CubicParams, ""  # no second motor

        def elastic_torque(self, q, theta_1, theta_2):
            d = self.clipped(theta_1 - q)
            torque = self.of["stiffness"] * d + self.of["hardening"] * d**3
            return ElasticTorque(link=torque, motor_1=torque, motor_2=np.zeros_like(torque))
        ...

Angles and torques are of the joint's side, [rad] and [Nm]. Sources: Mengacci et al., An
open-source ROS-Gazebo toolbox for simulating robots with compliant actuators, Frontiers in
Robotics and AI 8, 2021; Grioli et al., Variable stiffness actuators: the user's point of view,
IJRR 34, 2015.
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

from multipanda_py.exceptions import ActuatorRefused, ParameterRejected
from multipanda_py.parameters import Spec, number, specs_of
from multipanda_py.state import Vector


@dataclass(frozen=True)
class ActuatorParams:
    """What every actuator has. Each is a number, or one for each joint."""

    max_deflection: float = number(
        0.8, unit="rad", low=0, exclusive_low=True, doc="of a spring; its torque grows no further"
    )
    damping: float = number(0.0, unit="Nm s/rad", low=0, doc="between motors and joint")


@dataclass(frozen=True)
class PresetParams(ActuatorParams):
    """What those have whose second motor sets the stiffness."""

    preset_low: float = number(0.0, unit="rad", doc="smallest stiffness preset")
    preset_high: float = number(0.0, unit="rad", doc="largest stiffness preset")
    damping_per_preset: float = number(
        0.0, unit="Nm s/rad^2", low=0, doc="how the damping grows with the preset"
    )


@dataclass(frozen=True)
class AntagonisticParams(PresetParams):
    """What those have whose two motors pull against each other."""

    coupling: float = number(
        0.0, unit="Nm/rad", low=0, doc="of a spring between the two motors, beside the joint's"
    )


def values_by_name(
    kind: str, params: type, given: Mapping[str, ArrayLike], n_joints: int
) -> dict[str, Vector]:
    """Return all parameters of ``n`` joints, (n,) each and read only.

    Args:
        kind: Of the actuator, for refusals.
        params: Their declaration.
        given: What differs from the defaults: one number each, or n.
        n_joints: Number of the joints.

    Raises:
        ActuatorRefused: If a parameter does not exist, has another number of values, or is out of
            its bounds.
    """
    specs = _specs(params)
    for name in given:
        if name not in specs:
            known = ", ".join(specs)
            raise ActuatorRefused(f"{kind}: parameter {name!r} does not exist; known: {known}")
    return {
        name: _values(kind, spec, given.get(name, spec.default), n_joints)
        for name, spec in specs.items()
    }


def numbers_of_joints(what: str, value: ArrayLike, n_joints: int) -> Vector:
    """Return one number of every joint, which need not be finite.

    Raises:
        ActuatorRefused: If there is another number of them, or one is none.
    """
    try:
        given = np.asarray(value)
    except ValueError:  # lists of different lengths
        given = np.array(None)
    if given.dtype.kind not in "fiu":  # no flags, and no text that looks like a number
        raise ActuatorRefused(f"{what}: got {value!r:.60}, allowed numbers")
    values = given.astype(np.float64)
    if values.shape not in ((), (n_joints,)):
        raise ActuatorRefused(f"{what}: got {values.size} numbers, allowed one or {n_joints}")
    return np.broadcast_to(values, (n_joints,)).copy()


def finite_numbers(what: str, value: ArrayLike, n_joints: int) -> Vector:
    """Return one finite number of every joint.

    Raises:
        ActuatorRefused: If there is another number of them, or one is not finite.
    """
    values = numbers_of_joints(what, value, n_joints)
    for joint in np.flatnonzero(~np.isfinite(values)):
        raise ActuatorRefused(
            f"{what} of joint {joint + 1}: got {values[joint]:g}, allowed a finite number"
        )
    return values


def whole_number(what: str, value: Any) -> int:
    """Return a number of things, of which there is at least one.

    Raises:
        ActuatorRefused: If it is none: a fraction, a flag, text, or less than 1.
    """
    is_number = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_number or value < 1:
        raise ActuatorRefused(f"{what}: got {value!r:.40}, allowed 1 or more, in whole numbers")
    return int(value)


def positive_number(what: str, value: Any, unit: str) -> float:
    """Return a finite number above 0.

    Raises:
        ActuatorRefused: If it is none: a flag, text, an array, infinite, or not above 0.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0.0 < value < math.inf:
        raise ActuatorRefused(f"{what}: got {value!r:.40}, allowed more than 0 {unit}")
    return float(value)


@cache
def _specs(params: type) -> dict[str, Spec]:
    return {spec.name: spec for spec in specs_of(params)}


def _values(kind: str, spec: Spec, value: Any, n_joints: int) -> Vector:
    several = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim)
    elements = list(value) if several else [value]
    if several and len(elements) != n_joints:
        raise ActuatorRefused(
            f"{kind}: {spec.name}: got {len(elements)} numbers, allowed one or {n_joints}"
        )
    try:
        checked = [spec.check(_plain(element)) for element in elements]
    except ParameterRejected as error:
        raise ActuatorRefused(f"{kind}: {error}") from None
    found = np.full(n_joints, checked, dtype=np.float64)
    found.setflags(write=False)
    return found


def _plain(element: Any) -> Any:
    return element.item() if isinstance(element, (np.generic, np.ndarray)) else element


ROUNDS = 100
"""Of looking for an equilibrium; Newton's steps need some ten, halving alone some fifty."""
_RESOLVED = 1e-13
"""Where that ends [rad]."""
_HALVINGS = 40
"""Of looking for what motors can hold: to a part in 1e12."""
PINION = 0.015
"""Radius of the pinion by which a second motor moves a pivot, if nobody says [m]."""
_ENDLESS = 1e12
"""Torques and stiffnesses of springs stay below this: their squares are numbers [Nm, Nm/rad]."""
_LEAST_CHANGE = 0.01
"""By which share the stiffness has to change over the range of presets."""


class ElasticTorque(NamedTuple):
    r"""What springs do to a joint and to its motors, (n,) or (k, n) each [Nm].

    A motor that leads the joint gives a positive ``link`` torque, and itself is held back by
    ``motor_1`` and ``motor_2``: :math:`J \ddot\theta_i = \tau_{m,i} - \tau_i - \ldots`. Where the
    second motor moves a lever or a pivot, ``motor_2`` is its load in its own unit. All follow from
    one energy V: :math:`\tau_{link} = -\partial V / \partial q`,
    :math:`\tau_i = \partial V / \partial \theta_i`. Two of them may be one array: read them only.
    """

    link: Vector
    motor_1: Vector
    motor_2: Vector


P = TypeVar("P", bound=ActuatorParams)


class Actuator(ABC, Generic[P]):
    """The springs of ``n`` joints of one kind, vectorised.

    Args:
        n_joints: Number of the joints, n.
        params: Parameters by name, each one number or n of them; others have their defaults.

    Attributes:
        of: The parameters by name, (n,) each, read only.
        n_joints: Number of the joints.
        preset_low: Smallest stiffness presets, (n,); zero where there is no second motor.
        preset_high: Largest ones.

    Raises:
        ActuatorRefused: If the number of joints is none, a parameter does not exist or is out of
            its bounds, or presets do not change the stiffness.

    Thread: any; it has no state.
    """

    Params: ClassVar[type[Any]]
    is_antagonistic: ClassVar[bool] = False
    """Whether two motors pull the joint: equilibrium is their mean, preset half their difference.
    If not, the first motor is the equilibrium, and the second one the preset."""
    preset_unit: ClassVar[str] = "rad"
    """Of the second reference; an empty text if there is no second motor."""
    identified: ClassVar[tuple[str, ...]] = ()
    """Parameters that torques and deflections tell: what an identification fits."""
    source: ClassVar[str] = ""
    """Where the equations and the defaults are from."""

    def __init__(self, n_joints: int, params: Mapping[str, ArrayLike] | None = None) -> None:
        self.n_joints = n_joints = whole_number(f"{self.kind()}: joints", n_joints)
        self.of: dict[str, Vector] = values_by_name(
            self.kind(), self.Params, params or {}, n_joints
        )
        none = np.zeros(n_joints)
        self.preset_low: Vector = self.of.get("preset_low", none)
        self.preset_high: Vector = self.of.get("preset_high", none)
        self._limit = self.of["max_deflection"]
        self._lower = -self._limit
        self._refuse_range()
        self.on_parameters()
        self._refuse_endless()
        self._refuse_idle_presets()

    @classmethod
    def kind(cls) -> str:
        """Return the name as in a cell file, by the rule of the registry."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    @classmethod
    def refused(cls, what: str) -> ActuatorRefused:
        """Return the error that this kind of actuator refuses something with."""
        return ActuatorRefused(f"{cls.kind()}: {what}")

    @property
    def n_motors(self) -> int:
        """Number of motors of a joint: 1, or 2 where there are presets."""
        return 2 if self.preset_unit else 1

    @property
    def is_coupled(self) -> bool:
        """Whether there is a spring between the motors: if not, its torque is zero."""
        own = type(self).coupling_torque is not Actuator.coupling_torque
        return own or bool(np.any(self.of.get("coupling", 0.0)))

    def on_parameters(self) -> None:
        """Refuse what bounds alone do not, and prepare what depends on parameters only.

        Called once, when ``of`` is there.
        """

    @abstractmethod
    def elastic_torque(self, q: Vector, theta_1: Vector, theta_2: Vector) -> ElasticTorque:
        """Return what the springs do to joints and motors.

        Args:
            q: Angles of the joints, (n,) or (k, n) [rad].
            theta_1: Of the first motors, likewise.
            theta_2: Of the second motors, likewise [rad, or m where that is their unit].
        """

    @abstractmethod
    def link_stiffness(self, q: Vector, theta_1: Vector, theta_2: Vector) -> Vector:
        r"""Return :math:`\sigma = -\partial\tau_{link}/\partial q`, (n,) or (k, n) [Nm/rad]."""

    def references(self, equilibrium: Vector, preset: Vector) -> tuple[Vector, Vector]:
        """Return the motors' positions for an equilibrium and a stiffness preset, (n,) each.

        They are the two themselves, or the equilibrium plus and minus the preset where motors
        pull against each other. An actuator with another map also has its inverse,
        :meth:`equilibrium_of` and :meth:`preset_of`.
        """
        if self.is_antagonistic:
            return equilibrium + preset, equilibrium - preset
        return equilibrium, preset

    def preset_of(self, theta_1: Vector, theta_2: Vector) -> Vector:
        """Return the preset that motors stand at, (n,)."""
        return 0.5 * (theta_1 - theta_2) if self.is_antagonistic else theta_2

    def equilibrium_of(self, theta_1: Vector, theta_2: Vector) -> Vector:
        """Return the equilibrium that motors stand at, (n,) [rad]."""
        return 0.5 * (theta_1 + theta_2) if self.is_antagonistic else theta_1

    def coupling_torque(self, theta_1: Vector, theta_2: Vector) -> Vector:
        r"""Return :math:`g(\theta_1, \theta_2)` of a spring between two motors, (n,) [Nm].

        It holds back the first, and drives the second: loads are :math:`\tau_1 + g` and
        :math:`\tau_2 - g`. The joint does not feel it. Here it is
        :math:`k_c (\theta_1 - \theta_2)` with the parameter ``coupling``, if there is one.
        """
        if "coupling" not in self.of:
            return np.zeros_like(theta_1)
        return self.of["coupling"] * (theta_1 - theta_2)

    def damping(self, theta_1: Vector, theta_2: Vector) -> Vector:
        r"""Return the damping :math:`d` between motors and joint at their preset [Nm s/rad].

        The joint gets :math:`d (\dot\theta_{eq} - \dot q)`, and the motors the opposite: the
        first all of it, or each of two that pull against each other one half.
        """
        found = self.of["damping"]
        if "damping_per_preset" in self.of:
            preset = np.abs(self.preset_of(theta_1, theta_2))
            found = found + self.of["damping_per_preset"] * preset
        return found

    def clipped(self, deflection: Vector) -> Vector:
        """Return deflections up to the largest that a spring has [rad]."""
        found: Vector = np.minimum(np.maximum(deflection, self._lower), self._limit)
        return found

    def within(self, deflection: Vector) -> Vector:
        """Return 1 where a spring is not at its limit, else 0: what its slope is scaled by."""
        found: Vector = np.heaviside(self._limit - np.abs(deflection), 0.0)  # NaN stays
        return found

    def at_limit(self, q: Vector, theta_1: Vector, theta_2: Vector) -> NDArray[np.bool_]:
        """Return whose springs are at their largest deflection, (n,): their torque is a bound."""
        found: NDArray[np.bool_] = np.abs(theta_1 - q) >= self._limit
        if self.is_antagonistic:
            found = found | (np.abs(theta_2 - q) >= self._limit)
        return found

    def checked_preset(self, preset: ArrayLike) -> Vector:
        """Return presets of n joints, if they are allowed.

        Raises:
            ActuatorRefused: If their number is wrong, or one is not finite or out of range.
        """
        values = numbers_of_joints(f"{self.kind()}: stiffness preset", preset, self.n_joints)
        low, high = self.preset_low, self.preset_high
        for joint in np.flatnonzero(~((values >= low) & (values <= high))):
            raise self.refused(
                f"stiffness preset of joint {joint + 1}: got {values[joint]:g}, allowed "
                f"{low[joint]:g} to {high[joint]:g} {self.preset_unit}".rstrip()
            )
        return values

    def equilibrium_for(self, q: ArrayLike, torque: ArrayLike, preset: ArrayLike = 0.0) -> Vector:
        r"""Return the equilibrium at which springs hold joints at ``q`` with a torque.

        It solves :math:`\tau_{link}(q, \mathrm{references}(\theta_{eq}, p)) = \tau` for
        :math:`\theta_{eq}`: with gravity as the torque it is ``q`` plus the deflection of the
        springs.

        Args:
            q: Where the joints are to rest, one number or (n,) [rad].
            torque: That the springs are to exert on them, likewise [Nm].
            preset: Stiffness presets, likewise.

        Raises:
            ActuatorRefused: If the springs cannot exert that, a preset is out of range, a number
                is not finite, or there is another number of them.
        """
        q = finite_numbers(f"{self.kind()}: q", q, self.n_joints)
        wanted = finite_numbers(f"{self.kind()}: torque", torque, self.n_joints)
        preset = self.checked_preset(preset)
        least, most = (
            self.elastic_torque(q, *self.references(end, preset)).link
            for end in self._ends(q, preset)
        )
        for joint in np.flatnonzero((wanted < least) | (wanted > most)):
            raise self.refused(
                f"torque of joint {joint + 1}: got {wanted[joint]:.4g} Nm, allowed what its "
                f"springs can exert, {least[joint]:.4g} to {most[joint]:.4g} Nm"
            )
        return self.nearest_equilibrium(q, wanted, preset)

    def nearest_equilibrium(
        self, q: Vector, torque: Vector, preset: Vector, start: Vector | None = None
    ) -> Vector:
        """Return what :meth:`equilibrium_for` does or, unchecked, what comes nearest to it.

        By Newton's steps, halving what is left where these would leave it. For loops: a torque
        that the springs cannot exert gives the end of their deflection.

        Args:
            q: Angles of the joints, (n,) [rad].
            torque: Wanted on them, (n,) [Nm].
            preset: Within its range, (n,).
            start: Where to begin, such as the last solution, (n,) [rad]; by default ``q``.
        """
        low, high = self._ends(q, preset)
        found = q if start is None else np.minimum(np.maximum(start, low), high)
        with np.errstate(divide="ignore", invalid="ignore"):
            for turn in range(ROUNDS):
                theta = self.references(found, preset)
                excess = self.elastic_torque(q, *theta).link - torque
                low = np.where(excess <= 0.0, found, low)
                high = np.where(excess >= 0.0, found, high)
                other = 0.5 * (low + high) if turn else np.where(excess > 0.0, low, high)
                step = found - excess / self.link_stiffness(q, *theta)
                step = np.where((step >= low) & (step <= high), step, other)
                done = np.abs(step - found).max() < _RESOLVED
                found = step
                if done:
                    break
        return found

    def exertable(self, preset: ArrayLike, motors: ArrayLike = np.inf) -> Vector:
        r"""Return the largest torques that are exerted on joints to either side, (n,) [Nm].

        They end where springs do, or where a motor cannot hold its spring any more: the largest
        shares of the way to the end of the springs are found by halving. Zero where a motor
        cannot even hold the preset.

        Args:
            preset: Stiffness presets, one number or (n,).
            motors: Largest torques of both motors, one number, (n,) or (2, n) [Nm, or N where
                that is the unit of a second motor].

        Raises:
            ActuatorRefused: If a preset is out of range.
        """
        preset, none = self.checked_preset(preset), np.zeros(self.n_joints)
        most, found = np.broadcast_to(motors, (2, self.n_joints)), np.full(self.n_joints, np.inf)
        for end in self._ends(none, preset):
            held, beyond, share = none, none + 1.0, none + 1.0
            torque = none
            for _ in range(_HALVINGS):
                theta = self.references(share * end, preset)
                link, *loads = self.elastic_torque(none, *theta)
                between = self.coupling_torque(*theta)
                holds = np.abs(loads[0] + between) <= most[0]
                holds &= np.abs(loads[1] - between) <= most[1]
                torque = np.where(holds, np.abs(link), torque)
                held, beyond = np.where(holds, share, held), np.where(holds, beyond, share)
                share = 0.5 * (held + beyond)
            found = np.minimum(found, torque)
        return found

    def _ends(self, q: Vector, preset: Vector) -> tuple[Vector, Vector]:
        """Return the equilibria at which all springs are at their limits."""
        reach = self._limit + np.abs(preset) if self.is_antagonistic else self._limit
        return q - reach, q + reach

    def _refuse_range(self) -> None:
        """Refuse a range of presets that is none, or that ends where springs do."""
        low, high, limit = self.preset_low, self.preset_high, self._limit
        for joint in np.flatnonzero(low > high):
            raise self.refused(
                f"preset_low of joint {joint + 1}: got {low[joint]:g}, allowed up to preset_high "
                f"{high[joint]:g} {self.preset_unit}"
            )
        for joint in np.flatnonzero(self.is_antagonistic & (np.maximum(-low, high) >= limit)):
            raise self.refused(
                f"presets of joint {joint + 1}: got {low[joint]:g} to {high[joint]:g} rad, "
                f"allowed less than max_deflection {limit[joint]:g}, where springs end"
            )

    def _refuse_endless(self) -> None:
        """Refuse a deflection so large that springs would exert what is no number there."""
        none = np.zeros(self.n_joints)
        with np.errstate(all="ignore"):
            for preset in (self.preset_low, self.preset_high):
                for end in self._ends(none, preset):
                    theta = self.references(end, preset)
                    found = (
                        *self.elastic_torque(none, *theta),
                        self.link_stiffness(none, *self.references(0.999 * end, preset)),
                    )
                    for one in found:  # of any shape: an own actuator's is checked elsewhere
                        over = np.flatnonzero(~(np.abs(one) < _ENDLESS))
                        if not over.size:
                            continue
                        joint = min(int(over[0]), self.n_joints - 1)
                        raise self.refused(
                            f"max_deflection of joint {joint + 1}: got {self._limit[joint]:g} "
                            f"rad, allowed where springs exert less than {_ENDLESS:.0e} Nm"
                        )

    def _refuse_idle_presets(self) -> None:
        """Refuse presets that do not change the stiffness: parameters were mixed up."""
        low, high, zero = self.preset_low, self.preset_high, np.zeros(self.n_joints)
        soft, stiff = (
            self.link_stiffness(zero, *self.references(zero, preset)) for preset in (low, high)
        )
        least = _LEAST_CHANGE * np.maximum(np.abs(soft), np.abs(stiff))
        for joint in np.flatnonzero((low < high) & (np.abs(stiff - soft) <= least)):
            specs = [spec for spec in specs_of(self.Params) if spec.name in self.identified]
            units = ", ".join(f"{spec.name} [{spec.unit}]" for spec in specs)
            raise self.refused(
                f"stiffness of joint {joint + 1}: got {soft[joint]:.4g} Nm/rad at preset "
                f"{low[joint]:g} and {stiff[joint]:.4g} at {high[joint]:g}, allowed what changes "
                f"with the preset; were parameters exchanged? {units}".rstrip()
            )
