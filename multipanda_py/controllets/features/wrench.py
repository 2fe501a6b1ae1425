# SPDX-License-Identifier: Apache-2.0
"""Feed-forward of a target wrench."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import add, dot, multiply, subtract

from multipanda_py.context import Context
from multipanda_py.control.impedance.limit_scaling import VelocityLimitScaling
from multipanda_py.feature import Feature
from multipanda_py.parameters import number
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Target

FADE_START_FRACTION, FADE_END_FRACTION = 0.5, 0.8
"""Fractions of a joint's speed limit between which a wrench fades out."""


@dataclass(frozen=True, eq=False)
class WrenchParams:
    """Parameters of ``Wrench``."""

    time_constant: float = number(
        0.05, unit="s", low=0, high=10,
        doc="time constant of the low-pass filter on the target wrench; 0 disables it",
    )  # fmt: skip


class Wrench(Feature[WrenchParams]):
    """Joint torques that make the tool exert a target wrench.

    Equations::

        tau = s J^T w_f
        T_f dw_f = w_d - w_f
        s = clip((0.8 - u) / (0.8 - 0.5), 0, 1)

    - tau: Joint torques, (n,) [Nm]; J: Jacobian, (6, n).
    - w_d, w_f: Target wrench and its filtered value at the end effector, along the base axes, (6,)
      [N, Nm].
    - T_f: ``time_constant`` [s].
    - s: Scale near joint speed limits, 0 to 1.
    - u: Speed of the fastest joint as a fraction of its limit.

    Target and filter are zero at the activation.

    Source: Khatib 1987 (force in operational space).
    """

    Params = WrenchParams
    channels = ("wrench",)

    def __init__(self, context: Context, params: WrenchParams) -> None:
        self._wrench = [np.zeros(6) for _ in context.arms]
        self._margins = [VelocityLimitScaling(arm.limits) for arm in context.arms]
        self._step, self._taus = np.zeros(6), context.joint_zeros()
        self._is_commanded = False
        super().__init__(context, params)

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        """Set the filtered wrenches to zero."""
        for wrench in self._wrench:
            wrench[:] = 0.0
        self._is_commanded = False

    def on_target(self, channel: str, arm_index: int, target: Target) -> None:
        """Enable the torques of all arms at the first target wrench."""
        self._is_commanded = self._is_commanded or channel == "wrench"

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the torques of the filtered wrenches of all arms."""
        if not self._is_commanded:
            return
        constant = self.params.time_constant
        filter_gain = -math.expm1(-period / constant) if constant > 0.0 else 1.0
        step, torques = self._step, self._taus
        for arm, (state, wrench) in enumerate(zip(states, self._wrench)):
            subtract(target.data["wrench"][arm], wrench, step)
            add(wrench, multiply(step, filter_gain, step), wrench)
            torque = dot(wrench, state.jacobian, torques[arm])
            used = self._margins[arm].limit_fraction(state)
            if used > FADE_START_FRACTION:
                multiply(
                    torque,
                    max(
                        0.0, (FADE_END_FRACTION - used) / (FADE_END_FRACTION - FADE_START_FRACTION)
                    ),
                    torque,
                )
            add(tau[arm], torque, tau[arm])
