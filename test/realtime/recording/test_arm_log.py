# SPDX-License-Identifier: Apache-2.0
"""Logs of one arm: shapes, gaps, parts, joined logs, and their source in cycle records."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py import Cell
from multipanda_py.exceptions import LogError, UnknownName
from multipanda_py.realtime.recording.arm_log import ArmLog, joined
from multipanda_py.realtime.recording.log_reader import log_of_rows
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio

pytestmark = pytest.mark.inline


def log_at(time, **others) -> ArmLog:
    time = np.asarray(time, dtype=float)
    q = np.stack([np.sin(time), np.cos(time)], axis=1)
    return ArmLog(
        "left", None, ("a", "b"), time, q, columns={"owner": np.arange(len(time))}, **others
    )


def test_rate_is_that_of_most_samples_and_gaps_are_found():
    log = log_at(np.delete(np.arange(0.0, 1.0, 0.01), np.s_[30:50]))
    assert log.rate == pytest.approx(100.0)
    np.testing.assert_allclose(log.gaps(), [[0.29, 0.5]])
    assert log.segments() == [slice(0, 30), slice(30, 80)]
    assert log.segments(min_count=40) == [slice(30, 80)]
    assert log.segments(longer_than=1.0) == [slice(0, 80)]


@pytest.mark.parametrize("time", [[0.0, 0.1, 0.1], [0.0, 0.2, 0.1], [np.nan, 0.1], [0.0, np.nan]])
def test_time_that_does_not_increase_is_refused(time):
    with pytest.raises(LogError, match="time has to increase"):
        log_at(time)


def test_wrong_shapes_and_empty_logs_are_refused_():
    with pytest.raises(LogError, match=r"\bdq\b.*\(2, 3\).*\(2, 2\)"):
        log_at([0.0, 0.1], dq=np.zeros((2, 3)))
    with pytest.raises(LogError, match="no samples"):
        log_at([])


def test_missing_column_is_reported_with_recorded_columns():
    log = log_at([0.0, 0.1])
    assert log["q"] is log.q
    with pytest.raises(UnknownName, match=r"'tau'.*time, q, owner"):
        log["tau"]


def test_parts_keep_their_samples_and_recording_starts():
    log = joined([log_at(np.arange(10.0)), log_at(np.arange(6.0))])
    assert log.starts == (0, 10)
    assert log.time[10] == 10.0  # one second after the last sample, 9
    part = log.part(slice(8, 14, 2))
    np.testing.assert_array_equal(part.time, log.time[8:14:2])
    assert part.starts == (0, 1)
    assert part["owner"].tolist() == [8, 0, 2]
    assert log.between(3.0, 5.0).time.tolist() == [3.0, 4.0]


def test_later_recording_keeps_its_time():
    log = joined([log_at([0.0, 1.0]), log_at([5.0, 6.0])])
    assert log.time.tolist() == [0.0, 1.0, 5.0, 6.0]
    assert log.segments() == [slice(0, 2), slice(2, 4)]


def test_recordings_of_different_robots_are_not_joined():
    other = ArmLog("left", None, ("a", "c"), np.arange(2.0), np.zeros((2, 2)))
    with pytest.raises(LogError, match="joints"):
        joined([log_at([0.0, 1.0]), other])


def test_columns_missing_in_one_recording_are_omitted():
    log = joined([log_at([0.0, 1.0], tau=np.ones((2, 2))), log_at([5.0, 6.0])])
    assert log.tau is None
    assert log.names == ("time", "q", "owner")


def test_table_numbers_joints_from_one_and_names_controllets():
    pytest.importorskip("pandas")
    table = log_at([0.0, 1.0], laws=("hold", "impedance")).to_pandas()
    assert list(table) == ["time", "q1", "q2", "owner", "law"]
    assert table["law"].tolist() == ["hold", "impedance"]
    np.testing.assert_array_equal(table["q2"], np.cos([0.0, 1.0]))


@pytest.mark.sim
def test_logs_of_rows_agree_with_arm_states():
    with Cell.from_yaml("config/dual_sim.yaml", placement="inline") as cell:
        states = []
        for _ in range(5):
            cell.step(10)
            states.append((cell.state("left"), cell.state("right")))
        log = log_of_rows(cell.records()[1], cell.config)
    for k, arm in enumerate(("left", "right")):
        found = log.arms[arm]
        assert found.robot == "fr3"
        assert found.joints[6] == "joint7"
        assert found.rate == pytest.approx(1000.0)
        for pair in states:
            at = np.searchsorted(found.time, pair[k].time - 1e-9)
            np.testing.assert_array_equal(found.q[at], pair[k].q)
            np.testing.assert_array_equal(found.tau[at], pair[k].tau_J)
            np.testing.assert_array_equal(found.tau_commanded[at], pair[k].tau)
            np.testing.assert_array_equal(
                found["wrench_ext_in_base"][at], pair[k].wrench_ext_in_base
            )
            assert found.laws[found["owner"][at]] == pair[k].owner


@pytest.mark.sim
def test_measured_torques_include_gravity_and_commanded_torques_do_not():
    """The flags of a log agree with the torques of an arm at rest."""
    pinocchio = pytest.importorskip("pinocchio")
    with Cell.from_yaml("config/single_sim.yaml", placement="inline") as cell:
        cell.step(200)
        (log,) = log_of_rows(cell.records()[1], cell.config).arms.values()
        description = cell.descriptions[log.arm]
    assert log.gravity_in_tau
    assert not log.gravity_in_tau_commanded
    model = build_pinocchio(description)
    gravity = pinocchio.computeGeneralizedGravity(model, model.createData(), log.q[-1])
    np.testing.assert_allclose(log.tau[-1], gravity, atol=0.3)
    np.testing.assert_allclose(log.tau_commanded[-1], 0.0, atol=0.3)
    np.testing.assert_allclose(log.gravity_in_base, [0.0, 0.0, -9.81], atol=1e-12)
