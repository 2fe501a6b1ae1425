# SPDX-License-Identifier: Apache-2.0
"""A timeout that is no time is refused in a sentence; nothing is asked of the loop but to stop."""

from __future__ import annotations

import math

import numpy as np
import pytest

from multipanda_py.cell.connection import checked_timeout
from multipanda_py.exceptions import SwitchRejected, TareRejected

pytestmark = pytest.mark.inline

NO_TIMES = ["x", None, True, math.nan, -1.0, [1.0]]


@pytest.mark.parametrize("timeout", NO_TIMES)
def test_switch_raised_a_bare_type_error_over_its_timeout(make_cell, timeout):
    cell = make_cell()
    active = cell.active
    name = next(info.name for info in cell.controllets() if info.state == "inactive")
    for ask in (
        lambda: cell.switch([name], strictness="force_auto", timeout=timeout),
        lambda: cell.tare(cell.arms[0], timeout=timeout),
    ):
        with pytest.raises((SwitchRejected, TareRejected), match="timeout:"):
            ask()
    cell.step(5)
    assert cell.active == active


@pytest.mark.parametrize("timeout", NO_TIMES)
def test_arms_went_on_because_a_stop_s_timeout_was_no_time(make_cell, timeout):
    cell = make_cell()
    other = next(info.name for info in cell.controllets() if info.state == "inactive")
    cell.switch([other], strictness="force_auto")
    for stop in (cell.hold, cell.request_hold):
        cell.request_switch([other], strictness="force_auto").poll()
        cell.step(2)
        assert other in cell.active
        with pytest.raises(SwitchRejected, match="timeout:"):
            stop(timeout=timeout)
        cell.step(2)
        assert all(name.endswith("/hold") for name in cell.active)
    assert cell.hold().deactivated == ()


def test_numbers_are_taken():
    for number in (0, 1.5, np.float32(2.0), np.int64(3), math.inf):
        assert checked_timeout(number, SwitchRejected) == float(number)
