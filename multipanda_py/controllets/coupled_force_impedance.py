# SPDX-License-Identifier: Apache-2.0
"""Coupled impedance of several arms with a controlled internal force."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy import dot

from multipanda_py.context import BumplessTransfer, Context
from multipanda_py.control.force.energy_tank import TankLimitNotice
from multipanda_py.control.force.force_control import ForceController, ForceParams
from multipanda_py.control.force.force_impedance import MIN_MOBILITY
from multipanda_py.controllets.coupled_impedance import CoupledImpedanceLaw, CoupledImpedanceParams
from multipanda_py.state import ArmState
from multipanda_py.targets import ObjectTarget, Report


@dataclass(frozen=True, eq=False)
class CoupledForceImpedanceParams(ForceParams, CoupledImpedanceParams):
    """Gains of ``CoupledForceImpedance`` for the coupled impedance and for force control."""


class CoupledForceImpedance(CoupledImpedanceLaw[CoupledForceImpedanceParams]):
    """Coupled impedance of several arms with a controlled internal force.

    Equation, with the notation of ``CoupledImpedanceLaw``::

        F = B_n W + (I - B_n A^T) K_r e - (I - B A^T) D_r (I - A B^T) dx + n F_s

    - F_s: Internal force, the output of ``ForceController`` [N].

    The inputs of ``ForceController`` are the measured internal force and the distance between the
    end effectors. If the object slips out, the internal force fades, and the springs hold the end
    effectors.

    Source: paper on multipanda_ros2, section V, task 5 (box lifting). The code of this task is not
    public.
    """

    Params = CoupledForceImpedanceParams
    report_names: ClassVar[tuple[Report | str, ...]] = (
        *CoupledImpedanceLaw.report_names,
        Report("force tank", "J", "remaining energy of force control"),
        Report("weight", "-", "scale of the desired force after a loss of contact"),
    )

    def __init__(self, context: Context, params: CoupledForceImpedanceParams) -> None:
        self._force = ForceController(params.gains(), context.period)
        self._energy = TankLimitNotice(context.notify)
        self._names = " and ".join(arm.name for arm in context.arms)
        self._contact_width = self._pushed = self._closing = 0.0
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Set the gains, including those of force control."""
        super().on_parameters()
        self._force.set_gains(self.params.gains())

    def on_activate(self, states: Sequence[ArmState], target: ObjectTarget) -> None:
        """Grasp the object at the current end-effector poses, without internal force."""
        super().on_activate(states, target)
        self._force.reset()
        self._energy.forget()
        self._pushed = self._closing = 0.0
        self._contact_width = self._grasp_width()

    def on_transfer(
        self,
        states: Sequence[ArmState],
        target: ObjectTarget,
        transfers: Sequence[BumplessTransfer],
    ) -> str:
        """Continue to carry and press the object.

        An internal force above ``contact_force`` continues immediately, without a search for
        contact.

        Returns:
            Message about the preserved force; empty if no force acted before the switch.
        """
        words = super().on_transfer(states, target, transfers)
        if self._internal_force > self.params.contact_force:
            self._force.resume(self._internal_force)
        return words

    def desired_internal_force(self, target: ObjectTarget) -> float:
        """Return the internal force F_s of ``ForceController`` in this cycle [N]."""
        desired = super().desired_internal_force(target)
        force, held = self._force, self.held
        closing = -float(dot(held.rates[:, :3].reshape(-1), held.inward.reshape(-1)))
        period = self.context.period
        force.tank.settle(0.5 * (closing + self._closing) * self._pushed * period)
        force.tank.receive(self.dissipated * period)
        force.grant(desired)
        width = self._grasp_width()
        if force.touching or force.is_idle:
            self._contact_width = width
        away = abs(width - self._contact_width)
        self._pushed = force.step(
            desired,
            self.measured,
            away,
            closing,
            self._closing_mass(),
            opposing_stiffness=self._closing_stiffness(),
        )
        self._closing = closing
        # While the desired force rises, the tank is still being filled and may limit the force.
        # Report this limit only when the desired force is nearly complete.
        is_grown = desired > 0.9 * self._limited_force
        self._energy.check(
            force.is_throttled and is_grown, force.tank, self._names, self._tank_limit_message
        )
        self.report[7], self.report[8] = force.tank.energy, force.weight
        return self._pushed

    def _tank_limit_message(self) -> str:
        energy = self._force.tank.energy
        return (
            f"force tank {energy:.2f} J limits the internal force. Raise tank_max or tank_power."
        )

    def _closing_mass(self) -> float:
        """Return the effective mass for a motion of the end effectors towards each other [kg]."""
        mobility = 0.0
        for hand, inward in enumerate(self.held.inward):
            inertia_inv = self.held.inertia_inv(hand)
            mobility += float(dot(inward, dot(inertia_inv[:3, :3], inward)))
        return 1.0 / max(mobility, MIN_MOBILITY)

    def _closing_stiffness(self) -> float:
        # For a motion of the end effectors towards each other [N/m].
        squares = np.square(self.held.inward)
        across = dot(squares, self.params.relative_stiffness[:3])
        return float(across.sum()) / max(float(squares.sum()) ** 2, 1e-12)

    def _grasp_width(self) -> float:
        """Return twice the mean distance of the end effectors from their centre [m]."""
        hands = self.held.end_effector_positions.tolist()
        n = len(hands)
        cx, cy, cz = (sum(axis) / n for axis in zip(*hands))
        return 2.0 / n * sum(math.dist(hand, (cx, cy, cz)) for hand in hands)
