# SPDX-License-Identifier: Apache-2.0
"""Invalid timeouts are refused with a reason; only a stop takes effect despite one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from multipanda_py.cell.connection import checked_timeout
from multipanda_py.exceptions import SwitchRejected, TareRejected

pytestmark = pytest.mark.inline

INVALID_TIMEOUTS = ["x", None, True, math.nan, -1.0, [1.0]]


@pytest.mark.parametrize("timeout", INVALID_TIMEOUTS)
def test_invalid_timeout_of_switch_raised_type_error(make_cell, timeout):
    cell = make_cell()
    active = cell.active
    name = next(info.name for info in cell.controllets() if info.state == "inactive")
    for request in (
        lambda: cell.switch([name], strictness="force_auto", timeout=timeout),
        lambda: cell.tare(cell.arms[0], timeout=timeout),
    ):
        with pytest.raises((SwitchRejected, TareRejected), match="timeout:"):
            request()
    cell.step(5)
    assert cell.active == active


@pytest.mark.parametrize("timeout", INVALID_TIMEOUTS)
def test_stop_with_invalid_timeout_did_not_stop_arms(make_cell, timeout):
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


def test_numeric_timeouts_are_accepted():
    for number in (0, 1.5, np.float32(2.0), np.int64(3), math.inf):
        assert checked_timeout(number, SwitchRejected) == float(number)
