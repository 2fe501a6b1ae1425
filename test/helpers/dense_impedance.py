# SPDX-License-Identifier: Apache-2.0
"""Impedance design as dense equations, a reference for controllets."""

from __future__ import annotations

import numpy as np

from multipanda_py.pose import Pose
from multipanda_py.testing import StateMaker

BANDWIDTH = 120.0
"""Maximum bandwidth of the velocity loop [1/s]."""


def root(matrix):
    """Return the symmetric square root of a positive semidefinite matrix."""
    w, v = np.linalg.eigh(matrix)
    return v @ np.diag(np.sqrt(np.maximum(w, 0))) @ v.T


def impedance(inertia, k, z, bandwidth=BANDWIDTH):
    """Return the stiffness k, limited by the bandwidth, and the damping; z is a matrix."""
    half = root(k)
    w, v = np.linalg.eigh(half @ np.linalg.inv(inertia) @ half)
    limited_k = half @ v @ np.diag(np.minimum(1.0, bandwidth**2 / (4 * w + 1e-8))) @ v.T @ half
    g = half @ z
    w, v = np.linalg.eigh(g.T @ np.linalg.inv(inertia) @ g)
    rate = np.minimum(np.sqrt(w + 1e-8), bandwidth / 2)
    return limited_k, 2.0 * g @ v @ np.diag(rate / (w + 1e-8)) @ v.T @ g.T


def step_response(inertia, k, damping, size, cycles):
    """Return the displacement of the linear system after a target step along y, (cycles,) [m].

    inertia x'' + damping x' + k (x - x_target) = 0, in steps of a millisecond.
    """
    e, rate, positions = np.array([0, size, 0, 0, 0, 0.0]), np.zeros(6), []
    for _ in range(cycles):
        positions.append(size - e[1])
        rate += 1e-3 * np.linalg.solve(inertia, -k @ e - damping @ rate)
        e += 1e-3 * rate
    return np.array(positions)


def step_difference(cell, law, model, k):
    """Step the target of ``arm`` by 5 mm and return the maximum relative error to the design.

    Args:
        cell: Cell with an arm at rest.
        law: Name of the controllet.
        model: Robot model of the arm, for its inertia.
        k: Stiffness parameter of the controllet, (6, 6).
    """
    pose, size = cell.pose("arm"), 0.005
    (state,) = StateMaker(model=model).states_at([cell.state("arm").q])
    inertia = np.linalg.inv(state.jacobian @ np.linalg.inv(state.mass_matrix) @ state.jacobian.T)
    _, damping = impedance(inertia, k, np.diag(cell.parameters(law)["damping_ratio"]))
    cell.set_target("arm", Pose(pose.position + [0.0, size, 0.0], pose.rotation))
    start, _ = cell.records()
    cell.step(800)
    measured = cell.records(start)[1]["arms"]["position_ee_in_base"][:, 0, 1] - pose.position[1]
    return np.abs(measured - step_response(inertia, k, damping, size, 800)).max() / size
