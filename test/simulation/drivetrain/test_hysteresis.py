# SPDX-License-Identifier: Apache-2.0
"""Hysteresis of joints against closed forms of the Maxwell-slip model."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from multipanda_py.config.arm_section import PerturbationConfig
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.simulation.drivetrain.friction import Hysteresis
from multipanda_py.simulation.fci.scene import world_of
from multipanda_py.simulation.fci.world import Physics

pytestmark = pytest.mark.inline

MAXIMUM, DISTANCE = [0.5, 0.2], [0.02, 0.06]
STIFF = {"stiff": {"type": "joint_impedance"}}


def hysteresis():
    settings = PerturbationConfig(hysteresis=MAXIMUM, hysteresis_distance=DISTANCE)
    q = np.zeros(2)
    stage = Hysteresis(settings, q)
    stage.execute(np.zeros(2))
    return stage, q


def torques(stage, q, path):
    """Return the friction torques along a path of both joints."""
    found = []
    for angle in path:
        q[:], tau = angle, np.zeros(2)
        stage.execute(tau)
        found.append(-tau)
    return np.array(found)


def from_rest(x):
    """Return the torque of four springs that slip in sequence, (2,) [Nm]."""
    shares = np.array([1 / 16, 1 / 8, 1 / 4, 1 / 2])[:, None] * DISTANCE  # Slip distances [rad].
    return np.sign(x) * (np.minimum(abs(x) / shares, 1.0) * np.array(MAXIMUM) / 4.0).sum(axis=0)


def test_torque_grows_as_springs_slip_and_saturates():
    stage, q = hysteresis()
    path = np.linspace(0.0, 0.05, 101)
    found = torques(stage, q, path)
    np.testing.assert_allclose(found, [from_rest(x) for x in path], atol=1e-12)
    np.testing.assert_allclose(found[-1], MAXIMUM, atol=1e-12)
    np.testing.assert_allclose(
        from_rest(0.5 * DISTANCE[0])[0], MAXIMUM[0]
    )  # At half the distance.


def test_reversal_curve_is_initial_curve_at_twice_the_scale():
    """Masing rule in nested loops, from the last active turning point."""
    stage, q = hysteresis()
    rng = np.random.default_rng(3)
    turning_points = [0.04, -0.02, 0.015, -0.005, 0.004]  # Each loop is within the last.
    for angle in turning_points:
        before, begin = torques(stage, q, [q[0]])[0], q[0]
        for fraction in np.sort(rng.uniform(0.0, 1.0, 5)):
            x = fraction * (angle - begin)
            scale = 1.0 if angle == turning_points[0] else 2.0
            expected = before + scale * from_rest(x / scale)
            np.testing.assert_allclose(torques(stage, q, [begin + x])[0], expected, atol=1e-12)
        torques(stage, q, [angle])


def test_closed_inner_loop_leaves_no_memory():
    straight, with_loops = hysteresis(), hysteresis()
    big = [0.05, -0.01]
    expected = torques(*straight, [*big, 0.03])[-1]
    found = torques(*with_loops, [*big, 0.01, 0.002, 0.008, 0.004, 0.01, 0.0, 0.03])[-1]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert np.abs(torques(*hysteresis(), [0.03])[0] - expected).max() > 1e-3  # Memory of -0.01.


def test_loop_dissipates_energy_of_slipping_springs():
    r""":math:`E = 2 w \sum_i \max(2 A - s_i d, 0)` for a swing of amplitude A."""
    for amplitude in (0.004, 0.008, 0.03):
        stage, q = hysteresis()
        angles = amplitude * np.cos(np.linspace(0.0, 2.0 * np.pi, 2001))
        torques(stage, q, angles)  # The first loop starts at rest.
        found = torques(stage, q, angles)
        middle = 0.5 * (found[1:] + found[:-1])
        energy = (middle * np.diff(angles)[:, None]).sum(axis=0)
        slips = np.array([1 / 8, 1 / 4, 1 / 2, 1.0])[:, None] * DISTANCE
        expected = (
            2.0 * np.array(MAXIMUM) / 4.0 * np.maximum(2.0 * amplitude - slips, 0.0).sum(axis=0)
        )
        np.testing.assert_allclose(energy, expected, rtol=1e-3, atol=1e-9)


def test_hysteresis_depends_only_on_angles():
    slow, fast = hysteresis(), hysteresis()
    turning_points = [0.0, 0.03, -0.002, 0.011]
    for begin, end in pairwise(turning_points):
        torques(*slow, np.linspace(begin, end, 5000))
        torques(*slow, [end] * 1000)
    np.testing.assert_allclose(
        torques(*slow, turning_points[-1:])[0], torques(*fast, turning_points)[-1], atol=1e-10
    )


@pytest.mark.sim
def test_reversed_arm_keeps_reports_and_estimates_hysteresis_torque(make_cell):
    """A holding controllet supplies the friction torque of the last direction of motion."""
    largest, kept = [0.3] * 7, []
    spoiled = {"hysteresis": largest, "hysteresis_distance": [0.01] * 7}
    cell = make_cell({"arm": {"perturbation": spoiled}}, STIFF, ["arm/stiff"])
    start = cell.state("arm").q.copy()
    for offset in (0.1, 0.0):
        cell.set_target("arm", q=start + offset)
        cell.step(1500)
        state = cell.state("arm")
        assert np.abs(state.dq).max() < 1e-4
        kept.append((state.tau.copy(), state.tau_ext.copy(), state.tau_J.copy()))
        carried = cell.loop.backends[0].data.qfrc_gravcomp[:7]
        np.testing.assert_allclose(state.tau_J - carried, state.tau, atol=2e-3)
    rose, fell = kept
    np.testing.assert_allclose(rose[0], largest, atol=5e-3)
    np.testing.assert_allclose(rose[1], -rose[0], atol=5e-3)
    np.testing.assert_allclose(fell[0], np.negative(largest), atol=5e-3)


@pytest.mark.sim
def test_saved_state_continues_to_last_bit_and_reset_clears_memory(make_cell):
    arm = {"perturbation": {"hysteresis": [0.3] * 7}}
    cell = make_cell({"arm": arm}, STIFF, ["arm/stiff"])
    begin = cell.state("arm").q.copy()

    def swing():
        path = []
        for offset in (0.03, -0.02):
            cell.set_target("arm", q=begin + offset)
            for _ in range(60):
                cell.step(1)
                state = cell.state("arm")
                path.append(np.hstack([state.q, state.tau_J, state.tau_ext]))
        return np.array(path)

    cell.simulation.reset()
    first = swing()
    saved, on = cell.simulation.save(), []
    for _ in range(2):
        cell.simulation.reset(saved)
        on.append(swing())
    np.testing.assert_array_equal(*on)
    assert np.abs(on[0] - first).max() > 1e-3
    cell.simulation.reset()
    np.testing.assert_array_equal(swing(), first)


def test_simulated_robot_has_hysteresis():
    """After a motion in each direction, the estimate has the sign of that direction."""
    arm = {"perturbation": {"hysteresis": [0.3] * 7, "hysteresis_distance": [0.01] * 7}}
    physics = Physics(world_of(CellConfig.from_dict({"arms": {"arm": arm}}), ["arm"]))
    estimated = []
    for torque in (1.0, -1.0):
        for _ in range(150):
            physics.step(np.array([0.0] * 6 + [torque]), np.zeros(7), np.zeros(6), np.zeros(3))
        estimated.append(physics.tau_ext[6])
    assert estimated == pytest.approx([-0.3, 0.3], abs=0.02)


def test_invalid_hysteresis_is_rejected():
    for key, value in (("hysteresis", [-0.1] * 7), ("hysteresis_distance", [0.0] * 7)):
        with pytest.raises(ConfigurationError, match=rf"arms\.arm\.perturbation\.{key}"):
            CellConfig.from_dict({"arms": {"arm": {"perturbation": {key: value}}}})
    six = {"arm": {"perturbation": {"hysteresis": [0.1] * 6}}}
    with pytest.raises(ConfigurationError, match="one per joint"):
        CellConfig.from_dict({"arms": six})
