# SPDX-License-Identifier: Apache-2.0
"""Pose paths: geometry against scipy, speeds against finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation, Slerp

from multipanda_py import Pose
from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.motions.paths import PosePath, ToolPace

PACE = ToolPace(speed=0.15, angular_speed=0.6, acceleration=0.5, angular_acceleration=2.0)
START = Pose.from_rpy([0.4, 0.1, 0.3], (3.0, 0.1, -0.4))
POSES = [
    START,
    Pose.from_rpy([0.5, -0.1, 0.35], (2.5, 0.3, 0.6)),
    Pose.from_rpy([0.5, -0.1, 0.35], (2.5, 0.3, 1.5)),  # rotation only
    Pose.from_rpy([0.501, -0.1, 0.35], (2.5, 0.3, 1.5)),  # very short segment
]
STEP = 1e-3


def sampled(path):
    """Return times, positions and rotations, every millisecond of a path."""
    times = np.arange(0.0, path.duration + STEP, STEP)
    poses = [path.at(t) for t in times]
    rotations = Rotation.from_matrix([pose.rotation for pose in poses])
    return times, np.array([pose.position for pose in poses]), rotations


def peaks(path):
    """Return the maximum speed, angular speed and acceleration of a path."""
    _, positions, rotations = sampled(path)
    velocity = np.diff(positions, axis=0) / STEP
    rate = (rotations[:-1].inv() * rotations[1:]).magnitude() / STEP
    acceleration = np.linalg.norm(np.diff(velocity, axis=0), axis=1) / STEP
    return np.linalg.norm(velocity, axis=1).max(), rate.max(), acceleration.max()


def test_path_is_straight_and_stops_at_every_pose():
    path = PosePath.through(POSES[:2], PACE)
    _, positions, rotations = sampled(path)
    displacement = POSES[1].position - START.position
    fraction = (positions - START.position) @ displacement / (displacement @ displacement)
    assert fraction[0] == 0.0
    assert fraction[-1] == pytest.approx(1.0)
    assert (np.diff(fraction) >= -1e-12).all()
    assert positions == pytest.approx(START.position + fraction[:, None] * displacement, abs=1e-12)
    ends = Rotation.from_matrix([START.rotation, POSES[1].rotation])
    expected = Slerp([0.0, 1.0], ends)(np.clip(fraction, 0.0, 1.0))
    assert (rotations * expected.inv()).magnitude().max() < 1e-9
    whole = PosePath.through(POSES, PACE)
    assert whole.at(path.duration).distance(POSES[1]) == pytest.approx((0.0, 0.0), abs=1e-9)
    near = [whole.at(path.duration + dt).distance(POSES[1]) for dt in (-STEP, STEP)]
    assert np.max(near) < 1e-5


def test_path_keeps_speed_limits_and_reaches_one():
    speed, rate, acceleration = peaks(PosePath.through(POSES, PACE))
    assert speed <= PACE.speed * 1.001
    assert rate <= PACE.angular_speed * 1.001
    assert acceleration <= PACE.acceleration * 1.001
    assert rate == pytest.approx(PACE.angular_speed, rel=0.01)
    far = [START, START.with_position(START.position + [0.0, 0.0, 0.4])]
    assert peaks(PosePath.through(far, PACE))[0] == pytest.approx(PACE.speed, rel=0.01)
    near = [START, START.with_position(START.position + [0.0, 0.0, 0.01])]
    assert peaks(PosePath.through(near, PACE))[2] == pytest.approx(PACE.acceleration, rel=0.01)


def test_path_is_constant_outside_its_duration():
    path = PosePath.through(POSES, PACE)
    assert path.at(-1.0).distance(START) == pytest.approx((0, 0), abs=1e-9)
    assert path.at(path.duration + 1.0).distance(POSES[-1]) == pytest.approx((0, 0), abs=1e-9)


@pytest.mark.parametrize("rotating", [False, True])
def test_circle_closes_with_constant_radius_and_plane(rotating):
    axis = np.array([0.0, 3.0, 4.0])
    centre = START.position + np.array([0.1, 0.0, 0.0])  # perpendicular to the axis
    path = PosePath.around(START, centre, axis, rotate_tool=rotating, pace=PACE)
    _, positions, rotations = sampled(path)
    off = positions - centre
    assert np.linalg.norm(off, axis=1) == pytest.approx(0.1, abs=1e-12)
    assert np.abs(off @ axis).max() < 1e-12
    assert path.at(path.duration).distance(START) == pytest.approx((0.0, 0.0), abs=1e-9)
    half = path.at(0.5 * path.duration)
    assert half.position == pytest.approx(START.position + [0.2, 0.0, 0.0])
    rotated = (rotations[0].inv() * rotations[len(rotations) // 2]).magnitude()
    assert rotated == pytest.approx(math.pi if rotating else 0.0, abs=1e-2)
    speed, rate, acceleration = peaks(path)
    assert speed <= PACE.speed * 1.001
    assert rate <= PACE.angular_speed * 1.001
    assert acceleration <= PACE.acceleration * math.sqrt(2.0)


def test_circle_direction_follows_right_hand_rule():
    centre = START.position - np.array([0.1, 0.0, 0.0])
    for angle in (0.5 * math.pi, -0.5 * math.pi):
        path = PosePath.around(START, centre, [0.0, 0.0, 2.0], angle)
        end = path.at(path.duration).position
        assert end == pytest.approx(centre + [0.0, math.copysign(0.1, angle), 0.0])


def test_small_circle_keeps_centripetal_acceleration_limit():
    centre = START.position + np.array([0.005, 0.0, 0.0])
    path = PosePath.around(START, centre, [0.0, 0.0, 1.0], pace=PACE)
    assert peaks(path)[2] <= PACE.acceleration * math.sqrt(2.0)
    assert peaks(path)[0] == pytest.approx(math.sqrt(0.5 * 0.005), rel=0.01)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: PosePath.through([START]), "poses: got 1"),
        (lambda: PosePath.around(START, START.position, [0, 0, 1]), "through the tool"),
        (lambda: PosePath.around(START, [0, 0, 0], [0, 0, 0]), "non-zero length"),
        (lambda: PosePath.around(START, [0, 0, 0], [0, 0, 1], math.nan), "finite numbers"),
        (lambda: PosePath.around(START, [0, 0], [0, 0, 1]), "3 numbers each"),
        (lambda: ToolPace(speed=0.0), "speed: got 0.0"),
        (lambda: ToolPace(angular_acceleration=math.nan), "angular_acceleration: got nan"),
    ],
)
def test_invalid_path_is_refused(make, reason):
    with pytest.raises(PlanRejected, match=reason):
        make()


@pytest.mark.sim
def test_tool_follows_circle(make_cell):
    law = {"soft": {"type": "cartesian_impedance"}}
    cell, arm = make_cell(None, law, ["left/soft"]), "left"
    cell.step(10)
    start = cell.pose(arm)
    centre = start.position + np.array([0.0, 0.0, 0.06])
    path = PosePath.around(start, centre, [1.0, 0.0, 0.0], pace=PACE)
    begin, radii = cell.time, []
    while (t := cell.time - begin) < path.duration:
        cell.set_target(arm, path.at(t))
        cell.step(10)
        radii.append(np.linalg.norm(cell.pose(arm).position - centre))
    cell.step(500)
    assert np.abs(np.array(radii) - 0.06).max() < 0.003
    assert cell.pose(arm).distance(start)[0] < 2e-3
