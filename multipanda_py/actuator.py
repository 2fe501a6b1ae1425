# SPDX-License-Identifier: Apache-2.0
"""Compliant actuators: springs between one or two motors and a joint.

An actuator of one's own is one file with three methods and its parameters::

    @dataclass(frozen=True)
    class CubicParams(ActuatorParams):
        stiffness: float = number(50.0, unit="Nm/rad", low=0, doc="of a small deflection")
        hardening: float = number(300.0, unit="Nm/rad^3", low=0, doc="how it grows")

    class Cubic(Actuator[CubicParams]):
        Params = CubicParams

        def elastic_torque(self, q, theta_1, theta_2):
            d = self.clipped(theta_1 - q)
            torque = self.of["stiffness"] * d + self.of["hardening"] * d**3
            return ElasticTorque(link=torque, motor_1=torque, motor_2=np.zeros_like(q))
        ...

Angles and torques are of the joint's side, [rad] and [Nm]; sources: Mengacci et al., An
open-source ROS-Gazebo toolbox for simulating robots with compliant actuators, Frontiers in
Robotics and AI 8, 2021; Grioli et al., Variable stiffness actuators: the user's point of view,
IJRR 34, 2015.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.exceptions import ActuatorRefused, ParameterRejected
from multipanda_py.parameter_spec import Spec
from multipanda_py.parameters import number, specs_of
from multipanda_py.state import Vector


class ElasticTorque(NamedTuple):
    """What springs do to a joint and to its motors, (n,) each [Nm].

    A motor that leads the joint gets a positive ``link`` torque, and itself is held back by
    ``motor_1`` and ``motor_2``: :math:`J \\ddot\\theta_i = \\tau_{m,i} - \\tau_i - \\dots`. Where the
    second motor moves a lever or a pivot, ``motor_2`` is its load in its own unit.
    """

    link: Vector
    motor_1: Vector
    motor_2: Vector


@dataclass(frozen=True)
class ActuatorParams:
    """What every actuator has. Each is a number, or one for each joint."""

    max_deflection: float = number(
        0.8, unit="rad", low=0, exclusive_low=True, doc="of a spring; its torque grows no further"
    )
    preset_low: float = number(0.0, unit="rad or m", doc="smallest stiffness preset")
    preset_high: float = number(0.0, unit="rad or m", doc="largest stiffness preset")
    damping: float = number(0.0, unit="Nm s/rad", low=0, doc="between motors and joint")
    damping_per_preset: float = number(
        0.0, unit="Nm s/rad per rad or m", low=0, doc="how damping grows with the preset"
    )


P = TypeVar("P", bound=ActuatorParams)


class Actuator(ABC, Generic[P]):
    """The springs of ``n`` joints of one kind, vectorised.

    Args:
        n_joints: Number of the joints, n.
        params: Parameters by name, each one number or n of them; others have their defaults.

    Attributes:
        of: The parameters by name, (n,) each, read only.
        n_joints: Number of the joints.

    Raises:
        ActuatorRefused: If a parameter does not exist, or is out of its bounds.

    Thread: any; it has no state.
    """

    Params: ClassVar[type[Any]]
    is_antagonistic: ClassVar[bool] = False
    """Whether two motors pull the joint: equilibrium is their mean, preset half their difference.
    If not, the first motor is the equilibrium, and the second one the preset."""
    preset_unit: ClassVar[str] = "rad"
    """Of the second reference's; an empty text if there is no second motor."""

    def __init__(self, n_joints: int, params: Mapping[str, ArrayLike] | None = None) -> None:
        self.n_joints = n_joints
        given, kind = dict(params or {}), type(self).__name__.lower()
        specs = {spec.name: spec for spec in specs_of(self.Params)}
        for name in given:
            if name not in specs:
                known = ", ".join(specs)
                raise ActuatorRefused(f"{kind}: parameter {name!r} does not exist; known: {known}")
        self.of: dict[str, Vector] = {
            name: _values(kind, spec, given.get(name, spec.default), n_joints)
            for name, spec in specs.items()
        }
        low, high = self.of["preset_low"], self.of["preset_high"]
        if (low > high).any():
            raise ActuatorRefused(f"{kind}: preset_low: got {low}, allowed up to preset_high {high}")

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

    @abstractmethod
    def references(self, equilibrium: Vector, preset: Vector) -> tuple[Vector, Vector]:
        """Return the motors' positions for an equilibrium and a stiffness preset, (n,) each."""

    def preset_of(self, theta_1: Vector, theta_2: Vector) -> Vector:
        """Return the preset that motors stand at, (n,)."""
        return 0.5 * (theta_1 - theta_2) if self.is_antagonistic else theta_2

    def equilibrium_of(self, theta_1: Vector, theta_2: Vector) -> Vector:
        """Return the equilibrium that motors stand at, (n,) [rad]."""
        return 0.5 * (theta_1 + theta_2) if self.is_antagonistic else theta_1

    def coupling_torque(self, theta_1: Vector, theta_2: Vector) -> Vector:
        """Return g, with which a spring between two motors holds back the first, (n,) [Nm].

        The second gets the opposite. There is none by default.
        """
        return np.zeros_like(theta_1)

    def damping(self, theta_1: Vector, theta_2: Vector) -> Vector:
        """Return the damping between motors and joint at a preset, (n,) [Nm s/rad]."""
        preset = np.abs(self.preset_of(theta_1, theta_2))
        return self.of["damping"] + self.of["damping_per_preset"] * preset

    def clipped(self, deflection: Vector) -> Vector:
        """Return deflections up to the largest that a spring has [rad]."""
        limit = self.of["max_deflection"]
        found: Vector = np.minimum(np.maximum(deflection, -limit), limit)
        return found

    def within(self, deflection: Vector) -> Vector:
        """Return 1 where a spring is not at its limit, 0 where it is: what its slope is scaled by."""
        return (np.abs(deflection) < self.of["max_deflection"]).astype(np.float64)

    def checked_preset(self, preset: ArrayLike) -> Vector:
        """Return presets of n joints, if they are allowed.

        Raises:
            ActuatorRefused: If their number is wrong, or one is not finite or out of range.
        """
        kind, values = type(self).__name__.lower(), np.asarray(preset, dtype=np.float64)
        if values.shape not in ((), (self.n_joints,)):
            raise ActuatorRefused(
                f"{kind}: stiffness preset: got {values.size} numbers, allowed {self.n_joints}"
            )
        values = np.broadcast_to(values, (self.n_joints,)).copy()
        low, high = self.of["preset_low"], self.of["preset_high"]
        for joint in np.flatnonzero(~((values >= low) & (values <= high))):
            raise ActuatorRefused(
                f"{kind}: stiffness preset of joint {joint + 1}: got {values[joint]:g}, allowed "
                f"{low[joint]:g} to {high[joint]:g} {self.preset_unit}".rstrip()
            )
        return values

    def equilibrium_for(self, q: ArrayLike, torque: ArrayLike, preset: ArrayLike = 0.0) -> Vector:
        r"""Return the equilibrium at which springs hold joints at ``q`` with a torque.

        It solves :math:`\tau_{link}(q, \mathrm{references}(\theta_{eq}, p)) = \tau` for
        :math:`\theta_{eq}` by bisection: with gravity as the torque it is ``q`` plus the
        deflection of the springs.

        Args:
            q: Where the joints are to rest, (n,) [rad].
            torque: That the springs are to exert on them, (n,) [Nm].
            preset: Stiffness presets, one number or (n,).

        Raises:
            ActuatorRefused: If the springs cannot exert that, or a preset is out of range.
        """
        q = np.broadcast_to(np.asarray(q, dtype=np.float64), (self.n_joints,))
        wanted = np.broadcast_to(np.asarray(torque, dtype=np.float64), (self.n_joints,))
        preset = self.checked_preset(preset)
        reach = self.of["max_deflection"] + np.abs(preset) * self.is_antagonistic

        def excess(equilibrium: Vector) -> Vector:
            return self.elastic_torque(q, *self.references(equilibrium, preset)).link - wanted

        low, high = q - reach, q + reach
        for joint in np.flatnonzero(~((excess(low) <= 0.0) & (excess(high) >= 0.0))):
            most = excess(high)[joint] + wanted[joint]
            raise ActuatorRefused(
                f"{type(self).__name__.lower()}: torque of joint {joint + 1}: got "
                f"{wanted[joint]:.4g} Nm, allowed what its springs can exert, {most:.4g} Nm"
            )
        for _ in range(60):
            middle = 0.5 * (low + high)
            is_high = excess(middle) > 0.0
            low, high = np.where(is_high, low, middle), np.where(is_high, middle, high)
        found: Vector = 0.5 * (low + high)
        return found


def _values(kind: str, spec: Spec, value: ArrayLike, n_joints: int) -> Vector:
    """Return one number of every joint.

    Raises:
        ActuatorRefused: If there is another number of them, or one is out of bounds.
    """
    elements = value if isinstance(value, (list, tuple, np.ndarray)) else [value] * n_joints
    if len(elements) != n_joints:
        raise ActuatorRefused(
            f"{kind}: {spec.name}: got {len(elements)} numbers, allowed one or {n_joints}"
        )
    try:
        found = np.array([spec.check(_plain(element)) for element in elements], dtype=np.float64)
    except ParameterRejected as error:
        raise ActuatorRefused(f"{kind}: {error}") from None
    found.setflags(write=False)
    return found


def _plain(element: Any) -> Any:
    return element.item() if isinstance(element, np.generic) else element
