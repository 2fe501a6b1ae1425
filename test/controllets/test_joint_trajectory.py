# SPDX-License-Identifier: Apache-2.0
"""Trajectories and configurations: the controllet's equation, and its effect on an arm."""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest
from configurations import READY
from dense_impedance import impedance

from multipanda_py.control.impedance.modal_damping import BANDWIDTH, STIFFNESS_SCALE
from multipanda_py.control.reference.trajectory_monitor import CONTACT, MOTIONS, MotionState
from multipanda_py.controllets.joint_trajectory import JointTrajectory, JointTrajectoryParams
from multipanda_py.exceptions import TargetRejected
from multipanda_py.planning.trajectory.quintic import evaluate
from multipanda_py.planning.trajectory.trajectory import complete
from multipanda_py.realtime.events import Event
from multipanda_py.robots.franka import LIMITS
from multipanda_py.targets import TrajectoryTarget
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

LIMIT = LIMITS["fr3"]
STEP = np.array([0.9, 0.5, -0.8, 0.6, 0.9, -0.8, 1.2])
LAWS = {"jt": {"type": "joint_trajectory"}, "joint": {"type": "joint_impedance"}}
ARM = {"left": {}}
MAXIMUM = [1000.0, 1000.0, 1000.0, 1000.0, 330.0, 165.0, 66.0]
LIGHT = {"left": {"q_start": [0.0, -0.3, 0.0, -2.8, 0.0, 2.6, 0.8]}}


def write(target, rows):
    target.points[0][: len(rows)] = rows
    target.count[0][0] = len(rows)


@pytest.mark.parametrize("feedforward", [True, False])
def test_torque_matches_dense_equation(feedforward):
    rng = np.random.default_rng(1)
    maker = StateMaker()
    for _ in range(10):
        params = JointTrajectoryParams(
            rng.uniform(0, 800, 7), rng.uniform(0.1, 2, 7), feedforward=feedforward,
            path_tolerance=np.zeros(7),
        )  # fmt: skip
        law, target = JointTrajectory(maker.context, params), TrajectoryTarget(1)
        (s,) = maker.random(rng)
        law.on_activate([s], target)
        rows = rng.normal(size=(3, 22)) * 0.5
        rows[:, 0] = [0.4, 1.0, 1.7]
        path = np.vstack([[0.0, *s.q, *np.zeros(14)], rows])
        write(target, rows)
        law.on_target("trajectory", 0, target)
        for cycle in range(1, 1600):
            if cycle % 200:
                law.motions[0].advance(PERIOD)
                continue
            (s,) = maker.random(rng, speed=1.0)
            law.update([s], target, PERIOD)
            q, dq, ddq = evaluate(path, np.array([cycle * PERIOD]))[0]
            k, d = impedance(
                s.mass_matrix, np.diag(params.stiffness), np.diag(params.damping_ratio)
            )
            expected = k @ (q - s.q) + d @ (dq - s.dq) + feedforward * (s.mass_matrix @ ddq)
            assert np.allclose(law.tau[0], expected, rtol=1e-9, atol=1e-8)


def package_memory():
    """Return the traced bytes of lines of the package; other threads have their own."""
    ours = tracemalloc.Filter(True, "*/multipanda_py/*")
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([ours]).traces)


def test_targets_leak_no_memory():
    rng = np.random.default_rng(2)
    maker = StateMaker()
    law, target = JointTrajectory(maker.context, JointTrajectoryParams()), TrajectoryTarget(1)
    (s,) = maker.states_at([READY])
    law.on_activate([s], target)
    rows = complete(np.arange(128) * 0.1, np.cumsum(rng.normal(size=(128, 7)) * 0.01, axis=0))
    write(target, rows)

    def arrive(number):
        target.q[0][:] = READY + 0.001 * number
        law.on_target("trajectory" if number % 2 else "joint", 0, target)
        law.update([s], target, PERIOD)

    arrive(0), arrive(1)
    tracemalloc.start()
    try:
        before = package_memory()
        for number in range(300):
            arrive(number)
        grown = package_memory() - before
    finally:
        tracemalloc.stop()
    assert grown < 10_000


def motion_state(cell):
    return MotionState(int(cell.report("left/jt")["state"]))


def running(make_cell, **params):
    laws = {**LAWS, "jt": {"type": "joint_trajectory", "params": params}}
    cell = make_cell(ARM, laws, active=["left/jt"])
    cell.step(5)
    assert motion_state(cell) is MotionState.IDLE
    return cell, cell.state("left").q


