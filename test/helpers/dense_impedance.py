# SPDX-License-Identifier: Apache-2.0
"""The impedance design as dense equations, to compare laws with."""

from __future__ import annotations

import numpy as np

BANDWIDTH = 120.0
"""Fastest velocity loop that laws may have [1/s]."""


def root(matrix):
    """Symmetric square root of a positive semidefinite matrix."""
    w, v = np.linalg.eigh(matrix)
    return v @ np.diag(np.sqrt(np.maximum(w, 0))) @ v.T


def impedance(inertia, k, z, bandwidth=BANDWIDTH):
    """Return the stiffness that the bandwidth leaves of k, and the damping; z is a matrix."""
    half = root(k)
    w, v = np.linalg.eigh(half @ np.linalg.inv(inertia) @ half)
    left = half @ v @ np.diag(np.minimum(1.0, bandwidth**2 / (4 * w + 1e-8))) @ v.T @ half
    g = half @ z
    w, v = np.linalg.eigh(g.T @ np.linalg.inv(inertia) @ g)
    rate = np.minimum(np.sqrt(w + 1e-8), bandwidth / 2)
    return left, 2.0 * g @ v @ np.diag(rate / (w + 1e-8)) @ v.T @ g.T
