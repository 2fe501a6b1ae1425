# SPDX-License-Identifier: Apache-2.0
"""Motors behind springs, beside their equations in steps of 10 us."""

from __future__ import annotations

import math

import numpy as np
import pytest
from spring_links import GRAVITY, INERTIA, LENGTH, MASS, pendulum, qbmove, run
from spring_motors import MOTIONS, STICK, D, J, P, found, motors, reference

from multipanda_py.simulation.actuators import CompliantJoints, Motors
from multipanda_py.simulation.actuators.compliant_actuators import Qbmove, Sea

pytestmark = [pytest.mark.sim, pytest.mark.inline]


@pytest.mark.parametrize("name", MOTIONS)
def test_a_motion_at_1_ms_is_that_at_10_us(name, episodes):
    """Beside steps of 40 us here, 10 us by hand."""
    expected = reference(MOTIONS[name], 1e-5 * episodes(4, 1))
    assert np.ptp(expected) > 0.1
    assert np.abs(found(MOTIONS[name]) - expected).max() <= 3e-3


def free_motor(**parameters):
    """Return a link far too heavy to move, whose spring is soft, and its motor under a torque."""
    robot = pendulum(
        Sea, {"stiffness": 1e-6}, mode=4, motors=motors(Sea, **parameters), gravity=0.0
    )
    return robot, robot.joints


def test_a_motor_goes_on_as_the_closed_form_says():
    robot, joints = free_motor(friction=0.0)
    joints.command("motor_1_command", 0.5)
    run(robot, 100)
    rate = D / J
    expected = 0.5 / D * (0.1 - (1.0 - math.exp(-rate * 0.1)) / rate)
    assert joints.theta[0, 0] == pytest.approx(expected, rel=1e-6)
    assert joints.dtheta[0, 0] == pytest.approx(0.5 / D * (1.0 - math.exp(-rate * 0.1)), rel=1e-6)


