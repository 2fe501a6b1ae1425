# SPDX-License-Identifier: Apache-2.0
"""From the torques that links are to have to where motors are to stand."""

from __future__ import annotations

from typing import Any

import numpy as np

from multipanda_py.compliance.joints import CompliantJoints
from multipanda_py.compliance.mode import Mode
from multipanda_py.compliance.motors import Motors
from multipanda_py.compliance.springs import Springs
from multipanda_py.state import Matrix, Vector


def mode_of_laws(mode: Mode) -> Mode:
    """Return the mode in which joints do what torque laws ask for, where they are in a mode.

    It has the same dynamics: none of springs, springs with motors that stand where they are asked
    to, or springs and motors.
    """
    if mode.is_rigid:
        return Mode.LINK_TORQUE
    return Mode.MOTOR_PID if mode.has_motors else Mode.SPRING_REFERENCES


class LinkTorque:
    r"""Command motors so that springs exert a torque.

    .. math::
        \tau_{link}(q + \tfrac T2 \dot q,\, \theta^*) = \tau, \qquad
        r = \theta^* + \frac{\tau_{motor}(\theta^*) + (D + D_{pid})\, \dot\theta^*}{P}

    inverts the springs at the stiffness preset, half a cycle T ahead, as the motors then stand
    still while the link goes on. Motors with inertia have a PID controller that looks at no
    reference of velocity: they are asked for what their load and its damping leave of r, so that
    what remains of a lag is that of their inertia, :math:`J / (D + D_{pid})`.

    Args:
        joints: The compliant joints, m of them; put in the mode that laws need.
        springs: Theirs.
        motors: Theirs, if they have any.
        preset: Stiffness presets, (m,) [rad or m].
        period: Cycle time T [s].

    Thread: control.
    """

    def __init__(
        self,
        joints: CompliantJoints,
        springs: Springs,
        motors: Motors | None,
        preset: Vector,
        period: float,
    ) -> None:
        self._joints, self._springs, self._period, self._preset = joints, springs, period, preset
        joints.set_mode(mode_of_laws(joints.mode))
        self._mode = joints.mode
        self._per_load, self._lead = np.zeros((2, 2, len(preset)))
        if motors is not None and self._mode.has_motors:
            has = motors.p > 0.0
            np.divide(1.0, motors.p, out=self._per_load, where=has)
            np.divide(motors.damping + motors.d, motors.p, out=self._lead, where=has)
        self._equilibrium: Vector = np.zeros(len(preset))
        self._before: Matrix = np.zeros((2, len(preset)))

    def save(self) -> Any:
        """Return copies of all that changes."""
        return self._equilibrium.copy(), self._before.copy()

    def restore(self, saved: Any) -> None:
        """Go back to what :meth:`save` has returned."""
        self._equilibrium, self._before = (part.copy() for part in saved)

    def start(self, q: Vector, torque: Vector) -> None:
        """Put motors at rest where springs exert torques, (m,) [Nm], on links at q, (m,) [rad]."""
        self._equilibrium = self._springs.nearest_equilibrium(q, torque, self._preset, q)
        self._before = self._springs.references(self._equilibrium, self._preset)
        self._joints.reset(q, self._before)
        self.command(q, np.zeros_like(q), torque)

    def command(self, q: Vector, dq: Vector, torque: Vector) -> None:
        """Ask for torques of links.

        Args:
            q: Where links are, (m,) [rad].
            dq: How fast, (m,) [rad/s].
            torque: What springs are to exert, (m,) [Nm].
        """
        joints = self._joints
        if self._mode is Mode.LINK_TORQUE:
            joints.command("torque_command", torque)
            return
        springs, ahead = self._springs, q + 0.5 * self._period * dq
        self._equilibrium = springs.nearest_equilibrium(
            ahead, torque, self._preset, self._equilibrium
        )
        motors = springs.references(self._equilibrium, self._preset)
        if self._mode.has_motors:
            loads = np.array(springs.torque(ahead, motors)[1:])
            rate = (motors - self._before) / self._period
            self._before = motors
            motors = motors + self._per_load * loads + self._lead * rate
        joints.command("reference_1", motors[0])
        joints.command("reference_2", motors[1])
