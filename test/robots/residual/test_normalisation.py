# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.residual.inputs import Normalisation

pytestmark = pytest.mark.inline

LOW, HIGH = np.array([-3.0, -2.0]), np.array([3.0, 1.0])
DQ, TAU = np.array([2.0, 4.0]), np.array([80.0, 10.0])
SCALE = Normalisation.of_limits(LOW, HIGH, DQ, TAU)


def test_ends_of_limits_are_0_and_1():
    assert SCALE.joints == 2
    np.testing.assert_array_equal(SCALE.state(np.hstack([LOW, -DQ, -TAU])), np.zeros(6))
    np.testing.assert_array_equal(SCALE.state(np.hstack([HIGH, DQ, TAU])), np.ones(6))
    np.testing.assert_array_equal(SCALE.state(np.array([0, -0.5, 0, 0, 0, 0])), np.full(6, 0.5))


def test_rows_and_residuals_are_recovered():
    rng = np.random.default_rng(0)
    rows, other = rng.normal(size=(2, 7, 6))
    np.testing.assert_allclose(SCALE.state_of(SCALE.state(rows)), rows, atol=1e-14)
    np.testing.assert_allclose(SCALE.residual_of(SCALE.residual(rows)), rows, atol=1e-14)
    difference = SCALE.state(rows) - SCALE.state(other)
    np.testing.assert_allclose(SCALE.residual(rows - other), difference, atol=1e-14)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (np.zeros(6), np.zeros(6)),
        (np.zeros(6), np.full(6, np.nan)),
        (np.zeros(5), np.ones(5)),
        (np.zeros(6), np.ones(3)),
        (np.zeros((2, 3)), np.ones((2, 3))),
        (np.zeros(0), np.ones(0)),
    ],
)
def test_invalid_limits_are_refused(low, high):
    with pytest.raises(ConfigurationError, match="limits"):
        Normalisation(low, high)
