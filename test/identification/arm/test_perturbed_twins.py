# SPDX-License-Identifier: Apache-2.0
"""Identification of perturbed twins in a complete cell, as a short benchmark."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from long_form import LONG

from multipanda_py.config.perturbation import TYPICAL_ERRORS_FILE, PerturbationSpec
from multipanda_py.identification.arm.identify import Options

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
benchmark = import_module("identification")

pytestmark = [pytest.mark.sim, pytest.mark.inline]
PLANTS = range(1, 11) if LONG else (3,)


@pytest.fixture(scope="module")
def points():
    return benchmark.excitation()


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", PLANTS)
def test_perturbed_plant_is_identified_near_minimum_error(points, seed):
    config = benchmark.plant(PerturbationSpec.from_yaml(TYPICAL_ERRORS_FILE), seed, points)
    found = benchmark.figures(config, benchmark.measured(config, points), Options())
    assert (found.ratio < 1.15).all()
    assert (found.before > 3.0).all()
    assert found.mass < 0.01 < found.before_mass
    assert found.bodies
    assert found.seconds < 15.0
    assert np.isfinite(found.floor).all()
