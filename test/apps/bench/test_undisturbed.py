# SPDX-License-Identifier: Apache-2.0
"""Parts of a measurement in which arms held are measured anew, and never become figures."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.apps.bench import records as module
from multipanda_py.apps.bench.records import (
    MAX_ATTEMPTS,
    CycleTimes,
    measure_with_retry,
    measure_without_holds,
)
from multipanda_py.exceptions import BenchError

pytestmark = pytest.mark.inline


class Cell:
    """Says of itself what a node would say."""

    def __init__(self, *faults):
        self.latched, self.switched, self.log = (
            list(faults),
            [],
            "active\n[WARN] [1.0] [x]: all arms hold\n",
        )

    def faults(self):
        return self.latched

    def switch(self, instances):
        self.switched.append(list(instances))
        self.latched = self.latched[1:]

    def check(self):
        if self.latched:
            raise BenchError(f"{self.latched[0]} ended with a fault")


def timing(held):
    """Return 1000 cycles, in some of which an arm held."""
    none = np.zeros(1000, dtype=np.int64)
    return CycleTimes(
        none, none, none, none, none, np.zeros((1000, 1, 7)), np.zeros((1000, 1), dtype=np.int64),
        np.zeros(1000), np.arange(1000) < held, 0,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def no_settling(monkeypatch):
    monkeypatch.setattr(module, "SETTLE_TIME", 0.0)


def measure(*held):
    """Return what measures two cells once per number of cycles in which the second one held."""
    left = list(held)
    return lambda: ([timing(0), timing(left.pop(0))], len(left))


@pytest.mark.parametrize(("held", "attempt"), [((0,), 1), ((10,), 1), ((11, 400, 0), 3)])
def test_a_part_in_which_an_arm_of_any_cell_held_is_measured_anew(held, attempt):
    cells = {Cell(): ["a/law"], Cell(): ["b/law"]}
    timings, left = measure_without_holds(cells, measure(*held))
    assert len(timings) == 2
    assert left == 0
    assert [cell.switched for cell in cells] == [[["a/law"]] * (attempt - 1),
                                                 [["b/law"]] * (attempt - 1)]  # fmt: skip


def test_arms_that_fail_are_brought_back_and_measured_anew():
    cell = Cell("left")
    measure_without_holds({cell: ["left/law"]}, measure(0, 0))
    assert cell.switched == [["left/law"]]


def test_three_rows_of_nine_were_figures_of_arms_that_held():
    with pytest.raises(BenchError, match=r"50 %.* 3 "):
        measure_without_holds({Cell(): ["law"]}, measure(*[500] * MAX_ATTEMPTS))


def test_a_fault_that_comes_again_is_named():
    with pytest.raises(BenchError, match=r"\bleft\b"):
        measure_without_holds({Cell(*["left"] * 4): ["law"]}, measure(*[0] * MAX_ATTEMPTS))


def test_one_late_answer_to_a_robot_ended_all_measurements_of_a_bench(monkeypatch):
    monkeypatch.setattr(module, "SETTLE_TIME", 0.0)
    tries = []

    def late(good):
        tries.append(1)
        if len(tries) < good:
            raise BenchError("communication_constraints_violation")
        return len(tries)

    assert measure_with_retry(lambda: late(2)) == 2
    tries.clear()
    with pytest.raises(BenchError, match="communication"):
        measure_with_retry(lambda: late(MAX_ATTEMPTS + 1))
    assert len(tries) == MAX_ATTEMPTS
