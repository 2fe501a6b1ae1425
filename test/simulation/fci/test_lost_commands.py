# SPDX-License-Identifier: Apache-2.0
"""Motions continue over lost commands, from the commanded state."""

from __future__ import annotations

import numpy as np
import pytest
from fci_peer import Peer

from multipanda_py.robots import READY_CONFIGURATION
from multipanda_py.simulation.fci.wire import Controller, Generator, Mode

pytestmark = pytest.mark.inline

PERIOD = 1e-3
DISTANCE, CYCLES = 0.1, 1000


@pytest.fixture
def peer():
    return Peer()


def pose_of(state, name):
    return state[name].astype(float).reshape(4, 4, order="F")


def minimum_jerk(cycle):
    """Minimum jerk from 0 to 1."""
    s = np.clip(cycle / CYCLES, 0.0, 1.0)
    return s**3 * (10.0 - 15.0 * s + 6.0 * s**2)


def moved(start, cycle, z=DISTANCE):
    """Return the pose on a straight line with a rotation about z of the base."""
    pose = start.copy()
    pose[2, 3] -= z * minimum_jerk(cycle)
    angle = 0.3 * minimum_jerk(cycle)
    c, s = np.cos(angle), np.sin(angle)
    pose[:3, :3] = np.array(((c, -s, 0), (s, c, 0), (0, 0, 1))) @ start[:3, :3]
    return pose


def begin(peer, generator):
    peer.move(Controller.JOINT_IMPEDANCE, generator)
    return peer.cycle()


def lost(seed, probability, longest=19):
    """Return a flag for each cycle that loses its command."""
    dice, run = np.random.default_rng(seed), 0
    found = []
    for _ in range(CYCLES + 400):
        run = run + 1 if dice.random() < probability and run < longest else 0
        found.append(run > 0)
    return found


def test_single_lost_command_aborted_cartesian_motion(peer):
    start = pose_of(begin(peer, Generator.CARTESIAN_POSITION), "O_T_EE_c")
    for i, is_lost in enumerate(lost(1, 0.04)):
        state = peer.cycle() if is_lost else peer.cycle(O_T_EE_c=moved(start, i).ravel(order="F"))
        assert peer.robot.errors == (), i
    expected = moved(start, CYCLES)
    np.testing.assert_allclose(pose_of(state, "O_T_EE_c"), expected, atol=1e-6)
    assert np.abs(pose_of(state, "O_T_EE") - expected).max() < 1e-4  # The measured pose follows.


@pytest.mark.parametrize("gap", [2, 5, 19])
def test_long_gap_in_cartesian_motion_is_bridged(peer, gap):
    start = pose_of(begin(peer, Generator.CARTESIAN_POSITION), "O_T_EE_c")
    for i in range(CYCLES):
        is_in_gap = 300 <= i < 300 + gap
        peer.cycle() if is_in_gap else peer.cycle(O_T_EE_c=moved(start, i).ravel(order="F"))
        assert peer.robot.errors == (), i


def test_joint_positions_are_bridged_near_limits(peer):
    begin(peer, Generator.JOINT_POSITION)
    for i, is_lost in enumerate(lost(2, 0.15)):
        # 2.4 of 2.6 rad/s, 7.5 of 10 rad/s^2
        q = READY_CONFIGURATION + 1.3 * minimum_jerk(i) * np.eye(7)[0]
        peer.cycle() if is_lost else peer.cycle(q_c=q)
        assert peer.robot.errors == (), i


def test_lost_command_is_replaced_by_constant_acceleration(peer):
    start = pose_of(begin(peer, Generator.CARTESIAN_POSITION), "O_T_EE_c")
    for i in range(301):
        peer.cycle(O_T_EE_c=moved(start, i).ravel(order="F"))
    z = start[2, 3] - DISTANCE * np.array([minimum_jerk(i) for i in (298, 299, 300)])
    velocity, acceleration = np.diff(z)[-1] / PERIOD, np.diff(z, 2)[0] / PERIOD**2
    for n in range(1, 10):
        state = peer.cycle()
        expected = z[-1] + n * velocity * PERIOD + n * (n + 1) / 2 * acceleration * PERIOD**2
        assert pose_of(state, "O_T_EE_c")[2, 3] == pytest.approx(expected, abs=1e-7)
        speed = velocity + n * acceleration * PERIOD
        for name in ("O_dP_EE_c", "O_dP_EE_d"):
            assert state[name][2] == pytest.approx(speed, abs=1e-6)
        assert state["O_ddP_EE_c"][2] == pytest.approx(acceleration, abs=1e-5)


