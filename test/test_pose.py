# SPDX-License-Identifier: Apache-2.0
"""Poses against analytical rotation matrices and quaternions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.transform import Rotation

from multipanda_py.exceptions import TargetRejected
from multipanda_py.pose import QUATERNION_TOLERANCE, Pose

pytestmark = pytest.mark.inline

_positions = arrays(np.float64, 3, elements=st.floats(-3, 3))
_quaternions = arrays(np.float64, 4, elements=st.floats(-1, 1)).filter(
    lambda q: np.linalg.norm(q) > 0.1
)


def rotation_of(q: np.ndarray) -> np.ndarray:
    """Return the rotation matrix of a unit quaternion x y z w by the Rodrigues formula."""
    x, y, z, w = q
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * cross + 2 * cross @ cross


def axis(index: int, angle: float) -> np.ndarray:
    c, s = math.cos(angle), math.sin(angle)
    matrix = np.eye(3)
    j, k = (index + 1) % 3, (index + 2) % 3
    matrix[[j, j, k, k], [j, k, j, k]] = c, -s, s, c
    return matrix


@st.composite
def poses(draw: st.DrawFn) -> Pose:
    q = draw(_quaternions)
    return Pose.from_quaternion(draw(_positions), q / np.linalg.norm(q))


@given(_positions, _quaternions)
def test_quaternion_order_is_xyzw(p: np.ndarray, q: np.ndarray) -> None:
    q = q / np.linalg.norm(q)
    pose = Pose.from_quaternion(p, q)
    np.testing.assert_allclose(pose.rotation, rotation_of(q), atol=1e-12)
    back = pose.quaternion_xyzw
    assert np.linalg.norm(back) == pytest.approx(1.0)
    assert abs(back @ q) == pytest.approx(1.0)


@given(arrays(np.float64, 3, elements=st.floats(-math.pi, math.pi)))
def test_roll_pitch_yaw_rotate_about_fixed_axes(rpy: np.ndarray) -> None:
    expected = axis(2, rpy[2]) @ axis(1, rpy[1]) @ axis(0, rpy[0])
    np.testing.assert_allclose(Pose.from_rpy(np.zeros(3), rpy).rotation, expected, atol=1e-12)


@given(poses(), poses(), poses())
def test_composition_matches_homogeneous_matrices(a: Pose, b: Pose, c: Pose) -> None:
    def matrix(pose: Pose) -> np.ndarray:
        return np.block([[pose.rotation, pose.position[:, None]], [np.array([[0, 0, 0, 1]])]])

    np.testing.assert_allclose(matrix(a @ b @ c), matrix(a) @ matrix(b) @ matrix(c), atol=1e-9)
    np.testing.assert_allclose(matrix(a @ a.inverse()), np.eye(4), atol=1e-9)


@given(poses(), st.integers(0, 2), st.floats(0, 3.1), _positions)
def test_distance_is_translation_and_rotation_angle(
    pose: Pose, index: int, angle: float, step: np.ndarray
) -> None:
    other = Pose(pose.position + step, pose.rotation @ axis(index, angle))
    distance, rotation_angle = pose.distance(other)
    assert distance == pytest.approx(np.linalg.norm(step), abs=1e-9)
    assert rotation_angle == pytest.approx(angle, abs=1e-6)


def test_product_of_inexact_rotations_is_nearest_rotation() -> None:
    rng = np.random.default_rng(0)
    for exact in Rotation.random(20, random_state=0).as_matrix():
        inexact = exact + rng.uniform(-1e-7, 1e-7, (3, 3))  # tolerance of a pose
        found = (Pose(np.zeros(3), inexact) @ Pose(np.zeros(3), inexact)).rotation
        u, _, vt = np.linalg.svd(inexact @ inexact)
        np.testing.assert_allclose(found, u @ vt, atol=5e-12)


def test_rotation_is_orthogonal_after_1000_compositions() -> None:
    step = Pose.from_rpy([0.0, 0.0, 0.0], [0.1, 0.2, 0.3])
    pose = Pose.identity()
    for _ in range(1000):
        pose = pose @ step
    np.testing.assert_allclose(pose.rotation @ pose.rotation.T, np.eye(3), atol=1e-12)


def test_quaternion_within_tolerance_is_normalised() -> None:
    q = np.array([0, 0, 0, 1 + 0.9 * QUATERNION_TOLERANCE])
    np.testing.assert_array_equal(Pose.from_quaternion([0, 0, 0], q).rotation, np.eye(3))


@pytest.mark.parametrize(
    "quaternion",
    [[0, 0, 0, 0], [0, 0, 0, 1 + 2 * QUATERNION_TOLERANCE], [0, 0, 0, math.nan], [0, 0, 1],
     [math.inf, 0, 0, 1], "abcd", [None] * 4, [[0, 0, 0, 1]]],
)  # fmt: skip
def test_invalid_quaternion_is_rejected(quaternion: object) -> None:
    with pytest.raises(TargetRejected, match="quaternion"):
        Pose.from_quaternion([0, 0, 0], quaternion)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e308])
@pytest.mark.parametrize("element", range(7))
def test_from_floats_rejects_same_values_as_from_quaternion(bad: float, element: int) -> None:
    """Two large numbers are finite although their sum is not."""
    numbers = [0.0, 0.0, 1e308, 0.0, 0.0, 0.0, 1.0]
    numbers[element] = bad
    reported = []
    for make in (Pose.from_quaternion, Pose.from_floats):
        try:
            reported.append(make(numbers[:3], numbers[3:]).record.tolist())
        except TargetRejected as error:
            reported.append(str(error))
    assert reported[0] == reported[1]


def test_pose_record_is_read_only_position_and_rotation() -> None:
    poses = Pose.from_floats([1.0, 2.0, 3.0], [0.5, 0.5, 0.5, 0.5]), Pose(np.ones(3), np.eye(3))
    for pose in poses:
        np.testing.assert_array_equal(pose.record, [*pose.position, *pose.rotation.reshape(-1)])
        for array in (pose.record, pose.position, pose.rotation):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1.0


@pytest.mark.parametrize("position", [[0, 0], [0, 0, math.nan], [[0, 0, 0]], [1, 2, -math.inf]])
def test_invalid_position_is_rejected(position: object) -> None:
    with pytest.raises(TargetRejected, match="position"):
        Pose.from_rpy(position, [0, 0, 0])  # type: ignore[arg-type]
    with pytest.raises(TargetRejected, match="position"):
        Pose(position, np.eye(3))  # type: ignore[arg-type]


@pytest.mark.parametrize("position", [["x", 0, 0], None, "abc", {}])
def test_non_numeric_position_is_rejected(position: object) -> None:
    for make in (
        lambda: Pose.from_rpy(position, [0, 0, 0]),
        lambda: Pose.from_quaternion(position, [0, 0, 0, 1]),
    ):
        with pytest.raises(TargetRejected, match="position"):
            make()


@pytest.mark.parametrize(
    "matrix", [np.diag([1, 1, -1.0]), 2 * np.eye(3), np.ones((3, 3)), np.full((3, 3), np.nan)]
)
def test_non_rotation_matrix_is_rejected(matrix: np.ndarray) -> None:
    with pytest.raises(TargetRejected, match="rotation"):
        Pose(np.zeros(3), matrix)


def test_pose_arrays_are_read_only_copies() -> None:
    position = np.zeros(3)
    pose = Pose(position, np.eye(3))
    position[0] = 1.0
    assert pose.position[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        pose.position[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        pose.rotation[0, 0] = 2.0