@pytest.mark.sim
@pytest.mark.parametrize("speed", [0.3, 0.7])
def test_configuration_is_reached_within_limits(make_cell, speed):
    cell, q = running(make_cell, velocity_scaling=speed)
    start, _ = cell.records()
    cell.set_target("left", q=q + STEP)
    cell.step(1)
    cell.wait(lambda: motion_state(cell) is not MotionState.RUNNING, 4.0, "end")
    _, rows = cell.records(start)
    assert motion_state(cell) is MotionState.DONE
    assert cell.report("left/jt")["max error [rad]"] < 2e-3
    assert np.abs(cell.state("left").q - q - STEP).max() < 1e-3
    rates = rows["arms"]["dq"][:, 0]
    assert (np.abs(rates) <= 1.01 * speed * LIMIT.velocity).all()
    assert np.abs(rates).max() > 0.3 * speed
    acceleration = np.abs(np.diff(rates, axis=0)) / PERIOD
    assert (acceleration <= 1.05 * speed**2 * LIMIT.acceleration + 0.05).all()
    assert cell.events() == []


@pytest.mark.sim
def test_only_trajectory_controllets_accept_distant_configurations(make_cell):
    cell = make_cell(ARM, LAWS, active=["left/joint"])
    q = cell.state("left").q
    with pytest.raises(TargetRejected, match=r"gate\.joint"):
        cell.set_target("left", q=q + STEP)
    cell.switch(["left/jt"], strictness="force_auto")
    cell.set_target("left", q=q + STEP)
    with pytest.raises(TargetRejected, match="outside"):
        cell.set_target("left", q=q + 3.0)


@pytest.mark.sim
def test_trajectory_overrode_later_configuration_of_same_cycle(make_cell):
    """The order did not matter, and both were counted as motions."""
    cell, q = running(make_cell)
    cell.set_target("left", q=q - 0.2 * STEP)
    cell.follow_trajectory("left", complete([0.0, 0.5], [q, q + 0.1 * STEP]))
    cell.step(700)
    assert np.abs(cell.state("left").q - q - 0.1 * STEP).max() < 2e-3
    assert cell.report("left/jt").value(MOTIONS) == 1
    cell.follow_trajectory("left", complete([0.0, 0.5], [q + 0.1 * STEP, q]))
    cell.set_target("left", q=q - 0.2 * STEP)  # the newer target
    cell.step(3000)
    assert np.abs(cell.state("left").q - q + 0.2 * STEP).max() < 2e-3


@pytest.mark.sim
def test_trajectory_is_tracked_in_space_and_time(make_cell):
    cell, q = running(make_cell)
    times = np.linspace(0.0, 3.0, 31)
    swing = (1.0 - np.cos(2 * np.pi * times / 3.0))[:, None] / 2
    rows = complete(times, q + 0.5 * STEP * swing)
    start, _ = cell.records()
    cell.follow_trajectory("left", rows)
    cell.step(3100)
    _, record = cell.records(start)
    assert motion_state(cell) is MotionState.DONE
    report = cell.report("left/jt")
    assert report["duration [s]"] == 3.0
    assert report["max error [rad]"] < 1e-3
    assert report["motions"] == 1
    path = evaluate(rows, np.minimum(PERIOD * np.arange(1, 2900), 3.0))[:, 0]
    assert np.abs(record["arms"]["q"][1:2900, 0] - path).max() < 2e-3


@pytest.mark.sim
def test_path_without_feedforward_has_larger_error(make_cell):
    errors = []
    for feedforward in (True, False):
        cell, q = running(make_cell, feedforward=feedforward)
        cell.follow_trajectory("left", complete([1.0], [q + 0.3 * STEP]))
        cell.step(1200)
        errors.append(cell.report("left/jt")["max error [rad]"])
    assert errors[0] < 0.2 * errors[1]


@pytest.mark.sim
def test_stop_in_motion_is_smooth(make_cell):
    cell, q = running(make_cell, velocity_scaling=1.0)
    cell.set_target("left", q=q + STEP)
    cell.step(500)
    start, _ = cell.records()
    moving = np.abs(cell.state("left").dq).max()
    assert moving > 0.5
    cell.follow_trajectory("left", [])
    cell.step(600)
    _, rows = cell.records(start)
    rates = rows["arms"]["dq"][:, 0]
    assert np.abs(rates[-1]).max() < 1e-2
    assert np.abs(rates).max() < 1.2 * moving
    assert (np.abs(np.diff(rates, axis=0)) / PERIOD < 1.1 * LIMIT.acceleration).all()
    assert motion_state(cell) is MotionState.IDLE
    assert cell.events() == []


