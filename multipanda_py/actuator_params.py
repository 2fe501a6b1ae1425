# SPDX-License-Identifier: Apache-2.0
"""Parameters that compliant actuators share, and one number of each for every joint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.exceptions import ActuatorRefused, ParameterRejected
from multipanda_py.parameter_spec import Spec
from multipanda_py.parameters import number, specs_of
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
