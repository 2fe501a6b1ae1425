# SPDX-License-Identifier: Apache-2.0
"""Which joints of an arm are driven through springs, and what may be asked of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ActuatedJoints:
    """The m joints of an arm that have compliant actuators, in the order of its joints.

    Attributes:
        names: Without the arm's prefix.
        places: Which of the arm's joints they are, counted from 0, (m,).
        modes: Operation modes of the cell file, by name.
        have_motors: Whether there are parameters of their motors, (m,).
        have_second: Whether there is a second motor, (m,).
        are_antagonistic: Whether both motors pull against each other, (m,).
        preset_low: Smallest stiffness presets, (m,) [rad, or m where that is their unit].
        preset_high: Largest ones, (m,).
        preset_units: Their units; an empty text where there are none.
    """

    names: tuple[str, ...]
    places: NDArray[np.intp]
    modes: tuple[str, ...]
    have_motors: NDArray[np.bool_]
    have_second: NDArray[np.bool_]
    are_antagonistic: NDArray[np.bool_]
    preset_low: NDArray[np.float64]
    preset_high: NDArray[np.float64]
    preset_units: tuple[str, ...]
