# SPDX-License-Identifier: Apache-2.0
"""Torques of differences between bodies, against two pinocchio models."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from chain_parts import parts_of

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import model_with_gravity
from multipanda_py.robots.residual.bodies import BodyDifference, accelerations

pytestmark = pytest.mark.inline

ARM = ArmDescription("arm", rotation_base_in_world=pin.utils.rpyToMatrix(0.3, -0.5, 0.2))


def other_bodies(seed):
    """Return the model of an arm, one with different link inertias, and the differences."""
    rng, own, other = np.random.default_rng(seed), model_with_gravity(ARM), model_with_gravity(ARM)
    differences = np.zeros((7, 10))
    for number in range(7):
        before = own.inertias[number + 1].toDynamicParameters()
        body = other.inertias[number + 1]
        body.mass *= rng.uniform(0.8, 1.3)
        body.lever += rng.normal(size=3) * 0.01
        differences[number] = body.toDynamicParameters() - before
    return own, other, differences


@pytest.mark.parametrize("seed", range(3))
def test_torques_equal_difference_of_two_models(seed):
    own, other, differences = other_bodies(seed)
    differences[2] = 0.0  # a link without difference
    other.inertias[3] = own.inertias[3]
    bodies = BodyDifference(**parts_of(ARM), parameters=differences)
    again = BodyDifference.of_parts(bodies.parts)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        state = rng.normal(size=(3, 7))
        expected = np.subtract(
            *(pin.rnea(model, model.createData(), *state) for model in (other, own))
        )
        assert np.abs(expected).max() > 0.1
        expected -= (other.armature - own.armature) * state[2]
        assert bodies.torques(*state) == pytest.approx(expected, abs=3e-3)
        assert again.torques(*state) == pytest.approx(bodies.torques(*state), abs=1e-12)


def test_motion_agrees_with_its_samples():
    _, _, differences = other_bodies(0)
    bodies = BodyDifference(**parts_of(ARM), parameters=differences)
    time = np.arange(50)[:, None] / 100.0
    q, dq = np.sin(time * np.arange(1, 8)), np.arange(1, 8) * np.cos(time * np.arange(1, 8))
    found, ddq = bodies.run(q, dq, 100.0), accelerations(dq, 100.0)
    assert not ddq[0].any()
    assert ddq[20] == pytest.approx((dq[20] - dq[19]) * 100.0)
    assert found[20] == pytest.approx(bodies.torques(q[20], dq[20], ddq[20]))


def test_missing_or_misshapen_parts_are_refused():
    parts = parts_of(ARM) | {"parameters": np.zeros((7, 10))}
    with pytest.raises(ConfigurationError, match=r"^bodies: .*\baxes\b"):
        BodyDifference.of_parts({name: part for name, part in parts.items() if name != "axes"})
    with pytest.raises(ConfigurationError, match=r"parameters: .*\(6, 10\).*\(7, 10\)"):
        BodyDifference(**parts | {"parameters": np.zeros((6, 10))})
    with pytest.raises(ConfigurationError, match="bodies' gravity"):
        BodyDifference(**parts | {"gravity": np.array([0.0, np.nan, 0.0])})
