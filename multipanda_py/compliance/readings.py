# SPDX-License-Identifier: Apache-2.0
"""What can be read of motors and springs."""

from __future__ import annotations

import numpy as np

from multipanda_py.actuator import ElasticTorque
from multipanda_py.compliance.equations import Equations
from multipanda_py.compliance.flow import Flow
from multipanda_py.compliance.springs import JointSprings
from multipanda_py.state import Matrix, Vector


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
