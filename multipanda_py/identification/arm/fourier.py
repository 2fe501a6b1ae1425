# SPDX-License-Identifier: Apache-2.0
"""Periodic joint motions of a few harmonics, with soft ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.state import Matrix, Vector


def column_names(joints: int) -> list[str]:
    """Return what the columns of a motion are called in a file, (1 + 3 j)."""
    return ["time", *(f"{what}{k + 1}" for what in ("q", "dq", "ddq") for k in range(joints))]


@dataclass(frozen=True, eq=False)
class FourierMotion:
    r"""A finite Fourier series per joint, which is entered and left softly.

    .. math::
        q_j(s) = q_{0j} + \sum_{l=1}^{L} \frac{a_{jl}}{\omega l} \sin \omega l s
        - \frac{b_{jl}}{\omega l} \cos \omega l s

    Its parameter goes with the time but for the ends, where
    :math:`\dot s = \tfrac12 (1 - \cos(\pi t / T_r))` raises it from rest and lets it come to rest:
    the path is that of the series, and velocities and accelerations are smaller there.

    Attributes:
        a: Velocities, (n, L) [rad/s, m/s].
        b: Velocities, (n, L) [rad/s, m/s].
        q0: Middle, (n,) [rad, m].
        period: :math:`2 \pi / \omega` [s].
        ramp: :math:`T_r` [s].
        periods: How often it goes round.

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
        """From rest to rest [s]."""
        return self.periods * self.period + self.ramp

    def basis(self, time: Vector) -> tuple[Matrix, Matrix, Matrix]:
        """Return what coefficients (a, b) add to positions, velocities and accelerations.

        Args:
            time: From rest, (N,) [s].

        Returns:
            Three matrices (N, 2 L).
        """
        s, rate, change = self._parameter(np.asarray(time, dtype=np.float64))
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
            time: From rest, (N,) [s]; at rest before 0 and after the duration.
        """
        coefficients = np.hstack([self.a, self.b]).T
        q, dq, ddq = (basis @ coefficients for basis in self.basis(time))
        return q + self.q0, dq, ddq

    def times(self, rate: float) -> Vector:
        """Return even times from rest to rest, both included."""
        found: Vector = np.linspace(0.0, self.duration, round(self.duration * rate) + 1)
        return found

    def points(self, most: int) -> Vector:
        """Return times from rest to rest, both included, for a trajectory of few points.

        A polynomial of fifth order through positions, velocities and accelerations is the motion
        between them; the soft ends have a quarter of the points.

        Args:
            most: How many there are, 16 or more.
        """
        ends = np.linspace(0.0, self.ramp, max(3, most // 8) + 1)
        middle = np.linspace(self.ramp, self.duration - self.ramp, most - 2 * len(ends) + 2)
        found: Vector = np.concatenate([ends[:-1], middle, self.duration - ends[-2::-1]])
        return found

    def table(self, time: Vector) -> Matrix:
        """Return the columns of :func:`column_names` at some times, (N, 1 + 3 n)."""
        return np.column_stack([time, *self.sample(time)])

    def _parameter(self, time: Vector) -> tuple[Vector, Vector, Vector]:
        """Return s, its rate and the rate of that, (N,) each."""
        ramp, duration = self.ramp, self.duration
        time = np.clip(time, 0.0, duration)
        left = duration - time
        end = np.minimum(time, left)  # from the nearer end
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
