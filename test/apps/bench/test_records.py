# SPDX-License-Identifier: Apache-2.0
"""Statistics of cycle records, and repetition of measurements in which arms held."""

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
    """Return cycles at 1 kHz with delays ``late`` [us] and control times ``control`` [us]."""
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
def test_lateness_is_sum_of_wake_up_and_control():
    found = counts(timing([10, 250, 10, 10], [60, 60, 291, 290]))
    assert found["over_300_us"] == 2
    assert found["missed"] == 1
    assert found["cycles"] == 4


@pytest.mark.inline
def test_times_equal_those_of_records():
    times = cycle_times(timing([10, 250], [60, 70]))
    np.testing.assert_allclose(times["lateness"], [10, 250])
    np.testing.assert_allclose(times["control"], [60, 70])
    np.testing.assert_allclose(times["cycle"], [80, 90])


@pytest.mark.inline
def test_summary_agrees_with_numpy():
    values = np.random.default_rng(0).exponential(50.0, 1000)
    found = summary(values)
    assert found["median"] == pytest.approx(np.median(values), abs=0.01)
    assert found["max"] == pytest.approx(values.max(), abs=0.01)
    assert summary(np.zeros(0)) == {}


@pytest.mark.inline
def test_target_latency_is_from_publication_to_first_cycle():
    """Targets arrive 0.3 ms before a cycle; unused targets do not count."""
    cycles = timing([20] * 5, [60] * 5, x=[0.0, 0.1, 0.2, 0.2, 0.4])
    sent = np.array([[0.7e-3, 0.1], [1.7e-3, 0.2], [2.2e-3, 0.3], [3.7e-3, 0.4]])
    np.testing.assert_allclose(topic_to_use(cycles, sent), [320.0, 320.0, 320.0])


@pytest.mark.inline
def test_loop_without_cycles_ended_in_traceback():
    with simple_cell() as cell:
        rows = [RecordFollower(cell.config, cell.records_path)]
        with pytest.raises(BenchError, match="left, right"):
            collect_all_cycle_times(rows, 0.01)


@pytest.mark.clock
def test_every_cycle_of_paced_loop_is_recorded():
    with simple_cell(placement="thread", name="bench_rows") as cell:
        rows = RecordFollower(cell.config, cell.records_path)
        found = collect_cycle_times(rows, 0.3)
    assert (np.diff(found.deadline) > 0).all()
    assert found.dropped == 0
    assert (found.control > 0).all()
    assert (found.control < found.compute).all()
    assert found.tau.shape[1:] == (2, 7)
    assert found.held.all()  # Only hold is active.


class Cell:
    """Substitute for a node with scripted faults."""

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
    """Return 1000 cycles, with an arm on hold in the first ``held`` of them."""
    none = np.zeros(1000, dtype=np.int64)
    return CycleTimes(
        none, none, none, none, none, np.zeros((1000, 1, 7)), np.zeros((1000, 1), dtype=np.int64),
        np.zeros(1000), np.arange(1000) < held, 0,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def no_settling(monkeypatch):
    monkeypatch.setattr(records, "SETTLE_TIME", 0.0)


def measure(*held):
    """Return a measurement of two cells, the second on hold for each number of cycles in turn."""
    left = list(held)
    return lambda: ([timing_with_holds(0), timing_with_holds(left.pop(0))], len(left))


@pytest.mark.parametrize(("held", "attempt"), [((0,), 1), ((10,), 1), ((11, 400, 0), 3)])
@pytest.mark.inline
def test_measurement_is_repeated_if_any_arm_held(held, attempt):
    cells = {Cell(): ["a/law"], Cell(): ["b/law"]}
    timings, left = measure_without_holds(cells, measure(*held))
    assert len(timings) == 2
    assert left == 0
    assert [cell.switched for cell in cells] == [[["a/law"]] * (attempt - 1),
                                                 [["b/law"]] * (attempt - 1)]  # fmt: skip


@pytest.mark.inline
def test_faulted_arms_are_recovered_and_measured_again():
    cell = Cell("left")
    measure_without_holds({cell: ["left/law"]}, measure(0, 0))
    assert cell.switched == [["left/law"]]


@pytest.mark.inline
def test_measurements_of_holding_arms_were_reported():
    with pytest.raises(BenchError, match=r"50 %.* 3 "):
        measure_without_holds({Cell(): ["law"]}, measure(*[500] * MAX_ATTEMPTS))


@pytest.mark.inline
def test_repeated_fault_is_reported_with_arm():
    with pytest.raises(BenchError, match=r"\bleft\b"):
        measure_without_holds({Cell(*["left"] * 4): ["law"]}, measure(*[0] * MAX_ATTEMPTS))


@pytest.mark.inline
def test_single_late_answer_ended_whole_bench(monkeypatch):
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
