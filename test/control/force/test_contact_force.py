# SPDX-License-Identifier: Apache-2.0
"""Contact detection of an arm with force control along one direction."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.force.contact_force import ContactForceController
from multipanda_py.control.force.force_control import ForceParams
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline

PERIOD = 1e-3


def test_fast_tool_lost_contact_as_late_as_slow_filter():
    """The filter of 0.1 s falls from 20 N to the threshold of 2 N in 0.23 s."""
    maker = StateMaker()
    (state,) = maker.random(np.random.default_rng(1))
    arm = ContactForceController("arm0", PERIOD, ForceParams(filter_time=0.1).gains())
    arm.set_desired_wrench(np.array([0.0, 0.0, -20.0, 0.0, 0.0, 0.0]))
    arm.set_direction()
    found = []
    for force, speed, cycles in ((20.0, 0.0, 500), (0.0, 0.1, 15)):
        state.wrench_ext_in_base[:] = 0.0, 0.0, force, 0.0, 0.0, 0.0
        state.twist_ee_in_base[:] = 0.0, 0.0, -speed, 0.0, 0.0, 0.0
        for _ in range(cycles):
            arm.measure(state)
            arm.press(state, 20.0, arm.measured_force, arm.speed)
        found.append(arm.touches)
    assert found == [True, False]