def push(cell, force):
    sim = cell.simulation
    sim.data.xfrc_applied[sim.model.body("left_fr3_hand").id][:3] = force


@pytest.mark.sim
def test_blocked_arm_yields(make_cell):
    cell, q = running(make_cell, path_tolerance=[0.04] * 7, contact_torque=[0.0] * 7)
    cell.follow_trajectory("left", complete([2.0], [q + 0.5 * STEP]))
    cell.step(400)
    push(cell, [0.0, -60.0, -60.0])
    cell.wait(lambda: motion_state(cell) is not MotionState.RUNNING, 2.0, "end")
    assert motion_state(cell) is MotionState.PATH_TOLERANCE_VIOLATED
    start, _ = cell.records()
    here = cell.state("left").q
    push(cell, [0.0, 0.0, 0.0])
    cell.step(1500)
    _, rows = cell.records(start)
    assert np.abs(np.diff(rows["arms"]["tau"][:, 0], axis=0)).max() <= 1.0 + 1e-9
    assert np.abs(rows["arms"]["dq"][-1, 0]).max() < 1e-2
    assert np.abs(cell.state("left").q - here).max() < 0.1
    assert motion_state(cell) is MotionState.PATH_TOLERANCE_VIOLATED
    (event,) = cell.events()
    assert re.match(r"left: .*\bjoint \d.*\bpath\b", event.text)


@pytest.mark.sim
def test_arm_yields_after_contact_with_table(make_cell):
    table = {"shape": "box", "size": [0.3, 0.3, 0.02], "position": [0.4, 0.0, 0.4]}
    # No feature keeps the arm off this table, and no contact limit stops it.
    laws = {"jt": {"type": "joint_trajectory", "features": ["coriolis"],
                   "params": {"path_tolerance": [0.05] * 7,
                              "contact_torque": [0.0] * 7}}}  # fmt: skip
    cell = make_cell(ARM, laws, active=["left/jt"], objects={"table": table})
    cell.step(5)
    down = np.array([0.0, 0.4, 0.0, 0.0, 0.0, 0.0, 0.0])
    cell.follow_trajectory("left", complete([2.0], [cell.state("left").q + down]))
    peak_torque = 0.0
    for _ in range(30):
        cell.step(100)
        peak_torque = max(peak_torque, np.abs(cell.state("left").tau_ext).max())
    assert motion_state(cell) is MotionState.PATH_TOLERANCE_VIOLATED
    assert peak_torque > 20.0
    assert np.abs(cell.state("left").tau_ext).max() < 0.25 * peak_torque
    assert np.abs(cell.state("left").dq).max() < 1e-2


LIBFRANKA = [20.0, 20.0, 18.0, 18.0, 16.0, 14.0, 12.0]  # thresholds of its examples [Nm]


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize("sense", ["torque", "force"])
def test_motion_pressed_on_table_until_path_tolerance(make_cell, sense):
    """In contact it yields below a robot's own thresholds, and may then move away."""
    table = {"shape": "box", "size": [0.3, 0.3, 0.02], "position": [0.4, 0.0, 0.4]}
    params = {} if sense == "torque" else {"contact_torque": [0.0] * 7, "contact_force": 25.0}
    laws = {"jt": {"type": "joint_trajectory", "params": params, "features": ["coriolis"]}}
    cell = make_cell(ARM, laws, active=["left/jt"], objects={"table": table})
    cell.step(5)
    down = np.array([0.0, 0.4, 0.0, 0.0, 0.0, 0.0, 0.0])
    q = cell.state("left").q
    cell.follow_trajectory("left", complete([6.0], [q + down]))
    start, _ = cell.records()
    cell.step(5)
    cell.wait(lambda: motion_state(cell) is not MotionState.RUNNING, 7.0, "end")
    assert motion_state(cell) is MotionState.CONTACT
    report = cell.report("left/jt")
    if sense == "torque":
        joint = int(report["contact joint"]) - 1
        maximum = JointTrajectoryParams().contact_torque
        assert abs(report["contact [Nm, N]"]) > maximum[joint]
    else:
        assert report["contact joint"] == 0.0
        assert report["contact [Nm, N]"] > 25.0
    cell.step(1500)
    _, rows = cell.records(start)
    estimated = np.abs(rows["arms"]["tau_ext"][:, 0])
    assert estimated.max() > 5.0
    assert (estimated.max(axis=0) < np.array(LIBFRANKA)).all()
    assert estimated[-1].max() < 0.5 * estimated.max()
    assert np.abs(rows["arms"]["dq"][-1, 0]).max() < 1e-2
    cell.set_target("left", q=q)
    cell.step(5)
    cell.wait(lambda: motion_state(cell) is not MotionState.RUNNING, 4.0, "end")
    assert motion_state(cell) is MotionState.DONE


