# SPDX-License-Identifier: Apache-2.0
"""Hold for arms that have not as many joints as the ones it was made for."""

from __future__ import annotations

from typing import Any

import eigenpy
import numpy as np

from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.context import Context
from multipanda_py.control.momentum_brake import MomentumBrake
from multipanda_py.controllet import Controllet
from multipanda_py.controllets.hold import Hold, HoldParams, _Anchor
from multipanda_py.limits import JointLimits
from multipanda_py.robots import ArmDescription
from multipanda_py.state import JOINTS


class _SizedBrake(MomentumBrake):
    """The brake with room for the joints of its limits."""

    def __init__(self, limits: JointLimits, rate: float) -> None:
        super().__init__(limits, rate)
        n = limits.n_joints
        self._mass, self._unit = eigenpy.LLT(np.eye(n)), np.eye(n)
        self._tau, self._size, self._other = (np.zeros(n) for _ in range(3))
        self._sign, self._momentum = np.zeros(n), np.zeros(n)
        self._light = np.ones(n)


class _SizedAnchor(_Anchor):
    """The anchors with room for the joints of their arm, and its own settling."""

    def __init__(self, arm: ArmDescription, params: HoldParams, period: float) -> None:
        super().__init__(arm, params, period)
        n = arm.n_joints
        self.SETTLING = np.array(arm.robot.figure("settling"))
        self._q, self._e = np.zeros(n), np.zeros(n)
        self._v, self._damping = np.zeros(n), np.ones(n)
        self._set, self._full = np.zeros(n, bool), np.zeros(n, bool)
        self.tau_bias = np.zeros(n)
        self.brake = _SizedBrake(arm.limits, params.brake_rate)
        self.set_gains(params)


class SizedHold(Hold):
    """Brake to a stop and hold, with any number of joints; the law is :class:`.Hold`.

    Its figures were tried out on Franka arms (``doc/faults.md``); on others it is the same law
    for their own inertia, limits and ``settling``.
    """

    def __init__(self, context: Context, params: HoldParams) -> None:
        super().__init__(context, params)
        self._anchors = [_SizedAnchor(arm, params, context.period) for arm in context.arms]


def law_of(spec: InstanceSpec) -> type[Controllet[Any, Any]]:
    """Return the class of an instance's law, for the number of joints that its arms have."""
    return SizedHold if spec.is_hold and spec.robot.n_joints != JOINTS else spec.law
