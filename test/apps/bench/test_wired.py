# SPDX-License-Identifier: Apache-2.0
"""Estimation of known delays."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.apps.bench.wired import TIME_STEP, correlated_delay, stamped_delays

pytestmark = pytest.mark.inline


def torques(rng, n=4000):
    """Return jittered times at 1 kHz and seven wandering signals with a trend."""
    times = np.arange(n) * 1e-3 + rng.uniform(-5e-5, 5e-5, n)
    trend = np.linspace(0.0, 30.0, n)[:, None]
    return times, trend + np.cumsum(rng.normal(0.0, 0.05, (n, 7)), axis=0)


@pytest.mark.parametrize("delay", [0.0, 0.13e-3, 0.5e-3, 2.117e-3, -0.4e-3])
def test_correlation_finds_delay(delay):
    times, tau = torques(np.random.default_rng(1))
    assert correlated_delay(times, tau, times + delay, tau) == pytest.approx(delay, abs=TIME_STEP)


def test_correlation_finds_mean_of_varying_delay():
    rng = np.random.default_rng(2)
    times, tau = torques(rng)
    late = rng.normal(0.5e-3, 0.05e-3, len(times))
    assert correlated_delay(times, tau, times + late, tau) == pytest.approx(0.5e-3, abs=3e-5)


def test_lost_commands_do_not_hide_delay():
    rng = np.random.default_rng(3)
    times, tau = torques(rng)
    kept = rng.uniform(size=len(times)) > 0.02
    found = correlated_delay(times, tau, times[kept] + 0.3e-3, tau[kept])
    assert found == pytest.approx(0.3e-3, abs=3 * TIME_STEP)


@pytest.mark.parametrize("size", [0.0, 1.0])
@pytest.mark.parametrize("delay", [-0.02, 0.02])
def test_featureless_signal_returned_window_edge_as_delay(size, delay):
    times = np.arange(2000) * 1e-3
    tau = size * np.exp(-(((times - 1.0) / 0.1) ** 2))[:, None]
    assert correlated_delay(times, tau, times + delay, tau) is None


def test_stamps_count_unchanged_commands_only():
    times, tau = torques(np.random.default_rng(4), 500)
    arrived = tau.copy()
    arrived[100] += 1e-12  # The command differs from the written one.
    at, delays = stamped_delays(times, tau, times + 2e-4, arrived)
    assert len(delays) == 499
    np.testing.assert_allclose(delays, 2e-4, atol=1e-12)
    assert times[100] + 2e-4 not in at


def test_commands_before_first_write_are_ignored():
    times, tau = torques(np.random.default_rng(5), 50)
    _, delays = stamped_delays(times[10:], tau[10:], times + 1e-4, tau)
    assert len(delays) == 40
