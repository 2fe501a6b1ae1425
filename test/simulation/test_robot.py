# SPDX-License-Identifier: Apache-2.0
"""Simulated arms: configured loads, and stops at thresholds as on a real arm."""

from __future__ import annotations

import re

import mujoco
import numpy as np
import pytest
from world import world

from multipanda_py.exceptions import SettingsRejected
from multipanda_py.pose import Pose
from multipanda_py.robots.franka import FR3_LIMITS

pytestmark = [pytest.mark.sim, pytest.mark.inline]

FLOAT = {"float": {"type": "gravity_compensation"}}
CART = {"cart": {"type": "cartesian_impedance"}}
SOFT = [3.0, 3.0, 3.0, 3.0, 2.0, 2.0, 2.0]
MASS, CENTRE = 0.9, [0.04, -0.03, 0.12]


def push_joint(cell, arm, joint, torque):
    model, data = world(cell)
    data.qfrc_applied[int(model.joint(f"{arm}_fr3_joint{joint}").dofadr[0])] = torque


def hang(cell, arm, mass=MASS, centre=CENTRE):
    """Apply the weight of a body at a point of the flange for one cycle."""
    model, data = world(cell)
    flange = model.body(f"{arm}_fr3_link8").id
    lever = data.xmat[flange].reshape(3, 3) @ centre
    offset = data.xpos[flange] + lever - data.xipos[flange]
    force = mass * model.opt.gravity
    data.xfrc_applied[flange] = [*force, *np.cross(offset, force)]


def step_loaded(cell, arm, cycles):
    for _ in range(cycles):
        hang(cell, arm)
        cell.step(1)


def kinds(cell):
    return [(event.event.name, event.arm) for event in cell.events()]


@pytest.mark.parametrize("reported", [True, False])
def test_load_floats_if_it_is_configured(make_cell, reported):
    cell = make_cell(controllets=FLOAT)
    cell.step(10)
    if reported:
        cell.set_robot_settings("left", load_mass=MASS, load_com=CENTRE)
    step_loaded(cell, "left", 50)
    cell.switch(["left/float"])
    before = cell.pose("left").position
    step_loaded(cell, "left", 500)
    drift = np.linalg.norm(cell.pose("left").position - before)
    estimated = np.abs(cell.state("left").tau_ext).max()
    if reported:
        assert drift < 5e-3
        assert estimated < 0.05
    else:
        assert drift > 0.05
        assert estimated > 2.0


def test_load_of_cell_file_applies_from_start(make_cell):
    cell = make_cell(arms={"left": {"franka": {"load_mass": MASS, "load_com": CENTRE}}})
    model, data = world(cell)
    bare = make_cell()
    for _ in range(20):
        hang(cell, "left")
        cell.step(1)
        bare.step(1)
    assert np.abs(cell.state("left").tau_ext).max() < 0.02
    # As on the real arm, sensors measure the weight; the Jacobian of MuJoCo gives its torque.
    flange = model.body("left_fr3_link8").id
    point = data.xpos[flange] + data.xmat[flange].reshape(3, 3) @ CENTRE
    jacobian = np.zeros((3, model.nv))
    mujoco.mj_jac(model, data, jacobian, None, point, flange)
    weight = jacobian[:, :7].T @ (-MASS * model.opt.gravity)
    state = cell.state("left")
    assert np.allclose(state.tau_J - state.tau - bare.state("left").tau_J, weight, atol=0.02)
    assert np.abs(weight).max() > 3.0


def test_configured_but_absent_load_is_estimated(make_cell):
    cell = make_cell()
    cell.step(10)
    cell.set_robot_settings("left", load_mass=1.0)
    cell.step(20)
    wrench = cell.state("left").wrench_ext_in_base
    assert np.allclose(wrench[:3], [0.0, 0.0, 9.81], atol=0.05)
    cell.set_robot_settings("left", load_mass=0.0)
    cell.step(500)
    assert np.abs(cell.state("left").tau_ext).max() < 1e-6


