# SPDX-License-Identifier: Apache-2.0
"""The check that a twist and a wrench share."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.channel import AskedOfArm, Check, finite_numbers
from multipanda_py.exceptions import TargetRejected, in_decimals
from multipanda_py.state import Vector

ROUNDING = 1.0 + 1e-9
"""Factor on a bound, as the rotation of a vector changes its length by rounding."""


def two_vectors(what: str, first: str, second: str) -> Check:
    """Return a check that takes six numbers as two vectors, and turns both into the base.

    Args:
        what: Name of the channel.
        first: Key of the section ``gate`` that bounds the norm of the first three.
        second: Likewise of the others.

    Returns:
        Raises TargetRejected if they are not finite or too large.
    """

    def check(values: ArrayLike, asked: AskedOfArm) -> Vector:
        where, turn = f"{asked.state.name}: {what}", asked.frame.rotation
        array = finite_numbers(where, values, 6)
        for part, key in ((array[:3], first), (array[3:], second)):
            size, bound = math.sqrt(part.dot(part)), getattr(asked.gate, key)
            if size > bound * ROUNDING:
                raise TargetRejected(
                    f"{where}: got {in_decimals(size, 3)}, allowed {bound:g} (gate.{key})"
                )
        return np.concatenate([turn @ array[:3], turn @ array[3:]])

    return check
