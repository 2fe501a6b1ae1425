# SPDX-License-Identifier: Apache-2.0
"""Alignment of two recordings of a motion, to the sample."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.exceptions import ConfigurationError, LogError
from multipanda_py.identification.paired.recording import (
    ALIGNMENTS,
    AlignedPair,
    align,
    leaving_rest,
    shift_by_correlation,
)

pytestmark = pytest.mark.inline

REST, LENGTH = 200, 900


def joint_positions(begin, sigma=0.0, seed=0):
    """Return a joint that moves at 0.5 rad/s for 0.3 s between rests, and a fixed joint."""
    q = np.zeros((LENGTH, 2))
    q[begin:, 0] = 5e-4 * np.minimum(np.arange(1, LENGTH - begin + 1), 300)
    return q + sigma * np.random.default_rng(seed).normal(size=q.shape)


@pytest.mark.parametrize("begin", [200, 237, 500])
def test_start_of_motion_is_exact_without_noise(begin):
    assert leaving_rest(joint_positions(begin), REST) == begin


@pytest.mark.parametrize("seed", range(5))
def test_noise_at_rest_is_not_detected_as_motion(seed):
    """At 0.5 rad/s, the second sample exceeds five standard deviations of 1e-4 rad."""
    found = leaving_rest(joint_positions(400, 1e-4, seed), REST)
    assert 400 <= found <= 403


@pytest.mark.parametrize("shift", [-60, -1, 0, 1, 37])
def test_correlation_finds_shift_to_sample(shift):
    time = np.arange(LENGTH)
    first, second = (np.exp(-(((time - at) / 40.0) ** 2))[:, None] for at in (450, 450 + shift))
    assert shift_by_correlation(first, second, 100) == shift


def test_both_sides_are_cut_to_own_start_and_common_length():
    twin = np.hstack(
        [joint_positions(300), np.gradient(joint_positions(300), axis=0), np.zeros((LENGTH, 2))]
    )
    plant = np.hstack(
        [joint_positions(317), np.gradient(joint_positions(317), axis=0), np.ones((LENGTH, 2))]
    )
    pair = align(twin, plant)
    assert (pair.twin_start, pair.plant_start, pair.shift_by_correlation) == (300, 317, 17)
    for by in ("rest", "correlation"):
        first, second = pair.cut(by)
        assert len(first) == len(second) == LENGTH - 317
        assert first[:, :2].tolist() == second[:, :2].tolist()


@pytest.mark.parametrize(("twin_at", "plant_at"), [(300, 317), (317, 300)])
def test_alignment_by_clock_keeps_delay(twin_at, plant_at):
    """Rows with the same sample number are paired."""
    number = np.arange(LENGTH, dtype=float)[:, None].repeat(3, axis=1)
    pair = AlignedPair(number, number[:-50], twin_at, plant_at, plant_at - twin_at)
    first, second = pair.cut()
    assert first[:, 0].tolist() == second[:, 0].tolist() == list(range(300, LENGTH - 50))


def test_alignment_is_selected_by_name():
    number = np.arange(LENGTH, dtype=float)[:, None].repeat(3, axis=1)
    pair = AlignedPair(number, number, 300, 340, 5)
    begins = {by: tuple(int(side[0, 0]) for side in pair.cut(by)) for by in ALIGNMENTS}
    assert begins == {"rest": (300, 340), "correlation": (300, 305), "clock": (300, 300),
                      "command": (300, 300)}  # fmt: skip
    with pytest.raises(ConfigurationError, match=r"'eye'.* clock, command, rest, "):
        pair.cut("eye")


@pytest.mark.parametrize(
    ("q", "rest", "message"),
    [
        (np.zeros((50, 2)), 20, r"\b50\b"),
        (np.zeros((50, 2)), 50, r"\b50\b.*\b2\b.*\b49\b"),
        (np.full((50, 2), np.nan), 20, "not finite"),
    ],
)
def test_recording_without_start_is_rejected(q, rest, message):
    with pytest.raises(LogError, match=message):
        leaving_rest(q, rest)
