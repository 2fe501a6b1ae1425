# SPDX-License-Identifier: Apache-2.0
"""What can be read of motors and springs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.actuator import ElasticTorque, finite_numbers
from multipanda_py.exceptions import ActuatorRefused
from multipanda_py.robots.actuated_joints import ALIASES, COMMANDS, LARGEST_COMMAND, OperationMode
from multipanda_py.simulation.actuators.equations import Equations
from multipanda_py.simulation.actuators.integrator import Flow
from multipanda_py.simulation.actuators.springs import JointSprings
from multipanda_py.state import Matrix, Vector


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


class Readings:
    """State of motors and springs, in arrays of the caller's own.

    Args:
        springs: All springs as one.

    Attributes:
        springs: Likewise.
        equations: Equations of motion of links and motors, without their springs.
        flow: Integrator with the state of links and motors.

    Thread: control.
    """

    def __init__(self, springs: JointSprings) -> None:
        self.springs = springs
        self.equations = Equations(springs.n_joints)
        self.flow = Flow(springs, self.equations)
        self._ease = 1.0  # what the last step has weakened dampers by

    @property
    def n_joints(self) -> int:
        """Number of joints, n."""
        return self.springs.n_joints

    def look(self) -> None:
        """Find out what springs and motors exert as they are now, for :meth:`as_stepped`."""
        self.flow.look()

    def as_stepped(self) -> Matrix:
        """Return what the last step has left, without computing anything anew.

        Returns:
            Where motors are asked to be, where they are, how fast, what they exert, and what
            springs exert on them; both motors each, (10, n). Motors without inertia exert what
            they carry; those without a controller are asked to be where they are.
        """
        flow, equations = self.flow, self.equations
        theta, load = flow.x[1:], equations.elastic * flow.loads[1:]
        reference = np.where(equations.gains[0, 1:] > 0.0, equations.aim[1:], theta)
        exerted = np.where(equations.lightness > 0.0, flow.torques[1:3], load)
        return np.concatenate((reference, theta, flow.v[1:], exerted, load))

    @property
    def theta(self) -> Matrix:
        """Positions of both motors, (2, n) [rad, or m where that is their unit]."""
        return self.flow.x[1:].copy()

    @property
    def dtheta(self) -> Matrix:
        """Velocities of both motors, (2, n); zero where motors have no inertia."""
        return self.flow.v[1:].copy()

    @property
    def elastic(self) -> ElasticTorque:
        """Torques of springs on links, and loads of motors, (n,) each [Nm]; zero if rigid."""
        found = self.springs.torque(self.flow.x[0], self.flow.x[1:])
        return ElasticTorque(*(self.equations.elastic * torque for torque in found))

    @property
    def link_torque(self) -> Vector:
        """Torques on links: of springs and dampers, or of what drives rigid ones, (n,) [Nm].

        Dampers are as weak as the last step has taken them.
        """
        if self.springs.are_damped:
            self.equations.set_damping(self._ease * self.springs.damping(self.flow.x[1:]))
        self.equations.put_torques()
        return self.flow.look()[6 * self.n_joints :].copy()

    @property
    def motor_torque(self) -> Matrix:
        """Torques that motors exert, after saturation, (2, n) [Nm]; zero of those without inertia.

        At a stop, too: it is what they press against it with, and what they carry besides.
        """
        self.flow.look()
        found: Matrix = self.flow.torques[1:3] * (self.equations.lightness > 0.0)
        return found

    @property
    def integrated(self) -> Matrix:
        """Torques that controllers of motors add for what they have integrated, (2, n) [Nm]."""
        found: Matrix = self.equations.gains[1, 1:] * self.equations.memory[3:]
        return found

    @property
    def friction(self) -> Matrix:
        """Friction of motors, which holds them back, (2, n) [Nm]."""
        self.flow.look()
        found: Matrix = self.flow.torques[3:] * (self.equations.lightness > 0.0)
        return found

    @property
    def link_stiffness(self) -> Vector:
        """Stiffness of springs at links, (n,) [Nm/rad]; zero if rigid."""
        return self.equations.elastic * self.springs.stiffness(self.flow.x[0], self.flow.x[1:])

    @property
    def preset(self) -> Vector:
        """Presets that motors stand at, (n,)."""
        return self.springs.preset_of(self.flow.x[1:])

    @property
    def equilibrium(self) -> Vector:
        """Equilibria that motors stand at, (n,) [rad]."""
        return self.springs.equilibrium_of(self.flow.x[1:])
