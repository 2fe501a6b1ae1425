# SPDX-License-Identifier: Apache-2.0
"""Several arms that press one object with a controlled force while they move it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from multipanda_py.context import Context, Handover
from multipanda_py.control.force.energy_tank import EnergyNotice
from multipanda_py.control.force.force_control import ForceController, ForceParams
from multipanda_py.control.force.force_impedance import LEAST_MOBILITY
from multipanda_py.controllets.coupled_impedance import CoupledImpedanceLaw, CoupledImpedanceParams
from multipanda_py.state import ArmState
from multipanda_py.targets import ObjectTarget, Report

_dot = np.dot


@dataclass(frozen=True, eq=False)
class CoupledForceImpedanceParams(ForceParams, CoupledImpedanceParams):
    """Gains of :class:`CoupledForceImpedance`: those of the coupled and of the force law."""


class CoupledForceImpedance(CoupledImpedanceLaw[CoupledForceImpedanceParams]):
    r"""Control the internal force of the coupled law with the unified force controller.

    The squeeze :math:`F_s` is :math:`F'_f` of
    :class:`.ForceController`: its measured force is the mean of what
    the hands exert towards each other, its contact point the distance of the hands at which
    contact was last felt, and its motion the rate at which that distance closes. When the object
    slips out, the squeeze fades as on a lost contact and the formation holds the hands.
    This is the box-lifting law of multipanda_ros2 (section V, task 5), whose code is not public.
    """

    Params = CoupledForceImpedanceParams
    report_names: ClassVar[tuple[Report | str, ...]] = (
        *CoupledImpedanceLaw.report_names,
        Report("force tank", "J", "energy that the force part may still spend"),
        Report("weight", "-", "of the force part"),
    )

    def __init__(self, context: Context, params: CoupledForceImpedanceParams) -> None:
        self._force = ForceController(params.gains(), context.period)
        self._energy = EnergyNotice(context.notify)
        self._names = " and ".join(arm.name for arm in context.arms)
        self._contact_width = self._pushed = self._closing = 0.0
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Hand the gains of the force part over as well."""
        super().on_parameters()
        self._force.set_gains(self.params.gains())

    def on_activate(self, states: Sequence[ArmState], target: ObjectTarget) -> None:
        """Grasp without a force."""
        super().on_activate(states, target)
        self._force.reset()
        self._energy.forget()
        self._pushed = self._closing = 0.0
        self._contact_width = self._width()

    def on_handover(
        self, states: Sequence[ArmState], target: ObjectTarget, handovers: Sequence[Handover]
    ) -> str:
        """Go on with the squeeze, in contact from the first cycle on."""
        words = super().on_handover(states, target, handovers)
        if self._squeeze > self.params.contact_force:
            self._force.resume(self._squeeze)
        return words

    def squeeze(self, target: ObjectTarget) -> float:
        """Return the internal force of this cycle [N]: controlled to the smoothed target."""
        desired = super().squeeze(target)
        force, held = self._force, self.held
        closing = -float(_dot(held.rates[:, :3].reshape(-1), held.inward.reshape(-1)))
        period = self.context.period
        force.tank.settle(0.5 * (closing + self._closing) * self._pushed * period)
        force.tank.receive(self.dissipated * period)
        force.grant(desired)
        width = self._width()
        if force.touching or force.is_idle:
            self._contact_width = width
        away = abs(width - self._contact_width)
        self._pushed = force.step(
            desired, self.measured, away, closing, self._mass(), self._formation()
        )
        self._closing = closing
        is_grown = desired > 0.9 * self._borne  # before, the tank is still being filled
        self._energy.look(
            force.is_throttled and is_grown, force.tank, self._names, self._energy_left
        )
        self.report[7], self.report[8] = force.tank.energy, force.weight
        return self._pushed

    def _energy_left(self) -> str:
        """Return what the tank holds, and what helps."""
        energy = self._force.tank.energy
        return (
            f"force tank {energy:.2f} J; the squeeze is held back; more of tank_max or tank_power"
        )

    def _mass(self) -> float:
        """Return the effective mass of the hands that close on each other [kg]."""
        mobility = 0.0
        for hand, inward in enumerate(self.held.inward):
            inertia_inv = self.held.inertia_inv(hand)
            mobility += float(_dot(inward, _dot(inertia_inv[:3, :3], inward)))
        return 1.0 / max(mobility, LEAST_MOBILITY)

    def _formation(self) -> float:
        """Return the stiffness with which the formation holds hands back that close [N/m]."""
        squares = np.square(self.held.inward)
        across = _dot(squares, self.params.relative_stiffness[:3])
        return float(across.sum()) / max(float(squares.sum()) ** 2, 1e-12)

    def _width(self) -> float:
        """Return twice the mean distance of the hands from their centre [m]."""
        hands = self.held.hands.tolist()
        n = len(hands)
        cx, cy, cz = (sum(axis) / n for axis in zip(*hands))
        return 2.0 / n * sum(math.dist(hand, (cx, cy, cz)) for hand in hands)
