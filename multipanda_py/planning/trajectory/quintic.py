# SPDX-License-Identifier: Apache-2.0
"""Fifth-order polynomial between two joint states."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy import dot, multiply

from multipanda_py.state import Matrix, Vector

# Map from the states at both ends (p0, v0 T, a0 T^2, p1, v1 T, a1 T^2) to the coefficients of s^k
# in row k.
_FROM_ENDS = np.array(
    [
        [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 1.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.5, 0.0, 0.0, 0.0],
        [-10.0, -6.0, -1.5, 10.0, -4.0, 0.5],
        [15.0, 8.0, 1.5, -15.0, 7.0, -1.0],
        [-6.0, -3.0, -0.5, 6.0, -3.0, 0.5],
    ]
)
_DERIVED = np.diag([1.0, 2.0, 3.0, 4.0, 5.0], 1)
_RATE_FROM_ENDS = _DERIVED @ _FROM_ENDS
_CURVATURE_FROM_ENDS = _DERIVED @ _RATE_FROM_ENDS

PEAK_RATE = 1.875
"""Maximum speed of a quintic motion from rest to rest, relative to distance / duration."""
PEAK_CURVATURE = 5.7736
"""Maximum acceleration of a quintic motion from rest to rest, relative to distance /
duration^2."""
PEAK_CURVATURE_OF_RATE = 3.94
"""Maximum acceleration of a quintic motion that reduces a velocity to zero without displacement,
relative to velocity / duration."""

_FractionT = TypeVar("_FractionT", float, Vector)


def rest_to_rest(fraction: _FractionT) -> _FractionT:
    """Return the completed fraction of a motion from rest to rest.

    .. math:: 10 s^3 - 15 s^4 + 6 s^5

    Args:
        fraction: Fraction s of the duration of the motion, 0 to 1.
    """
    return fraction**3 * (10.0 - 15.0 * fraction + 6.0 * fraction * fraction)


class Quintic:
    r"""Fifth-order polynomial between two joint states, in each joint.

    .. math::
        q(t) = \sum_{k=0}^{5} c_k s^k, \qquad s = t / T

    q(t) is the position of a joint, and T the duration. A joint state has the positions,
    velocities and accelerations of n joints, (3 n,).

    Args:
        joints: Number of joints, n.

    Attributes:
        duration: Duration T [s].

    Thread: control.
    """

    __slots__ = (
        "_coefficients",
        "_ddq",
        "_dq",
        "_ends",
        "_joint_ends",
        "_powers",
        "_q",
        "_rows",
        "_scale",
        "_scale_ddq",
        "_scale_dq",
        "_write",
        "duration",
    )  # fmt: skip

    def __init__(self, joints: int) -> None:
        self.duration = 1.0
        self._joint_ends, self._rows = np.zeros((6, joints)), np.zeros((6, joints))
        self._ends = self._joint_ends.reshape(2, 3 * joints)
        self._scale = np.ones(3 * joints)
        _, self._scale_dq, self._scale_ddq = self._scale.reshape(3, joints)
        self._coefficients = np.zeros((6, 3 * joints))
        self._q, self._dq, self._ddq = np.split(self._coefficients, 3, axis=1)
        self._powers = np.ones(6)
        self._write: Any = self._powers.data

    def join(self, start: Vector, end: Vector, duration: float) -> None:
        """Compute the coefficients of the polynomial between two joint states.

        Args:
            start: Joint state at 0, (3 n,): q [rad], dq [rad/s], ddq [rad/s^2].
            end: Joint state at ``duration``, (3 n,).
            duration: Duration T > 0 [s].
        """
        self.duration = duration
        self._scale_dq[:] = duration
        self._scale_ddq[:] = duration * duration
        multiply(start, self._scale, self._ends[0])
        multiply(end, self._scale, self._ends[1])
        rows, ends = self._rows, self._joint_ends
        self._q[:] = dot(_FROM_ENDS, ends, rows)
        dot(_RATE_FROM_ENDS, ends, rows)
        multiply(rows, 1.0 / duration, self._dq)
        dot(_CURVATURE_FROM_ENDS, ends, rows)
        multiply(rows, 1.0 / duration**2, self._ddq)

    def sample(self, time: float, out: Vector) -> Vector:
        """Write the joint state at a time to ``out`` and return it, (3 n,).

        Args:
            time: Time within the duration [s].
            out: Memory for the joint state, (3 n,).
        """
        s = time / self.duration
        square = s * s
        write = self._write
        write[1], write[2], write[3] = s, square, square * s
        write[4], write[5] = square * square, square * square * s
        return dot(self._powers, self._coefficients, out)


def evaluate(rows: Matrix, times: Vector) -> Matrix:
    """Evaluate a path of quintic segments at many times.

    Args:
        rows: Trajectory points, (p, 1 + 3 n) with p >= 2: time [s], then joint state.
        times: Times from the first to the last point, (m,) [s].

    Returns:
        Positions, velocities and accelerations, (m, 3, n).

    Thread: any.
    """
    segment = np.clip(np.searchsorted(rows[:, 0], times, "right") - 1, 0, len(rows) - 2)
    powers = np.diff(rows[:, 0])[:, None] ** np.arange(3)
    states = rows[:, 1:].reshape(len(rows), 3, -1)
    ends = np.concatenate([states[:-1] * powers[..., None], states[1:] * powers[..., None]], 1)
    s = ((times - rows[segment, 0]) / powers[segment, 1])[:, None] ** np.arange(6)
    basis = np.stack([s @ m for m in (_FROM_ENDS, _RATE_FROM_ENDS, _CURVATURE_FROM_ENDS)], 1)
    result: Matrix = basis @ ends[segment]
    return result / powers[segment][..., None]
