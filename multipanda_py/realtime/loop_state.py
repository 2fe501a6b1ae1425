# SPDX-License-Identifier: Apache-2.0
"""Saved state of a loop."""

from __future__ import annotations

from dataclasses import dataclass

from multipanda_py.realtime.events import Event
from multipanda_py.state import Vector


@dataclass(frozen=True)
class LoopState:
    """State of a loop between two cycles, which a reset restores.

    It contains motion, measured states, last torques, active controllets, faults and the state of
    simulated noise. It does not contain internal states of controllets, features and estimators of
    external torques. These restart from the measured state, as after a switch. It also excludes
    user inputs: targets, parameters, robot settings and tares.

    Attributes:
        row: Record of the cycle.
        active: Flag of each instance that was active.
        faults: Latched fault of each arm.
        released: Flag of each arm that even its hold could not control.
        interfaces: Command interface of each arm.
        load_fractions: Fraction of the weight of the attached object that each arm had taken over.
        backends: Saved state of each backend; None if it cannot save.
    """

    row: Vector
    active: tuple[bool, ...]
    faults: tuple[Event, ...]
    released: tuple[bool, ...]
    interfaces: tuple[str, ...]
    load_fractions: tuple[float, ...]
    backends: tuple[object | None, ...]
