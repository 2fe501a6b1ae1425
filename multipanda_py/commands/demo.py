# SPDX-License-Identifier: Apache-2.0
"""A motion that shows a cell at work, given as targets like any user's."""

from __future__ import annotations

import numpy as np

from multipanda_py.cell import Cell
from multipanda_py.cell.switch_planning import Strictness
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

RADIUS = 0.08
"""Of the circles that the tools draw [m]; two radii must pass the gate."""
SWING = 0.15
"""Of the joints, under a law that takes joint targets only [rad]."""
PERIOD = 3.0
"""Of one round [s]."""
RAMP = 0.6
"""Over which a motion starts and stops [s]."""


class Demo:
    """Moves every arm on a circle, neighbours in opposite phase, and switches once half-way.

    The circles lie across the arm, start at the measured pose and end there. With a gate
    smaller than the circle they shrink to fit. At the switch another controllet takes over
    in motion: a coupled one if the cell has one, else the next that fits.

    Args:
        cell: A started cell.
        duration: Of the whole motion [s].
    """

    def __init__(self, cell: Cell, duration: float) -> None:
        self._cell = cell
        self._duration = duration
        self._switched = False
        gate = cell.config.gate
        self._radius = min(RADIUS, 0.4 * gate.position)
        self._swing = min(SWING, 0.4 * gate.joint)
        idle = [arm for arm in cell.arms if not cell.spec(cell.state(arm).owner).channels]
        taken: set[str] = set()
        chosen = []
        for spec in cell.specs:  # arms that only hold get the first controllet that moves them
            arms = set(spec.config.arms)
            if spec.channels and arms <= set(idle) and not arms & taken:
                taken |= arms
                chosen.append(spec.name)
        if chosen:
            cell.switch(chosen, strictness=Strictness.AUTO)
        self._pose = {arm: cell.pose(arm) for arm in cell.arms}
        self._q = {arm: cell.state(arm).q for arm in cell.arms}

    def update(self, time: float) -> str:
        """Send the targets of a moment.

        Args:
            time: Since the start [s].

        Returns:
            What was switched to just now, or an empty string.
        """
        news = ""
        if not self._switched and time >= self._duration / 2:
            self._switched = True
            news = self._switch()
        angle = 2.0 * np.pi / PERIOD * time
        left = min(time, self._duration - time)
        size = 0.5 - 0.5 * np.cos(np.pi * min(1.0, max(0.0, left / RAMP)))
        for place, arm in enumerate(self._cell.arms):
            channels = self._cell.spec(self._cell.state(arm).owner).channels
            turn = angle if place % 2 == 0 else -angle
            if "pose" in channels:
                step = size * self._radius * _circle(turn)
                start = self._pose[arm]
                self._cell.set_target(arm, Pose(start.position + step, start.rotation))
            elif "joint" in channels:
                q = self._q[arm].copy()
                q[0] += size * self._swing * np.sin(turn)
                self._cell.set_target(arm, q=q)
        return news

    def _switch(self) -> str:
        """Let other controllets take over every arm that one can be found for."""
        cell = self._cell
        active, taken = set(cell.active), set[str]()
        chosen = []
        for spec in sorted(cell.specs, key=_fitness):
            arms = set(spec.config.arms)
            if spec.channels and spec.name not in active and not arms & taken:
                taken |= arms
                chosen.append(spec.name)
        if not chosen:
            return ""
        return cell.switch(chosen, strictness=Strictness.FORCE_AUTO).message


def _fitness(spec: InstanceSpec) -> tuple[bool, int]:
    return ("pose" not in spec.channels, -len(spec.arms))


def _circle(angle: float) -> Vector:
    """Return a point of a unit circle across the arm that begins in its own middle, (3,)."""
    return np.array([0.0, np.sin(angle), np.cos(angle)])
