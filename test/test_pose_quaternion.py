# SPDX-License-Identifier: Apache-2.0
"""Quaternions of rotation matrices against pinocchio, and memory of conversions."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.pose import Pose, quaternion_from_rotation

pytestmark = pytest.mark.inline

HALF_TURNS = [np.diag(signs) for signs in ([1.0, -1, -1], [-1.0, 1, -1], [-1.0, -1, 1])]

MEASURE = """
from pathlib import Path
import numpy as np
from multipanda_py.pose import Pose
from multipanda_py.pose import quaternion_from_rotation

pose = Pose.from_rpy([0.1, 0.2, 0.3], [0.4, -0.5, 0.6])
other = Pose.from_quaternion([0.0, 0.1, 0.2], [0.5, 0.5, 0.5, 0.5])
calls = {
    "quaternion_from_rotation": lambda: quaternion_from_rotation(pose.rotation),
    "quaternion_xyzw": lambda: pose.quaternion_xyzw,
    "from_quaternion": lambda: Pose.from_quaternion([0.0, 0.1, 0.2], [0.5, 0.5, 0.5, 0.5]),
    "from_rpy": lambda: Pose.from_rpy([0.1, 0.2, 0.3], [0.4, -0.5, 0.6]),
    "distance": lambda: pose.distance(other),
    "inverse": lambda: pose.inverse(),
    "product": lambda: pose @ other,
}
resident = lambda: 4096 * int(Path("/proc/self/statm").read_text().split()[1])
for name, call in calls.items():
    for _ in range(1000):
        call()
    before = resident()
    for _ in range(COUNT):
        call()
    print(name, (resident() - before) / COUNT)
"""


def test_quaternion_matches_pinocchio_also_near_180_degrees() -> None:
    rng = np.random.default_rng(3)
    rotations = [pin.exp3(rng.uniform(-np.pi, np.pi, 3)) for _ in range(2000)]
    almost = [
        half_turn @ pin.exp3(rng.normal(0, 1e-9, 3)) for half_turn in HALF_TURNS for _ in range(50)
    ]
    for rotation in (np.eye(3), *HALF_TURNS, *rotations, *almost):
        expected = pin.Quaternion(rotation).coeffs()
        got = np.array(quaternion_from_rotation(rotation))
        got *= np.sign(got @ expected)  # both signs are the same rotation
        np.testing.assert_allclose(got, expected, atol=1e-12)


def test_pose_rotation_matches_pinocchio_quaternion() -> None:
    rng = np.random.default_rng(5)
    for _ in range(1000):
        xyzw = rng.normal(size=4)
        xyzw /= np.linalg.norm(xyzw)
        near = xyzw * (1.0 + rng.uniform(-9e-3, 9e-3))
        expected = pin.Quaternion(xyzw).toRotationMatrix()
        rotation = Pose.from_quaternion(np.zeros(3), near.tolist()).rotation
        np.testing.assert_allclose(rotation, expected, atol=1e-14)
    with pytest.raises(ValueError, match="read-only"):
        rotation[0, 0] = 0.0


def test_rotation_survives_conversion_to_quaternion() -> None:
    rng = np.random.default_rng(4)
    for _ in range(500):
        rotation = pin.exp3(rng.uniform(-np.pi, np.pi, 3))
        x, y, z, w = quaternion_from_rotation(rotation)
        back = pin.Quaternion(
            w, x, y, z
        ).toRotationMatrix()  # independent of the tested conversion
        np.testing.assert_allclose(back, rotation, atol=1e-14)


def test_rounded_matrix_gives_unit_quaternion() -> None:
    rotation = pin.exp3(np.array([0.3, -2.0, 0.7])).astype(np.float32).astype(float)
    assert np.linalg.norm(quaternion_from_rotation(rotation)) == pytest.approx(1.0, abs=1e-15)


def test_pose_conversion_leaked_memory() -> None:
    """The eigenpy quaternion of a matrix leaks 80 bytes, visible in the process size only."""
    code = MEASURE.replace("COUNT", "30_000")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    leaked = {name: float(value) for name, value in map(str.split, done.stdout.splitlines())}
    assert len(leaked) == 7
    assert max(leaked.values()) < 4.0, leaked
