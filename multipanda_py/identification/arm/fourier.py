# SPDX-License-Identifier: Apache-2.0
"""Periodic joint motions of a few harmonics that start and end smoothly at rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.state import Matrix, Vector


def column_names(joints: int) -> list[str]:
    """Return the column names of a motion file with n joints.

    They are ``time``, then positions ``q1`` to ``qn``, velocities ``dq1`` to ``dqn`` and
    accelerations ``ddq1`` to ``ddqn``.
    """
    return [
        "time",
        *(f"{quantity}{k + 1}" for quantity in ("q", "dq", "ddq") for k in range(joints)),
    ]


@dataclass(frozen=True, eq=False)
class FourierMotion:
    r"""Finite Fourier series per joint with smooth transitions from and to rest.

    .. math::
        q_j(s) = q_{0j} + \sum_{l=1}^{L} \frac{a_{jl}}{\omega l} \sin \omega l s
        - \frac{b_{jl}}{\omega l} \cos \omega l s.

    Symbols: position :math:`q_j` of joint j, number L of harmonics, angular frequency
    :math:`\omega` of the slowest harmonic, and path parameter s [s].

    The first and last :math:`T_r` seconds of the motion are ramps with :math:`\dot s = \tfrac12 (1
    - \cos(\pi t / T_r))`. Here t is the time from the start or until the end. Between the ramps,
    :math:`\dot s = 1`.

    Attributes:
        a: Velocity amplitudes of the sine terms, (n, L) [rad/s, m/s].
        b: Velocity amplitudes of the cosine terms, (n, L) [rad/s, m/s].
        q0: Joint positions at the centre of the motion, (n,) [rad, m].
        period: Period :math:`2 \pi / \omega` of the slowest harmonic [s].
        ramp: Duration :math:`T_r` of each ramp [s].
        periods: Number of periods.

    Source: Swevers et al., Optimal robot excitation and identification, IEEE T-RA 1997.
    """

    a: Matrix
    b: Matrix
    q0: Vector
    period: float = 20.0
    ramp: float = 1.0
    periods: int = 1

    @property
    def duration(self) -> float:
        """Duration from rest to rest [s]."""
        return self.periods * self.period + self.ramp

    def basis(self, time: Vector) -> tuple[Matrix, Matrix, Matrix]:
        """Return the matrices that map the 2 L coefficients (a, b) of a joint to its motion.

        Args:
            time: Times since the start of the motion, (N,) [s].

        Returns:
            Matrices for positions relative to ``q0``, velocities and accelerations, (N, 2 L) each.
        """
        s, rate, change = self._path_parameter(np.asarray(time, dtype=np.float64))
        w = 2.0 * np.pi / self.period * np.arange(1, self.a.shape[1] + 1)
        sine, cosine = np.sin(np.outer(s, w)), np.cos(np.outer(s, w))
        position = np.hstack([sine / w, -cosine / w])
        slope = np.hstack([cosine, sine])
        bend = np.hstack([-w * sine, w * cosine])
        rate, change = rate[:, None], change[:, None]
        return position, slope * rate, bend * rate**2 + slope * change

    def sample(self, time: Vector) -> tuple[Matrix, Matrix, Matrix]:
        """Return positions, velocities and accelerations, (N, n) each.

        Args:
            time: Times, (N,) [s]. The motion is at rest before 0 and after its duration.
        """
        coefficients = np.hstack([self.a, self.b]).T
        q, dq, ddq = (basis @ coefficients for basis in self.basis(time))
        return q + self.q0, dq, ddq

    def times(self, rate: float) -> Vector:
        """Return equidistant times from start to end at ``rate`` [Hz], both included, (N,) [s]."""
        times: Vector = np.linspace(0.0, self.duration, round(self.duration * rate) + 1)
        return times

    def points(self, point_count: int) -> Vector:
        """Return times at which to sample the motion for a quintic interpolation, (N,) [s].

        Args:
            point_count: Number of times N, 16 or more.
        """
        ends = np.linspace(0.0, self.ramp, max(3, point_count // 8) + 1)
        middle = np.linspace(self.ramp, self.duration - self.ramp, point_count - 2 * len(ends) + 2)
        points: Vector = np.concatenate([ends[:-1], middle, self.duration - ends[-2::-1]])
        return points

    def table(self, time: Vector) -> Matrix:
        """Return the motion at given times, (N, 1 + 3 n), see :func:`column_names`."""
        return np.column_stack([time, *self.sample(time)])

    def _path_parameter(self, time: Vector) -> tuple[Vector, Vector, Vector]:
        """Return the path parameter s, ds/dt and its second time derivative, (N,) each."""
        ramp, duration = self.ramp, self.duration
        time = np.clip(time, 0.0, duration)
        left = duration - time
        end = np.minimum(time, left)  # Time between the sample and the nearer end of the motion.
        inside = end >= ramp
        angle = np.pi * np.minimum(end, ramp) / ramp
        along = np.where(
            inside, end - ramp / 2.0, end / 2.0 - ramp / (2.0 * np.pi) * np.sin(angle)
        )
        rate = np.where(inside, 1.0, (1.0 - np.cos(angle)) / 2.0)
        change = np.where(inside, 0.0, np.pi / (2.0 * ramp) * np.sin(angle))
        late = left < time
        s = np.where(late, self.periods * self.period - along, along)
        return s, rate, np.where(late, -change, change)
