# SPDX-License-Identifier: Apache-2.0
"""Ramps between gains."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.impedance.gains import Ramp

pytestmark = pytest.mark.inline


def test_goes_straight_and_arrives():
    ramp = Ramp(np.array([0.0, 4.0]))
    ramp.go(np.array([1.0, 0.0]), 4)
    values = []
    while not ramp.arrived:
        assert ramp.step()
        values.append(ramp.value.copy())
    assert np.allclose(values, np.linspace([0.0, 4.0], [1.0, 0.0], 5)[1:], atol=1e-15)
    assert not ramp.step()
    assert (ramp.value == [1.0, 0.0]).all()


def test_a_new_goal_on_the_way_starts_where_it_is():
    ramp = Ramp(np.zeros(1))
    ramp.go(np.ones(1), 10)
    for _ in range(5):
        ramp.step()
    ramp.go(np.zeros(1), 5)
    values = [float(ramp.value[0]), *(float(ramp.value[0]) for _ in range(5) if ramp.step())]
    assert np.allclose(values, [0.5, 0.4, 0.3, 0.2, 0.1, 0.0])


def test_no_cycles_is_at_once_and_positive_semidefinite_stays_so():
    rng = np.random.default_rng(0)
    a, b = (m @ m.T for m in rng.normal(size=(2, 6, 3)))
    ramp = Ramp(a)
    ramp.go(b, 7)
    while ramp.step():
        assert np.linalg.eigvalsh(ramp.value)[0] > -1e-12
    ramp.go(a)
    assert ramp.arrived
    assert (ramp.value == a).all()
