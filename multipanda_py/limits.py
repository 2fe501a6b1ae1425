# SPDX-License-Identifier: Apache-2.0
"""Limits of an arm's joints, and of targets."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError

MAX_TORQUE_FRACTION = 0.9
"""Fraction of the torque limits that a wrench of a law may take; the rest is for dampers and
features."""
NAMES = ("lower", "upper", "velocity", "acceleration", "jerk", "torque", "torque_rate")


@dataclass(frozen=True, eq=False)
class ArmLimits:
    """Limits of the n joints of an arm, each a read-only array of shape (n,).

    Of a joint that slides, read m for rad and N for Nm.

    Attributes:
        lower: Smallest position [rad]; -inf for a joint that turns without end.
        upper: Largest position [rad]; inf likewise.
        velocity: Largest speed [rad/s].
        acceleration: Largest acceleration [rad/s^2].
        jerk: Largest jerk [rad/s^3].
        torque: Largest torque [Nm].
        torque_rate: Largest change of a commanded torque [Nm/s].
        slides: Which joints slide; by default none.
        whole_torque: Of an arm that carries itself: largest torque with what carries it in it
            [Nm], as where springs end; by default inf, for a robot sees to that.

    Raises:
        ConfigurationError: If an array is not (n,), a number is not finite where it has to be,
            bounds are reversed, or a joint slides without end.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    velocity: NDArray[np.float64]
    acceleration: NDArray[np.float64]
    jerk: NDArray[np.float64]
    torque: NDArray[np.float64]
    torque_rate: NDArray[np.float64]
    slides: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    whole_torque: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        """Copy the arrays, check them and make them read-only."""
        joints = np.size(self.lower)
        for name in NAMES:
            array = np.array(getattr(self, name), dtype=np.float64)
            endless = self.endless if name in ("lower", "upper") else False
            if array.shape != (joints,) or not joints or not (np.isfinite(array) | endless).all():
                raise ConfigurationError(
                    f"limits: {name}: got {array}, allowed {joints or 'some'} finite numbers"
                )
            if name not in ("lower", "upper") and (array <= 0.0).any():
                raise ConfigurationError(f"limits: {name} must be positive, got {array}")
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        whole = np.array(self.whole_torque if np.size(self.whole_torque) else [np.inf] * joints)
        if whole.shape != (joints,) or not (whole > 0.0).all():
            raise ConfigurationError(f"limits: whole_torque must be positive, got {whole}")
        whole.flags.writeable = False
        object.__setattr__(self, "whole_torque", whole)
        slides = np.array(self.slides if np.size(self.slides) else [False] * joints)
        slides.flags.writeable = False
        object.__setattr__(self, "slides", slides)
        if (slides & self.endless).any():
            raise ConfigurationError(
                f"limits: lower and upper: got none for joint {int(slides.argmax()) + 1}, which "
                "slides; allowed finite numbers"
            )
        if (self.lower >= self.upper).any():
            raise ConfigurationError(
                f"limits: lower must be below upper, got {self.lower} and {self.upper}"
            )

    @property
    def n_joints(self) -> int:
        """Number of joints, n."""
        return self.lower.size

    @property
    def bears_weight(self) -> bool:
        """Whether what carries the arm is counted in a limit of its torque."""
        return bool(np.isfinite(self.whole_torque).any())

    def unit(self, joint: SupportsIndex, of: str = "rad") -> str:
        """Return a unit such as ``rad/s`` as it is for one joint, counted from 0."""
        return of.replace("Nm", "N").replace("rad", "m") if self.slides[joint] else of

    @property
    def endless(self) -> NDArray[np.bool_]:
        """Which joints turn without end, (n,)."""
        return np.isneginf(self.lower) & np.isposinf(self.upper)

    @property
    def span(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Positions that are all different, lowest and highest, (n,) each: at most one turn."""
        lower = np.where(self.endless, -np.pi, self.lower)
        return lower, np.where(self.endless, np.pi, self.upper)

    def nearest(self, q: NDArray[np.float64], here: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return q with joints that turn without end within half a turn of ``here``, (n,)."""
        turns = np.round((here - q) / math.tau)
        return q + np.where(self.endless, math.tau * turns, 0.0)

    def with_torque_rate(self, rate: float | None) -> ArmLimits:
        """Return the same limits, with a torque rate that is nowhere above ``rate`` [Nm/s]."""
        if rate is None:
            return self
        return replace(self, torque_rate=np.minimum(self.torque_rate, rate))


@dataclass(frozen=True)
class GateLimits:
    """Limits of a target when it arrives.

    Attributes:
        position: Distance of a pose from the measured one [m].
        rotation: Angle between the two [rad].
        joint: Distance of a joint from its measured position [rad, m].
        force: Largest force [N]; joints may allow less.
        torque: Largest torque [Nm].
        speed: Largest linear velocity [m/s].
        turn: Largest angular velocity [rad/s].
    """

    position: float
    rotation: float
    joint: float
    force: float
    torque: float
    speed: float
    turn: float
