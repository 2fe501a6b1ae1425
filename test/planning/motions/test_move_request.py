# SPDX-License-Identifier: Apache-2.0
"""Refusal of invalid motion options before any search."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.motions.motion_request import request_of

STOPS = [{"left": np.zeros(7)}]
WRONG = [
    *(("velocity_scaling", value) for value in (0, 1.5, "fast", None, True, [0.5], np.nan, 1j)),
    *(("clearance", value) for value in (-1, 0.6, "x", None, False, np.inf, np.zeros(2))),
    *(("planning_time", value) for value in (0, 10**400, "x", None, True, np.nan)),
    *(("seed", value) for value in (-1, 1.5, "x", None, True, np.nan)),
    *(("allowed_contacts", value) for value in (None, "table", 3, [3], {"table": 1})),
    *(("path_constraint", value) for value in ("level", None, ["upright"], np.zeros(2))),
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=[f"{n}={v!r:.20}" for n, v in WRONG])
def test_option_of_wrong_type_raised_raw_python_error(name, value):
    with pytest.raises(PlanRejected, match=rf"^{name}: got .*, allowed "):
        request_of(STOPS, {name: value})


def test_misspelt_option_raised_constructor_error():
    with pytest.raises(
        PlanRejected, match=r"^options: .*spped, waypoints\b.*\bpath_constraint, clearance"
    ):
        request_of(STOPS, {"spped": 1.0, "waypoints": STOPS})


def test_numpy_numbers_are_accepted():
    options = {
        "velocity_scaling": np.float32(0.5),
        "seed": np.int64(3),
        "planning_time": 2,
        "allowed_contacts": ("a",),
    }
    request = request_of(STOPS, options)
    assert (request.seed, request.planning_time) == (3, 2)