def test_joint_threshold_stops_one_arm_and_other_continues(make_cell):
    cell = make_cell(controllets=CART, active=["right/cart"])
    cell.step(10)
    cell.set_robot_settings("left", upper_torque_thresholds=SOFT)
    start = cell.pose("right")
    goal = start.position + [0.0, 0.0, 0.05]
    cell.set_target("right", Pose(goal, start.rotation))
    push_joint(cell, "left", 4, 2.9)
    cell.step(200)
    assert cell.state("left").fault == ""
    push_joint(cell, "left", 4, 3.5)
    cell.step(5)
    assert cell.state("left").fault == "arm_stopped"
    report = next(event for event in cell.events() if event.event.is_fault)
    assert re.match(
        r"reflex: arm left: joint_reflex .*upper_torque_thresholds.*joint 4: 3\.5 Nm.*\b3 Nm",
        report.text,
    )
    stopped = cell.state("left").q
    cell.step(2000)
    held = cell.state("left")
    assert np.allclose(held.tau, 0.0)
    # The controller of the robot holds 3.5 Nm with 2500 Nm/rad, within the limit of 1 ms steps.
    assert np.abs(held.q - stopped).max() < 4e-3
    assert np.abs(held.dq).max() < 1e-4
    assert np.linalg.norm(cell.pose("right").position - goal) < 5e-3
    assert cell.state("right").fault == ""
    assert "right/cart" in cell.active


def test_recovered_arm_holds_and_stops_again_under_push(make_cell):
    cell = make_cell()
    cell.step(10)
    cell.set_robot_settings("left", upper_torque_thresholds=SOFT)
    push_joint(cell, "left", 4, 3.5)
    cell.step(5)
    cell.events()
    assert cell.recover(["left"]) == ("left",)
    cell.step(5)
    assert kinds(cell) == [("RECOVERED", "left"), ("ARM_STOPPED", "left")]
    push_joint(cell, "left", 4, 0.0)
    cell.step(300)
    cell.recover(["left"])
    cell.step(1)
    here = cell.state("left").q
    taus = []
    for _ in range(500):
        cell.step(1)
        taus.append(cell.state("left").tau)
    state = cell.state("left")
    assert state.fault == ""
    assert state.owner == "left/hold"
    assert np.abs(np.diff(taus, axis=0)).max() <= 1.0 + 1e-9
    assert np.abs(state.q - here).max() < 5e-3


@pytest.mark.parametrize(
    ("rpy", "axis"), [([0.0, 0.0, 0.0], "z"), ([0.0, np.pi / 2, 0.0], "x")], ids=["ee", "rotated"]
)
def test_force_threshold_is_in_stiffness_frame(make_cell, rpy, axis):
    """The limit is 5 N along the tool axis and 50 N across it; 9 N along it stop the arm."""
    limits = [50.0, 50.0, 50.0, 50.0, 50.0, 50.0]
    limits["xyz".index(axis)] = 5.0
    cell = make_cell()
    cell.step(10)
    cell.set_robot_settings("left", upper_force_thresholds=limits, stiffness_rpy=rpy)
    model, data = world(cell)
    site, hand = data.site("left_fr3_hand_tcp"), model.body("left_fr3_hand").id
    for force, stops in (([9.0, 0.0, 0.0], False), ([0.0, 0.0, -9.0], True)):
        for _ in range(30):
            data.xfrc_applied[hand] = [*force, *np.cross(site.xpos - data.xipos[hand], force)]
            cell.step(1)
        assert bool(cell.state("left").fault) is stops
    text = cell.events()[-1].text
    assert re.search(rf"cartesian_reflex .*upper_force_thresholds.* {axis} .*9 N.*\b5 N", text)


def test_moment_threshold_is_about_stiffness_frame_origin(make_cell):
    """9 N at 0.3 m give 2.7 Nm, and no moment about the point of application."""
    cell = make_cell()
    cell.step(10)
    limits = [50.0, 50.0, 50.0, 2.0, 2.0, 2.0]
    model, data = world(cell)
    site, hand = data.site("left_fr3_hand_tcp"), model.body("left_fr3_hand").id

    def pull():
        for _ in range(30):
            force = np.array([9.0, 0.0, 0.0])
            data.xfrc_applied[hand] = [*force, *np.cross(site.xpos - data.xipos[hand], force)]
            cell.step(1)

    cell.set_robot_settings("left", upper_force_thresholds=limits)
    pull()
    assert cell.state("left").fault == ""
    cell.set_robot_settings("left", stiffness_position=[0.0, 0.0, -0.3])
    pull()
    text = cell.events()[-1].text
    assert "rotation about" in text
    assert "2.7 Nm, allowed 2 Nm" in text


