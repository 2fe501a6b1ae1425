# SPDX-License-Identifier: Apache-2.0
"""Random motions of a paired data set, and the task that executes one with a given controllet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ConfigurationError, ValidationRejected
from multipanda_py.identification.validation.task import (
    MotionTask,
    configuration_at,
    task_cell,
    tool_in_world,
    with_start,
)
from multipanda_py.planning.trajectory.quintic import (
    PEAK_CURVATURE,
    PEAK_RATE,
    evaluate,
    rest_to_rest,
)
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.state import ArmLimits, Matrix, Vector

REST_TIME = 0.6
"""Time at rest before a motion starts [s]."""
LIMIT_MARGIN = 0.1
"""Distance from the joint position limits [rad, m]."""
MIN_SPEED_FRACTION, MAX_SPEED_FRACTION = 0.1, 0.6
"""Range of random speeds, relative to the speed limits."""
# Peak jerk of a quintic from 0 to 1 in unit time, and minimum time in which the acceleration may
# rise from zero to its limit [s].
_PEAK_JERK, _RISE_TIME = 60.0, 0.03
# Number of random motions to try, and joint step between two collision checks [rad, m].
_MOTION_TRIES, _CHECK_STEP = 2000, 0.05


@dataclass(frozen=True, eq=False)
class PairMotion:
    """Motion of a data set.

    Attributes:
        kind: Kind of the motion: ``multi``, ``single`` or ``linear``.
        number: Number within its kind, from 0.
        joints: Indices of the moving joints, from 0.
        points: Times, positions, velocities and accelerations, (p, 1 + 3 n), from rest to rest.
    """

    kind: str
    number: int
    joints: tuple[int, ...]
    points: Matrix

    @property
    def name(self) -> str:
        """Name of the motion, also used for its file."""
        return f"{self.kind}-{self.number:05d}"


def moving_together(n: int, number: int, kind: str, seed: int) -> tuple[int, ...]:
    """Return the indices of the joints that a motion moves.

    Motions of kind ``single`` move one joint each, in the order of the joints. Motions of kind
    ``multi`` move all combinations of two or more joints in a random order.

    Args:
        n: Number of joints.
        number: Number of the motion within its kind, from 0.
        kind: Kind of the motion: ``multi`` or ``single``.
        seed: Random seed of the data set.
    """
    if kind == "single" or n == 1:
        return (number % n,)
    all_of_them = [c for size in range(2, n + 1) for c in combinations(range(n), size)]
    order = np.random.default_rng([seed, 0]).permutation(len(all_of_them))
    return all_of_them[int(order[number % len(order)])]


def joint_motion(
    kind: str, number: int, seed: int, limits: ArmLimits, violation: Callable[[Matrix], float]
) -> PairMotion:
    """Return a random collision-free motion between two joint configurations.

    The configurations are uniformly distributed within the limits and connected by a quintic.

    Args:
        kind: Kind of the motion: ``multi`` or ``single``.
        number: Number of the motion.
        seed: Random seed of the data set.
        limits: Limits of the joints.
        violation: Function that returns the largest violation of the minimum distances of
            configurations (N, n) [m].

    Raises:
        ConfigurationError: If no collision-free motion is found.
    """
    rng = np.random.default_rng([seed, 1 + (kind == "single"), number])
    joints = moving_together(limits.n_joints, number, kind, seed)
    lower, upper = limits.span
    lower, upper = lower + LIMIT_MARGIN, upper - LIMIT_MARGIN
    speed = rng.uniform(MIN_SPEED_FRACTION, MAX_SPEED_FRACTION)
    for _ in range(_MOTION_TRIES):
        start = rng.uniform(lower, upper)
        if violation(start[None]) > 0.0:
            continue
        end = start.copy()
        end[list(joints)] = rng.uniform(lower, upper)[list(joints)]
        count = 2 + int(np.abs(end - start).max() / _CHECK_STEP)
        if violation(start + np.linspace(0.0, 1.0, count)[:, None] * (end - start)) <= 0.0:
            return PairMotion(kind, number, joints, _points(start, end, speed, limits))
    raise ConfigurationError(
        f"motion {kind} {number}: all {_MOTION_TRIES} random motions collide with the arm or "
        "with objects. Remove obstacles or lower --clearance."
    )


def _points(start: Vector, end: Vector, speed: float, limits: ArmLimits) -> Matrix:
    displacement = np.abs(end - start)
    jerk = np.minimum(limits.jerk, limits.acceleration / _RISE_TIME)
    duration = max(
        float((PEAK_RATE * displacement / limits.velocity).max()),
        float(np.sqrt(PEAK_CURVATURE * displacement / limits.acceleration).max()),
        float(np.cbrt(_PEAK_JERK * displacement / jerk).max()),
    )
    points = np.zeros((3, 1 + 3 * len(start)))
    points[:, 0] = 0.0, REST_TIME, REST_TIME + duration / speed
    points[:, 1 : 1 + len(start)] = start, start, end
    return points


PLANES = ((0, 2), (0, 1), (1, 2))
"""Axes of the base that span the planes of linear motions: xz, xy and yz in turn."""
MAX_LEG, LEG_COUNT = 0.15, 3
"""Legs are the straight lines between the waypoints of a linear motion. Maximum displacement of a
leg along an axis [m], and number of legs of a motion."""
# Points per straight line, random motions to try, maximum joint step between two points [rad, m],
# and maximum fraction of the speed limits.
_LEG_POINTS, _LINE_TRIES, _MAX_JOINT_STEP, _MAX_LINE_SPEED_FRACTION = 24, 40, 0.3, 0.5


def linear_motion(
    cell: CellConfig, arm: str, number: int, seed: int, violation: Callable[[Matrix], float]
) -> PairMotion:
    """Return a motion of the tool along straight lines that stops at each waypoint.

    The waypoints lie in one plane. The motion starts near the ready configuration and keeps the
    orientation of the tool.

    Args:
        cell: Cell of the arm.
        arm: Name of the arm.
        number: Number of the motion. Successive numbers select the xz, xy and yz plane of the
            base.
        seed: Random seed of the data set.
        violation: Function that returns the largest violation of the minimum distances of
            configurations (N, n) [m].

    Raises:
        ConfigurationError: If no reachable and collision-free motion is found.
    """
    described = describe_arm(arm, cell.arms[arm])
    limits, ready = described.limits, np.array(described.robot.ready)
    rng = np.random.default_rng([seed, 3, number])
    speed = rng.uniform(0.1, _MAX_LINE_SPEED_FRACTION)
    plane = list(PLANES[number % len(PLANES)])
    lower, upper = limits.span
    for _ in range(_LINE_TRIES):
        start = np.clip(
            ready + rng.uniform(-0.2, 0.2, len(ready)), lower + LIMIT_MARGIN, upper - LIMIT_MARGIN
        )
        tool = tool_in_world(described, start)
        legs, position, q, clear = [], tool.position, start, True
        for _ in range(LEG_COUNT):
            step = np.zeros(3)
            step[plane] = rng.uniform(-MAX_LEG, MAX_LEG, 2)
            ahead = position + described.rotation_base_in_world @ step
            try:
                leg = _leg(described, q, position, ahead, tool.rotation)
            except ValidationRejected:
                clear = False
                break
            legs.append(leg)
            position, q = ahead, leg[-1]
        if clear and violation(np.concatenate(legs)) <= 0.0:
            return PairMotion(
                "linear", number, tuple(range(len(ready))),
                _timed_legs(start, legs, speed, limits.velocity, limits.acceleration),
            )  # fmt: skip
    raise ConfigurationError(
        f"motion linear {number}: none of {_LINE_TRIES} line motions is reachable and "
        "collision-free. Remove obstacles or lower --clearance."
    )


def _leg(
    described: ArmDescription, q: Vector, start: Vector, end: Vector, rotation: Matrix
) -> Matrix:
    result = [q]
    for fraction in _quintic_samples()[1:]:
        pose = Pose(start + fraction * (end - start), rotation)
        q = configuration_at(described, pose, result[-1], "a line")
        if np.abs(q - result[-1]).max() > _MAX_JOINT_STEP:
            raise ValidationRejected("straight line: the joint positions jump between two points")
        result.append(q)
    return np.array(result)


def _quintic_samples() -> Vector:
    """Return samples of a quintic from 0 to 1, at rest at both ends, (k,)."""
    return rest_to_rest(np.linspace(0.0, 1.0, _LEG_POINTS + 1))


def _timed_legs(
    start: Vector,
    legs: list[Matrix],
    limit_fraction: float,
    velocity: Vector,
    acceleration: Vector,
) -> Matrix:
    """Return points within a fraction of the velocity and acceleration limits, (p, 1 + 3 n)."""
    n, rows, now = len(start), [np.zeros(1 + 3 * len(start))], REST_TIME
    rows[0][1 : 1 + n] = start
    for leg in legs:
        rate = np.gradient(leg, 1.0 / _LEG_POINTS, axis=0, edge_order=2)
        rate[[0, -1]] = 0.0
        curve = np.gradient(rate, 1.0 / _LEG_POINTS, axis=0, edge_order=2)
        curve[[0, -1]] = 0.0
        duration = max(
            float((np.abs(rate) / velocity).max()) / limit_fraction,
            float(np.sqrt((np.abs(curve) / acceleration).max())) / limit_fraction,
            0.3,
        )
        times = now + duration * np.linspace(0.0, 1.0, _LEG_POINTS + 1)
        first = 0 if len(rows) == 1 else 1
        for k in range(first, _LEG_POINTS + 1):
            parts = [leg[k], rate[k] / duration, curve[k] / duration**2]
            rows.append(np.concatenate([[times[k]], *parts]))
        now = float(times[-1])
    return np.array(rows)


CONTROLLETS = ("joint_trajectory", "joint_impedance", "joint_position")
"""Controllets that execute motions. The first is the default."""
STREAMED_CONTROLLET = "joint_impedance"
"""Controllet that receives streamed joint targets instead of a trajectory."""
GOVERNOR_PARAMS = {
    "joint_acceleration_scaling": 1.0,
    "joint_velocity_scaling": 1.0,
    "smoothing": 0.1,
    "limit_scale": 1.0,
}
"""Governor parameters that do not limit motions up to 0.6 of the speed limits."""
GOVERNOR_DELAY = 0.8
"""Time after a streamed motion in which the reference, limited by the governor, reaches the last
target [s]."""


def known_law(controllet: str, option: str) -> str:
    """Return the name of a controllet, and refuse a controllet that cannot execute motions.

    Args:
        controllet: Name of the controllet.
        option: Name of the option that selects the controllet, for the error message.

    Raises:
        ValidationRejected: If the controllet is not one of :data:`CONTROLLETS`.
    """
    if controllet not in CONTROLLETS:
        raise ValidationRejected(f"{option}: got {controllet!r}, allowed {', '.join(CONTROLLETS)}")
    return controllet


def law_section(controllet: str) -> dict[str, Any]:
    """Return the cell file section of a controllet that executes motions."""
    if controllet != STREAMED_CONTROLLET:
        return {"type": controllet}
    return {"type": controllet, "params": {"governor": dict(GOVERNOR_PARAMS)}}


class LawMotion(MotionTask):
    """Task that executes a motion with one of several controllets.

    ``joint_trajectory`` executes the motion compliantly. ``joint_position`` uses the position
    controller of the robot. ``joint_impedance`` receives a joint target every 10 ms.

    Args:
        arm: Name of the arm.
        points: Times, positions, velocities and accelerations, (p, 1 + 3 n).
        controllet: Controllet, one of :data:`CONTROLLETS`.
    """

    controllets = CONTROLLETS

    def __init__(self, arm: str, points: Matrix, controllet: str = CONTROLLETS[0]) -> None:
        super().__init__(arm, points)
        self.controllet = known_law(controllet, "law")
        self.seconds += GOVERNOR_DELAY * (controllet == STREAMED_CONTROLLET)

    def scene(self, config: CellConfig) -> CellConfig:
        """Return a cell with the arm at the start of the motion, and with the controllet."""
        (name,) = self.names(config)
        start = self._points[0, 1 : 1 + config.arms[name].robot.n_joints]
        arm = with_start(config.arms[name], np.array(start), None)
        return task_cell(config, {name: arm}, law_section(self.controllet), {})

    def set_targets(self, cell: Cell, time: float) -> None:
        """Send the targets of the controllet for a time of the motion.

        ``joint_impedance`` gets a joint target in each call. The other controllets get the whole
        trajectory at time 0.

        Args:
            cell: Cell of the arm.
            time: Time since the start of the motion [s].
        """
        if self.controllet != STREAMED_CONTROLLET:
            super().set_targets(cell, time)
            return
        now = min(time, float(self._points[-1, 0]))
        q, dq, _ = evaluate(self._points, np.array([now]))[0]
        cell.set_target(self._arm, q=q, dq=dq)
