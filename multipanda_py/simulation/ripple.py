# SPDX-License-Identifier: Apache-2.0
"""Torque that a gear adds as it turns."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from multipanda_py.config.sections import JointsConfig
from multipanda_py.simulation.drive import Stage
from multipanda_py.state import Vector


class Ripple(Stage):
    r"""Add a torque that is periodic in the motor's angle.

    .. math:: \tau_i \leftarrow \tau_i + a_i \sin(n_i \theta_i)

    A strain wave gear errs twice per turn of its wave generator (Tuttle and Seering, A
    nonlinear model of a harmonic drive gear transmission, 1996), so a ratio of 100 gives 200
    waves per turn of the joint. The angle is that of the motor in turns of the joint, without
    the part of it by which gravity twists the gear. It is looked at once per cycle: at 2 rad/s
    and 200 waves there are sixteen samples to a wave.

    Args:
        settings: Amplitudes and numbers of waves.
        qpos: Joint positions of the world, live.
        places: Where the motors' angles are in it.

    Thread: control.
    """

    def __init__(self, settings: JointsConfig, qpos: Vector, places: NDArray[np.int64]) -> None:
        self._amplitude, self._waves = np.array(settings.ripple), np.array(settings.ripple_waves)
        self._qpos, self._places = qpos, places
        self._angle = np.zeros(len(places))

    def execute(self, tau: Vector) -> None:
        """Add the ripple of the motors' present angles."""
        angle = self._qpos.take(self._places, None, self._angle, "clip")
        np.sin(np.remainder(np.multiply(self._waves, angle, angle), math.tau, angle), angle)
        tau += np.multiply(self._amplitude, angle, angle)
