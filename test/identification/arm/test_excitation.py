# SPDX-License-Identifier: Apache-2.0
"""Excitation trajectories: limits, clearances and condition numbers."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from multipanda_py import registry
from multipanda_py.apps.cli import main
from multipanda_py.apps.commands import excite
from multipanda_py.identification.arm.excitation import (
    MIN_SELF_DISTANCE,
    Clearance,
    Excitation,
    ExcitationOptions,
)
from multipanda_py.identification.arm.fourier import FourierMotion
from multipanda_py.robots import ArmDescription

pytestmark = pytest.mark.inline

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
benchmark = import_module("excitation")
ARM = ArmDescription("arm", "fr3")


def test_velocities_and_accelerations_are_derivatives_also_in_ramps():
    rng = np.random.default_rng(0)
    motion = FourierMotion(*rng.normal(size=(2, 3, 5)), np.ones(3), period=6.0, ramp=0.7)
    time = np.linspace(0.05, motion.duration - 0.05, 500)
    step = 1e-5
    before, here, after = (motion.sample(time + shift) for shift in (-step, 0.0, step))
    np.testing.assert_allclose((after[0] - before[0]) / (2 * step), here[1], atol=1e-6)
    np.testing.assert_allclose((after[1] - before[1]) / (2 * step), here[2], atol=1e-4)


def test_motion_starts_and_ends_at_rest_in_same_configuration():
    rng = np.random.default_rng(1)
    motion = FourierMotion(*rng.normal(size=(2, 7, 5)), np.zeros(7), periods=2)
    q, dq, ddq = motion.sample(np.array([0.0, motion.duration]))
    np.testing.assert_allclose(q[0], q[1], atol=1e-12)
    np.testing.assert_allclose([dq, ddq], 0.0, atol=1e-12)


@pytest.fixture(scope="module")
def search():
    expected = ExcitationOptions(evaluations=200, seed=3)
    return Excitation(ARM, expected, Clearance(ARM))


@pytest.fixture(scope="module")
def found(search):
    return search.search()


@pytest.mark.long
def test_motion_keeps_limits_and_clearances(search, found):
    q, dq, ddq = found.sample(found.times(100.0))
    limits = ARM.limits
    assert (q > limits.lower + 0.05).all()
    assert (q < limits.upper - 0.05).all()
    assert (np.abs(dq) < limits.velocity).all()
    assert (np.abs(ddq) < limits.acceleration).all()
    assert Clearance(ARM).violation(q[::10]) <= 0.002


def test_self_collision_avoidance_stopped_excitation():
    """Links came within 1 cm, but a controllet stops the arm at 1.5 to 2 cm."""
    assert registry.find("features", "collision_avoidance").Params().distance <= MIN_SELF_DISTANCE


def test_excitation_has_lower_condition_number_than_random_motions(search, found):
    rng = np.random.default_rng(9)
    others = [search.condition(search.motion(search.random(rng))) for _ in range(10)]
    assert search.condition(found) < min(others)


def test_same_seed_gives_same_motion():
    expected = ExcitationOptions(evaluations=30, seed=4)
    one, other = (Excitation(ARM, expected).search() for _ in range(2))
    np.testing.assert_array_equal(one.a, other.a)


def test_two_mountings_identify_45_parameters():
    gravities = [None, np.array([9.81, 0.0, 0.0])]
    assert Excitation(ARM, ExcitationOptions(evaluations=30), None, gravities).parameters == 45


def test_clearance_includes_holding_arm():
    other = ArmDescription("other", "fr3", position_base_in_world=np.array([0.0, 0.5, 0.0]))
    alone, beside = Clearance(ARM), Clearance(ARM, others=[other])
    rng = np.random.default_rng(0)
    configurations_near_ready = ARM.robot.ready + 0.5 * rng.normal(size=(40, 7))
    violations = [
        (beside.violation(q[None]), alone.violation(q[None])) for q in configurations_near_ready
    ]
    assert all(more >= less for more, less in violations)
    assert any(more > 0.0 > less for more, less in violations)


@pytest.mark.long
@pytest.mark.parametrize("case", ["for three mountings", "next to an arm that holds"])
def test_benchmark_search_has_lower_condition_number_than_random_motions(case):
    search = benchmark.searches(ExcitationOptions(evaluations=200, seed=1))[case]
    rng = np.random.default_rng(9)
    others = [search.condition(search.motion(search.random(rng))) for _ in range(10)]
    assert search.condition(search.search()) < min(others)


class NarrowBetween:
    """Clearance that is violated only at a finer sampling than that of the search."""

    def violation(self, configurations):
        return np.ptp(configurations, axis=0).max() - 2.0 if len(configurations) > 300 else -1.0


def test_reduced_result_of_search_was_not_explained(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(excite, "Clearance", lambda arm, margin: NarrowBetween())
    target = tmp_path / "motion.csv"
    assert main(["excite", "fr3", "-o", str(target), "--evaluations", "201"]) == 0
    reported = capsys.readouterr()
    searched = float(reported.err.partition("200/201: condition ")[2].split()[0])
    found = float(reported.out.split()[-1])
    assert found > searched
    assert f"excite: the condition number was {searched:.1f} " in reported.err
    assert np.ptp(np.loadtxt(target, delimiter=",", skiprows=1)[:, 1:8], axis=0).max() < 2.01
