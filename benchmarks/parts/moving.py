# SPDX-License-Identifier: Apache-2.0
"""Whole cycles of two arms that follow streams, as under ``multipanda bench``'s generator."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from multipanda_py import Cell
from multipanda_py.pose import Pose

MOVING = ("DC-NF", "DC-CA-MA")
"""Conditions that are measured in motion, too."""
APART = 0.3
"""Distance of the hands, along y of the world [m]."""
RADIUS = 0.05
"""Of the circles [m]; at TURN that is 0.16 m/s."""
TURN = math.pi
"""Rate of the circles [rad/s]."""
APPROACH = 800
"""Cycles in which the hands come to their circles, before anything is measured."""


def name_of(condition: str) -> str:
    """Return what a condition is called while its arms move."""
    return f"{condition} moving"


def moving(cell: Cell) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return what sends every arm its next target, at 1 kHz, and what runs a cycle with physics.

    Both hands go round in the same sense, so that they stay ``APART``. Everything is in
    lockstep: the n-th cycle is the same in every process.
    """
    cell.start()
    cell.step(50)
    starts = {arm: cell.pose(arm) for arm in cell.arms}
    bases = {arm.name: arm.position_base_in_world[1] for arm in cell.loop.backends[0].descriptions}
    hands = {arm: pose.position[1] + bases[arm] for arm, pose in starts.items()}
    middle = sum(hands.values()) / len(hands)
    shifts = {arm: middle + math.copysign(0.5 * APART, y - middle) - y for arm, y in hands.items()}
    sent = 0

    def send() -> None:
        nonlocal sent
        sent += 1
        share, angle = min(1.0, sent / APPROACH), 1e-3 * TURN * sent
        share *= share * (3.0 - 2.0 * share)
        y, z = RADIUS * share * math.sin(angle), RADIUS * share * math.cos(angle)
        for arm, start in starts.items():
            offset = np.array([0.0, share * shifts[arm] + y, z])
            cell.set_target(arm, Pose(start.position + offset, start.rotation))

    def cycle() -> None:
        cell.loop.cycle(1, 1)

    for _ in range(APPROACH + 200):
        send()
        cycle()
    return send, cycle
