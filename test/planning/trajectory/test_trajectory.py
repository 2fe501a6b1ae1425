# SPDX-License-Identifier: Apache-2.0
"""Trajectories: completion through their points, thinning, and checks between points."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from configurations import READY
from hypothesis import given, settings
from hypothesis import strategies as st

from multipanda_py.config.sections import GateConfig
from multipanda_py.controllets.targets.joint import TRAJECTORY, check_tolerances, check_trajectory
from multipanda_py.exceptions import TargetRejected
from multipanda_py.planning.trajectory.quintic import evaluate
from multipanda_py.planning.trajectory.trajectory import check_between, complete, thin
from multipanda_py.robots.franka import LIMITS

pytestmark = pytest.mark.inline

LIMIT, GATE = LIMITS["fr3"], GateConfig()
STATE = SimpleNamespace(name="left", q=READY, dq=np.zeros(7))
column = st.lists(st.floats(-1.0, 1.0), min_size=4, max_size=9)


@given(column, st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_path_stays_between_successive_positions(values, seed):
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.uniform(0.1, 1.0, len(values)))
    q = np.outer(values, np.ones(7))
    rows = complete(times, q)
    for at in range(len(rows) - 1):
        inner = evaluate(rows, np.linspace(times[at], times[at + 1], 21))[:, 0]
        low, high = sorted((values[at], values[at + 1]))
        assert inner.min() >= low - 1e-9
        assert inner.max() <= high + 1e-9


@pytest.mark.parametrize("given_rates", [False, True])
def test_dense_points_reproduce_smooth_curve(given_rates):
    t = np.linspace(0.0, 2.0 * np.pi, 300)
    curve = (1.0 - np.cos(t))[:, None] * np.ones(7)
    rate = np.sin(t)[:, None] * np.ones(7)
    rows = complete(t, curve, rate if given_rates else None)
    between = np.linspace(0.3, 6.0, 1777)
    q, dq, ddq = evaluate(rows, between)[:, :, 0].T
    assert np.abs(q - (1.0 - np.cos(between))).max() < 1e-4
    assert np.abs(dq - np.sin(between)).max() < 0.02
    assert np.median(np.abs(ddq - np.cos(between))) < 0.03
    assert np.abs(ddq).max() < 4.0


def test_given_derivatives_are_kept():
    rng = np.random.default_rng(3)
    t, (q, dq, ddq) = np.arange(4.0), rng.normal(size=(3, 4, 7))
    assert np.array_equal(complete(t, q, dq, ddq), np.column_stack([t, q, dq, ddq]))
    assert np.array_equal(complete([1.0], q[:1])[0], [1.0, *q[0], *np.zeros(14)])


def test_thinning_keeps_ends_and_reports_deviation():
    t = np.linspace(0.0, 3.0, 1000)
    q = (1.0 - np.cos(np.pi * t / 3.0))[:, None] * np.linspace(0.1, 0.7, 7)
    rows = complete(t, q)
    kept, missed = thin(rows, 128)
    assert len(kept) == 128
    assert np.array_equal(kept[[0, -1]], rows[[0, -1]])
    assert (missed > 0.0).all()
    assert (missed < 1e-4).all()
    assert missed.argmax() == 6  # the joint that moves most
    zigzag = complete(t, np.outer(np.arange(1000) % 2, np.ones(7)))
    assert (thin(zigzag, 128)[1] > 0.5).all()
    same, none = thin(kept, 128)
    assert same is kept
    assert np.array_equal(none, np.zeros(7))


def test_overshoot_between_valid_points_is_refused():
    good = np.vstack([READY, READY + 0.05])
    check_between(complete([0.0, 0.5], good), "left", LIMIT)
    for rows, reason in (
        (complete([0.0, 0.03], good), "velocity"),
        (complete([0.0, 0.1], good), "acceleration"),
        (complete([0.0, 2.0], good, np.outer([0.0, -2.0], np.eye(7)[3]) * -1.0), "position"),
    ):
        rows[:, 4] += -0.2 - READY[3] if reason == "position" else 0.0
        with pytest.raises(TargetRejected, match=f"of left: .*{reason}"):
            check_between(rows, "left", LIMIT)


def test_arm_outside_limits_may_return():
    outside = READY.copy()
    outside[3] = LIMIT.upper[3] + 0.01
    check_between(complete([0.0, 2.0], [outside, READY]), "left", LIMIT)
    with pytest.raises(TargetRejected, match="position"):
        check_between(complete([0.0, 2.0], [outside, outside + 0.01]), "left", LIMIT)


def test_record_has_points_count_and_space_for_tolerances():
    rows = complete([0.5, 1.0], [READY + 0.01, READY + 0.02])
    record = check_trajectory(rows, STATE, LIMIT, GATE)
    assert record.shape == (TRAJECTORY.size(7),)
    assert record[0] == 2
    assert np.array_equal(record[3:47].reshape(2, 22), rows)
    assert not record[47:].any()
    assert not check_trajectory([], STATE, LIMIT, GATE).any()


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (np.zeros((2, 21)), "got shape"),
        (complete(np.arange(129.0), np.tile(READY, (129, 1))), r"\b129\b.*\b1\b.*\b128\b"),
        (complete([1.0, 2.0, 1.5], np.tile(READY, (3, 1))), "times must start"),
        (complete([-0.1, 1.0], [READY, READY]), "times must start"),
        (complete([0.0, 1.0], [READY + 0.5, READY + 0.5]), "gate.joint"),
        (complete([0.09], [READY + 0.45]), "gate.joint"),
        (complete([0.2], [READY + 0.4]), "velocity"),
        (complete([1.0], [READY], [np.ones(7)]), r"velocity.*\b0\b"),
        ("home", "trajectory: got"),
    ],
)
def test_invalid_trajectories_are_refused(rows, reason):
    with pytest.raises(TargetRejected, match=reason):
        check_trajectory(rows, STATE, LIMIT, GATE)


def test_tolerances():
    assert not check_tolerances(None, None, None, "left", 7).any()
    record = check_tolerances(0.1, [-1.0] * 7, 2.0, "left", 7)
    assert np.array_equal(record, [*[0.1] * 7, *[-1.0] * 7, 2.0])
    with pytest.raises(TargetRejected, match="path_tolerance: got"):
        check_tolerances([0.1] * 6, None, None, "left", 7)
    with pytest.raises(TargetRejected, match="finite"):
        check_tolerances(None, np.nan, None, "left", 7)


@pytest.mark.parametrize(
    ("path", "goal", "time"),
    [(1e308, None, None), (None, [7.1] * 7, None), (None, None, 1e9), (math.nan, None, None),
     (-math.inf, None, None), (None, 10**400, None)],
)  # fmt: skip
def test_unbounded_tolerance_is_refused(path, goal, time):
    with pytest.raises(TargetRejected, match=r"left: .*toleranc.*allowed"):
        check_tolerances(path, goal, time, "left", 7)
