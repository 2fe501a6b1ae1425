# SPDX-License-Identifier: Apache-2.0
"""Whole cycles of two arms that follow streams of targets, as in ``multipanda bench``."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from multipanda_py import Cell
from multipanda_py.pose import Pose

MOVING = ("DC-NF", "DC-CA-MA")
"""Conditions that are also measured in motion."""
APART = 0.3
"""Distance of the end effectors along the y axis of the world [m]."""
RADIUS = 0.05
"""Radius of the circles [m]. With ``TURN`` the speed is 0.16 m/s."""
TURN = math.pi
"""Angular rate of the circles [rad/s]."""
APPROACH = 800
"""Cycles of the approach to the circles, before a measurement."""


def name_of(condition: str) -> str:
    """Return the name of a condition with moving arms."""
    return f"{condition} moving"


def moving(cell: Cell) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return functions that send the next target to each arm, and run a cycle with physics.

    Both end effectors move on circles in phase, so that their distance is constant. The n-th cycle
    is the same in every process.
    """
    cell.start()
    cell.step(50)
    starts = {arm: cell.pose(arm) for arm in cell.arms}
    bases = {arm.name: arm.position_base_in_world[1] for arm in cell.loop.backends[0].descriptions}
    ys = {arm: pose.position[1] + bases[arm] for arm, pose in starts.items()}
    middle = sum(ys.values()) / len(ys)
    shifts = {arm: middle + math.copysign(0.5 * APART, y - middle) - y for arm, y in ys.items()}
    sent = 0

    def send() -> None:
        nonlocal sent
        sent += 1
        scale, angle = min(1.0, sent / APPROACH), 1e-3 * TURN * sent
        scale *= scale * (3.0 - 2.0 * scale)
        y, z = RADIUS * scale * math.sin(angle), RADIUS * scale * math.cos(angle)
        for arm, start in starts.items():
            offset = np.array([0.0, scale * shifts[arm] + y, z])
            cell.set_target(arm, Pose(start.position + offset, start.rotation))

    def cycle() -> None:
        cell.loop.cycle(1, 1)

    for _ in range(APPROACH + 200):
        send()
        cycle()
    return send, cycle