@pytest.mark.parametrize("gap", [1, 5, 19])
def test_jump_after_gap_is_rejected(peer, gap):
    start = pose_of(begin(peer, Generator.CARTESIAN_POSITION), "O_T_EE_c")
    for _ in range(10):
        peer.cycle(O_T_EE_c=start.ravel(order="F"))
    for _ in range(gap):
        peer.cycle()
    # Three times the maximum acceleration.
    start[2, 3] -= 3.0 * 9.0 * (gap + 1) * (gap + 2) / 2 * PERIOD**2
    peer.cycle(O_T_EE_c=start.ravel(order="F"))
    assert peer.robot.errors == ("cartesian_motion_generator_velocity_discontinuity",)


def test_twenty_lost_commands_end_cartesian_motion(peer):
    start = pose_of(begin(peer, Generator.CARTESIAN_POSITION), "O_T_EE_c")
    peer.cycle(O_T_EE_c=start.ravel(order="F"))
    for _ in range(20):
        assert peer.robot.mode is Mode.MOVE
        peer.cycle()
    assert peer.robot.errors == ("communication_constraints_violation",)


def settling(peer):
    """Release the arm from a deflection; return a state during the motion."""
    peer.robot.tau_push[:] = (5.0, 15.0, 5.0, 10.0, 1.0, 1.0, 0.5)
    for _ in range(500):
        peer.cycle()
    peer.robot.tau_push[:] = 0.0
    for _ in range(20):
        state = peer.cycle()
    assert np.abs(state["dq"]).max() > 0.01
    return state


def test_cartesian_motion_from_settling_arm_was_rejected(peer):
    before = pose_of(peer.cycle(), "O_T_EE")
    state = settling(peer)
    assert np.abs(pose_of(state, "O_T_EE") - before).max() > 2e-3
    for name in ("O_T_EE_d", "O_T_EE_c"):  # Desired, not measured.
        np.testing.assert_allclose(pose_of(state, name), before, atol=1e-6)
    start = pose_of(begin(peer, Generator.CARTESIAN_POSITION), "O_T_EE_c")
    for i in range(CYCLES + 300):
        state = peer.cycle(O_T_EE_c=moved(start, i).ravel(order="F"))
        assert peer.robot.errors == (), i
    np.testing.assert_allclose(pose_of(state, "O_T_EE"), moved(start, CYCLES), atol=1e-4)


def test_joint_motion_from_settling_arm_starts_at_held_configuration(peer):
    state = settling(peer)
    np.testing.assert_allclose(state["q_d"], READY_CONFIGURATION, atol=1e-6)
    state = begin(peer, Generator.JOINT_POSITION)
    for _ in range(100):
        peer.cycle(q_c=state["q_d"].astype(float))
        assert peer.robot.errors == ()


def test_joint_motion_reports_desired_pose_and_twist(peer):
    begin(peer, Generator.JOINT_POSITION)
    poses = []
    for i in range(300):
        state = peer.cycle(q_c=READY_CONFIGURATION + 0.3 * minimum_jerk(i) * np.eye(7)[1])
        poses.append(pose_of(state, "O_T_EE_d"))
    twist = (poses[-1][:3, 3] - poses[-11][:3, 3]) / (
        10 * PERIOD
    )  # The mean twist of the last ten periods.
    np.testing.assert_allclose(state["O_dP_EE_d"][:3], twist, atol=0.01)
    assert np.abs(state["O_dP_EE_d"][:3]).max() > 0.05


def test_elbow_follows_and_pose_stays(peer):
    state = begin(peer, Generator.CARTESIAN_POSITION)
    start, elbow = pose_of(state, "O_T_EE_c"), state["elbow_c"].astype(float)
    for i in range(CYCLES + 200):
        desired = (elbow[0] + 0.2 * minimum_jerk(i), elbow[1])
        state = peer.cycle(O_T_EE_c=start.ravel(order="F"), elbow_c=desired, valid_elbow=1)
        assert peer.robot.errors == (), i
    assert state["elbow"][0] == pytest.approx(elbow[0] + 0.2, abs=1e-3)
    np.testing.assert_allclose(pose_of(state, "O_T_EE"), start, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "sign", "error"),
    [(0.01, 1.0, "start_elbow_invalid"), (0.0, -1.0, "elbow_sign_inconsistent")],
)
def test_inconsistent_elbow_is_rejected(peer, change, sign, error):
    state = begin(peer, Generator.CARTESIAN_POSITION)
    elbow = state["elbow_c"].astype(float) * (1.0, sign) + (change, 0.0)
    peer.cycle(O_T_EE_c=state["O_T_EE_c"], elbow_c=elbow, valid_elbow=1)
    assert peer.robot.errors == (f"cartesian_motion_generator_{error}",)
