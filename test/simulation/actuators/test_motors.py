# SPDX-License-Identifier: Apache-2.0
"""Motors behind springs against their equations in steps of 10 us."""

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
def test_motion_at_1_ms_agrees_with_small_steps(name, episodes):
    """The reference steps are 40 us in the short form and 10 us in the long form."""
    expected = reference(MOTIONS[name], 1e-5 * episodes(4, 1))
    assert np.ptp(expected) > 0.1
    assert np.abs(found(MOTIONS[name]) - expected).max() <= 3e-3


def free_motor(**parameters):
    """Return a robot with an immovable link and a very soft spring, and its joints."""
    robot = pendulum(
        Sea, {"stiffness": 1e-6}, mode=4, motors=motors(Sea, **parameters), gravity=0.0
    )
    return robot, robot.joints


def test_free_motor_follows_closed_form():
    robot, joints = free_motor(friction=0.0)
    joints.command("motor_1_command", 0.5)
    run(robot, 100)
    rate = D / J
    expected = 0.5 / D * (0.1 - (1.0 - math.exp(-rate * 0.1)) / rate)
    assert joints.theta[0, 0] == pytest.approx(expected, rel=1e-6)
    assert joints.dtheta[0, 0] == pytest.approx(0.5 / D * (1.0 - math.exp(-rate * 0.1)), rel=1e-6)


def test_motor_torque_is_limited():
    robot, joints = free_motor(friction=0.0, max_velocity=1e3)
    joints.command("motor_1_command", 100.0)
    run(robot, 10)
    assert joints.motor_torque[0, 0] == 6.0
    expected = 6.0 / D * (1.0 - math.exp(-D / J * 0.01))
    assert joints.dtheta[0, 0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_motor_velocity_is_limited(sign):
    """The toolbox reads the maximum velocity and ignores it."""
    robot, joints = free_motor(max_velocity=1.5, friction=0.0)
    joints.command("motor_1_command", sign * 6.0)
    before, steps, speeds = 0.0, [], []
    for _ in range(200):
        robot.step()
        steps.append(joints.theta[0, 0] - before)
        before = joints.theta[0, 0]
        speeds.append(joints.dtheta[0, 0])
    assert np.abs(speeds).max() == 1.5
    assert speeds[-1] == sign * 1.5
    assert np.abs(steps).max() <= 1.5e-3 * (1.0 + 1e-9)
    joints.command("motor_1_command", -sign * 6.0)  # The motor leaves the limit.
    run(robot, 5)
    assert sign * joints.dtheta[0, 0] < 1.4


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_motor_stops_at_position_limit_and_reports_torque(sign):
    robot, joints = free_motor(min_position=-0.1, max_position=0.1)
    joints.command("motor_1_command", sign * 2.0)
    run(robot, 300)
    assert joints.theta[0, 0] == sign * 0.1
    assert joints.dtheta[0, 0] == 0.0
    assert joints.motor_torque[0, 0] == sign * 2.0  # NaN in the toolbox.
    joints.command("motor_1_command", -sign * 1.0)
    run(robot, 50)
    assert sign * joints.theta[0, 0] < 0.099


def test_reference_beyond_stop_does_not_pass_it():
    robot = pendulum(Qbmove, mode=6, motors=motors(Qbmove, max_position=0.5), gravity=0.0)
    robot.joints.command("equilibrium_position", 1.0)
    run(robot, 600)
    assert robot.joints.theta[:, 0].tolist() == [0.5, 0.5]
    assert np.abs(robot.q[0] - 0.5) < 0.05
    assert robot.joints.motor_torque[:, 0] == pytest.approx(6.0)


def test_friction_sticks_below_and_saturates_at_its_limit():
    robot, joints = free_motor(friction=0.5, damping=8.0)  # Damping prevents a swing.
    joints.command("motor_1_command", 0.45)
    run(robot, 120)
    assert joints.friction[0, 0] == pytest.approx(0.45, abs=1e-4)
    assert joints.theta[0, 0] == pytest.approx(
        0.45 / STICK, rel=1e-3
    )  # Friction is elastic below its limit.
    joints.command("motor_1_command", 0.0)
    run(robot, 120)
    assert joints.theta[0, 0] == pytest.approx(0.0, abs=1e-6)
    joints.command("motor_1_command", 0.8)
    run(robot, 120)
    assert joints.friction[0, 0] == 0.5
    assert joints.dtheta[0, 0] == pytest.approx(0.3 / 8.0, rel=1e-4)


def test_friction_loop_dissipates_coulomb_energy():
    """One slow cycle encloses the area of the Coulomb loop without its elastic corners."""
    robot, joints = free_motor(friction=0.5)
    joints.set_mode(5)
    torques, positions = [], []
    for i in range(2000):
        joints.command("reference_1", 0.2 * math.sin(math.tau * i / 1000.0))
        robot.step()
        if i >= 1000:
            torques.append(joints.friction[0, 0])
            positions.append(joints.theta[0, 0])
    work = np.sum(0.5 * (np.array(torques[1:]) + torques[:-1]) * np.diff(positions))
    swing = np.ptp(positions)
    assert work == pytest.approx(2.0 * 0.5 * (swing - 0.5 / STICK), rel=5e-3)
    assert np.abs(torques).max() <= 0.5


def test_integral_removes_error_under_load():
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


def test_integral_does_not_wind_up_at_stop():
    robot, joints = free_motor(i=400.0, max_position=0.3)
    joints.set_mode(5)
    joints.command("reference_1", 1.0)
    run(robot, 1000)
    joints.command("reference_1", 0.0)  # An unlimited integral would reach 280 Nm.
    run(robot, 600)
    assert abs(joints.theta[0, 0]) < 0.05


def two_inertias(damping, stiffness=5.0):
    """Return a link and a motor, connected only by a spring and a damper."""
    params = {"stiffness": stiffness, "damping": damping}
    return pendulum(
        Sea, params, mode=4, motors=motors(Sea, damping=0.0, friction=0.0), gravity=0.0,
        damping=0.0,
    )  # fmt: skip


def test_damper_between_motor_and_link_acts_on_both():
    """The difference is a damped oscillator, and the total momentum is constant."""
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


def test_damping_grows_with_preset():
    """With fixed motors, the vibration of the link decays at the rate of the preset."""
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


def test_spring_between_motors_does_not_load_link():
    found = []
    for coupling in (0.0, 5.0):
        groups = [(Qbmove(1, {"coupling": coupling}), [0])]
        joints = CompliantJoints(groups, 1, Motors.of(groups), 2)
        joints.command("reference_1", 0.3)
        joints.command("reference_2", -0.1)
        found.append(np.ravel(joints.elastic))
    assert found[1] - found[0] == pytest.approx([0.0, 5.0 * 0.4, -5.0 * 0.4])


def test_reference_springs_equal_those_of_actuator():
    q, first, second = 0.1, 0.7, -0.2
    torque = Qbmove(1).elastic_torque(*(np.array([x]) for x in (q, first, second)))
    assert torque.link[0] == pytest.approx(qbmove(q, first, second), rel=1e-12)
