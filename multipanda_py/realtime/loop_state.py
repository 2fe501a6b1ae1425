# SPDX-License-Identifier: Apache-2.0
"""What a loop goes back to when its simulation does."""

from __future__ import annotations

from dataclasses import dataclass

from multipanda_py.realtime.events import Event
from multipanda_py.state import Vector


@dataclass(frozen=True)
class LoopState:
    """The state of a loop between two cycles.

    It has what happened: motion, measured states, the torques commanded last, who was active,
    faults, noise to come. It does not have what laws and features keep to themselves: they start
    anew, as after a switch, from the measured state, and so do estimates of external torques. Nor
    does it have what its user has said and may say again: targets, parameters, settings of robots,
    tares.

    Attributes:
        row: The record of the cycle.
        active: Whether each instance was.
        faults: Latched on each arm.
        released: Of each arm, whether even its hold could not produce a torque.
        interfaces: What each arm was commanded.
        shares: Of each arm, of the weight in its hand that it had taken on.
        backends: What each backend has saved, None if it cannot.
    """

    row: Vector
    active: tuple[bool, ...]
    faults: tuple[Event, ...]
    released: tuple[bool, ...]
    interfaces: tuple[str, ...]
    shares: tuple[float, ...]
    backends: tuple[object | None, ...]
