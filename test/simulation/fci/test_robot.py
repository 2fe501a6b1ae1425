# SPDX-License-Identifier: Apache-2.0
"""Robot without sockets: modes, motions and rejected commands."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from fci_peer import Peer

from multipanda_py.exceptions import UnknownName
from multipanda_py.robots import READY_CONFIGURATION
from multipanda_py.robots.franka import UPPER_LIMITS, VELOCITY_LIMITS, velocity_towards
from multipanda_py.simulation.fci.robot import RECOVERY_CYCLES
from multipanda_py.simulation.fci.wire import (
    Controller,
    Generator,
    Mode,
    MoveStatus,
    RecoveryStatus,
    RobotRequest,
    SetStatus,
)

pytestmark = pytest.mark.inline


@pytest.fixture
def peer():
    return Peer()


def test_idle_robot_does_not_move(peer):
    states = [peer.cycle() for _ in range(100)]
    assert [int(s["message_id"][0]) for s in states] == list(range(1, 101))
    assert all((s["q"] == states[0]["q"]).all() and not s["dq"].any() for s in states)
    assert (states[0]["motion_generator_mode"], states[0]["controller_mode"]) == (0, 3)
    assert states[0]["robot_mode"] == Mode.IDLE


def test_torque_control_moves_and_ends(peer):
    assert peer.move(Controller.EXTERNAL, Generator.NONE) is None
    assert peer.answers == [(RobotRequest.MOVE, MoveStatus.MOTION_STARTED)]
    state = peer.cycle()
    assert (state["motion_generator_mode"], state["controller_mode"]) == (5, 2)
    assert state["robot_mode"] == Mode.MOVE
    for i in range(100):
        state = peer.cycle(tau_J_d=[min(0.1 * i, 2.0)] + [0.0] * 6)
    assert state["dq"][0] > 0.01
    assert state["tau_J_d"][0] == pytest.approx(2.0)
    assert state["control_command_success_rate"] == 1.0
    state = peer.cycle(torque_finished=1)
    assert state["robot_mode"] == Mode.IDLE
    assert peer.answers[-1] == (RobotRequest.MOVE, MoveStatus.SUCCESS)
    for _ in range(2000):
        state = peer.cycle()
    assert not state["dq"].any()


def test_robot_holds_until_first_command(peer):
    peer.move(Controller.EXTERNAL, Generator.NONE)
    for _ in range(50):
        state = peer.cycle()
    np.testing.assert_array_equal(state["q"], READY_CONFIGURATION.astype(np.float32))
    assert peer.robot.cycles.summary()["lost"] == 0


def test_twenty_cycles_without_command_abort_motion(peer):
    peer.move(Controller.EXTERNAL, Generator.NONE)
    peer.cycle(tau_J_d=[0.5] * 7)
    for _ in range(19):
        state = peer.cycle()
        assert state["robot_mode"] == Mode.MOVE
        assert state["tau_J_d"][0] == pytest.approx(0.5)  # The last torque is repeated.
    assert state["control_command_success_rate"] == pytest.approx(1 / 20)
    state = peer.cycle()
    assert state["robot_mode"] == Mode.REFLEX
    assert list(np.flatnonzero(state["errors"])) == [25]
    assert peer.answers[-1] == (RobotRequest.MOVE, MoveStatus.REFLEX_ABORTED)


@pytest.mark.parametrize(("step", "passes"), [(1.0, True), (1.01, False)])
def test_torque_rate_limit_aborts_motion(peer, step, passes):
    peer.move(Controller.EXTERNAL, Generator.NONE)
    for i in range(3):
        peer.cycle(tau_J_d=[step * i] + [0.0] * 6)
    assert (peer.robot.mode is Mode.MOVE) is passes


def test_recovery_takes_time_and_keeps_reason(peer):
    peer.robot.fault("joint_reflex")
    assert peer.move(Controller.EXTERNAL, Generator.NONE) == MoveStatus.NOT_POSSIBLE
    assert peer.request(RobotRequest.AUTOMATIC_ERROR_RECOVERY) is None
    assert peer.cycle()["robot_mode"] == Mode.RECOVERY
    for _ in range(RECOVERY_CYCLES):
        state = peer.cycle()
    assert state["robot_mode"] == Mode.IDLE
    assert not state["errors"].any()
    assert list(np.flatnonzero(state["reflex_reason"])) == [6]
    assert peer.answers == [(RobotRequest.AUTOMATIC_ERROR_RECOVERY, RecoveryStatus.SUCCESS)]


def test_user_stop_aborts_recovery(peer):
    peer.robot.fault("joint_reflex")
    peer.request(RobotRequest.AUTOMATIC_ERROR_RECOVERY)
    peer.robot.user_stop(True)
    assert peer.answers == [
        (RobotRequest.AUTOMATIC_ERROR_RECOVERY, RecoveryStatus.EMERGENCY_ABORTED)
    ]
    peer.request(RobotRequest.AUTOMATIC_ERROR_RECOVERY)
    assert peer.answers[-1][1] == RecoveryStatus.MANUAL_REQUIRED
    peer.robot.user_stop(False)
    assert peer.robot.mode is Mode.REFLEX  # The error remains.


def test_guided_arm_is_free(peer):
    peer.robot.guiding(True)
    peer.robot.tau_push[0] = 1.0
    for _ in range(200):
        state = peer.cycle()
    assert state["robot_mode"] == Mode.GUIDING
    assert state["q"][0] > 0.005
    peer.robot.tau_push[0] = 0.0
    peer.robot.guiding(False)
    led_to = peer.robot.hold_q[0]
    for _ in range(1000):
        state = peer.cycle()
    assert state["q"][0] == pytest.approx(led_to, abs=1e-4)


def test_push_deflects_idle_arm_by_its_stiffness(peer):
    peer.robot.tau_push[0] = 6.0
    for _ in range(1500):
        state = peer.cycle()
    assert state["q"][0] == pytest.approx(0.01, rel=0.05)  # 6 Nm at 600 Nm/rad.
    assert state["tau_ext_hat_filtered"][0] == pytest.approx(-6.0)


@pytest.mark.parametrize(
    ("first", "second", "error"),
    [
        ({1: 0.01}, {}, "joint_position_motion_generator_start_pose_invalid"),
        ({}, {0: 3e-3}, "joint_motion_generator_velocity_limits_violation"),
        ({}, {0: 1e-4}, "joint_motion_generator_velocity_discontinuity"),
        ({}, {0: 8e-6}, "joint_motion_generator_acceleration_discontinuity"),
        ({}, {0: 2e-6}, None),
    ],
)
def test_invalid_joint_positions_are_rejected(peer, first, second, error):
    peer.move(Controller.JOINT_IMPEDANCE, Generator.JOINT_POSITION)
    for change in (first, second):
        goal = READY_CONFIGURATION.copy()
        for joint, step in change.items():
            goal[joint] += step
        peer.cycle(q_c=goal)
    assert peer.robot.errors == ((error,) if error else ())


def test_joint_velocity_near_position_limit_is_rejected(peer):
    q = READY_CONFIGURATION.copy()
    q[0] = UPPER_LIMITS[0] - 0.01
    assert velocity_towards(np.full(7, 10.0)).tolist() == VELOCITY_LIMITS.tolist()
    expected = math.sqrt(2.0 * 6.0 * 0.01) - 0.30
    assert velocity_towards(np.full(7, 0.01))[0] == pytest.approx(expected)
    peer.robot.physics.reset_to(q)
    peer.robot.hold_q = q  # A motion begins at the held configuration.
    peer.move(Controller.JOINT_IMPEDANCE, Generator.JOINT_VELOCITY)
    dq, speed = np.zeros(7), 0.0
    for i in range(60):
        speed += min(4.0 * i, 9.0) * 1e-3
        dq[0] = speed
        peer.cycle(dq_c=dq)
        if peer.robot.errors:
            break
    assert peer.robot.errors == ("joint_motion_generator_velocity_limits_violation",)


def test_invalid_pose_is_rejected(peer):
    peer.move(Controller.JOINT_IMPEDANCE, Generator.CARTESIAN_POSITION)
    peer.cycle(O_T_EE_c=(2.0 * np.eye(4)).ravel())
    assert peer.robot.errors == ("cartesian_position_motion_generator_invalid_frame",)


def test_cartesian_velocity_moves_end_effector(peer):
    peer.move(Controller.CARTESIAN_IMPEDANCE, Generator.CARTESIAN_VELOCITY)
    before = peer.robot.pose_ee[:3, 3].copy()
    for i in range(400):
        speed = 0.05 * (1.0 - math.cos(2.0 * math.pi * i / 400)) / 2.0
        peer.cycle(O_dP_EE_c=[0, 0, speed, 0, 0, 0])
    assert peer.robot.errors == ()
    moved = peer.robot.pose_ee[:3, 3] - before
    np.testing.assert_allclose(moved, (0.0, 0.0, 0.01), atol=1.5e-3)


def test_asynchronous_motion_reaches_goal_without_further_commands(peer):
    peer.move(Controller.JOINT_IMPEDANCE, Generator.JOINT_POSITION, asynchronous=True, speed=0.5)
    goal = READY_CONFIGURATION + 0.1
    peer.cycle(q_c=goal)
    for _ in range(1500):
        state = peer.cycle()
    assert state["robot_mode"] == Mode.MOVE
    np.testing.assert_allclose(state["q_d"], goal, atol=1e-6)
    np.testing.assert_allclose(state["dq_d"], 0.0, atol=1e-6)


@pytest.mark.parametrize(
    ("request_name", "values"),
    [
        ("SET_JOINT_IMPEDANCE", [15000.0] * 7),
        ("SET_CARTESIAN_IMPEDANCE", [1.0] * 6),
        ("SET_NE_TO_EE", [1.0] * 16),
        ("SET_EE_TO_K", [float("nan")] * 16),
        ("SET_LOAD", [-1.0] + [0.0] * 12),
        ("SET_COLLISION_BEHAVIOR", [-1.0] * 52),
        ("SET_LOAD", [1.0]),
    ],
)
def test_invalid_settings_are_rejected(peer, request_name, values):
    body = struct.pack(f"<{len(values)}d", *values)
    assert peer.request(RobotRequest[request_name], body) == SetStatus.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("controller", "generator"),
    [(Controller.EXTERNAL, Generator.JOINT_POSITION), (0, Generator.NONE), (9, 0), (0, 9)],
)
def test_invalid_moves_are_rejected(peer, controller, generator):
    assert peer.move(controller, generator) == MoveStatus.INVALID_ARGUMENT
    assert peer.robot.mode is Mode.IDLE


def test_unknown_error_is_rejected(peer):
    with pytest.raises(UnknownName, match="known: joint_position_limits_violation"):
        peer.robot.fault("nonsense")


def test_load_changes_measured_torque(peer):
    before = peer.robot.physics.tau_J.copy()
    inertia = (0.01 * np.eye(3)).ravel()
    body = struct.pack("<13d", 2.0, 0.0, 0.0, 0.1, *inertia)
    assert peer.request(RobotRequest.SET_LOAD, body) == SetStatus.SUCCESS
    state = peer.cycle()
    assert state["m_load"][0] == 2.0
    assert abs(peer.robot.physics.tau_J[1] - before[1]) > 5.0
    np.testing.assert_array_equal(state["q"], READY_CONFIGURATION.astype(np.float32))
