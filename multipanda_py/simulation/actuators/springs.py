# SPDX-License-Identifier: Apache-2.0
"""Springs of all joints as one object, for any mix of actuator types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.actuator import Actuator, ElasticTorque
from multipanda_py.exceptions import ActuatorRejected
from multipanda_py.state import Matrix, Vector

Actuators = Sequence[tuple[Actuator[Any], Sequence[int]]]
"""Actuators, each with the indices of the joints that it drives, counted from 0."""


_SLOPE_STEP = 1e-6
"""Step of numeric slopes, as a fraction of the range of presets."""


class JointSprings:
    """Springs of n joints; joints with the same type of actuator are computed together.

    Args:
        actuators: Actuators with the indices of their joints. Each joint has exactly one actuator.
        n_joints: Number of joints, n.

    Attributes:
        is_antagonistic: True for joints with two antagonistic motors, (n,).
        has_second: True for joints with a second motor, (n,).
        preset_low: Minimum presets, (n,).
        preset_high: Maximum presets, (n,).
        preset_units: Unit of each joint's preset; empty for joints without a preset.
        moves_pivots: True if a second motor of any joint moves a pivot.
        are_damped: True if any joint has damping between motors and link.

    Raises:
        ActuatorRejected: If a joint has no actuator or two, or an actuator gets a wrong number of
            joints.

    Thread: any; it has no state.
    """

    def __init__(self, actuators: Actuators, n_joints: int) -> None:
        self.n_joints = n_joints
        self._groups = [(actuator, np.asarray(at, dtype=np.intp)) for actuator, at in actuators]
        _check_groups(self._groups, n_joints)
        self._single_actuator = None
        if len(self._groups) == 1 and (self._groups[0][1] == np.arange(n_joints)).all():
            self._single_actuator = self._groups[0][0]
        ones = np.ones(n_joints)
        self.is_antagonistic: NDArray[np.bool_] = self._each_group(
            lambda of, at: of.is_antagonistic * ones[at]
        ).astype(bool)
        self._all_antagonistic = bool(self.is_antagonistic.all())
        self.has_second: NDArray[np.bool_] = self._each_group(
            lambda of, at: bool(of.preset_unit) * ones[at]
        ).astype(bool)
        self.preset_low = self._each_group(lambda of, at: of.preset_low)
        self.preset_high = self._each_group(lambda of, at: of.preset_high)
        units = {joint: actuator.preset_unit for actuator, at in self._groups for joint in at}
        self.preset_units = tuple(units[joint] for joint in range(n_joints))
        self._pivots = self.has_second & ~self.is_antagonistic
        self.moves_pivots = bool(self._pivots.any())
        self._max_deflection = 0.999999 * self._each_group(lambda of, at: of.of["max_deflection"])
        self._coupled = any(of.is_coupled for of, _ in self._groups)
        self.are_damped = any(
            type(of).damping is not Actuator.damping
            or of.of["damping"].any()
            or np.any(of.of.get("damping_per_preset", 0.0))
            for of, _ in self._groups
        )

    def load(self, q: Vector, theta_1: Vector, theta_2: Vector, out: Matrix) -> None:
        """Write the spring torques on links, first and second motors to the rows of ``out`` [Nm].

        Args:
            q: Joint angles, (n,) [rad].
            theta_1: Positions of first motors, (n,).
            theta_2: Positions of second motors, (n,); ignored for joints without one.
            out: Output array, (3, n).
        """
        if self._single_actuator is not None:
            out[0], out[1], out[2] = self._single_actuator.elastic_torque(q, theta_1, theta_2)
        else:
            for actuator, at in self._groups:
                torque = actuator.elastic_torque(q[at], theta_1[at], theta_2[at])
                out[0, at], out[1, at], out[2, at] = torque
        if self._coupled:
            between = self._each_group(lambda of, at: of.coupling_torque(theta_1[at], theta_2[at]))
            out[1] += between
            out[2] -= between

    def torque(self, q: Vector, theta: Matrix) -> ElasticTorque:
        """Return the spring torques on links and motors, in new arrays, (n,) each [Nm].

        Args:
            q: Link angles, (n,) [rad].
            theta: Positions of the first and second motors, (2, n).
        """
        torque = np.empty((3, self.n_joints))
        self.load(q, theta[0], theta[1], torque)
        return ElasticTorque(*torque)

    def stiffness(self, q: Vector, theta: Matrix) -> Vector:
        return self._each_group(
            lambda of, at: of.link_stiffness(q[at], theta[0][at], theta[1][at])
        )

    def largest_stiffness(self, q: Vector, theta: Matrix) -> Vector:
        """Return an upper bound of the spring stiffness at the links, (n,) [Nm/rad].

        For a spring beyond its maximum deflection, it is the stiffness at this deflection.

        Args:
            q: Link angles, (n,) [rad].
            theta: Positions of the first and second motors, (2, n).
        """
        near = q + np.minimum(np.maximum(theta - q, -self._max_deflection), self._max_deflection)
        if not self._all_antagonistic:
            near[1] = np.where(self.is_antagonistic, near[1], theta[1])
        return self.stiffness(q, near)

    def pivot_slopes(self, q: Vector, theta: Matrix) -> tuple[Vector, Vector]:
        """Return the derivatives of spring torques by the pivot position, (n,) each.

        Args:
            q: Link angles, (n,) [rad].
            theta: Positions of the first and second motors, (2, n).

        Returns:
            Derivatives of the load of the pivot motor [N/m] and of the torque on the link [N];
            zero for joints without a pivot.
        """
        low, high = self.preset_low, self.preset_high
        near = _SLOPE_STEP * (high - low)
        below, above = (
            np.minimum(np.maximum(theta[1] + offset, low), high) for offset in (-near, near)
        )
        before, after = (self.torque(q, np.array([theta[0], at])) for at in (below, above))
        per = np.divide(
            1.0, above - below, out=np.zeros_like(q), where=self._pivots & (above > below)
        )
        return (after.motor_2 - before.motor_2) * per, (after.link - before.link) * per

    def damping(self, theta: Matrix) -> Vector:
        return self._each_group(lambda of, at: of.damping(theta[0][at], theta[1][at]))

    def references(self, equilibrium: Vector, preset: Vector) -> Matrix:
        """Return the motor positions for equilibrium angles and presets, (2, n).

        Args:
            equilibrium: Equilibrium angles of the joints, (n,) [rad].
            preset: Stiffness presets, (n,).
        """
        references = np.empty((2, self.n_joints))
        for actuator, at in self._groups:
            references[0, at], references[1, at] = actuator.references(equilibrium[at], preset[at])
        return references

    def exertable(self, preset: Vector, motors: Matrix) -> Vector:
        """Return the maximum torque of springs on joints, equal for both directions, (n,) [Nm].

        Args:
            preset: Stiffness presets, (n,).
            motors: Maximum torques of first and second motors, (2, n) [Nm, or N for a pivot].
        """
        return self._each_group(lambda of, at: of.torque_limit(preset[at], motors[:, at]))

    def equilibrium_of(self, theta: Matrix) -> Vector:
        """Return the equilibrium angles at motor positions, (n,) [rad]."""
        return self._each_group(lambda of, at: of.equilibrium_of(theta[0][at], theta[1][at]))

    def preset_of(self, theta: Matrix) -> Vector:
        """Return the presets at motor positions, (n,); zero for joints without a preset."""
        return self._each_group(
            lambda of, at: of.preset_of(theta[0][at], theta[1][at]) * bool(of.preset_unit)
        )

    def equilibrium_for(self, q: Vector, torque: Vector, preset: Vector) -> Vector:
        """Return the equilibrium angles at which springs exert torques on joints, (n,) [rad].

        Args:
            q: Link angles, (n,) [rad].
            torque: Torques on links, (n,) [Nm].
            preset: Stiffness presets, (n,).

        Raises:
            ActuatorRejected: If springs cannot exert a torque.
        """
        return self._each_group(lambda of, at: of.equilibrium_for(q[at], torque[at], preset[at]))

    def nearest_equilibrium(
        self, q: Vector, torque: Vector, preset: Vector, start: Vector
    ) -> Vector:
        """Return the equilibrium angles at which springs exert desired torques, (n,) [rad].

        For a torque that springs cannot exert, the result gives the nearest possible torque.

        Args:
            q: Link angles, (n,) [rad].
            torque: Desired torques on links, (n,) [Nm].
            preset: Stiffness presets, (n,).
            start: Equilibrium angles at which the search starts, (n,) [rad].
        """
        return self._each_group(
            lambda of, at: of.nearest_equilibrium(q[at], torque[at], preset[at], start[at])
        )

    def _each_group(self, per_group: Callable[[Actuator[Any], Any], Vector]) -> Vector:
        """Return the results of ``per_group(actuator, joint_indices)`` for all joints, (n,)."""
        if self._single_actuator is not None:
            return per_group(self._single_actuator, slice(None))
        result = np.empty(self.n_joints)
        for actuator, at in self._groups:
            result[at] = per_group(actuator, at)
        return result


def _check_groups(groups: Sequence[tuple[Actuator[Any], NDArray[np.intp]]], n_joints: int) -> None:
    times = np.zeros(n_joints, dtype=int)
    for actuator, at in groups:
        kind = type(actuator).__name__.lower()
        if len(at) != actuator.n_joints:
            raise ActuatorRejected(
                f"{kind}: joints: got {len(at)}, allowed {actuator.n_joints}, the number of its "
                "parameter values"
            )
        for joint in at:
            if not 0 <= joint < n_joints:
                raise ActuatorRejected(f"{kind}: joints: got {joint}, allowed 0 to {n_joints - 1}")
            times[joint] += 1
    for joint in np.flatnonzero(times != 1):
        raise ActuatorRejected(f"joint {joint + 1}: got {times[joint]} actuators, allowed 1")
