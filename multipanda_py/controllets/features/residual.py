# SPDX-License-Identifier: Apache-2.0
"""Compensation of what was learned of an arm's own torques."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.config.arm_residual import residual_of
from multipanda_py.context import Context
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.feature import Feature
from multipanda_py.parameters import JointVector, joint_vector, number
from multipanda_py.robots.residual.runtime import LiveResidual
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Target

_multiply, _subtract, _add = np.multiply, np.subtract, np.add
_minimum, _maximum, _absolute, _sign = np.minimum, np.maximum, np.absolute, np.sign


@dataclass(frozen=True, eq=False)
class ResidualParams:
    """How much of what was learned :class:`Residual` compensates."""

    share: float = number(
        0.9, low=0, high=0.95,
        doc="of what was learned that is compensated; drives grow by up to 1 / (1 - share)",
    )  # fmt: skip
    bound: JointVector = joint_vector(
        "lacking_torque", unit="Nm", low=0, high=50, doc="most that is added to a joint"
    )
    smoothing: float = number(
        0.03, unit="s", low=0, high=1, doc="time constant of what is added, which comes in steps"
    )


class _LearnedTorques:
    """What is added to the torques of one arm."""

    def __init__(self, live: LiveResidual, joints: int) -> None:
        self._live, self._residual = live, live.residual[2 * joints :]
        self._model, self._losses, self._way, self._most, self._added = np.zeros((5, joints))

    def set(self, share: float, bound: Vector, keep: float) -> None:
        """Prepare the constants."""
        self._share, self._gain = share, share / (1.0 - share)
        self._bound, self._minus_bound, self._new = bound, -bound, 1.0 - keep

    def reset(self) -> None:
        """Look on anew, and add nothing."""
        self._live.reset()
        self._added[:] = 0.0

    def add(self, state: ArmState, torque: Vector) -> None:
        """Add bodies as they are, and losses as far as something drives the joints."""
        losses, way, most = self._losses, self._way, self._most
        model = _subtract(state.tau_J, self._residual, self._model)
        self._live.step(state.q, state.dq, model)
        _subtract(self._residual, self._live.of_bodies, losses)
        _sign(torque, way)
        _multiply(_absolute(torque, most), self._gain, most)
        _multiply(_multiply(losses, way, losses), self._share, losses)
        _minimum(_maximum(losses, 0.0, out=losses), most, out=losses)
        _multiply(losses, way, losses)
        _add(losses, _multiply(self._live.of_bodies, self._share, most), losses)
        _maximum(_minimum(losses, self._bound, out=losses), self._minus_bound, out=losses)
        _add(
            self._added, _multiply(_subtract(losses, self._added, most), self._new, most),
            self._added,
        )  # fmt: skip
        _add(torque, self._added, torque)


class Residual(Feature[ResidualParams]):
    r"""Add the torques that a trained residual says that the arm takes beside its model.

    .. math::
        \tau = \alpha\, \tau_b + \mathrm{sgn}(\tau_a) \min\!\left(\alpha
        \max(\mathrm{sgn}(\tau_a)\, r_l, 0), \frac{\alpha}{1 - \alpha} |\tau_a|\right), \qquad
        r = \tau_b + r_l

    with the residual r of :class:`.LiveResidual`, which is zero in its first half second, fades
    out where it was not trained, and is never more than in its training; of it :math:`\tau_b` is
    of bodies (weights that were trained with ``--bodies``), and the rest, :math:`r_l`, mostly
    friction. What drives the joint, :math:`\tau_a`, is the torque of the law and of the features
    before this one. Bodies are carried as they are, like a load that was told. Losses are made
    up for only as far as something drives the joint, and that way, so they never move an arm
    alone, however much was learned wrongly: see :class:`.Friction`, beside which this compensates
    friction twice. All of it is bounded, and smoothed, as the network runs at a rate of its own.

    Limits: as of :class:`.Friction`; a posture that nothing damps is driven by friction that the
    arm does not have, so laws with a nullspace are refused without that feature.

    Source: Realeasy (the residual); bound as for :class:`.Friction`.

    Raises:
        ConfigurationError: If there is no such file, or it is of another robot or rate.

    Thread: control.
    """

    Params = ResidualParams

    def __init__(self, context: Context, params: ResidualParams) -> None:
        if missing := [arm.name for arm in context.arms if not arm.learned]:
            raise ConfigurationError(
                f"residual: got no file for {', '.join(missing)}, allowed one per arm: "
                f"arms.{missing[0]}.residual.torque"
            )
        names = sorted(arm.name for arm in (*context.arms, *context.other_arms))
        self._arms = [
            _LearnedTorques(
                residual_of(arm, "torque", arm.learned, context.period, 2 + names.index(arm.name)),
                arm.n_joints,
            )
            for arm in context.arms
        ]
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Hand share, bounds and smoothing over."""
        p, period = self.params, self.context.period
        keep = p.smoothing / (p.smoothing + period)
        for own, bound in zip(self._arms, self.context.per_arm(p.bound)):
            own.set(p.share, bound, keep)

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        """Add nothing, and look on."""
        for own in self._arms:
            own.reset()

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add what was learned of every arm."""
        for own, state, torque in zip(self._arms, states, tau):
            own.add(state, torque)
