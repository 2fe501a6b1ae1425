# SPDX-License-Identifier: Apache-2.0
"""Estimates of load and friction during motion, against the values of the simulation."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from monitor_rig import Rig

from multipanda_py.identification.monitor.load_and_friction import MAX_MASS, LoadAndFriction
from multipanda_py.robots.inertial import Load

pytestmark = [pytest.mark.sim, pytest.mark.inline]


@pytest.fixture(scope="module")
def run():
    """Oscillation of joints 4 and 5, with an undeclared load of 0.6 kg and friction."""
    wrong = {
        "payload": 0.6, "payload_com": [0.0, 0.0, 0.1],
        "coulomb": [0.3] * 7, "viscous": [0.2] * 7,
    }  # fmt: skip
    rig = Rig(1, seconds=6.0, perturbation=wrong)
    return rig, rig.monitored(1)


@pytest.mark.long
def test_oscillation_identifies_load_and_friction_of_moving_joints(run):
    rig, monitored = run
    update = LoadAndFriction(rig.arm)
    update.add(monitored)
    found = update.estimate
    assert found.mass == pytest.approx(0.6, abs=0.1)
    np.testing.assert_allclose(found.coulomb[3:5], 0.3, atol=0.05)
    np.testing.assert_allclose(found.viscous[3:5], 0.2, atol=0.06)
    assert found.deviations[0] < 0.1
    first, *others = update.lines()
    assert first.startswith("arm: carries 0.")
    assert len(others) == 3


def test_log_in_parts_gives_same_mass_as_whole_log(run):
    rig, monitored = run
    whole, pieces = LoadAndFriction(rig.arm), LoadAndFriction(rig.arm)
    whole.add(monitored)
    for begin in range(0, len(monitored.log), 500):
        part = slice(begin, begin + 500)
        cut = {
            name: getattr(monitored, name)[part]
            for name in ("q", "dq", "tau", "correction", "residuals", "evaluated")
        }
        pieces.add(replace(monitored, log=monitored.log.part(part), **cut))
    assert pieces.estimate.mass == pytest.approx(whole.estimate.mass, abs=0.02)


def test_samples_beside_fault_made_estimate_nan(run):
    """The twin has no velocity during a fault, so that the sample before has no acceleration."""
    rig, monitored = run
    dq, is_evaluated = monitored.dq.copy(), monitored.evaluated.copy()
    dq[3000:3010], is_evaluated[3000:4010] = np.nan, False
    update = LoadAndFriction(rig.arm)
    update.add(replace(monitored, dq=dq, evaluated=is_evaluated))
    assert update.estimate.mass == pytest.approx(0.6, abs=0.1)


def test_estimate_without_samples_is_zero_with_prior_deviation(run):
    rig, monitored = run
    update = LoadAndFriction(rig.arm)
    update.add(replace(monitored, evaluated=np.zeros(len(monitored.log), bool)))
    found = update.estimate
    assert (found.mass, found.com.tolist(), found.coulomb.max()) == (0.0, [0.0] * 3, 0.0)
    assert found.deviations[0] == pytest.approx(2.0)


def test_estimates_stay_within_bounds(run):
    """Corrections beyond any plausible load."""
    rig, monitored = run
    for size in (-40.0, 40.0, 4000.0):
        update = LoadAndFriction(rig.arm, Load(0.3, np.zeros(3), 1e-3 * np.eye(3)))
        update.add(replace(monitored, correction=monitored.correction + size))
        found = update.estimate
        assert -0.3 <= found.mass <= MAX_MASS
        assert (np.abs(found.com) <= 0.5).all()
        assert (found.viscous >= 0.0).all()
        assert (found.coulomb >= 0.0).all()
        assert (found.coulomb <= 0.3 * rig.arm.limits.torque + 1e-9).all()
        assert (np.abs(found.offset) <= 0.1 * rig.arm.limits.torque + 1e-9).all()


def test_small_estimate_was_printed_as_minus_zero(run):
    """The negated bound of the description is minus zero."""
    rig, monitored = run
    for size in (-1e-3, 0.0, 1e-3):
        update = LoadAndFriction(rig.arm)
        update.add(replace(monitored, correction=np.full_like(monitored.correction, size)))
        for line in update.lines():
            assert not re.search(r"-0\.0+\b", line), line