def test_default_thresholds_are_ignored_in_simulation(make_cell):
    cell = make_cell()
    push_joint(cell, "left", 4, 60.0)
    cell.step(20)
    assert cell.state("left").fault == ""
    assert np.abs(cell.state("left").tau_ext).max() > 50.0


def test_thresholds_of_cell_file_reach_loop_process(make_cell, tmp_path):
    """The other process receives given thresholds as given and defaults as not given."""
    arms = {"left": {"franka": {"upper_torque_thresholds": SOFT}}}
    cell = make_cell(arms, placement="process", name=f"thresholds_{tmp_path.name}",
                     realtime={"priority": 0, "cpu": -2})  # fmt: skip
    cell.set_robot_settings(
        "left", load_mass=3.0, load_com=[0.1, 0.0, 0.1]
    )  # The load does not exist.
    cell.wait(lambda: cell.state("left").fault == "arm_stopped", 5.0, "reflex")
    assert "joint_reflex" in next(e.text for e in cell.events() if e.event.is_fault)


@pytest.mark.parametrize("seed", range(4))
def test_arm_controller_is_stable_at_maximum_stiffness(make_cell, seed):
    """A push causes no vibration in any configuration with the maximum stiffness."""
    rng = np.random.default_rng(seed)
    fraction = rng.uniform(0.2, 0.8, 7)
    q = FR3_LIMITS.lower + fraction * (FR3_LIMITS.upper - FR3_LIMITS.lower)
    arm = {"q_start": q.tolist(), "position": [0.0, 0.0, 2.0], "franka": {
        "joint_impedance": [14250.0] * 7, "upper_torque_thresholds": SOFT}}  # fmt: skip
    cell = make_cell({"left": arm})
    push_joint(cell, "left", 2, 8.0)
    cell.step(5)
    assert cell.state("left").fault
    cell.step(200)
    push_joint(cell, "left", 2, 0.0)
    cell.step(600)
    state = cell.state("left")
    assert np.abs(state.dq).max() < 1e-4
    assert np.abs(state.q - q).max() < 0.02


def test_settings_of_controlled_arm_are_rejected(make_cell):
    cell = make_cell(controllets=CART, active=["left/cart"])
    cell.step(5)
    with pytest.raises(SettingsRejected, match=r"\bleft/cart, .* left/cart\b"):
        cell.set_robot_settings("left", load_mass=0.5)
    assert cell.robot_settings("left").load_mass == 0.0


def test_settings_do_not_move_held_arm(make_cell):
    cell = make_cell()
    cell.step(10)
    before = cell.state("left").q
    cell.set_robot_settings("left", joint_impedance=[100.0] * 7, lower_force_thresholds=[1.0] * 6)
    cell.step(100)
    assert np.allclose(cell.state("left").q, before, rtol=0.0, atol=1e-12)
    assert cell.robot_settings("left").joint_impedance == [100.0] * 7


def test_mock_arm_carries_configured_load(make_cell):
    """A configured load appears in the measured torque and does not move the arm."""
    cell = make_cell(
        arms={"left": {"backend": "mock"}, "right": {"backend": "mock"}},
        controllets={"free": {"type": "misbehaving"}}, active=["right/free"],
    )  # fmt: skip
    cell.step(5)
    cell.set_robot_settings("left", load_mass=2.0, load_com=[0.1, 0.0, 0.1])
    weight = cell.state("left").tau_J
    cell.step(50)
    left, right = cell.state("left"), cell.state("right")
    assert np.abs(left.tau_J - right.tau_J).max() > 5.0
    assert np.abs(left.tau_J - weight).max() > 5.0
    assert np.abs(left.dq).max() < 1e-6


@pytest.mark.parametrize("delay", [0.0, 0.01, 0.05])
def test_stopped_arm_vibrated_with_state_delay(make_cell, delay):
    """The robot measures its joints without delay; only controllets see them late."""
    late = {"model": "fr3", "perturbation": {"state_delay": delay}}
    cell = make_cell({"left": late}, {"push": {"type": "misbehaving"}}, ["left/push"])
    robot = cell.loop.backends[0].robots[0]
    cell.set_parameters("left/push", {"torque": 1.0})
    cell.step(200)
    moving = world(cell)[1].qvel[:7]
    assert np.abs(moving).max() > 0.3
    robot.stop()
    robot.fault = "reflex: made up"
    cell.step(400)
    assert np.abs(moving).max() < 1e-3
    assert cell.state("left").fault == "arm_stopped"
