# SPDX-License-Identifier: Apache-2.0
"""Which forces of several hands are controlled, and which are left to the plan."""

from __future__ import annotations

import numpy as np

from multipanda_py.state import Matrix

BALANCED = 0.3
"""Net wrench of hands that press with one newton each, from which they push what they hold
about: antipodal to within 0.3 rad, or 0.3 of half the distance between them."""
ASKED = 0.2
"""Share of what is asked for from which it counts as not balanced."""


def controlled_modes(wrenches: Matrix, positions: Matrix) -> Matrix:
    r"""Return the projector P on what is controlled of the forces of N hands, (N, N).

    .. math::
        P = N N^T \;\text{if}\; N N^T a \approx a, \;\text{else}\; I, \qquad
        G N = 0, \quad G = \begin{bmatrix} u_1 & \ldots \\ r_1 \times u_1 & \ldots \end{bmatrix}

    with the sizes *a* that are asked for. What adds up to nothing strains a thing between the
    hands and does not move it. Where that is what is asked for, any other mix of forces would
    push the thing about, which the plan is to hold: two hands that press a box from both sides
    are controlled by the mean of what both feel. Else what is pressed does not come along, as a
    table, and each hand is controlled by its own.

    Args:
        wrenches: That the tools are to exert, along the axes of the world, zero for hands that
            are to exert none, (N, 6) [N, Nm].
        positions: Of the tools in the world, (N, 3) [m].
    """
    sizes = np.sqrt(np.square(wrenches).sum(axis=1))
    presses = np.flatnonzero(sizes > 0.0)
    projector = np.zeros((len(sizes), len(sizes)))
    if not len(presses):
        return projector
    asked = sizes[presses] / np.linalg.norm(sizes[presses])
    modes = _balanced(wrenches[presses] / sizes[presses, None], positions[presses])
    beside = asked - modes.T @ (modes @ asked)
    is_balanced = np.linalg.norm(beside) < ASKED
    mixed = modes.T @ modes if is_balanced else np.eye(len(presses))
    projector[np.ix_(presses, presses)] = mixed
    return projector


def _balanced(directions: Matrix, positions: Matrix) -> Matrix:
    """Return orthonormal mixes of forces that add up to nothing, (m, k).

    Args:
        directions: Of unit length, (k, 6).
        positions: (k, 3) [m].
    """
    levers = positions - positions.mean(axis=0)
    length = float(np.sqrt(np.square(levers).sum(axis=1)).mean())
    grasp = directions.T.copy()
    if length > 0.0:
        grasp[3:] = (directions[:, 3:] + np.cross(levers, directions[:, :3])).T / length
    _, values, rows = np.linalg.svd(grasp)
    kept = np.zeros(len(directions))
    kept[: len(values)] = values
    balanced: Matrix = rows[kept < BALANCED]
    return balanced
