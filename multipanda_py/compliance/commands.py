# SPDX-License-Identifier: Apache-2.0
"""What joints with springs were last commanded, checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.actuator_params import finite_numbers
from multipanda_py.compliance.mode import ALIASES, COMMANDS, LARGEST_COMMAND, OperationMode
from multipanda_py.compliance.springs import JointSprings
from multipanda_py.exceptions import ActuatorRefused
from multipanda_py.state import Vector


class Commands:
    """The last good command of every name.

    Args:
        springs: Whose presets have a range.

    Attributes:
        values: By name, (n,) each.
        refused: How many commands, and changes of modes, were refused.

    Thread: control.
    """

    def __init__(self, springs: JointSprings) -> None:
        self._springs = springs
        self.values: dict[str, Vector] = {name: np.zeros(springs.n_joints) for name in COMMANDS}
        self.values["stiffness_preset"][:] = springs.preset_low
        self.values["reference_2"][:] = np.where(springs.is_antagonistic, 0.0, springs.preset_low)
        self.refused = 0

    def take(
        self,
        name: str,
        values: ArrayLike,
        joints: Sequence[int] | None,
        modes: Sequence[OperationMode],
    ) -> tuple[str, NDArray[np.intp]]:
        """Take a command if joints take it in their modes; return its name, and whose it is.

        Args:
            name: One of :data:`.COMMANDS`, or another name of it.
            values: One number, or one for each of the joints.
            joints: Which joints, counted from 0; all by default.
            modes: Of all joints.

        Raises:
            ActuatorRefused: If not; the last good command is kept, and ``refused`` counts.
        """
        try:
            name, at, numbers = self._checked(name, values, joints, modes)
        except ActuatorRefused:
            self.refused += 1
            raise
        self.values[name][at] = numbers
        return name, at

    def presets(self, values: ArrayLike) -> Vector:
        """Return presets of all joints, zero where there is none.

        Raises:
            ActuatorRefused: If one is not finite or out of range.
        """
        n, springs = self._springs.n_joints, self._springs
        numbers = finite_numbers("stiffness_preset", values, n)
        self._refuse_beyond_presets("stiffness_preset", np.arange(n), numbers)
        return np.where(springs.has_second, numbers, 0.0)

    def _checked(
        self,
        name: str,
        values: ArrayLike,
        joints: Sequence[int] | None,
        modes: Sequence[OperationMode],
    ) -> tuple[str, NDArray[np.intp], Vector]:
        name = ALIASES.get(name, name) if isinstance(name, str) else name
        if not isinstance(name, str) or name not in self.values:
            raise ActuatorRefused(
                f"command: got {name!r:.40}, allowed {', '.join((*COMMANDS, *ALIASES))}"
            )
        at = joints_of(joints, self._springs.n_joints)
        for joint in at.tolist():
            if name not in modes[joint].commands:
                taken = " and ".join(modes[joint].commands)
                raise ActuatorRefused(
                    f"{name}: joint {joint + 1} is in mode {modes[joint]:d} "
                    f"({modes[joint].name.lower()}), which takes {taken}"
                )
        numbers = finite_numbers(name, values, len(at))
        for place in np.flatnonzero(np.abs(numbers) > LARGEST_COMMAND):
            raise ActuatorRefused(
                f"{name} of joint {at[place] + 1}: got {numbers[place]:g}, allowed "
                f"{-LARGEST_COMMAND:g} to {LARGEST_COMMAND:g}"
            )
        if name == "stiffness_preset" or name == "reference_2":
            self._refuse_beyond_presets(name, at, numbers)
            numbers = np.where(self._springs.has_second[at], numbers, 0.0)
        return name, at, numbers

    def _refuse_beyond_presets(self, name: str, at: NDArray[np.intp], values: Vector) -> None:
        """Refuse presets out of range; a second reference is one where it moves a pivot."""
        springs = self._springs
        low, high = springs.preset_low[at], springs.preset_high[at]
        bounded = springs.has_second[at]
        if name == "reference_2":
            bounded = bounded & ~springs.is_antagonistic[at]
        for place in np.flatnonzero(bounded & ((values < low) | (values > high))):
            raise ActuatorRefused(
                f"{name} of joint {at[place] + 1}: got {values[place]:g}, allowed {low[place]:g} "
                f"to {high[place]:g} {springs.preset_units[at[place]]}"
            )


def joints_of(joints: Sequence[int] | None, n_joints: int) -> NDArray[np.intp]:
    """Return indices of joints, all of them if none are named.

    Raises:
        ActuatorRefused: If there is none of them.
    """
    if joints is None:
        return np.arange(n_joints)
    allowed = f"allowed whole numbers from 0 to {n_joints - 1}"
    try:
        at = np.atleast_1d(np.asarray(joints))
    except ValueError:  # lists of different lengths
        raise ActuatorRefused(f"joints: got {joints!r:.60}, {allowed}") from None
    if at.size and (at.dtype.kind not in "iu" or at.ndim > 1):
        raise ActuatorRefused(f"joints: got {joints!r:.60}, {allowed}")
    for joint in at:
        if not 0 <= joint < n_joints:
            raise ActuatorRefused(f"joints: got {joint}, {allowed}")
    return at.astype(np.intp)
