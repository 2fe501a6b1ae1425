# SPDX-License-Identifier: Apache-2.0
"""What a controllet asks of compliant joints, as their own modes and commands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.actuator_state import LAWS
from multipanda_py.compliance.commanded import BeyondStops
from multipanda_py.compliance.joints import CompliantJoints
from multipanda_py.compliance.mode import OperationMode
from multipanda_py.exceptions import ActuatorRefused
from multipanda_py.state import Matrix, Vector


class AskedOfJoints:
    """Change modes and commands of m compliant joints when something else is asked of them.

    Args:
        joints: The joints.
        modes: In which they do what torque laws command.

    Attributes:
        led: Joints that follow commands of motors and springs, not a law's torque, (m,).
        direct: Those of them whose torque is commanded, bounded like a law's, (m,).
        refused: Why a joint did not change its mode, by its number; whoever reads clears it.
        stopped: Motors that have been told to go beyond a stop; whoever reads clears it.

    Thread: control.
    """

    def __init__(self, joints: CompliantJoints, modes: Sequence[OperationMode]) -> None:
        self._joints, self._of_laws = joints, tuple(modes)
        self._asked = np.full((3, joints.n_joints), np.nan)
        self._asked[0] = LAWS
        self.led: NDArray[np.bool_] = np.zeros(joints.n_joints, bool)
        self.direct: NDArray[np.bool_] = np.zeros(joints.n_joints, bool)
        self.refused: dict[int, str] = {}
        self.stopped: BeyondStops = {}
        self._beyond: BeyondStops = {}

    def save(self) -> Matrix:
        """Return a copy of what is asked."""
        return self._asked.copy()

    def restore(self, saved: Matrix) -> None:
        """Go back to what :meth:`save` has returned, with joints that have done so."""
        self._asked = saved.copy()
        self._look()

    def take(self, q: Vector, dq: Vector, asked: Matrix) -> NDArray[np.intp] | None:
        """Have joints do what is asked now.

        Args:
            q: Where links are, (m,) [rad].
            dq: How fast, (m,) [rad/s].
            asked: Rows of :attr:`.ActuatorState.command` but the last, (3, m).

        Returns:
            Joints that do what laws command from now on; None if nothing has changed.
        """
        before = self._asked
        if asked.tobytes() == before.tobytes():
            return None
        changed = asked[0] != before[0]
        is_new = ~np.isnan(asked[1:]) & ((asked[1:] != before[1:]) | changed)
        self._asked = asked.copy()
        if changed.any():
            self._joints.sense(q, dq)
            self._change(np.flatnonzero(changed))
            self._look()
        self._command(is_new & self.led & ~self.direct)
        return np.flatnonzero(changed & ~self.led)

    def _look(self) -> None:
        self.led = self._asked[0] != LAWS
        self.direct = self._asked[0] == OperationMode.LINK_TORQUE

    def _change(self, at: NDArray[np.intp]) -> None:
        """Change modes, as far as springs can go on with the torques of links."""
        by_mode: defaultdict[OperationMode, list[int]] = defaultdict(list)
        for joint in at.tolist():
            number = int(self._asked[0, joint])
            mode = self._of_laws[joint] if number == LAWS else OperationMode(number)
            by_mode[mode].append(joint)
        for mode, joints in by_mode.items():
            try:
                self._joints.set_mode(mode, joints)
            except ActuatorRefused as error:
                self.refused[joints[0]] = str(error)
                self._asked[0, joints], self._asked[1:, joints] = LAWS, np.nan

    def _command(self, is_new: NDArray[np.bool_]) -> None:
        """Hand new commands over; those that are refused count, and leave the last good ones."""
        before = self._joints.beyond_stops() if is_new.any() else {}
        found: defaultdict[str, list[int]] = defaultdict(list)
        values: defaultdict[str, list[float]] = defaultdict(list)
        for row, joint in zip(*(places.tolist() for places in np.nonzero(is_new))):
            name = self._joints.modes[joint].commands[row]
            found[name].append(joint)
            values[name].append(float(self._asked[1 + row, joint]))
        for name, at in found.items():
            try:
                self._joints.command(name, values[name], at)
            except ActuatorRefused as error:
                self.refused[at[0]] = str(error)
        if found:
            beyond, known = self._joints.beyond_stops(), {*self._beyond}
            self.stopped |= {
                motor: what
                for motor, what in beyond.items()
                if motor not in known and before.get(motor) != what  # loads take it there, too
            }
            self._beyond = beyond
