# SPDX-License-Identifier: Apache-2.0
"""Write a controllet in one file, and register its name as an entry point.

``setup.py`` of your package has the entry point, and a cell file uses the name:

    entry_points={"multipanda_py.controllets": ["wall = my_package.wall:Wall"]}
    controllets: {wall: {type: wall, params: {height: 0.4}}}

This example computes the torque of the controllet for one state, without a package.
Run: .venv/bin/python examples/03_own_controllet.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.controllet import Controllet
from multipanda_py.parameters import number
from multipanda_py.state import ArmState
from multipanda_py.targets import Target
from multipanda_py.testing import PERIOD, StateMaker


@dataclass(frozen=True, eq=False)
class WallParams:
    """Height, stiffness and damping of the virtual floor."""

    height: float = number(0.4, unit="m", low=-1, high=2, doc="height of the floor, in the base")
    stiffness: float = number(2000.0, unit="N/m", low=0, high=5000)
    damping: float = number(60.0, unit="N s/m", low=0, high=500)


class Wall(Controllet[Target, WallParams]):
    r"""Virtual floor, above which the arm is free: :math:`F_z = \max(0, k (h - z) - d \dot z)`."""

    Params = WallParams
    default_features = ("coriolis",)

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        """Do nothing: this controllet has no target to start from."""

    def update(self, states: Sequence[ArmState], target: Target, period: float) -> None:
        """Push the tool upwards while it is below the floor."""
        p = self.params
        for tau, state in zip(self.tau, states):
            depth = p.height - state.position_ee_in_base[2]
            rate = state.twist_ee_in_base[2]
            force = max(0.0, p.stiffness * depth - p.damping * rate) if depth > 0 else 0.0
            np.multiply(state.jacobian[2], force, out=tau)


maker = StateMaker()
states = maker.states_at([np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])])
wall, target = Wall(maker.context, WallParams(height=0.5)), Target(1)
wall.on_activate(states, target)
wall.update(states, target, PERIOD)
print("tool at", states[0].position_ee_in_base.round(3), "m: torque", wall.tau[0].round(2), "Nm")
