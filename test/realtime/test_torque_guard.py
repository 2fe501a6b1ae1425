# SPDX-License-Identifier: Apache-2.0
"""Final torque checks: finite values, bounds of value and rate on both sides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from multipanda_py.realtime.events import Event
from multipanda_py.realtime.torque_guard import StateGuard, TorqueGuard, is_finite
from multipanda_py.robots.franka import FR3_LIMITS
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline

any_torque = arrays(np.float64, 7, elements=st.floats(-1e9, 1e9))


@given(any_torque, arrays(np.float64, 7, elements=st.floats(-1, 1)))
def test_torque_is_bounded_in_value_and_rate_on_both_sides(tau, fraction):
    before = fraction * FR3_LIMITS.torque
    commanded = before.copy()
    TorqueGuard(FR3_LIMITS, 1e-3).apply(tau, commanded)
    assert (np.abs(commanded) <= FR3_LIMITS.torque).all()
    assert (np.abs(commanded - before) <= FR3_LIMITS.torque_rate * 1e-3 + 1e-12).all()
    step = np.clip(tau - before, -1.0, 1.0)
    assert np.allclose(commanded, np.clip(before + step, -FR3_LIMITS.torque, FR3_LIMITS.torque))


@given(arrays(np.float64, 7, elements=st.floats(-1e6, 1e6)), st.integers(0, 6),
       st.sampled_from([np.nan, np.inf, -np.inf]))  # fmt: skip
def test_one_non_finite_element_is_detected(tau, at, bad):
    assert is_finite(tau)
    tau[at] = bad
    assert not is_finite(tau)


@pytest.mark.parametrize("joint", range(7))
@pytest.mark.parametrize("side", [-1, 1])
def test_states_outside_limits_are_reported_with_joint(joint, side):
    (state,) = StateMaker().states_at([0.5 * (FR3_LIMITS.lower + FR3_LIMITS.upper)])
    guard = StateGuard(FR3_LIMITS)
    assert guard.check(state) is Event.NONE
    state.dq[joint] = side * 1.2 * FR3_LIMITS.velocity[joint]
    assert guard.check(state) is Event.VELOCITY_LIMIT
    assert f"joint {joint + 1}" in guard.words_for(state, Event.VELOCITY_LIMIT)
    state.dq[joint] = 0.0
    state.q[joint] = (FR3_LIMITS.upper if side > 0 else FR3_LIMITS.lower)[joint] + side * 0.03
    assert guard.check(state) is Event.POSITION_LIMIT
    assert f"joint {joint + 1}" in guard.words_for(state, Event.POSITION_LIMIT)
    state.q[joint] = np.nan
    assert guard.check(state) is Event.NON_FINITE_STATE
