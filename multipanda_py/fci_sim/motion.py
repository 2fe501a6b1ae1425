# SPDX-License-Identifier: Apache-2.0
"""One motion: what the client's commands make the robot do, and which of them it refuses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multipanda_py.fci_sim.client_urdf import (
    ACCELERATION,
    JERK,
    LOWER,
    TORQUE,
    UPPER,
    velocity_towards,
)
from multipanda_py.fci_sim.frames import Frames, is_pose, pose_from
from multipanda_py.fci_sim.wire import Controller, Generator
from multipanda_py.fci_sim.world import PERIOD, World

Vector = NDArray[np.float64]

TORQUE_STEP = 1.0
"""Largest change of a torque from one command to the next, 1000 Nm/s [Nm]."""
START_TOLERANCE = 1e-3
"""How far the first commanded position may be from the robot's own (assumed) [rad, m]."""
# Of the end effector, FCI documentation: m/s, rad/s; m/s^2, rad/s^2.
CARTESIAN_VELOCITY = np.array([3.0] * 3 + [2.5] * 3)
CARTESIAN_ACCELERATION = np.array([9.0] * 3 + [17.0] * 3)
_ROUNDING = 1.0 + 1e-6  # commands of 1000 Nm/s sharp are to pass
_DAMPING = 1e-6  # of the inverse of the Jacobian