def test_a_torque_beyond_the_motor_s_is_cut_off():
    robot, joints = free_motor(friction=0.0, max_velocity=1e3)
    joints.command("motor_1_command", 100.0)
    run(robot, 10)
    assert joints.motor_torque[0, 0] == 6.0
    expected = 6.0 / D * (1.0 - math.exp(-D / J * 0.01))
    assert joints.dtheta[0, 0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_motor_gets_no_faster_than_it_may(sign):
    """The toolbox reads the largest velocity and does nothing with it."""
    robot, joints = free_motor(max_velocity=1.5, friction=0.0)
    joints.command("motor_1_command", sign * 6.0)
    before, ways, speeds = 0.0, [], []
    for _ in range(200):
        robot.step()
        ways.append(joints.theta[0, 0] - before)
        before = joints.theta[0, 0]
        speeds.append(joints.dtheta[0, 0])
    assert np.abs(speeds).max() == 1.5
    assert speeds[-1] == sign * 1.5
    assert np.abs(ways).max() <= 1.5e-3 * (1.0 + 1e-9)
    joints.command("motor_1_command", -sign * 6.0)  # it is not stuck there
    run(robot, 5)
    assert sign * joints.dtheta[0, 0] < 1.4


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_motor_ends_at_its_stop_and_its_torque_is_told(sign):
    robot, joints = free_motor(min_position=-0.1, max_position=0.1)
    joints.command("motor_1_command", sign * 2.0)
    run(robot, 300)
    assert joints.theta[0, 0] == sign * 0.1
    assert joints.dtheta[0, 0] == 0.0
    assert joints.motor_torque[0, 0] == sign * 2.0  # not a number in the toolbox
    joints.command("motor_1_command", -sign * 1.0)
    run(robot, 50)
    assert sign * joints.theta[0, 0] < 0.099


def test_a_stop_is_not_sprung_by_a_reference_beyond_it():
    robot = pendulum(Qbmove, mode=6, motors=motors(Qbmove, max_position=0.5), gravity=0.0)
    robot.joints.command("equilibrium_position", 1.0)
    run(robot, 600)
    assert robot.joints.theta[:, 0].tolist() == [0.5, 0.5]
    assert np.abs(robot.q[0] - 0.5) < 0.05
    assert robot.joints.motor_torque[:, 0] == pytest.approx(6.0)


def test_friction_holds_a_motor_up_to_its_limit_and_is_that_beyond():
    robot, joints = free_motor(friction=0.5, damping=8.0)  # so that it does not swing
    joints.command("motor_1_command", 0.45)
    run(robot, 120)
    assert joints.friction[0, 0] == pytest.approx(0.45, abs=1e-4)
    assert joints.theta[0, 0] == pytest.approx(0.45 / STICK, rel=1e-3)  # elastic up to there
    joints.command("motor_1_command", 0.0)
    run(robot, 120)
    assert joints.theta[0, 0] == pytest.approx(0.0, abs=1e-6)
    joints.command("motor_1_command", 0.8)
    run(robot, 120)
    assert joints.friction[0, 0] == 0.5
    assert joints.dtheta[0, 0] == pytest.approx(0.3 / 8.0, rel=1e-4)


def test_friction_gives_no_energy_and_turns_round_like_a_play():
    """One slow cycle encloses the area of Coulomb's loop, less its elastic corners."""
    robot, joints = free_motor(friction=0.5)
    joints.set_mode(5)
    torques, places = [], []
    for i in range(2000):
        joints.command("reference_1", 0.2 * math.sin(math.tau * i / 1000.0))
        robot.step()
        if i >= 1000:
            torques.append(joints.friction[0, 0])
            places.append(joints.theta[0, 0])
    work = np.sum(0.5 * (np.array(torques[1:]) + torques[:-1]) * np.diff(places))
    swing = np.ptp(places)
    assert work == pytest.approx(2.0 * 0.5 * (swing - 0.5 / STICK), rel=5e-3)
    assert np.abs(torques).max() <= 0.5


def test_an_integral_takes_away_what_a_load_leaves():
    stiff = {"stiffness": 20.0}
    robot = pendulum(Sea, stiff, mode=5, motors=motors(Sea, i=2e3, friction=0.0), damping=0.3)
    robot.joints.command("reference_1", 1.2)
    run(robot, 1000)
    assert robot.joints.theta[0, 0] == pytest.approx(1.2, abs=2e-5)
    without = pendulum(Sea, stiff, mode=5, motors=motors(Sea, friction=0.0), damping=0.3)
    without.joints.command("reference_1", 1.2)
    run(without, 800)
    weight = MASS * GRAVITY * LENGTH * math.sin(without.q[0])
    assert without.joints.theta[0, 0] == pytest.approx(1.2 - weight / P, abs=5e-5)


def test_an_integral_does_not_wind_up_at_a_stop():
    robot, joints = free_motor(i=400.0, max_position=0.3)
    joints.set_mode(5)
    joints.command("reference_1", 1.0)
    run(robot, 1000)
    joints.command("reference_1", 0.0)  # unbounded, the integral would be worth 280 Nm
    run(robot, 600)
    assert abs(joints.theta[0, 0]) < 0.05


def two_inertias(damping, stiffness=5.0):
    """Return a link and a motor, with a spring and a damper between them and nothing else."""
    params = {"stiffness": stiffness, "damping": damping}
    return pendulum(
        Sea, params, mode=4, motors=motors(Sea, damping=0.0, friction=0.0), gravity=0.0,
        damping=0.0,
    )  # fmt: skip


def test_a_damper_between_motor_and_link_acts_on_both():
    """Their difference is a damped oscillator, and what they turn with together is kept."""
    damping, stiffness = 0.02, 5.0
    robot = two_inertias(damping, stiffness)
    joints, start = robot.joints, 0.1
    joints.set_link_state(np.zeros(1), np.zeros(1))
    joints.flow.x[1, 0] = start
    together = INERTIA * J / (INERTIA + J)
    decay = 0.5 * damping / together
    omega = math.sqrt(stiffness / together - decay * decay)
    for i in range(200):
        robot.step()
        t = 1e-3 * (i + 1)
        phase = math.cos(omega * t) + decay / omega * math.sin(omega * t)
        twist = start * math.exp(-decay * t) * phase
        assert joints.theta[0, 0] - robot.q[0] == pytest.approx(twist, abs=2e-5)
        momentum = INERTIA * robot.dq[0] + J * joints.dtheta[0, 0]
        assert momentum == pytest.approx(0.0, abs=1e-7)


def test_a_damper_grows_with_its_preset():
    """The link alone, its motors stand: its vibration decays as fast as the preset says."""
    params = {"damping": 0.005, "damping_per_preset": 0.05}
    for preset, damping in ((0.1, 0.01), (0.4, 0.025)):
        robot = pendulum(Qbmove, params, damping=0.0, gravity=0.0)
        robot.joints.command("stiffness_preset", preset)
        robot.data.qpos[0] = 0.02
        q = run(robot, 600)[:, 0]
        stiffness = 2.0 * 8.9992 * 0.0019 * math.cosh(8.9992 * preset)
        decay = 0.5 * damping / INERTIA
        omega = math.sqrt(stiffness / INERTIA - decay * decay)
        t = 1e-3 * np.arange(1, 601)
        expected = np.cos(omega * t) + decay / omega * np.sin(omega * t)
        assert q == pytest.approx(0.02 * np.exp(-decay * t) * expected, abs=3e-4)


def test_a_spring_between_motors_loads_them_and_not_the_link():
    found = []
    for coupling in (0.0, 5.0):
        groups = [(Qbmove(1, {"coupling": coupling}), [0])]
        joints = CompliantJoints(groups, 1, Motors.of(groups), 2)
        joints.command("reference_1", 0.3)
        joints.command("reference_2", -0.1)
        found.append(np.ravel(joints.elastic))
    assert found[1] - found[0] == pytest.approx([0.0, 5.0 * 0.4, -5.0 * 0.4])


def test_springs_of_the_reference_are_those_of_the_actuator():
    q, first, second = 0.1, 0.7, -0.2
    torque = Qbmove(1).elastic_torque(*(np.array([x]) for x in (q, first, second)))
    assert torque.link[0] == pytest.approx(qbmove(q, first, second), rel=1e-12)
