# SPDX-License-Identifier: Apache-2.0
"""Client cases that connect, configure and move; see ``clients.py``."""

from __future__ import annotations

import hashlib
import math
import time

import numpy as np
import pylibfranka as franka
from back_door import admin
from client_tools import UNIT, connect, error_of, finish, follow, fresh, settled, spin


def connect_and_read(address):
    robot = connect(address)
    first, second = robot.read_once(), robot.read_once()
    return {
        "mode": second.robot_mode.name,
        "q": second.q,
        "passed": second.time.to_sec() - first.time.to_sec(),
        "errors": str(second.current_errors),
        "m_ee": second.m_ee,
    }


def settings(address):
    robot = connect(address)
    robot.automatic_error_recovery()
    robot.set_collision_behavior([20.0] * 7, [30.0] * 7, [20.0] * 6, [30.0] * 6)
    robot.set_joint_impedance([3000.0] * 4 + [2000.0] * 3)
    robot.set_cartesian_impedance([2000.0] * 3 + [100.0] * 3)
    shifted = [*UNIT[:14], 0.1, 1.0]
    robot.set_K(shifted)
    robot.set_EE(shifted)
    robot.set_load(0.5, [0.0, 0.01, 0.05], [1e-3, 0, 0, 0, 2e-3, 0, 0, 0, 1.5e-3])
    robot.stop()
    bad_load = error_of(robot.set_load, -1.0, [0.0] * 3, [0.0] * 9)
    bad_impedance = error_of(robot.set_joint_impedance, [20000.0] * 7)
    state = fresh(robot)
    handle = robot.start_torque_control()
    spin(handle, 3)
    while_moving = error_of(robot.set_load, 0.0, [0.0] * 3, [0.0] * 9)
    finish(handle)
    return {
        "m_load": state.m_load,
        "m_total": state.m_total,
        "F_x_Cload": state.F_x_Cload,
        "NE_T_EE": state.NE_T_EE,
        "EE_T_K": state.EE_T_K,
        "F_T_EE": state.F_T_EE,
        "O_T_EE": state.O_T_EE,
        "bad_load": bad_load,
        "bad_impedance": bad_impedance,
        "while_moving": while_moving,
    }


def model(address, configurations, load):
    robot = connect(address)
    if load:
        robot.set_load(*load)
    dynamics = robot.load_model()
    found = []
    for configuration in configurations:
        admin(address, "place", q=configuration)
        state = fresh(robot)
        while max(abs(a - b) for a, b in zip(state.q, configuration)) > 1e-6:
            state = robot.read_once()
        found.append(
            {
                "q": state.q,
                "tau_J": state.tau_J,
                "O_T_EE": state.O_T_EE,
                "mass": dynamics.mass(state),
                "gravity": dynamics.gravity(state),
                "jacobian": dynamics.zero_jacobian(state),
            }
        )
    handle = robot.start_torque_control()  # Motion gives nonzero velocities.
    tau = 0.0
    for _ in range(60):
        state, _ = handle.readOnce()
        tau = min(tau + 0.3, 3.0)
        handle.writeOnce(franka.Torques([tau] * 7))
    moving = {"q": state.q, "dq": state.dq, "coriolis": dynamics.coriolis(state)}
    finish(handle)
    return {"resting": found, "moving": moving}


def torque_control(addresses, cycles, motions=1):
    robots = [connect(address) for address in addresses]
    digests = [hashlib.sha256() for _ in robots]
    began = time.perf_counter()
    for _ in range(motions):
        handles = [robot.start_torque_control() for robot in robots]
        states = follow(handles, cycles, digests=digests)
        for handle in handles:
            finish(handle)
        del handles
    return {
        "seconds": time.perf_counter() - began,
        "digests": [digest.hexdigest() for digest in digests],
        "modes": [fresh(robot).robot_mode.name for robot in robots],
        "success": [state.control_command_success_rate for state in states],
        "q": [state.q for state in states],
    }


