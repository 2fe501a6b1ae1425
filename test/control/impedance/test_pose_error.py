# SPDX-License-Identifier: Apache-2.0
"""Pose error and its bounds."""

import numpy as np
import pytest

from multipanda_py.control.impedance.pose_error import PoseError

pytestmark = pytest.mark.inline


def rotation_about(axis: np.ndarray, angle: float) -> np.ndarray:
    """Return a rotation by Rodrigues' formula."""
    x, y, z = axis / np.linalg.norm(axis)
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross


def test_error_is_displacement_to_desired_pose():
    axis, error = np.array([0.6, 0.0, 0.8]), PoseError()
    here = rotation_about(np.array([1.0, 2.0, 3.0]), 1.1)
    value = error.measure(
        np.array([0.1, 0.2, 0.3]),
        here,
        np.array([0.4, 0.1, 0.3]),
        rotation_about(axis, 0.7) @ here,
    )
    assert value == pytest.approx([0.3, -0.1, 0.0, *(0.7 * axis)], abs=1e-12)
    assert error.clip() == pytest.approx(value), "no bounds by default"


@pytest.mark.parametrize("scale", [0.1, 1.0, 1.7, 20.0])
def test_axes_are_bounded_separately(scale):
    bounds, requested = np.array([0.1, 0.2, 0.3, 0.5, 0.6, 0.7]), np.zeros(6)
    rng = np.random.default_rng(3)
    for _ in range(50):
        requested = scale * bounds * rng.uniform(-1.0, 1.0, 6)
        error = PoseError()
        error.set_bounds(bounds)
        error.value[:] = requested
        assert (error.clip() == np.clip(requested, -bounds, bounds)).all()


def test_bounds_are_copied():
    bounds, error = np.full(6, 0.1), PoseError()
    error.set_bounds(bounds)
    bounds[:] = 9.0
    error.value[:] = 1.0
    assert (error.clip() == 0.1).all()


def test_shift_is_added_before_bounds():
    storage = np.zeros(6)
    error = PoseError(storage)
    error.set_bounds(np.full(6, 0.25))
    shift = np.array([0.1, 0.2, -0.1, 0.3, 0.0, 0.0])
    here, there = np.zeros(3), np.array([0.1, 0.2, 0.3])
    value = error.measure(here, np.eye(3), there, np.eye(3), shift)
    assert value is storage
    assert value == pytest.approx([0.2, 0.4, 0.2, 0.3, 0.0, 0.0])
    assert error.clip_measured() == pytest.approx([0.2, 0.25, 0.2, 0.25, 0.0, 0.0])
    assert error.size == pytest.approx(np.sqrt(0.2**2 + 0.4**2 + 0.2**2 + 0.3**2))
