# SPDX-License-Identifier: Apache-2.0
"""Human joint motions, and their transport as a stream of samples."""

from __future__ import annotations

import numpy as np


def strokes(rng, cycles, speed=0.95, joints=7, period=1e-3):
    """Return minimum-jerk strokes of all joints and their velocities, (cycles, joints) each.

    Source: Flash and Hogan, Journal of Neuroscience 1985.
    """
    q, position, k = np.zeros((cycles, joints)), np.zeros(joints), int(0.1 / period)
    while k < cycles:
        n, goal = int(rng.uniform(0.8, 1.5) / period), rng.uniform(-0.5, 0.5, joints)
        s = np.arange(1, n + 1)[: cycles - k, None] / n
        q[k : k + n] = position + (goal - position) * (10 * s**3 - 15 * s**4 + 6 * s**5)
        position, k = goal, k + n
    q *= speed * period / np.abs(np.diff(q, axis=0)).max()
    return q, np.gradient(q, period, axis=0)


def arrivals(rng, cycles, rate, jitter=0.25, lost=0.03, period=1e-3):
    """Return the cycles in which a sample arrives."""
    times = 0.02 + np.cumsum((1.0 + jitter * rng.uniform(-1, 1, cycles)) / rate)
    times = times[rng.uniform(size=len(times)) >= lost]
    return {int(t / period) for t in times if t < cycles * period}


def lag(leader, follower, longest=250):
    """Return the delay with the minimum difference between follower and leader, in cycles."""
    n = len(leader) - longest
    errors = [((follower[k : k + n] - leader[:n]) ** 2).mean() for k in range(longest)]
    return int(np.argmin(errors))


def jerk(velocity, window=15, period=1e-3):
    """Return the rms jerk of velocities after two moving averages over some cycles."""
    mean = np.ones(window) / window
    smooth = [np.convolve(np.convolve(v, mean, "valid"), mean, "valid") for v in velocity.T]
    return float(np.sqrt((np.diff(smooth, 2, axis=1) ** 2).mean())) / period**2