@pytest.mark.sim
def test_motion_away_from_contact_continues_and_motion_against_it_stops(make_cell):
    cell, q = running(make_cell, path_tolerance=[0.0] * 7)
    push(cell, [0.0, 60.0, 0.0])
    cell.step(500)
    q = cell.state("left").q
    assert np.abs(cell.state("left").tau_ext)[0] > 16.0
    around = np.array([0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    cell.follow_trajectory("left", complete([1.0], [q + around]))
    cell.step(900)
    assert motion_state(cell) is MotionState.RUNNING
    cell.step(400)
    cell.follow_trajectory("left", complete([1.0], [q]))
    cell.step(600)
    assert motion_state(cell) is MotionState.CONTACT
    joint = int(cell.report("left/jt")["contact joint"])
    assert joint in (1, 3)
    (event,) = cell.events()
    assert re.search(rf"contact: .*\bjoint {joint} ", event.text)


@pytest.mark.sim
def test_missed_goal_depends_on_goal_tolerance(make_cell):
    cell, q = running(make_cell, goal_tolerance=[1e-3] * 7, goal_time=0.1)
    push(cell, [0.0, 0.0, -20.0])
    for requested, expected in (
        ({}, MotionState.GOAL_TOLERANCE_VIOLATED),
        ({"goal_tolerance": 0.3}, MotionState.DONE),
        ({"goal_tolerance": -1.0}, MotionState.DONE),
    ):
        cell.follow_trajectory("left", complete([0.5], [q]), **requested)
        cell.step(450)
        assert motion_state(cell) is MotionState.RUNNING
        cell.step(200)
        assert motion_state(cell) is expected


@pytest.mark.sim
def test_switch_in_motion_brakes_arm_smoothly(make_cell):
    cell, q = running(make_cell, velocity_scaling=1.0)
    cell.set_target("left", q=q + STEP)
    cell.step(500)
    start, _ = cell.records()
    cell.switch(["left/jt"], ["left/jt"])
    cell.step(600)
    _, rows = cell.records(start)
    rates = rows["arms"]["dq"][:, 0]
    assert np.abs(rates[-1]).max() < 1e-2
    assert (np.abs(np.diff(rates, axis=0)) / PERIOD < 1.3 * LIMIT.acceleration).all()


def test_stiffness_scale_was_reported_in_place_of_contact(make_cell):
    """It took the last index, that of the contact, and read 0 under a false notice."""
    cell = make_cell(ARM, LAWS, [])
    assert cell.switch(["left/jt"]).notices == ()
    cell.step(5)
    reports = cell.report("left/jt")
    assert reports[str(STIFFNESS_SCALE)] == 1.0
    assert reports[str(CONTACT)] == 0.0
    assert [event.event for event in cell.events()] == [Event.SWITCHED]


def test_stiffest_joints_report_stiffness_scale_of_configuration(make_cell):
    """Against the highest frequency of K^1/2 M^-1 K^1/2, which a quarter of b^2 bounds."""
    laws = {"jt": {"type": "joint_trajectory", "params": {"stiffness": MAXIMUM}}}
    cell = make_cell(LIGHT, laws, [])
    notices = cell.switch(["left/jt"]).notices
    cell.step(1)
    mass = cell.loop.arms[0].state.mass_matrix
    root = np.diag(np.sqrt(MAXIMUM))
    fraction = BANDWIDTH**2 / 4.0 / np.linalg.eigvalsh(root @ np.linalg.inv(mass) @ root)[-1]
    assert fraction < 0.95
    assert cell.report("left/jt")[str(STIFFNESS_SCALE)] == pytest.approx(fraction, rel=1e-3)
    assert f"joint_trajectory keeps {fraction:.0%}" in notices[0]
