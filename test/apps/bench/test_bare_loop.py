# SPDX-License-Identifier: Apache-2.0
"""Loop that measures the cost of a robot alone."""

from __future__ import annotations

import pytest

from multipanda_py.apps.bench.processes import Child
from multipanda_py.exceptions import BenchError

pytest.importorskip("pylibfranka")


def test_bare_loop_without_robot_reported_only_exit_code():
    child = Child("multipanda_py.apps.bench.bare_loop", "127.77.77.77", "10", "0")
    try:
        with pytest.raises(BenchError, match=r"bare_loop: .*onnection"):
            child.wait_until_ready(60.0)
    finally:
        child.close()
