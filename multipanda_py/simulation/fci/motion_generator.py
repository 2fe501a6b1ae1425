# SPDX-License-Identifier: Apache-2.0
"""Motion generator of a simulated robot: execution of commanded motions, and their limits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.franka import (
    FR3_LIMITS,
    LOWER_LIMITS,
    UPPER_LIMITS,
    VELOCITY_LIMITS,
    velocity_towards,
)
from multipanda_py.simulation.fci.cartesian import (
    START_TOLERANCE,
    Bounds,
    CartesianReference,
    FlangeFrames,
    Trend,
    pose_from,
)
from multipanda_py.simulation.fci.wire import Controller, Generator
from multipanda_py.simulation.fci.world import PERIOD, Physics

Vector = NDArray[np.float64]


TORQUE_STEP = 1.0
"""Maximum torque change between two commands, corresponding to 1000 Nm/s [Nm]."""
_JOINT_BOUNDS = Bounds(FR3_LIMITS.acceleration, FR3_LIMITS.jerk)
_CARTESIAN_GENERATORS = (Generator.CARTESIAN_POSITION, Generator.CARTESIAN_VELOCITY)
# Maximum number of periods before the first command that count as lost commands.
_MAX_FIRST_LOSSES = 4
_ROUNDING_FACTOR = 1.0 + 1e-6  # Factor on limits, so that commands at exactly 1000 Nm/s pass.


class Motion:
    """Motion of the robot, from the client's Move request to the final answer.

    Commanded torques are applied directly. All other commands move a desired joint configuration,
    which the simulated robot follows by joint impedance control.

    Attributes:
        request_id: Counter of the Move request.
        controller: Controller that computes torques.
        generator: Motion generator, which defines what the client commands.
        asynchronous: True if commands arrive at any time, False if one is due in every cycle.
        started: True if a command has arrived; before that, the robot holds.
        tau: Torques of the newest command, (7,) [Nm].
        q_d: Desired joint positions, (7,) [rad].
        cartesian: Reference of a Cartesian motion; None for other motions.
    """

    def __init__(
        self, request_id: int, controller: Controller, generator: Generator,
        asynchronous: bool, max_velocity: Vector, physics: Physics, frames: FlangeFrames,
        q_d: Vector,
    ) -> None:  # fmt: skip
        self.request_id, self.controller, self.generator = request_id, controller, generator
        self.asynchronous, self._max_velocity = asynchronous, max_velocity
        self.started = False
        self.tau = np.zeros(7)
        # A motion starts at the position that the robot holds, not at the measured one, because
        # the arm may still be moving to the held position.
        self.q_d = self._arrived = self._goal = q_d.copy()
        self._joints = Trend(_JOINT_BOUNDS)
        self._first_losses = 0
        self.cartesian: CartesianReference | None = None
        if generator in _CARTESIAN_GENERATORS:
            self.cartesian = CartesianReference(physics, frames.pose_ee_in_flange, self.q_d)

    @property
    def dq_d(self) -> Vector:
        """Desired joint velocities, (7,) [rad/s]."""
        return self._joints.velocity

    @property
    def ddq_d(self) -> Vector:
        """Desired joint accelerations, (7,) [rad/s^2]."""
        return self._joints.acceleration

    @property
    def external(self) -> bool:
        """True if the client commands torques; False if the robot's controller computes them."""
        return self.controller is Controller.EXTERNAL

    def receive(self, command: np.void) -> str | None:
        """Execute a command; return the name of the libfranka error that it causes, or None."""
        first, self.started = not self.started, True
        if self.external:
            return self._take_torque(np.array(command["tau_J_d"]))
        if self.asynchronous:
            self._goal = np.array(command["q_c"])
            return None
        if self.cartesian is not None:
            return self._take_cartesian(self.cartesian, command, first)
        if self.generator is Generator.JOINT_POSITION:
            return self._take_position(np.array(command["q_c"]), first)
        return self._take_velocity(np.array(command["dq_c"]))

    def repeat(self) -> None:
        """Continue for a period without a command.

        Torque control keeps its torque, an asynchronous motion approaches its goal, and other
        motions continue with constant acceleration.
        """
        if self.asynchronous:
            self._approach_goal()
        elif not self.external and (self.started or self._first_losses < _MAX_FIRST_LOSSES):
            self._first_losses += 1
            if self.cartesian is None:
                self._joints.coast()
            else:
                self.cartesian.coast()
                dq = self.cartesian.follow(self.q_d)
                self._joints.coast(np.clip(dq, -VELOCITY_LIMITS, VELOCITY_LIMITS))
            self.q_d = self.q_d + self.dq_d * PERIOD

    def _take_torque(self, tau: Vector) -> str | None:
        if (np.abs(tau) > FR3_LIMITS.torque).any():
            return "tau_j_range_violation"
        if (np.abs(tau - self.tau) > TORQUE_STEP * _ROUNDING_FACTOR).any():
            return "controller_torque_discontinuity"
        self.tau = tau
        return None

    def _take_position(self, q: Vector, first: bool) -> str | None:
        if first and (np.abs(q - self.q_d) > START_TOLERANCE).any():
            return "joint_position_motion_generator_start_pose_invalid"
        before, self.q_d = self.q_d, q
        self._joints.receive_position(q - self._arrived)
        self._arrived = q
        return self._limit_fault(before, "joint_motion_generator_")

    def _take_velocity(
        self, dq: Vector, error_prefix: str = "joint_motion_generator_", exact: bool = True
    ) -> str | None:
        before, self.q_d = self.q_d, self.q_d + dq * PERIOD
        self._joints.receive_velocity(dq, exact=exact)
        return self._limit_fault(before, error_prefix)

    def _take_cartesian(
        self, reference: CartesianReference, command: np.void, first: bool
    ) -> str | None:
        elbow = np.array(command["elbow_c"]) if command["valid_elbow"] else None
        error = reference.take_elbow(elbow, self.q_d, self.dq_d)
        if error is None and self.generator is Generator.CARTESIAN_POSITION:
            error = reference.take_pose(pose_from(command["O_T_EE_c"]), first)
        elif error is None:
            error = reference.take_twist(np.array(command["O_dP_EE_c"]))
        if error is not None:
            return error
        dq, exact = reference.follow(self.q_d), reference.trend.exact
        return self._take_velocity(dq, "cartesian_motion_generator_joint_", exact)

    def _limit_fault(self, q_d_before: Vector, error_prefix: str) -> str | None:
        if ((self.q_d < LOWER_LIMITS) | (self.q_d > UPPER_LIMITS)).any():
            return f"{error_prefix}position_limits_violation"
        distance = np.where(self.dq_d > 0.0, UPPER_LIMITS - q_d_before, q_d_before - LOWER_LIMITS)
        fault = self._joints.fault(velocity_towards(distance))
        return None if fault is None else error_prefix + fault

    def _approach_goal(self) -> None:
        gap = self._goal - self.q_d
        distance = np.abs(gap)
        speed = np.minimum(self._max_velocity, np.sqrt(FR3_LIMITS.acceleration * distance))
        speed = np.minimum(speed, distance / PERIOD)
        change = np.clip(np.sign(gap) * speed - self.dq_d, -FR3_LIMITS.acceleration * PERIOD,
                         FR3_LIMITS.acceleration * PERIOD)  # fmt: skip
        self._joints.acceleration = change / PERIOD
        self._joints.velocity = self.dq_d + change
        self.q_d = self.q_d + self.dq_d * PERIOD