class Motion:
    """A motion between Move and its second answer.

    Torque control takes effect as sent. All other motions move a desired posture, which a
    joint impedance follows; the Cartesian impedance of the real robot is not simulated.

    Attributes:
        request_id: Counter of the Move request.
        controller: Who makes torques.
        generator: What the client commands.
        asynchronous: Whether commands come at any time, not in every cycle.
        started: Whether a command has arrived. Until then the robot holds.
        tau: Torques of the newest command, (7,) [Nm].
        q_d: Desired positions, (7,) [rad]; ``dq_d`` and ``ddq_d`` are their derivatives.
        pose_c: Commanded end effector pose, (4, 4), or None.
    """

    def __init__(
        self, request_id: int, controller: Controller, generator: Generator,
        asynchronous: bool, max_velocity: Vector, world: World, frames: Frames,
    ) -> None:  # fmt: skip
        self.request_id, self.controller, self.generator = request_id, controller, generator
        self.asynchronous, self._max_velocity = asynchronous, max_velocity
        self._world, self._F_T_EE = world, frames.pose_ee_in_flange
        self.started = False
        self.tau = np.zeros(7)
        self.q_d, self.dq_d, self.ddq_d = world.q.copy(), np.zeros(7), np.zeros(7)
        self.pose_c: Vector | None = None
        self._twist = np.zeros(6)
        self._goal = self.q_d.copy()

    @property
    def external(self) -> bool:
        """Whether the client commands torques."""
        return self.controller is Controller.EXTERNAL

    def take(self, command: np.void) -> str | None:
        """Execute a command; return the name of the error it is, if it is one."""
        first, self.started = not self.started, True
        if self.external:
            return self._take_torque(np.array(command["tau_J_d"]))
        if self.asynchronous:
            self._goal = np.array(command["q_c"])
            return None
        if self.generator is Generator.JOINT_POSITION:
            return self._take_position(np.array(command["q_c"]), first)
        if self.generator is Generator.JOINT_VELOCITY:
            return self._take_velocity(np.array(command["dq_c"]))
        if self.generator is Generator.CARTESIAN_POSITION:
            return self._take_pose(pose_from(command["O_T_EE_c"]), first)
        return self._take_twist(np.array(command["O_dP_EE_c"]))

    def repeat(self) -> None:
        """Go on without a command: the same torque, or constant acceleration."""
        if self.asynchronous:
            self._approach()
        elif not self.external and self.started:
            self.dq_d = self.dq_d + self.ddq_d * PERIOD
            self.q_d = self.q_d + self.dq_d * PERIOD

    def _take_torque(self, tau: Vector) -> str | None:
        if (np.abs(tau) > TORQUE).any():
            return "tau_j_range_violation"
        if (np.abs(tau - self.tau) > TORQUE_STEP * _ROUNDING).any():
            return "controller_torque_discontinuity"
        self.tau = tau
        return None

    def _take_position(self, q: Vector, first: bool) -> str | None:
        if first and (np.abs(q - self.q_d) > START_TOLERANCE).any():
            return "joint_position_motion_generator_start_pose_invalid"
        return self._take_velocity((q - self.q_d) / PERIOD)

    def _take_velocity(self, dq: Vector, kind: str = "joint_motion_generator") -> str | None:
        q = self.q_d + dq * PERIOD
        acceleration = (dq - self.dq_d) / PERIOD
        jerk = (acceleration - self.ddq_d) / PERIOD
        if ((q < LOWER) | (q > UPPER)).any():
            return f"{kind}_position_limits_violation"
        room = np.where(dq > 0.0, UPPER - self.q_d, self.q_d - LOWER)
        if (np.abs(dq) > velocity_towards(room) * _ROUNDING).any():
            return f"{kind}_velocity_limits_violation"
        if (np.abs(acceleration) > ACCELERATION * 1.01).any():
            return f"{kind}_velocity_discontinuity"
        if (np.abs(jerk) > JERK * 1.01).any():
            return f"{kind}_acceleration_discontinuity"
        self.q_d, self.dq_d, self.ddq_d = q, dq, acceleration
        return None

    def _take_pose(self, pose: Vector, first: bool) -> str | None:
        if not is_pose(pose):
            return "cartesian_position_motion_generator_invalid_frame"
        here, _ = self._world.kinematics_at(self.q_d, self._F_T_EE)
        if first and np.abs(pose - here).max() > START_TOLERANCE:
            return "cartesian_position_motion_generator_start_pose_invalid"
        before = here if self.pose_c is None else self.pose_c
        self.pose_c = pose
        return self._follow(difference(before, pose) / PERIOD, difference(here, pose) / PERIOD)

    def _take_twist(self, twist: Vector) -> str | None:
        return self._follow(twist, twist)

    def _follow(self, commanded: Vector, twist: Vector) -> str | None:
        """Move the desired posture with a twist, (6,) [m/s, rad/s], if limits allow it."""
        if (np.abs(commanded) > CARTESIAN_VELOCITY).any():
            return "cartesian_motion_generator_velocity_limits_violation"
        if (np.abs(commanded - self._twist) > CARTESIAN_ACCELERATION * PERIOD * 1.01).any():
            return "cartesian_motion_generator_velocity_discontinuity"
        self._twist = commanded
        _, J = self._world.kinematics_at(self.q_d, self._F_T_EE)
        dq = J.T @ np.linalg.solve(J @ J.T + _DAMPING * np.eye(6), twist)
        return self._take_velocity(dq, "cartesian_motion_generator_joint")

    def _approach(self) -> None:
        """Move the desired posture towards the goal of an asynchronous motion."""
        gap = self._goal - self.q_d
        distance = np.abs(gap)
        speed = np.minimum(self._max_velocity, np.sqrt(ACCELERATION * distance))
        speed = np.minimum(speed, distance / PERIOD)
        change = np.clip(np.sign(gap) * speed - self.dq_d, -ACCELERATION * PERIOD,
                         ACCELERATION * PERIOD)  # fmt: skip
        self.ddq_d, self.dq_d = change / PERIOD, self.dq_d + change
        self.q_d = self.q_d + self.dq_d * PERIOD


def difference(one: Vector, other: Vector) -> Vector:
    """Return translation [m] and small rotation [rad] from one pose to another, (6,)."""
    turn = other[:3, :3] @ one[:3, :3].T
    rotation = 0.5 * np.array(
        (turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1])
    )
    return np.concatenate((other[:3, 3] - one[:3, 3], rotation))
