# SPDX-License-Identifier: Apache-2.0
"""A timeout that is no time is refused in a sentence, and nothing is asked of the loop."""

from __future__ import annotations

import math

import numpy as np
import pytest

from multipanda_py.cell.patience import seconds
from multipanda_py.exceptions import SwitchRejected, TareRejected


@pytest.mark.parametrize("timeout", ["x", None, True, math.nan, -1.0, [1.0]])
def test_switch_raised_a_bare_type_error_over_its_timeout(make_cell, timeout):
    cell = make_cell()
    active = cell.active
    name = next(info.name for info in cell.controllets() if info.state == "inactive")
    for ask in (
        lambda: cell.switch([name], strictness="force_auto", timeout=timeout),
        lambda: cell.hold(timeout=timeout),
        lambda: cell.tare(cell.arms[0], timeout=timeout),
    ):
        with pytest.raises((SwitchRejected, TareRejected), match=r"timeout: got .*, allowed"):
            ask()
    cell.step(5)
    assert cell.active == active


def test_numbers_are_taken():
    for number in (0, 1.5, np.float32(2.0), np.int64(3), math.inf):
        assert seconds(number, SwitchRejected) == float(number)
