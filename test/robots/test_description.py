# SPDX-License-Identifier: Apache-2.0
"""Robot data, and checks of user descriptions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots import (
    ArmDescription,
    SceneObject,
    Tool,
)
from multipanda_py.robots.franka import (
    FER_LIMITS,
    FINGER_INERTIAL,
    FR3_LIMITS,
    HAND_INERTIAL,
    INERTIALS,
)
from multipanda_py.robots.geometry import rotation_from_rpy, rpy_from_rotation
from multipanda_py.robots.inertial import nearest_consistent
from multipanda_py.state import ArmLimits

pytestmark = pytest.mark.inline


@pytest.mark.parametrize("model", sorted(INERTIALS))
def test_inertias_are_physically_consistent(model):
    for inertial in (*INERTIALS[model], HAND_INERTIAL, FINGER_INERTIAL):
        moments = np.linalg.eigvalsh(inertial.inertia)
        assert inertial.mass > 0.0
        assert moments[0] > 0.0
        assert moments[0] + moments[1] > moments[2]


def test_only_inconsistent_inertia_is_changed():
    changed = [
        (model, i)
        for model, inertials in INERTIALS.items()
        for i, inertial in enumerate(inertials)
        if not np.array_equal(np.diag(inertial.inertia), inertial.moments[:3])
    ]
    assert changed == [("fer", 4)]
    impossible = np.diag([1.0, 1.0, 5.0])
    np.testing.assert_allclose(nearest_consistent(impossible), np.diag([2, 2, 4]), atol=1e-8)


def test_limits_are_read_only_and_checked():
    for limits in (FR3_LIMITS, FER_LIMITS):
        for field in dataclasses.fields(ArmLimits):
            assert getattr(limits, field.name).shape == (7,)
            with pytest.raises(ValueError, match="read-only"):
                getattr(limits, field.name)[0] = 0.0
    with pytest.raises(ConfigurationError, match=r"\blower .*\bupper\b"):
        dataclasses.replace(FR3_LIMITS, lower=FR3_LIMITS.upper)
    with pytest.raises(ConfigurationError, match="velocity must be positive"):
        dataclasses.replace(FR3_LIMITS, velocity=np.zeros(7))
    with pytest.raises(ConfigurationError, match="7 finite numbers"):
        dataclasses.replace(FR3_LIMITS, jerk=np.ones(6))


def test_names_contain_name_of_arm():
    tool = Tool(0.0, np.zeros(3), np.zeros((3, 3)), np.eye(4))
    assert ArmDescription("left").joint_names[6] == "left_fr3_joint7"
    assert ArmDescription("left").ee_frame == "left_fr3_hand_tcp"
    assert ArmDescription("a", "fer", hand=False).ee_frame == "a_fer_link8"
    assert ArmDescription("a", tool=tool).ee_frame == "a_fr3_tool_tcp"
    assert ArmDescription("a", hand=False).finger_joint_names == ()
    assert set(ArmDescription("a", tool=tool).capsules) <= set(
        ArmDescription("a", tool=tool).link_names
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "panda"}, "fr3, fer"),
        ({"name": "left arm"}, "left arm"),
        ({"name": ""}, "letter"),
        ({"finger_opening": 0.05}, "finger_opening"),
        ({"position_base_in_world": np.zeros(2)}, "shape"),
        ({"position_base_in_world": np.array([0, 0, np.nan])}, "finite"),
        ({"rotation_base_in_world": 2 * np.eye(3)}, "not a rotation"),
        ({"rotation_base_in_world": -np.eye(3)}, "not a rotation"),
        ({"joint_damping": -np.ones(7)}, "negative"),
    ],
)
def test_invalid_arms_are_refused(change, message):
    with pytest.raises(ConfigurationError, match=message):
        ArmDescription(**{"name": "left", **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mass": -1.0}, "mass"),
        ({"inertia": np.diag([1.0, 1.0, 3.0])}, "sum of any two"),
        ({"inertia": np.arange(9.0).reshape(3, 3)}, "symmetric"),
        ({"inertia": np.zeros((3, 3))}, "positive definite"),
        ({"pose_tcp_in_flange": np.ones((4, 4))}, "row 0 0 0 1"),
    ],
)
def test_invalid_tools_are_refused(change, message):
    good = {
        "mass": 1.0,
        "com_in_flange": np.zeros(3),
        "inertia": 0.01 * np.eye(3),
        "pose_tcp_in_flange": np.eye(4),
    }
    Tool(**good)
    with pytest.raises(ConfigurationError, match=message):
        Tool(**{**good, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": "cone"}, "box, sphere"),
        ({"size": (0.1,)}, "shape"),
        ({"size": (0.1, 0.1, 0.0)}, "positive"),
        ({"mass": float("inf")}, "mass"),
        ({"rgba": (0.0, 0.0, 0.0, 2.0)}, "rgba"),
    ],
)
def test_invalid_objects_are_refused(change, message):
    with pytest.raises(ConfigurationError, match=message):
        SceneObject(**{"name": "cube", "shape": "box", "size": (0.1, 0.1, 0.1), **change})


def test_descriptions_hold_read_only_copies():
    position = np.zeros(3)
    arm = ArmDescription("left", position_base_in_world=position)
    position[0] = 1.0
    assert arm.position_base_in_world[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        arm.position_base_in_world[0] = 1.0


@pytest.mark.parametrize("pitch", [-np.pi / 2, -0.4, 0.0, np.pi / 2])
def test_rpy_is_inverted_also_at_poles(pitch):
    rotation = rotation_from_rpy(0.7, pitch, -2.1)
    again = rotation_from_rpy(*rpy_from_rotation(rotation))
    np.testing.assert_allclose(again, rotation, atol=1e-9)
