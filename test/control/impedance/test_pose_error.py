# SPDX-License-Identifier: Apache-2.0
"""The error of a pose."""

import numpy as np
import pytest

from multipanda_py.control.impedance.pose_error import PoseError

pytestmark = pytest.mark.inline


def turn(axis: np.ndarray, angle: float) -> np.ndarray:
    """Rodrigues' formula."""
    x, y, z = axis / np.linalg.norm(axis)
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross


def test_the_error_is_the_way_to_the_wanted_pose_along_the_common_axes():
    axis, error = np.array([0.6, 0.0, 0.8]), PoseError()
    here = turn(np.array([1.0, 2.0, 3.0]), 1.1)
    value = error.measure(
        np.array([0.1, 0.2, 0.3]), here, np.array([0.4, 0.1, 0.3]), turn(axis, 0.7) @ here
    )
    assert value == pytest.approx([0.3, -0.1, 0.0, *(0.7 * axis)], abs=1e-12)
    assert error.clip() == pytest.approx(value), "unbounded until bounds are set"


@pytest.mark.parametrize("scale", [0.1, 1.0, 1.7, 20.0])
def test_each_axis_keeps_to_its_own_bound(scale):
    bounds, requested = np.array([0.1, 0.2, 0.3, 0.5, 0.6, 0.7]), np.zeros(6)
    rng = np.random.default_rng(3)
    for _ in range(50):
        requested = scale * bounds * rng.uniform(-1.0, 1.0, 6)
        error = PoseError()
        error.set_bounds(bounds)
        error.value[:] = requested
        assert (error.clip() == np.clip(requested, -bounds, bounds)).all()


def test_bounds_are_kept_apart_from_the_array_they_came_in():
    bounds, error = np.full(6, 0.1), PoseError()
    error.set_bounds(bounds)
    bounds[:] = 9.0
    error.value[:] = 1.0
    assert (error.clip() == 0.1).all()


def test_a_shift_is_a_part_of_the_error_before_its_bounds():
    place = np.zeros(6)
    error = PoseError(place)
    error.set_bounds(np.full(6, 0.25))
    shift = np.array([0.1, 0.2, -0.1, 0.3, 0.0, 0.0])
    here, there = np.zeros(3), np.array([0.1, 0.2, 0.3])
    value = error.measure(here, np.eye(3), there, np.eye(3), shift)
    assert value is place
    assert value == pytest.approx([0.2, 0.4, 0.2, 0.3, 0.0, 0.0])
    assert error.clip_measured() == pytest.approx([0.2, 0.25, 0.2, 0.25, 0.0, 0.0])
    assert error.size == pytest.approx(np.sqrt(0.2**2 + 0.4**2 + 0.2**2 + 0.3**2))
