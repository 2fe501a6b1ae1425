# SPDX-License-Identifier: Apache-2.0
"""Compensation of a torque residual, the error of the robot model that a network predicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import absolute, add, maximum, minimum, multiply, sign, subtract

from multipanda_py.context import Context
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.feature import Feature
from multipanda_py.parameters import JointVector, joint_vector, number
from multipanda_py.robots.residual.runtime import LiveResidual, residual_of
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Target


@dataclass(frozen=True, eq=False)
class ResidualParams:
    """Parameters of ``Residual``: scale, torque bound and smoothing."""

    scale: float = number(
        0.9, low=0, high=0.95,
        doc="compensated fraction of the residual; a torque that drives a joint grows by up to "
        "the factor 1 / (1 - scale)",
    )  # fmt: skip
    max_torque: JointVector = joint_vector(
        "lacking_torque", unit="Nm", low=0, high=50, doc="maximum compensation torque of a joint"
    )
    smoothing: float = number(
        0.03, unit="s", low=0, high=1,
        doc="time constant that smooths the steps of the network output",
    )  # fmt: skip


class _ResidualCompensation:
    def __init__(self, live: LiveResidual, joints: int) -> None:
        self._live, self._residual = live, live.residual[2 * joints :]
        self._model, self._losses, self._direction, self._max, self._added = np.zeros((5, joints))

    def set(self, fraction: float, bound: Vector, keep: float) -> None:
        self._scale, self._gain = fraction, fraction / (1.0 - fraction)
        self._bound, self._minus_bound, self._new = bound, -bound, 1.0 - keep

    def reset(self) -> None:
        self._live.reset()
        self._added[:] = 0.0

    def add(self, state: ArmState, torque: Vector) -> None:
        losses, direction, max_value = self._losses, self._direction, self._max
        model = subtract(state.tau_J, self._residual, self._model)
        self._live.step(state.q, state.dq, model)
        subtract(self._residual, self._live.of_bodies, losses)
        sign(torque, direction)
        multiply(absolute(torque, max_value), self._gain, max_value)
        multiply(multiply(losses, direction, losses), self._scale, losses)
        minimum(maximum(losses, 0.0, out=losses), max_value, out=losses)
        multiply(losses, direction, losses)
        add(losses, multiply(self._live.of_bodies, self._scale, max_value), losses)
        maximum(minimum(losses, self._bound, out=losses), self._minus_bound, out=losses)
        add(
            self._added, multiply(subtract(losses, self._added, max_value), self._new,
            max_value), self._added,
        )  # fmt: skip
        add(torque, self._added, torque)


class Residual(Feature[ResidualParams]):
    """Compensation of the torque residual that a trained model predicts.

    Equations, per joint::

        tau = alpha tau_b
              + sign(tau_a) min(alpha max(sign(tau_a) r_l, 0), alpha / (1 - alpha) |tau_a|)
        r   = tau_b + r_l

    - tau: Compensation torque [Nm].
    - alpha: Compensated fraction ``scale``.
    - r: Residual of ``LiveResidual`` [Nm].
    - tau_b: Part of r by differences of inertial parameters [Nm]. It is zero for a model trained
      without the option ``--bodies`` of ``multipanda residual train``.
    - r_l: Losses, the rest of r, mainly friction [Nm].
    - tau_a: Driving torque of the controllet and of features before this one [Nm].

    r is zero for half a second after the activation, and fades out outside the range of the
    training data. Losses are compensated in proportion to the driving torque, so a wrong model
    never moves an arm alone. tau is bounded by ``max_torque`` and smoothed.

    Do not combine this feature with ``Friction``, which would compensate friction twice.
    Controllets with a nullspace require the feature ``nullspace``, because an overestimated
    friction would drive an undamped nullspace.

    Sources: Realeasy paper (prediction of the residual); ``Friction`` (bound by tau_a).

    Raises:
        ConfigurationError: If the model file is missing, or is for another robot or cycle rate.

    Thread: control.
    """

    Params = ResidualParams

    def __init__(self, context: Context, params: ResidualParams) -> None:
        if missing := [arm.name for arm in context.arms if not arm.residual_file]:
            raise ConfigurationError(
                f"residual: no file of a trained model for {', '.join(missing)}. Set "
                f"arms.{missing[0]}.residual.torque."
            )
        names = sorted(arm.name for arm in (*context.arms, *context.other_arms))
        self._arms = [
            _ResidualCompensation(
                residual_of(
                    arm, "torque", arm.residual_file, context.period, 2 + names.index(arm.name)
                ),
                arm.n_joints,
            )
            for arm in context.arms
        ]
        super().__init__(context, params)

    def on_parameters(self) -> None:
        p, period = self.params, self.context.period
        keep = p.smoothing / (p.smoothing + period)
        for own, bound in zip(self._arms, self.context.per_arm(p.max_torque)):
            own.set(p.scale, bound, keep)

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        """Restart the compensation with zero torque."""
        for own in self._arms:
            own.reset()

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the compensation torques of all arms."""
        for own, state, torque in zip(self._arms, states, tau):
            own.add(state, torque)
