# SPDX-License-Identifier: Apache-2.0
"""Springs of actuators against closed forms, finite differences and their energy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from multipanda_py import registry
from multipanda_py.simulation.actuators.compliant_actuators import Awas2, Bavs, Qbmove, Sea

pytestmark = pytest.mark.inline

NAMES = registry.built_in("actuators")
CASES = {
    "sea soft": (Sea, {"stiffness": 200.0}, 0.0, 200.0, 0.7997),
    "sea stiff": (Sea, {"stiffness": 400.0}, 0.0, 400.0, 0.7999),
    "awas2 soft": (Awas2, {}, 0.005, 2.743, 0.7799),
    "awas2 stiff": (Awas2, {}, 0.04, 3556.0, 0.8000),
    "bavs soft": (Bavs, {}, 0.001, 10.04, 0.7944),
    "bavs stiff": (Bavs, {}, 0.22, 45.6, 0.7988),
    "qbmove soft": (Qbmove, {}, 0.2, 0.106, 0.578),
    "qbmove stiff": (Qbmove, {}, 0.6, 3.784, 0.785),
}
"""Springs, preset, stiffness at the equilibrium [Nm/rad], and rest angle of 0.2 kg at 0.04 m with
an equilibrium of 0.8 rad [rad], computed by hand from the equations of the models."""
WEIGHT = 0.2 * 9.81 * 0.04


def actuator(name, n=1, **params):
    return registry.find("actuators", name)(n, params)


def one(value):
    return np.array([float(value)])


@pytest.mark.parametrize("case", CASES)
def test_presets_have_stiffness_and_sag_of_equations(case):
    kind, params, preset, stiffness, rest = CASES[case]
    springs = kind(1, params)
    theta = springs.references(one(0.8), one(preset))
    assert springs.link_stiffness(one(0.8), *theta)[0] == pytest.approx(stiffness, rel=3e-3)
    assert springs.elastic_torque(one(0.8), *theta).link[0] == pytest.approx(0.0, abs=1e-12)
    found = brentq(
        lambda q: springs.elastic_torque(one(q), *theta).link[0] - WEIGHT * math.sin(q), 0.3, 0.9
    )
    assert found == pytest.approx(rest, abs=6e-4 if kind is Qbmove else 6e-5)


@pytest.mark.parametrize("case", CASES)
def test_equilibrium_with_deflection_puts_joint_at_requested_angle(case):
    kind, params, preset, _, _ = CASES[case]
    springs = kind(1, params)
    torque = WEIGHT * math.sin(0.8)
    found = springs.equilibrium_for(0.8, torque, preset)
    theta = springs.references(found, one(preset))
    assert springs.elastic_torque(one(0.8), *theta).link[0] == pytest.approx(torque, rel=1e-9)
    assert springs.equilibrium_of(*theta) == pytest.approx(found)
    assert springs.preset_of(*theta) == pytest.approx(preset)


@given(st.floats(-0.6, 0.6), st.floats(0.0, 0.15), st.floats(1.0, 12.0), st.floats(0.001, 0.2))
def test_qbmove_with_equal_springs_has_closed_form(offset, preset, a, k):
    springs = Qbmove(1, {"a_1": a, "a_2": a, "k_1": k, "k_2": k})
    theta = springs.references(one(offset), one(preset))
    torque = 2 * k * math.cosh(a * preset) * math.sinh(a * offset)
    found = springs.elastic_torque(one(0.0), *theta)
    assert found.link[0] == pytest.approx(torque, rel=1e-9, abs=1e-12)
    rest = springs.link_stiffness(one(offset), *theta)[0]
    assert rest == pytest.approx(2 * a * k * math.cosh(a * preset), rel=1e-9)
    expected = np.clip(torque, -1.0, 1.0)
    eq = math.asinh(expected / (2 * k * math.cosh(a * preset))) / a
    assert springs.equilibrium_for(0.0, expected, preset)[0] == pytest.approx(eq, abs=1e-9)


def valid_angles(draw_q, draw_1, draw_2, springs):
    """Return angles of a joint and its motors with springs well within their limits."""
    limit = 0.999 * springs.of["max_deflection"][0] - 1e-5
    second = draw_q + limit * draw_2 if springs.is_antagonistic else 0.02 + 0.0199 * draw_2
    return one(draw_q), one(draw_q + limit * draw_1), one(second)


@pytest.mark.parametrize("name", NAMES)
@given(q=st.floats(-3, 3), first=st.floats(-1, 1), second=st.floats(-1, 1))
def test_torques_derive_from_energy_and_stiffness_from_torques(name, q, first, second):
    """Stiffness is the slope of the link torque, and the cross terms are symmetric."""
    springs = actuator(name)
    angles = np.concatenate(valid_angles(q, first, second, springs))
    step = np.array([1e-6, 1e-6, 1e-6 if springs.is_antagonistic else 1e-8])

    def torques(at):
        found = springs.elastic_torque(*at[:, None])
        return np.array([-found.link[0], found.motor_1[0], found.motor_2[0]])

    slopes = np.array(
        [(torques(angles + e) - torques(angles - e)) / (2 * e.max()) for e in np.diag(step)]
    )
    scale = 1e-5 * np.abs(slopes).max() + 1e-6
    np.testing.assert_allclose(slopes, slopes.T, atol=scale)
    found = springs.link_stiffness(*angles[:, None])[0]
    assert found == pytest.approx(slopes[0, 0], rel=1e-5, abs=1e-6 * (1 + abs(found)))


@pytest.mark.parametrize("name", NAMES)
def test_closed_path_of_joint_and_motors_takes_no_work(name):
    """Beyond the limits of deflection, the force on a pivot once did not follow the energy."""
    springs = actuator(name)
    phases = np.linspace(0.0, 2.0 * np.pi, 20_001)
    limit = springs.of["max_deflection"][0]
    q, first = 0.3 * np.sin(2 * phases), 1.4 * limit * np.sin(phases)
    second = 0.5 * limit * np.cos(phases + 0.4)
    if not springs.is_antagonistic:
        second = 0.02 + 0.015 * np.cos(phases + 0.4)
    middle = [0.5 * (x[1:] + x[:-1])[:, None] for x in (q, first, second)]
    assert springs.at_limit(*middle).any()
    assert not springs.at_limit(*middle).all()
    found = springs.elastic_torque(*middle)
    work = [
        np.sum(t[:, 0] * np.diff(x))
        for t, x in ((-found.link, q), (found.motor_1, first), (found.motor_2, second))
    ]
    moved = sum(
        np.sum(np.abs(t[:, 0] * np.diff(x)))
        for t, x in ((found.link, q), (found.motor_1, first), (found.motor_2, second))
    )
    assert abs(sum(work)) < 1e-6 * moved


@pytest.mark.parametrize("name", NAMES)
def test_torque_saturates_at_deflection_limit(name):
    springs = actuator(name, 2)
    limit = springs.of["max_deflection"]
    preset = np.zeros(2) if springs.is_antagonistic else np.full(2, 0.01 * (springs.n_motors == 2))
    at = springs.elastic_torque(np.zeros(2), *springs.references(limit, preset))
    q = np.zeros(2)
    theta = springs.references(np.array([0.9, 1.5]) * limit, preset)
    found = springs.elastic_torque(q, *theta).link
    assert found[0] < at.link[0] == pytest.approx(found[1])
    assert springs.at_limit(q, *theta).tolist() == [False, True]
    stiffness = springs.link_stiffness(q, *theta)
    assert stiffness[0] > 0.0
    assert stiffness[1] == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_vectorised_joints_and_rows_equal_single_evaluation(name):
    rng = np.random.default_rng(3)
    kind, n, rows = registry.find("actuators", name), 5, 4
    one_of = {"sea": "stiffness", "qbmove": "k_1", "bavs": "k", "awas2": "spring_stiffness"}[name]
    default = kind(1).of[one_of][0]
    values = default * rng.uniform(0.5, 2.0, n)
    springs = kind(n, {one_of: values})
    q = rng.uniform(-1, 1, (rows, n))
    theta_1 = q + rng.uniform(-0.2, 0.2, (rows, n))
    theta_2 = q + rng.uniform(-0.2, 0.2, (rows, n))
    if not springs.is_antagonistic:
        theta_2 = rng.uniform(0.0, 0.04, (rows, n))
    found = springs.elastic_torque(q, theta_1, theta_2)
    stiffness = springs.link_stiffness(q, theta_1, theta_2)
    damping = kind(n, {"damping": 0.3}).damping(theta_1, theta_2)
    assert np.broadcast_to(damping, (rows, n)).min() == pytest.approx(0.3)
    for row in range(rows):
        for joint in range(n):
            alone = kind(1, {one_of: float(values[joint])})
            at = [x[row, joint : joint + 1] for x in (q, theta_1, theta_2)]
            for many, single in zip(found, alone.elastic_torque(*at)):
                assert many[row, joint] == pytest.approx(single[0], rel=1e-12, abs=1e-15)
            assert stiffness[row, joint] == pytest.approx(alone.link_stiffness(*at)[0], rel=1e-12)


def test_pivot_stops_before_end_of_its_lever():
    """At the length of the lever, stiffness was infinite, and beyond it negative."""
    springs = Awas2(3)
    theta_1, q = np.full(3, 0.1), np.zeros(3)
    found = springs.elastic_torque(q, theta_1, np.array([-0.01, 0.04, 0.05]))
    assert found.link[0] == 0.0
    assert found.link[1] == found.link[2] > 0.0
    assert found.motor_2[1] > 0.0
    assert found.motor_2[2] == 0.0
    assert (springs.link_stiffness(q, theta_1, np.full(3, 1.0)) > 0.0).all()


def test_spring_between_motors_loads_motors_only():
    springs = Bavs(2, {"coupling": [0.0, 3.0]})
    assert springs.is_coupled
    assert not Bavs(2).is_coupled
    assert not Sea(2).is_coupled
    g = springs.coupling_torque(np.array([0.3, 0.3]), np.array([0.1, 0.1]))
    assert g == pytest.approx([0.0, 0.6])
    assert Sea(2).coupling_torque(np.ones(2), np.zeros(2)).tolist() == [0.0, 0.0]


def test_damping_grows_with_preset():
    springs = Qbmove(2, {"damping": 0.01, "damping_per_preset": [0.0, 0.5]})
    found = springs.damping(*springs.references(np.zeros(2), np.full(2, 0.4)))
    assert found == pytest.approx([0.01, 0.21])
    assert Sea(1, {"damping": 0.1}).damping(np.ones(1), np.ones(1)) == pytest.approx([0.1])


def test_nan_inputs_stay_nan():
    for name in NAMES:
        springs = actuator(name, 3)
        bad = np.array([0.0, math.nan, 0.1])
        fine = np.full(3, 0.01)
        for at in ((bad, fine, fine), (fine, bad, fine)):
            found = springs.elastic_torque(*at)
            assert np.isnan(found.link).tolist() == [False, True, False]
            assert np.isnan(found.motor_1).tolist() == [False, True, False]
            assert np.isnan(springs.link_stiffness(*at)).tolist() == [False, True, False]
        if springs.n_motors == 2:
            assert np.isnan(springs.elastic_torque(fine, fine, bad).link[1])


def test_torque_limit_is_that_of_springs():
    series, pair = Sea(1, {"stiffness": 200.0, "max_deflection": 0.4}), Qbmove(2)
    assert series.torque_limit(0.0)[0] == pytest.approx(80.0)
    maximum = 2.0 * 0.0019 * math.sinh(8.9992 * 0.8)
    np.testing.assert_allclose(pair.torque_limit([0.1, 0.5]), maximum)
    at_end = 10.0 * (0.05 / 0.015 * 0.02 / 0.03) ** 2 * math.sin(0.6)
    assert Awas2(1).torque_limit(0.02)[0] == pytest.approx(at_end)


def test_torque_limit_is_that_of_weaker_motor():
    """One spring is at the limit of its motor while the other is still below."""
    k, a, preset, maximum = 0.0019, 8.9992, 0.3, 0.5
    deflection = math.asinh(maximum / k) / a - preset
    other = k * math.sinh(a * (deflection - preset))
    found = Qbmove(2).torque_limit(preset, np.array([[maximum, 1e3], [1e3, maximum]]))
    np.testing.assert_allclose(found, maximum + other, rtol=1e-9)
    assert Sea(1).torque_limit(0.0, 3.0)[0] == pytest.approx(3.0)
    assert Qbmove(1).torque_limit(0.6, 0.1)[0] == 0.0  # The preset alone uses the whole torque.
    tight = Awas2(1).torque_limit(0.04, [[np.inf], [100.0]])[0]
    assert 0.0 < tight < Awas2(1).torque_limit(0.04)[0]
