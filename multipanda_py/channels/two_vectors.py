# SPDX-License-Identifier: Apache-2.0
"""The check that a twist and a wrench share."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.channel import finite_numbers
from multipanda_py.exceptions import TargetRejected
from multipanda_py.state import ArmSnapshot, Matrix, Vector


def two_vectors(
    what: str,
    values: ArrayLike,
    turn: Matrix,
    state: ArmSnapshot,
    first: tuple[float, str],
    second: tuple[float, str],
) -> Vector:
    """Check six numbers as two vectors with a bound each, and turn both into the base.

    Args:
        what: Name of the channel.
        values: The six numbers.
        turn: Rotation of their frame in the base, (3, 3).
        state: Of the arm.
        first: Largest norm of the first three, and where it is written.
        second: Likewise of the others.

    Raises:
        TargetRejected: If they are not finite or too large.
    """
    array = finite_numbers(f"{state.name}: {what}", values, 6)
    for part, (bound, name) in ((array[:3], first), (array[3:], second)):
        size = float(np.linalg.norm(part))
        if size > bound:
            raise TargetRejected(
                f"{state.name}: {what}: got {size:.3f}, allowed {bound:g} ({name})"
            )
    return np.concatenate([turn @ array[:3], turn @ array[3:]])
