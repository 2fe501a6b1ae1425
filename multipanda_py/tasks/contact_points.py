# SPDX-License-Identifier: Apache-2.0
"""Antipodal points: where hands press on a thing so that it does not turn away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots import SceneObject
from multipanda_py.state import Vector
from multipanda_py.tasks.sections import Contact

_AXES = "xyz"


@dataclass(frozen=True, eq=False)
class ContactPoint:
    """A point of a thing that a hand presses on.

    Attributes:
        arm: Whose hand.
        thing: Which thing.
        point: In the frame of the thing, (3,) [m].
        inward: Unit normal into the thing, in its frame, (3,).
        pivots: Whether the hand may turn about the point.
    """

    arm: str
    thing: str
    point: Vector
    inward: Vector
    pivots: bool = False


def contact_points(contact: Contact, thing: SceneObject) -> list[ContactPoint]:
    r"""Return where the arms of a contact touch, and along which line they press.

    .. math:: p_{1,2} = c \pm h n, \qquad u_{1,2} = \mp n

    with the normal n of the side, the half extent h along it, and the foot c of the line, by
    default the centre. Both forces act along one line through both points, so they hold each
    other without a torque on the thing, whatever the friction (antipodal: Nguyen, Int. J. of
    Robotics Research 1988).

    Raises:
        ConfigurationError: If the thing has no face there.
    """
    axis = _AXES.index(contact.side[1])
    sign = 1.0 if contact.side[0] == "+" else -1.0
    extents = half_extents(thing)
    foot = np.array(contact.at)
    for number, (offset, extent) in enumerate(zip(foot, extents)):
        most = _room(thing, axis, number, extent)
        if abs(offset) > most:
            raise ConfigurationError(
                f"at: got {_AXES[number]} {offset:g} m, allowed [{-most:g}, {most:g}] on side "
                f"{contact.side} of {thing.name}, a {thing.shape}"
            )
    normal = np.zeros(3)
    normal[axis] = sign
    return [
        ContactPoint(
            arm, thing.name, foot + way * extents[axis] * normal, -way * normal, contact.pivots
        )
        for arm, way in zip(contact.arms, (1.0, -1.0))
    ]


def half_extents(thing: SceneObject) -> Vector:
    """Return how far a thing reaches from its centre along its axes, (3,) [m]."""
    size = thing.size
    if thing.shape == "box":
        return np.array(size)
    if thing.shape == "sphere":
        return np.full(3, size[0])
    half = size[1] + (size[0] if thing.shape == "capsule" else 0.0)
    return np.array([size[0], size[0], half])


def _room(thing: SceneObject, side: int, across: int, extent: float) -> float:
    """Return how far from the centre a face goes on flat, or straight."""
    if side == across:
        return 0.0
    if thing.shape == "box":
        return extent
    if thing.shape == "cylinder" and side == 2:  # its flat ends
        return extent
    if thing.shape in ("cylinder", "capsule") and across == 2:
        return thing.size[1]
    return 0.0
