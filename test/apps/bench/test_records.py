# SPDX-License-Identifier: Apache-2.0
"""Figures of cycle records; parts of a measurement in which arms held are measured anew."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.apps.bench import records
from multipanda_py.apps.bench.paced import counts
from multipanda_py.apps.bench.records import (
    MAX_ATTEMPTS,
    CycleTimes,
    collect_all_cycle_times,
    collect_cycle_times,
    cycle_times,
    measure_with_retry,
    measure_without_holds,
    summary,
    topic_to_use,
)
from multipanda_py.exceptions import BenchError
from multipanda_py.realtime.running_cell import RecordFollower
from multipanda_py.testing import simple_cell


def timing(late, control, x=None):
    """Return cycles at 1 kHz that began late [us] and had their torques after ``control`` [us]."""
    n = len(late)
    deadline = np.arange(n) * 1_000_000
    wake = deadline + np.array(late) * 1000
    control_ns = np.array(control) * 1000
    x = np.zeros(n) if x is None else np.array(x)
    return CycleTimes(
        wake, deadline, control_ns, control_ns + 20_000, np.arange(n) // 3, np.zeros((n, 2, 7)),
        np.zeros((n, 2), dtype=np.int64), x, np.zeros(n, dtype=bool), 0,
    )  # fmt: skip


@pytest.mark.inline
def test_a_cycle_is_late_for_a_robot_by_wake_up_and_control_together():
    found = counts(timing([10, 250, 10, 10], [60, 60, 291, 290]))
    assert found["over_300_us"] == 2
    assert found["missed"] == 1
    assert found["cycles"] == 4


@pytest.mark.inline
def test_times_are_those_of_the_rows():
    times = cycle_times(timing([10, 250], [60, 70]))
    np.testing.assert_allclose(times["lateness"], [10, 250])
    np.testing.assert_allclose(times["control"], [60, 70])
    np.testing.assert_allclose(times["cycle"], [80, 90])


@pytest.mark.inline
def test_summary_is_that_of_numpy():
    values = np.random.default_rng(0).exponential(50.0, 1000)
    found = summary(values)
    assert found["median"] == pytest.approx(np.median(values), abs=0.01)
    assert found["max"] == pytest.approx(values.max(), abs=0.01)
    assert summary(np.zeros(0)) == {}


@pytest.mark.inline
def test_the_way_of_a_target_is_from_its_publication_to_its_first_cycle():
    """Targets 0.3 ms before a cycle; the one that no cycle used does not count."""
    cycles = timing([20] * 5, [60] * 5, x=[0.0, 0.1, 0.2, 0.2, 0.4])
    sent = np.array([[0.7e-3, 0.1], [1.7e-3, 0.2], [2.2e-3, 0.3], [3.7e-3, 0.4]])
    np.testing.assert_allclose(topic_to_use(cycles, sent), [320.0, 320.0, 320.0])


@pytest.mark.inline
def test_a_loop_that_did_no_cycle_ended_everything_in_a_trace():
    with simple_cell() as cell:
        rows = [RecordFollower(cell.config, cell.records_path)]
        with pytest.raises(BenchError, match="left, right"):
            collect_all_cycle_times(rows, 0.01)


@pytest.mark.clock
def test_every_cycle_of_a_paced_loop_is_seen():
    with simple_cell(placement="thread", name="bench_rows") as cell:
        rows = RecordFollower(cell.config, cell.records_path)
        found = collect_cycle_times(rows, 0.3)
    assert (np.diff(found.deadline) > 0).all()
    assert found.dropped == 0
    assert (found.control > 0).all()
    assert (found.control < found.compute).all()
    assert found.tau.shape[1:] == (2, 7)
    assert found.held.all()  # nobody else was activated


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


def timing_with_holds(held):
    """Return 1000 cycles, in some of which an arm held."""
    none = np.zeros(1000, dtype=np.int64)
    return CycleTimes(
        none, none, none, none, none, np.zeros((1000, 1, 7)), np.zeros((1000, 1), dtype=np.int64),
        np.zeros(1000), np.arange(1000) < held, 0,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def no_settling(monkeypatch):
    monkeypatch.setattr(records, "SETTLE_TIME", 0.0)


def measure(*held):
    """Return what measures two cells once per number of cycles in which the second one held."""
    left = list(held)
    return lambda: ([timing_with_holds(0), timing_with_holds(left.pop(0))], len(left))


@pytest.mark.parametrize(("held", "attempt"), [((0,), 1), ((10,), 1), ((11, 400, 0), 3)])
@pytest.mark.inline
def test_a_part_in_which_an_arm_of_any_cell_held_is_measured_anew(held, attempt):
    cells = {Cell(): ["a/law"], Cell(): ["b/law"]}
    timings, left = measure_without_holds(cells, measure(*held))
    assert len(timings) == 2
    assert left == 0
    assert [cell.switched for cell in cells] == [[["a/law"]] * (attempt - 1),
                                                 [["b/law"]] * (attempt - 1)]  # fmt: skip


@pytest.mark.inline
def test_arms_that_fail_are_brought_back_and_measured_anew():
    cell = Cell("left")
    measure_without_holds({cell: ["left/law"]}, measure(0, 0))
    assert cell.switched == [["left/law"]]


@pytest.mark.inline
def test_three_rows_of_nine_were_figures_of_arms_that_held():
    with pytest.raises(BenchError, match=r"50 %.* 3 "):
        measure_without_holds({Cell(): ["law"]}, measure(*[500] * MAX_ATTEMPTS))


@pytest.mark.inline
def test_a_fault_that_comes_again_is_named():
    with pytest.raises(BenchError, match=r"\bleft\b"):
        measure_without_holds({Cell(*["left"] * 4): ["law"]}, measure(*[0] * MAX_ATTEMPTS))


@pytest.mark.inline
def test_one_late_answer_to_a_robot_ended_all_measurements_of_a_bench(monkeypatch):
    monkeypatch.setattr(records, "SETTLE_TIME", 0.0)
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
