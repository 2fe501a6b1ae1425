# SPDX-License-Identifier: Apache-2.0
"""External torque of an identified arm whose robot uses its data sheet."""

from __future__ import annotations

import numpy as np
import pytest
from robot_file import other_robot, write_robot

from multipanda_py.robots.robot import JointFrictionModel

pytestmark = [pytest.mark.sim, pytest.mark.inline]

STIFF = {"stiff": {"type": "joint_impedance"}}


@pytest.fixture
def arms(tmp_path):
    """Return a factory of arms with the body of a file, known to the controller or not."""

    def make(identified, friction=True, **more):
        path = tmp_path / "robot.yaml"
        write_robot(path, 3, friction=friction)
        known = {"identified": str(path)} if identified else {}
        return {"arm": {"perturbation": {"parameters": str(path), **more}, **known}}

    return make


def swing(cell, seconds=1.0):
    """Move all joints, and return the estimated external torques, (n, 7)."""
    q0, estimated = cell.state("arm").q.copy(), []
    for k in range(round(1000 * seconds)):
        cell.set_target("arm", q=q0 + 0.15 * (1.0 - np.cos(2.0 * np.pi * 1e-3 * k)))
        cell.step(1)
        estimated.append(cell.state("arm").tau_ext.copy())
    return np.array(estimated)


@pytest.mark.slow
def test_identified_free_motion_has_only_transient_external_torque(make_cell, arms):
    estimated = {}
    for identified in (False, True):
        cell = make_cell(arms(identified), STIFF, ["arm/stiff"])
        estimated[identified] = np.sqrt(np.mean(swing(cell)[200:] ** 2, axis=0))
    assert estimated[False][[0, 1, 3]].min() > 0.5
    assert (estimated[True] < 0.5 * estimated[False]).all(), estimated
    assert np.linalg.norm(estimated[True]) < 0.2 * np.linalg.norm(estimated[False])


def test_mass_unknown_to_robot_is_compensated_at_rest(make_cell, arms):
    for identified in (False, True):
        cell = make_cell(arms(identified, friction=False), STIFF, ["arm/stiff"])
        cell.step(1500)
        estimated = np.abs(cell.state("arm").tau_ext).max()
        assert estimated < 0.02 if identified else estimated > 0.5


def test_push_is_estimated_quickly_and_exactly(make_cell, arms):
    cell = make_cell(arms(True, friction=False), STIFF, ["arm/stiff"])
    cell.step(1500)
    push = np.array([3.0, -5.0, 2.0, 4.0, 1.0, -1.0, 0.5])
    cell.loop.backends[0].data.qfrc_applied[:7] = push
    cell.step(16)  # three time constants; the arm moves meanwhile, with other inertia
    np.testing.assert_allclose(cell.state("arm").tau_ext, push, rtol=0.1)
    cell.step(584)
    np.testing.assert_allclose(cell.state("arm").tau_ext, push, rtol=0.01)


def test_declared_load_changes_external_wrench(make_cell, arms):
    cell = make_cell(arms(True, friction=False), STIFF, ["arm/stiff"])
    cell.switch(deactivate=["arm/stiff"])
    cell.set_robot_settings("arm", load_mass=1.5, load_com=[0.0, 0.0, 0.1])
    cell.step(1500)  # the load is declared but absent: the arm rises against the robot's estimate
    force = cell.state("arm").wrench_ext_in_base[2]
    assert force == pytest.approx(1.5 * 9.81, rel=0.05)


def test_estimate_after_reset_is_reproducible(make_cell, arms):
    cell = make_cell(arms(True), STIFF, ["arm/stiff"])
    cell.step(50)
    saved, runs = cell.simulation.save(), []
    for _ in range(2):
        cell.simulation.reset(saved)
        runs.append(swing(cell, 0.2))
    np.testing.assert_array_equal(*runs)


@pytest.mark.parametrize("what", ["q", "dq", "tau_J", "tau_ext"])
def test_single_nan_measurement_corrupted_estimate_forever(make_cell, arms, what):
    cell = make_cell(arms(True), STIFF, ["arm/stiff"])
    cell.step(20)
    measuring = cell.loop.backends[0].drives[0].measuring
    measuring.append(lambda state: getattr(state, what).__setitem__(2, np.nan))
    cell.step(5)
    assert bool(cell.state("arm").fault) == (what in ("q", "dq"))  # it reads only these
    measuring.pop()
    cell.step(10)
    if cell.state("arm").fault:
        cell.recover(["arm"])
    cell.step(200)
    assert not cell.state("arm").fault
    assert np.isfinite(cell.state("arm").tau_ext).all()


def test_sensor_noise_is_lower_in_estimate(make_cell, tmp_path):
    path = tmp_path / "robot.yaml"
    write_robot(path, 3, friction=False)
    body = {"parameters": str(path)}
    arm = {"perturbation": body, "identified": str(path), "noise": {"tau": 0.1}}
    cell = make_cell({"arm": arm}, STIFF, ["arm/stiff"])
    cell.step(500)
    estimated = []
    for _ in range(400):
        cell.step(1)
        estimated.append(cell.state("arm").tau_ext.copy())
    assert np.std(estimated, axis=0).max() < 0.05


def test_friction_agrees_with_formula():
    robot = other_robot(1)
    dq = np.array([0.3, -0.3, 0.0, 0.01, -0.01, 1.0, -1.0])
    expected = [
        v * x + c * (1.0 / (1.0 + np.exp(-100.0 * x)) - 0.5) * 2.0 + o
        for x, v, c, o in zip(dq, robot.damping, robot.friction, robot.torque_offset)
    ]
    np.testing.assert_allclose(JointFrictionModel(robot).torque(dq), expected, rtol=1e-12)


@pytest.mark.parametrize("what", ["gap", "tau_J", "tau_ext"])
def test_estimate_jumped_to_robot_estimate_after_interruption(make_cell, arms, what):
    cell = make_cell(arms(True, friction=False), STIFF, ["arm/stiff"])
    measuring = cell.loop.backends[0].drives[0].measuring
    believed, clock = np.zeros(7), {"ahead": 1.0}

    def of_a_robot(state):
        state.robot_time[...] = cell.loop.backends[0].data.time + clock["ahead"]
        believed[:] = state.tau_ext

    measuring.append(of_a_robot)
    cell.step(1500)
    before = cell.state("arm").tau_ext.copy()
    assert np.abs(believed - before).max() > 0.5
    if what == "gap":
        clock["ahead"] += 0.3
    else:
        measuring.append(lambda state: getattr(state, what).__setitem__(2, np.nan))
        cell.step(5)
        measuring.pop()
    estimated = []
    for _ in range(200):
        cell.step(1)
        estimated.append(cell.state("arm").tau_ext.copy())
    assert np.abs(np.array(estimated) - before).max() < 0.03, estimated[0]
