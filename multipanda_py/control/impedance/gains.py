# SPDX-License-Identifier: Apache-2.0
"""Cartesian gain parameters, gain ramps, and gain limits for arms with latency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from multipanda_py.control.impedance.modal_damping import MIN_DAMPING_RATIO
from multipanda_py.controllet import Controllet
from multipanda_py.parameters import choice, number, vector
from multipanda_py.robots import Robot
from multipanda_py.state import Matrix, Vector
from multipanda_py.targets import Target

MAX_STIFFNESS = (5000.0,) * 3 + (300.0,) * 3
"""Maximum stiffness along and about any axis of a tool [N/m, Nm/rad]."""


@dataclass(frozen=True, eq=False)
class CartesianGains:
    """Stiffness, damping, axes and error bounds of a Cartesian spring."""

    stiffness: Vector = vector(
        400, 400, 400, 20, 20, 20, unit="N/m, Nm/rad", low=0, high=MAX_STIFFNESS,
        doc="translational then rotational stiffness along the axes of gain_frame",
    )  # fmt: skip
    damping_ratio: Vector = vector(
        *[1.0] * 6, low=MIN_DAMPING_RATIO, high=5,
        doc="damping ratio; 1 is critical in every configuration",
    )  # fmt: skip
    gain_frame: str = choice(
        "base", options=("base", "tool"), doc="frame along whose axes the gains are given"
    )
    error_clip: Vector = vector(
        0.15, 0.15, 0.15, 0.8, 0.8, 0.8, unit="m, rad", low=1e-4, high=10,
        doc="maximum error per axis; bounds the spring wrench",
    )  # fmt: skip
    gain_time: float = number(
        0.1, unit="s", low=0, high=10, doc="duration of a change of stiffness"
    )


class Ramp:
    """Linear ramp of an array from its current value to a goal.

    Equation::

        r_k = (n - k) / n r_0 + k / n r_goal,   k = 1 .. n

    - r_k: Value after k cycles, any shape.
    - r_0, r_goal: Start and goal.
    - n: Length of the ramp [cycles].

    Args:
        start: First value, any shape.

    Attributes:
        value: Current value, updated in place.
        arrived: True if the goal is reached.

    Thread: control.
    """

    def __init__(self, start: Vector) -> None:
        self.value = np.array(start, dtype=np.float64)
        self._from, self._to = self.value.copy(), self.value.copy()
        self._cycles, self._left, self.arrived = 0, 0, True

    def go(self, goal: Vector, cycles: int = 0) -> None:
        """Start a ramp from the current value.

        Args:
            goal: Value at the end of the ramp.
            cycles: Length of the ramp [cycles]; 0 applies the goal immediately.
        """
        self._from[:], self._to[:] = self.value, goal
        self._cycles = self._left = cycles
        self.arrived = not cycles
        if not cycles:
            self.value[:] = goal

    def step(self) -> bool:
        """Advance by one cycle. Return True if the value has changed."""
        if not self._left:
            return False
        self._left -= 1
        self.arrived = not self._left
        fraction = self._left / self._cycles
        np.multiply(self._from, fraction, self.value)
        self.value += (1.0 - fraction) * self._to
        return True


class _HasGainTime(Protocol):
    @property
    def gain_time(self) -> float: ...


_TargetT = TypeVar("_TargetT", bound=Target)
_ParamsT = TypeVar("_ParamsT", bound=_HasGainTime)


class RampedGains(Controllet[_TargetT, _ParamsT]):
    """Controllet that ramps gain changes within ``gain_time`` while it is active.

    While it is inactive, new gains apply immediately. A subclass must:

    - take the ramp length from ``gain_cycles`` in ``on_parameters``, and
    - call ``start_gains`` in ``on_activate``, to apply the gains of the parameters.

    Thread: control.
    """

    _runs, _strayed = False, True
    _parameter_stiffness: Vector | None = None

    def gain_cycles(self) -> int:
        """Return the length of a gain ramp [cycles]; 0 means an immediate change."""
        if not self._runs:
            return 0
        # From now on, the current gains may differ from the parameters: in a ramp, or if a client
        # streams gains.
        self._strayed = True
        return round(self.params.gain_time / self.context.period)

    def remember_stiffness(self, stiffness: Vector) -> bool:
        """Remember the stiffness of the parameters; return True if it must be applied.

        Otherwise, keep the current stiffness, which a client may have streamed.

        Args:
            stiffness: Value of the parameter, (n,).
        """
        before, self._parameter_stiffness = self._parameter_stiffness, stiffness
        return not self._runs or before is None or not np.array_equal(before, stiffness)

    def start_gains(self) -> None:
        """Apply the gains of the parameters immediately, and ramp all later changes."""
        self._runs = False
        if self._strayed:  # If False, the current gains already equal the parameters.
            self.on_parameters()
        self._runs, self._strayed = True, False

    def on_deactivate(self) -> None:
        """Apply later parameter changes without a ramp."""
        self._runs = False


MIN_ROTOR_INERTIA = 0.057
"""Rotor inertia to which bounds of joint damping refer, that of an FR3's last joint [kg m^2]."""


def rotor_damping_scale(robot: Robot) -> Vector:
    """Return the factor that lowers the damping bound of joints with light rotors, (n,).

    The factor is the rotor inertia divided by ``MIN_ROTOR_INERTIA``, and 1 at most. No motion of a
    joint has a lower inertia than its rotor.
    """
    return np.minimum(1.0, robot.armature / MIN_ROTOR_INERTIA)


def gershgorin_scale(gains: Vector, responses: Matrix, max_rate: float) -> float:
    """Return the factor on gains, 0 to 1, with which no eigenvalue exceeds ``max_rate``.

    The eigenvalues are those of ``M^-1 sum_j c_j g_j g_j^T``. By Gershgorin's theorem, none
    exceeds::

        max_j sqrt(c_j) sum_k |W_jk| sqrt(c_k)
        W_jk = g_j^T M^-1 g_k

    - g_j: Direction j in joint space, (joints,).
    - c_j: Gain along g_j.
    - M: Inertia matrix, (joints, joints) [kg m^2].

    Source: Horn and Johnson, Matrix Analysis, section 6.1.

    Args:
        gains: Gains c, not negative, (n,).
        responses: Matrix W, (n, n).
        max_rate: Maximum eigenvalue: [1/s] for dampers, [1/s^2] for springs.
    """
    root = np.sqrt(gains)
    fastest = max((root * np.dot(np.abs(responses), root)).tolist())
    return max_rate / fastest if fastest > max_rate else 1.0
