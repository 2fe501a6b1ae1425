# SPDX-License-Identifier: Apache-2.0
"""Figures of rows: which cycles were late, and which target a cycle used."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.apps.bench.paced import counts
from multipanda_py.apps.bench.records import (
    CycleTimes,
    collect_all_cycle_times,
    collect_cycle_times,
    cycle_times,
    summary,
    topic_to_use,
)
from multipanda_py.exceptions import BenchError
from multipanda_py.realtime.running_cell import RowFollower
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
        rows = [RowFollower(cell.config, cell.rows_path)]
        with pytest.raises(BenchError, match="left, right"):
            collect_all_cycle_times(rows, 0.01)


@pytest.mark.clock
def test_every_cycle_of_a_paced_loop_is_seen():
    with simple_cell(placement="thread", name="bench_rows") as cell:
        rows = RowFollower(cell.config, cell.rows_path)
        found = collect_cycle_times(rows, 0.3)
    assert (np.diff(found.deadline) > 0).all()
    assert found.dropped == 0
    assert (found.control > 0).all()
    assert (found.control < found.compute).all()
    assert found.tau.shape[1:] == (2, 7)
    assert found.held.all()  # nobody else was activated
