# SPDX-License-Identifier: Apache-2.0
"""Something that the loop has been asked to do with one arm, and its answer."""

from __future__ import annotations

from dataclasses import dataclass

STILL = 1.0
"""Silence of the loop after which its answers are not waited for any longer [s]."""


@dataclass(frozen=True)
class ArmRequest:
    """Something that the loop has been asked to do with one arm, and will answer by an event.

    Attributes:
        arm: The arm.
        number: Of the record.
        events: How many there were before.
    """

    arm: str
    number: int
    events: int


def given_up(withdrawn: bool) -> str:
    """Say whether a request that is not waited for any more still may be carried out."""
    if withdrawn:
        return "it is withdrawn and will not happen"
    return "it has begun and is pending: see what the arm has then"
