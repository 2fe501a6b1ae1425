# SPDX-License-Identifier: Apache-2.0
"""Tare of an external wrench: its mean at rest, within bounds."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.teleoperation import WrenchTare
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline


def test_mean_at_rest_is_subtracted_within_bounds():
    rng, arm = np.random.default_rng(1), StateMaker().states_at([np.zeros(7)])[0]
    tare = WrenchTare(PERIOD)
    tare.start(0.1, 5.0, 1.0)
    samples = rng.normal(size=(100, 6)) + [1.0, -2.0, 3.0, 0.0, 3.0, 4.0]
    for sample in samples:
        assert not tare.done
        assert not tare.update(sample, arm).any()
    mean = samples.mean(axis=0)
    mean[3:] /= np.linalg.norm(mean[3:])  # 5 Nm exceed the allowed 1 Nm
    assert tare.done
    assert np.allclose(tare.bias, mean)
    assert np.allclose(tare.update(np.arange(6.0), arm), np.arange(6.0) - mean)


def test_motion_restarts_mean():
    maker = StateMaker(2)
    still, moving = np.zeros((2, 7)), np.array([np.zeros(7), 0.2 * np.ones(7)])
    tare = WrenchTare(PERIOD)
    tare.start(0.01, 50.0, 50.0)
    for cycle in range(30):
        arms = maker.states_at(still, moving if cycle == 5 else still)
        tare.update(np.full(6, 100.0 if cycle < 6 else 1.0), *arms)
        assert tare.done == (cycle >= 15)
    assert np.allclose(tare.bias, 1.0)
    tare.start(0.0, 50.0, 50.0)
    assert np.allclose(tare.update(np.ones(6), *arms), 1.0)
