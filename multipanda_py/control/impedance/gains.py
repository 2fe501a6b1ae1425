# SPDX-License-Identifier: Apache-2.0
"""How much of several springs or dampers an arm that answers late can stand together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from multipanda_py.control.impedance.modal_damping import LEAST_RATIO
from multipanda_py.controllet import Controllet
from multipanda_py.parameters import choice, number, vector
from multipanda_py.robots import Robot
from multipanda_py.state import Matrix, Vector
from multipanda_py.targets import Target

MAX_STIFFNESS = (5000.0,) * 3 + (300.0,) * 3
"""Stiffest that a tool may be along any axis, and about it [N/m, Nm/rad]."""


@dataclass(frozen=True, eq=False)
class CartesianGains:
    """A spring at the tool: how stiff, how damped, how bounded, along which axes."""

    stiffness: Vector = vector(
        400, 400, 400, 20, 20, 20, unit="N/m, Nm/rad", low=0, high=MAX_STIFFNESS,
        doc="translational then rotational stiffness along the axes of gain_frame",
    )  # fmt: skip
    damping_ratio: Vector = vector(
        *[1.0] * 6, low=LEAST_RATIO, high=5, doc="1 is critically damped in every posture"
    )
    gain_frame: str = choice(
        "base", options=("base", "tool"), doc="whose axes the gains are given along"
    )
    error_clip: Vector = vector(
        0.15, 0.15, 0.15, 0.8, 0.8, 0.8, unit="m, rad", low=1e-4, high=10,
        doc="largest error per axis that is acted on; bounds what the spring asks for",
    )  # fmt: skip
    gain_time: float = number(
        0.1, unit="s", low=0, high=10, doc="over which a change of stiffness is spread"
    )


class Ramp:
    r"""Move an array from where it is to a goal in a straight line.

    .. math::
        r_k = \frac{n - k}{n}\, r_0 + \frac{k}{n}\, r_{goal}, \qquad k = 1 .. n

    Laws ramp the square roots of their gains: every gain on the way is then positive
    semidefinite, and the damping that follows from it never lacks behind it.

    Args:
        start: First value, any shape.

    Attributes:
        value: The present value, updated in place.

    Thread: control.
    """

    def __init__(self, start: Vector) -> None:
        self.value = np.array(start, dtype=np.float64)
        self._from, self._to = self.value.copy(), self.value.copy()
        self._cycles = self._left = 0

    @property
    def arrived(self) -> bool:
        """Whether the goal is reached."""
        return self._left == 0

    def go(self, goal: Vector, cycles: int = 0) -> None:
        """Head for ``goal`` from the present value, and be there after ``cycles`` steps."""
        self._from[:], self._to[:] = self.value, goal
        self._cycles = self._left = cycles
        if not cycles:
            self.value[:] = goal

    def step(self) -> bool:
        """Move on by one cycle; return whether the value has changed."""
        if not self._left:
            return False
        self._left -= 1
        share = self._left / self._cycles
        np.multiply(self._from, share, self.value)
        self.value += (1.0 - share) * self._to
        return True


class _HasGainTime(Protocol):
    @property
    def gain_time(self) -> float: ...


_TargetT = TypeVar("_TargetT", bound=Target)
_ParamsT = TypeVar("_ParamsT", bound=_HasGainTime)


class RampedGains(Controllet[_TargetT, _ParamsT]):
    """A law that takes new gains at once at rest, and within ``gain_time`` while it runs.

    ``on_parameters`` asks :meth:`gain_cycles` how long a ramp may take, and ``on_activate``
    calls :meth:`start_gains`, so that the law starts with the gains of its parameters whatever
    was on its way when it last ended.

    Thread: control.
    """

    _runs, _strayed = False, True

    def gain_cycles(self) -> int:
        """Return over how many cycles a change of gains is spread; 0 is at once."""
        if not self._runs:
            return 0
        self._strayed = True  # a ramp, or gains that were streamed
        return round(self.params.gain_time / self.context.period)

    def start_gains(self) -> None:
        """Have the gains of the parameters at once; from now on changes are spread."""
        self._runs = False
        if self._strayed:  # else they have stayed as on_parameters() or the last start left them
            self.on_parameters()
        self._runs, self._strayed = True, False

    def on_deactivate(self) -> None:
        """Let the next parameters take effect at once."""
        self._runs = False


LIGHTEST = 0.057
"""Rotor inertia that bounds of joint dampers in Nm s/rad are meant for, an FR3's last [kg m^2]."""


def damping_share(robot: Robot) -> Vector:
    """Return the share of such a bound that each joint stands, (n,): less with lighter rotors.

    They are the least that any motion of a joint weighs.
    """
    return np.minimum(1.0, robot.armature / LIGHTEST)


def share_within(gains: Vector, responses: Matrix, most: float) -> float:
    r"""Return the share of gains with which no motion exceeds a rate.

    What acts beside a law has to be slower than a law (:data:`.BANDWIDTH`), as both add up. With
    5 ms of delay, 2 ms of torque lag and half a cycle a spring takes 7.5 ms times its rate from
    the dampers: one that acts alone has to have more.

    With directions :math:`g_j` of gains :math:`c_j` and :math:`W_{jk} = g_j^T M^{-1} g_k`, no
    eigenvalue of :math:`M^{-1} \sum_j c_j g_j g_j^T` is larger than

    .. math:: \max_j \sqrt{c_j} \sum_k |W_{jk}| \sqrt{c_k}

    by Gershgorin's theorem. Source: Horn and Johnson, Matrix Analysis, section 6.1.

    Args:
        gains: c, not negative, (n,).
        responses: W, (n, n).
        most: The rate: [1/s] for dampers, [1/s^2] for springs.
    """
    root = np.sqrt(gains)
    fastest = max((root * np.dot(np.abs(responses), root)).tolist())
    return most / fastest if fastest > most else 1.0
