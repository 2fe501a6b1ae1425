# SPDX-License-Identifier: Apache-2.0
"""Frames of the flange, reference of a Cartesian motion, and joint velocities that follow it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.franka import ELBOW_FLIP
from multipanda_py.simulation.fci.world import PERIOD, Physics

Vector = NDArray[np.float64]
_POSE_TOLERANCE = 1e-5  # Tolerance of libfranka for homogeneous transforms.


def pose_from(columns: Vector) -> Vector:
    """Return a pose, (4, 4), from its 16 numbers in column-major order."""
    return np.array(columns, dtype=np.float64).reshape(4, 4, order="F")


def is_pose(pose: Vector) -> bool:
    rotation = pose[:3, :3]
    return bool(
        np.isfinite(pose).all()
        and np.abs(pose[3] - (0.0, 0.0, 0.0, 1.0)).max() < _POSE_TOLERANCE
        and np.abs(rotation @ rotation.T - np.eye(3)).max() < _POSE_TOLERANCE
        and np.linalg.det(rotation) > 0.0
    )


class FlangeFrames:
    """Frames at the flange F: end effector EE and stiffness frame K, as poses (4, 4).

    Attributes:
        F_T_NE: Pose of the nominal end effector NE in the flange, which Desk sets on a real robot.
        NE_T_EE: Pose of the end effector in the frame NE, set by the client.
        EE_T_K: Pose of the stiffness frame in the end effector, set by the client.
    """

    def __init__(self, F_T_NE: Vector | None = None) -> None:
        self.F_T_NE: Vector = np.eye(4) if F_T_NE is None else np.array(F_T_NE)
        self.NE_T_EE, self.EE_T_K = np.eye(4), np.eye(4)

    @property
    def pose_ee_in_flange(self) -> Vector:
        """Pose of the end effector in the flange."""
        return np.asarray(self.F_T_NE @ self.NE_T_EE)


_ROUNDING_FACTOR = 1.0 + 1e-6  # Factor on limits, so that a command exactly at a limit passes.
# Factor on limits of acceleration and jerk, which follow from differences of rounded commands.
_DIFFERENCE_FACTOR = 1.01
# Factor on the acceleration limit after lost commands. Clients continue after a gap in several
# ways, and the acceleration over the gap is only estimated.
_GAP_FACTOR = 2.0
_MIN_CONSECUTIVE = 3  # Number of consecutive commands that determine the jerk.


@dataclass(frozen=True, eq=False)
class Bounds:
    """Limits of commands, (n,) each.

    Attributes:
        acceleration: Maximum acceleration [m/s^2 or rad/s^2].
        jerk: Maximum jerk [m/s^3 or rad/s^3].
    """

    acceleration: Vector
    jerk: Vector


class Trend:
    r"""Velocity and acceleration of a stream of commands, with checks against limits.

    If a command does not arrive in its period T, the robot continues with constant acceleration
    (FCI documentation). The acceleration a between two commands, N periods apart, is assumed
    constant. It follows from the velocity v at the first one and the displacement :math:`\Delta
    x`,

    .. math:: \Delta x = N v T + \tfrac{1}{2} N (N + 1) a T^2 .

    After a lost command, jerk is not checked until three consecutive commands have arrived. A real
    robot's check after a lost command is not documented.

    Args:
        bounds: Limits of acceleration and jerk.
        velocity: Initial velocity, (n,); by default zero.

    Attributes:
        velocity: Velocity, (n,) [m/s or rad/s].
        acceleration: Acceleration, (n,) [m/s^2 or rad/s^2].
    """

    def __init__(self, bounds: Bounds, velocity: Vector | None = None) -> None:
        size = len(bounds.jerk)
        self._bounds = bounds
        self.velocity = np.zeros(size) if velocity is None else velocity.copy()
        self.acceleration, self._jerk = np.zeros(size), np.zeros(size)
        self._arrived = self.velocity  # Velocity at the last command.
        # Velocity from two successive commands, and its age [periods].
        self._exact, self._since = self.velocity, 0
        self._lost, self._periods = 0, 1
        self._consecutive = _MIN_CONSECUTIVE

    def coast(self, velocity: Vector | None = None) -> None:
        """Continue for a period without a command.

        Args:
            velocity: Velocity after this period, (n,) [m/s or rad/s]; None: constant acceleration.
        """
        self._lost += 1
        if velocity is None:
            velocity = self.velocity + self.acceleration * PERIOD
        self.velocity = velocity

    def receive_position(self, change: Vector) -> None:
        """Update the trend by the change of the commanded position, (n,) [m or rad]."""
        periods = self._lost + 1
        missing = change - periods * self._arrived * PERIOD
        mean = 2.0 * missing / (periods * (periods + 1) * PERIOD**2)
        velocity = self._arrived + periods * mean * PERIOD
        self._take(velocity, mean, exact=periods == 1)

    def receive_velocity(self, velocity: Vector, *, exact: bool = True) -> None:
        """Update the trend by a commanded velocity, or one from inverse kinematics.

        Args:
            velocity: Velocity, (n,) [m/s or rad/s].
            exact: True if the velocity follows from consecutive commands; False after a lost
                command.
        """
        mean = (velocity - self._arrived) / ((self._lost + 1) * PERIOD)
        self._take(velocity, mean, exact=exact)

    @property
    def exact(self) -> bool:
        """True if the velocity follows from consecutive commands; False after a lost command."""
        return self._since == 0

    def _take(self, velocity: Vector, mean: Vector, *, exact: bool) -> None:
        self._periods = periods = self._lost + 1
        # The last velocity was estimated over a gap, so the last known one is used instead.
        if periods == 1 and self._since:
            mean = (velocity - self._exact) / ((self._since + 1) * PERIOD)
        self._consecutive = self._consecutive + 1 if periods == 1 else 0
        self._jerk = (mean - self.acceleration) / PERIOD
        self._lost = 0
        self.velocity, self.acceleration, self._arrived = velocity, mean, velocity
        if exact:
            self._exact, self._since = velocity, 0
        else:
            self._since += periods

    def fault(self, speed: Vector) -> str | None:
        """Return the name of the libfranka error that the newest command causes, or None.

        The name is without its prefix, such as ``joint_motion_generator_``.

        Args:
            speed: Maximum velocity, (n,) [m/s or rad/s]. After lost commands a higher velocity is
                allowed.
        """
        bounds = self._bounds
        is_gap = self._consecutive < _MIN_CONSECUTIVE
        largest = speed
        if is_gap:
            largest = speed + self._periods * PERIOD * bounds.acceleration
        if (np.abs(self.velocity) > largest * _ROUNDING_FACTOR).any():
            return "velocity_limits_violation"
        tolerance = _GAP_FACTOR if is_gap else _DIFFERENCE_FACTOR
        if (np.abs(self.acceleration) > bounds.acceleration * tolerance).any():
            return "velocity_discontinuity"
        if not is_gap and (np.abs(self._jerk) > bounds.jerk * _DIFFERENCE_FACTOR).any():
            return "acceleration_discontinuity"
        return None


START_TOLERANCE = 1e-3
"""Maximum distance of the first commanded position from the robot's desired one (assumed) [rad or
m]."""
# Limits of end effector and elbow in the FCI documentation: velocity [m/s, rad/s], acceleration
# [m/s^2, rad/s^2] and jerk [m/s^3, rad/s^3].
CARTESIAN_VELOCITY_LIMITS = np.array([3.0] * 3 + [2.5] * 3)
_CARTESIAN_BOUNDS = Bounds(np.array([9.0] * 3 + [17.0] * 3), np.array([4500.0] * 3 + [8500.0] * 3))
_ELBOW_VELOCITY = np.array([1.5])
_ELBOW_BOUNDS = Bounds(np.array([10.0]), np.array([5000.0]))
_DAMPING = 1e-6  # Regularisation of J J^T in the inverse of the Jacobian.
_CORRECTION_FRACTION = 0.05  # Fraction of the position error that is corrected in one period.
_ERROR_PREFIX = "cartesian_motion_generator_"


class CartesianReference:
    r"""Pose reference of a Cartesian motion, moved by its commands.

    The elbow position (joint 3) is included if commands contain it. The desired joint velocities
    :math:`\dot q_d` follow by inverse kinematics with the error gain k,

    .. math:: \dot q_d = J^+ \left(v_c + \frac{k}{T} (x_c \ominus x(q_d))\right) .

    Here J is the Jacobian, :math:`v_c` and :math:`x_c` are the commanded twist and pose, and T is
    the period. :math:`\ominus` is the displacement from the second pose to the first.

    Args:
        physics: Arm with its kinematics.
        F_T_EE: Pose of the end effector in the flange, (4, 4).
        q_d: Joint positions at the start, (7,) [rad].

    Attributes:
        pose: Pose of the end effector in the base, (4, 4).
        trend: Twist and acceleration of the end effector, (6,) [m/s, rad/s].
    """

    def __init__(self, physics: Physics, F_T_EE: Vector, q_d: Vector) -> None:
        self._physics, self._F_T_EE = physics, F_T_EE
        self.pose, _ = physics.kinematics_at(q_d, F_T_EE)
        self._arrived = self.pose
        self.trend = Trend(_CARTESIAN_BOUNDS)
        self._elbow: Trend | None = None  # None while the elbow is not commanded.
        self._elbow_position = self._elbow_arrived = 0.0

    def take_pose(self, pose: Vector, first: bool) -> str | None:
        """Move the reference to a commanded pose; return the libfranka error it causes, or None.

        Args:
            pose: Pose of the end effector in the base, (4, 4).
            first: True for the first command of a motion. Its pose must be the current one.
        """
        if not is_pose(pose):
            return "cartesian_position_motion_generator_invalid_frame"
        if first and np.abs(pose - self.pose).max() > START_TOLERANCE:
            return "cartesian_position_motion_generator_start_pose_invalid"
        self.trend.receive_position(difference(self._arrived, pose))
        self.pose = self._arrived = pose
        return self._fault()

    def take_twist(self, twist: Vector) -> str | None:
        """Move the reference by a twist, (6,) [m/s, rad/s]; return a libfranka error, or None."""
        self.trend.receive_velocity(twist)
        self.pose = displaced(self.pose, twist * PERIOD)
        return self._fault()

    def take_elbow(self, elbow: Vector | None, q_d: Vector, dq_d: Vector) -> str | None:
        """Move the elbow to a commanded one; return the libfranka error it causes, or None.

        Args:
            elbow: Position of joint 3 [rad] and sign of joint 4; None if no elbow is commanded.
            q_d: Desired joint positions before this command, (7,) [rad].
            dq_d: Desired joint velocities before this command, (7,) [rad/s].
        """
        if elbow is None:
            self._elbow = None
            return None
        if np.sign(elbow[1]) != np.sign(q_d[3] - ELBOW_FLIP):
            return f"{_ERROR_PREFIX}elbow_sign_inconsistent"
        if self._elbow is None:
            if abs(elbow[0] - q_d[2]) > START_TOLERANCE:
                return f"{_ERROR_PREFIX}start_elbow_invalid"
            self._elbow = Trend(_ELBOW_BOUNDS, dq_d[2:3])
            self._elbow_arrived = q_d[2]
        self._elbow.receive_position(np.array([elbow[0] - self._elbow_arrived]))
        self._elbow_position = self._elbow_arrived = float(elbow[0])
        return (
            f"{_ERROR_PREFIX}elbow_limit_violation" if self._elbow.fault(_ELBOW_VELOCITY) else None
        )

    def coast(self) -> None:
        """Move the reference for a period without a command, at constant acceleration."""
        self.trend.coast()
        self.pose = displaced(self.pose, self.trend.velocity * PERIOD)
        if self._elbow is not None:
            self._elbow.coast()
            self._elbow_position += float(self._elbow.velocity[0]) * PERIOD

    def follow(self, q_d: Vector) -> Vector:
        """Return desired joint velocities of the next period by inverse kinematics, (7,) [rad/s].

        Args:
            q_d: Desired joint positions before this period, (7,) [rad].
        """
        here, A = self._physics.kinematics_at(q_d, self._F_T_EE)
        twist = self.trend.velocity
        behind = difference(here, displaced(self.pose, -twist * PERIOD))
        desired = twist + _CORRECTION_FRACTION / PERIOD * behind
        if self._elbow is not None:
            speed = float(self._elbow.velocity[0])
            behind_elbow = self._elbow_position - speed * PERIOD - q_d[2]
            A = np.vstack((A, np.eye(7)[2]))
            desired = np.append(desired, speed + _CORRECTION_FRACTION / PERIOD * behind_elbow)
        normal = A @ A.T + _DAMPING * np.eye(len(A))
        return np.asarray(A.T @ np.linalg.solve(normal, desired))

    def _fault(self) -> str | None:
        fault = self.trend.fault(CARTESIAN_VELOCITY_LIMITS)
        return None if fault is None else _ERROR_PREFIX + fault


def difference(one: Vector, other: Vector) -> Vector:
    """Return the displacement to a close pose: translation [m] and rotation vector [rad], (6,).

    The result is along the axes of the frame in which the poses are given.

    Args:
        one: Pose before the displacement, (4, 4).
        other: Pose after the displacement, (4, 4).
    """
    angle = other[:3, :3] @ one[:3, :3].T
    rotation = 0.5 * np.array(
        (angle[2, 1] - angle[1, 2], angle[0, 2] - angle[2, 0], angle[1, 0] - angle[0, 1])
    )
    return np.concatenate((other[:3, 3] - one[:3, 3], rotation))


def displaced(pose: Vector, change: Vector) -> Vector:
    """Return a pose after a displacement, (4, 4).

    Args:
        pose: Pose in the base, (4, 4).
        change: Translation [m] and rotation vector [rad] along the axes of the base, (6,).
    """
    angle = float(np.linalg.norm(change[3:]))
    moved = pose.copy()
    moved[:3, 3] += change[:3]
    if angle > 0.0:
        x, y, z = change[3:] / angle
        skew = np.array(((0.0, -z, y), (z, 0.0, -x), (-y, x, 0.0)))
        rotation = np.eye(3) + np.sin(angle) * skew + (1.0 - np.cos(angle)) * (skew @ skew)
        moved[:3, :3] = rotation @ pose[:3, :3]
    return moved