def together(addresses):
    """Answer one of two robots and record if it waits for the other."""
    robots = [connect(address) for address in addresses]
    handles = [robot.start_torque_control() for robot in robots]
    for _ in range(20):
        for handle in handles:
            spin(handle, 1)
    rounds = []
    for _ in range(5):
        times = []
        for handle in handles:
            spin(handle, 1)
            time.sleep(0.02)  # No robot must advance during this time.
            times.append([admin(address, "stats")["message_id"] for address in addresses])
        rounds.append(times)
    for handle in handles:
        finish(handle)
    return {"rounds": rounds}


def asynchronous_motion(address):
    robot = connect(address)
    async_control = franka.AsyncPositionControlHandler
    made = async_control.configure(robot, async_control.Configuration([0.5] * 7, 0.01))
    goal = list(fresh(robot).q)
    goal[6] += 0.02
    reported = made.handler.set_joint_position_target(async_control.JointPositionTarget(goal))
    for _ in range(300):
        feedback = made.handler.get_target_feedback()
    made.handler.stop_control()
    return {"errors": [made.error_message, reported.error_message, feedback.error_message],
            "status": feedback.status.name, "mode": fresh(robot).robot_mode.name,
            "missing": goal[6] - fresh(robot).q[6]}  # fmt: skip


def joint_motion(address):
    robot = connect(address)
    handle = robot.start_joint_position_control(franka.ControllerMode.JointImpedance)
    start = moved(handle, "q_d", 5, 0.02, franka.JointPositions)
    state = settled(robot)
    return {"moved": (np.array(state.q) - start).tolist(), "mode": state.robot_mode.name}


def cartesian_motion(address):
    robot = connect(address)
    handle = robot.start_cartesian_pose_control(franka.ControllerMode.JointImpedance)
    start = moved(handle, "O_T_EE_d", 14, 0.01, franka.CartesianPose)
    state = settled(robot)
    return {"moved": (np.array(state.O_T_EE) - start).tolist(), "mode": state.robot_mode.name}


def moved(handle, name, index, half, command, seconds=0.5):
    """Move one desired component smoothly by twice ``half``; return the start."""
    start, elapsed, last = None, 0.0, None
    while last is None or elapsed < seconds:
        state, passed = handle.readOnce()
        elapsed += passed.to_sec()
        start = start or list(getattr(state, name))
        goal = list(start)
        goal[index] += half * (1.0 - math.cos(math.pi * min(elapsed / seconds, 1.0)))
        last = command(goal)
        last.motion_finished = elapsed >= seconds
        handle.writeOnce(last)
    return start


def gripper(address):
    client_gripper = franka.Gripper(address)
    first = client_gripper.read_once()
    found = {
        "max_width": first.max_width,
        "homing": client_gripper.homing(),
        "version": client_gripper.server_version(),
    }
    found["move"] = client_gripper.move(0.03, 0.2)
    found["width"] = client_gripper.read_once().width
    found["miss"] = client_gripper.grasp(0.05, 0.2, 20.0)
    found["miss_held"] = client_gripper.read_once().is_grasped
    client_gripper.move(0.08, 0.2)
    admin(address, "object", width=0.05)
    found["grasp"] = client_gripper.grasp(0.05, 0.2, 20.0, 0.005, 0.005)
    state = client_gripper.read_once()
    found["held"], found["held_width"] = state.is_grasped, state.width
    client_gripper.move(0.08, 0.2)
    found["wrong_width"] = client_gripper.grasp(0.03, 0.2, 20.0, 0.005, 0.005)
    found["blocked"] = client_gripper.move(0.02, 0.2)
    found["stop"] = client_gripper.stop()
    found["too_strong"] = error_of(client_gripper.grasp, 0.05, 0.1, 1000.0)
    found["impossible"] = error_of(client_gripper.move, 0.2, 0.1)
    return found
