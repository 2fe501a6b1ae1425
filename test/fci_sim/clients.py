# SPDX-License-Identifier: Apache-2.0
"""What clients do with pylibfranka; each case runs in a process of its own.

libfranka may wait for ever, holding the interpreter, when a robot disappears: only killing the
process helps. ``python clients.py CASE ARGUMENTS`` prints one line of JSON.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import socket
import sys
import time

import numpy as np
import pylibfranka as franka

ADMIN_PORT = 7331
UNIT = np.eye(4).ravel().tolist()


def connect(address):
    """Return a robot; undo the real-time priority that libfranka gives to the thread."""
    robot = franka.Robot(address, franka.RealtimeConfig.kIgnore)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return robot


def admin(address, command, **arguments):
    """Ask the back door of the simulation."""
    with socket.create_connection((address, ADMIN_PORT), timeout=5.0) as link:
        link.sendall((json.dumps({"command": command, **arguments}) + "\n").encode())
        answer = json.loads(link.makefile().readline())
    if not answer["ok"]:
        raise RuntimeError(answer["error"])
    return answer


def fresh(robot):
    """Return a state that was not waiting in the socket."""
    robot.read_once()
    return robot.read_once()


def error_of(function, *args):
    """Return type and text of what a call raises, and how long it took."""
    began = time.perf_counter()
    try:
        function(*args)
    except Exception as error:
        return {"type": type(error).__name__, "text": str(error),
                "after": time.perf_counter() - began}  # fmt: skip
    return None


def follow(handles, cycles, amplitude=0.1, digests=None):
    """Follow a slow sine with joint impedance; return the newest states."""
    start = [None] * len(handles)
    states = [None] * len(handles)
    elapsed = [0.0] * len(handles)
    for _ in range(cycles):
        for i, handle in enumerate(handles):
            state, passed = handle.readOnce()
            q, dq = np.array(state.q), np.array(state.dq)
            if start[i] is None:
                start[i] = q
            elapsed[i] += passed.to_sec()
            goal = start[i] + amplitude * (1.0 - math.cos(math.pi * elapsed[i])) / 2.0
            tau = np.clip(50.0 * (goal - q) - 10.0 * dq, -10.0, 10.0)
            before = np.array(state.tau_J_d)
            tau = before + np.clip(tau - before, -0.9, 0.9)
            handle.writeOnce(franka.Torques(tau.tolist()))
            states[i] = state
            if digests is not None:
                numbers = [elapsed[i], *state.q, *state.dq, *state.tau_J, *state.O_T_EE]
                digests[i].update(np.array(numbers).tobytes())
    return states


def finish(handle):
    """End a torque motion in answer to a state."""
    handle.readOnce()
    torques = franka.Torques([0.0] * 7)
    torques.motion_finished = True
    handle.writeOnce(torques)


def spin(handle, cycles, tau=0.0):
    """Command constant torques."""
    state = None
    for _ in range(cycles):
        state, _ = handle.readOnce()
        handle.writeOnce(franka.Torques([tau] * 7))
    return state


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


def model(address, postures, load):
    robot = connect(address)
    if load:
        robot.set_load(*load)
    dynamics = robot.load_model()
    found = []
    for posture in postures:
        admin(address, "place", q=posture)
        state = fresh(robot)
        while max(abs(a - b) for a, b in zip(state.q, posture)) > 1e-6:
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
    handle = robot.start_torque_control()  # in motion, for velocities
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


def preemption(address):
    robot = connect(address)
    handle = robot.start_torque_control()
    spin(handle, 10)
    robot.stop()
    stopped = error_of(spin, handle, 10)
    del handle
    mode = fresh(robot).robot_mode.name
    handle = robot.start_torque_control()
    spin(handle, 10)
    second = error_of(robot.start_torque_control)
    del handle  # its destructor sends StopMove
    dropped = fresh(robot).robot_mode.name
    finish(robot.start_torque_control())
    return {"stopped": stopped, "mode": mode, "second": second, "dropped": dropped,
            "end": fresh(robot).robot_mode.name}  # fmt: skip


def reflex(address, provoke, steps=200, tau=0.0):
    """Have the admin port provoke a reflex, or command ``tau`` at once; then recover."""
    robot = connect(address)
    robot.set_collision_behavior([20.0] * 7, [20.0] * 7, [20.0] * 6, [20.0] * 6)
    handle = robot.start_torque_control()
    spin(handle, 20)
    if provoke:
        admin(address, **provoke)
    raised = error_of(spin, handle, steps, tau)
    state = fresh(robot)
    found = {"raised": raised, "mode": state.robot_mode.name,
             "current": str(state.current_errors), "last": str(state.last_motion_errors),
             "tau_ext": state.tau_ext_hat_filtered, "wrench": state.O_F_ext_hat_K}  # fmt: skip
    del handle
    found["start"] = error_of(robot.start_torque_control)
    admin(address, "push")
    robot.automatic_error_recovery()
    state = fresh(robot)
    found["recovered"] = state.robot_mode.name
    found["after"] = [str(state.current_errors), str(state.last_motion_errors)]
    return found


def runaway(address, start):
    """Accelerate joint 1 until the robot objects."""
    admin(address, "place", q=start)
    robot = connect(address)
    handle = robot.start_torque_control()
    tau = 0.0

    def accelerate():
        nonlocal tau
        for _ in range(2000):
            handle.readOnce()
            tau = min(tau + 0.5, 20.0)
            handle.writeOnce(franka.Torques([tau] + [0.0] * 6))

    return {"raised": error_of(accelerate)}


def error_names(address, names):
    """Raise every error by itself; return which ones the client sees, and their texts."""
    robot = connect(address)
    seen, texts = [], []
    for name in names:
        admin(address, "fault", errors=[name])
        errors = fresh(robot).current_errors
        seen.append([other for other in names if getattr(errors, other)])
        texts.append(str(errors))
    return {"seen": seen, "texts": texts}


def fault_at(address, at):
    """Count the cycles until a fault that the robot has planned."""
    admin(address, "fault", errors=["joint_reflex"], at=at)
    robot = connect(address)
    handle = robot.start_torque_control()
    done = 0

    def count():
        nonlocal done
        while True:
            spin(handle, 1)
            done += 1

    return {"raised": error_of(count), "done": done}


def gap(address, pause, lost=None):
    """Pause, or lose commands, and go on."""
    robot = connect(address)
    handle = robot.start_torque_control()
    spin(handle, 150)
    if lost:
        admin(address, "drop", **lost)
    time.sleep(pause)
    raised = error_of(spin, handle, 30)
    rate = None if raised else spin(handle, 1).control_command_success_rate
    state = fresh(robot) if raised else None
    return {"raised": raised, "rate": rate, "mode": state and state.robot_mode.name}


def user_stop(address):
    robot = connect(address)
    handle = robot.start_torque_control()
    spin(handle, 10)
    admin(address, "user_stop", pressed=True)
    raised = error_of(spin, handle, 50)
    del handle
    mode = fresh(robot).robot_mode.name
    recovery = error_of(robot.automatic_error_recovery)
    start = error_of(robot.start_torque_control)
    admin(address, "user_stop", pressed=False)
    released = fresh(robot).robot_mode.name
    admin(address, "guiding", pressed=True)
    guided = fresh(robot).robot_mode.name
    admin(address, "guiding", pressed=False)
    finish(robot.start_torque_control())
    return {"raised": raised, "mode": mode, "recovery": recovery, "start": start,
            "released": released, "guided": guided}  # fmt: skip


def broken_link(address, command):
    """Lose the robot while a motion runs."""
    robot = connect(address)
    handle = robot.start_torque_control()
    spin(handle, 10)
    admin(address, command)
    report({"raised": error_of(spin, handle, 5000)})
    os._exit(0)  # destructors would talk to a robot that is not there


def refused(address):
    """Connect to a robot that cannot take the client."""
    return {"raised": error_of(connect, address)}


def in_use(address):
    """Connect twice."""
    first = connect(address)
    raised = error_of(connect, address)
    return {"raised": raised, "first": fresh(first).robot_mode.name}


def joint_motion(address, seconds=0.5):
    robot = connect(address)
    handle = robot.start_joint_position_control(franka.ControllerMode.JointImpedance)
    start, elapsed, last = None, 0.0, None
    while last is None or elapsed < seconds:
        state, passed = handle.readOnce()
        elapsed += passed.to_sec()
        start = start or list(state.q_d)
        goal = list(start)
        goal[5] += 0.02 * (1.0 - math.cos(math.pi * min(elapsed / seconds, 1.0)))
        last = franka.JointPositions(goal)
        last.motion_finished = elapsed >= seconds
        handle.writeOnce(last)
    time.sleep(0.2)
    moved = np.array(fresh(robot).q) - start
    return {"moved": moved.tolist(), "mode": fresh(robot).robot_mode.name}


def cartesian_motion(address, seconds=0.5):
    robot = connect(address)
    handle = robot.start_cartesian_pose_control(franka.ControllerMode.JointImpedance)
    start, elapsed, last = None, 0.0, None
    while last is None or elapsed < seconds:
        state, passed = handle.readOnce()
        elapsed += passed.to_sec()
        start = start or list(state.O_T_EE_d)
        goal = list(start)
        goal[14] += 0.01 * (1.0 - math.cos(math.pi * min(elapsed / seconds, 1.0)))
        last = franka.CartesianPose(goal)
        last.motion_finished = elapsed >= seconds
        handle.writeOnce(last)
    time.sleep(0.2)
    moved = np.array(fresh(robot).O_T_EE) - start
    return {"moved": moved.tolist(), "mode": fresh(robot).robot_mode.name}


def gripper(address):
    hand = franka.Gripper(address)
    first = hand.read_once()
    found = {
        "max_width": first.max_width,
        "homing": hand.homing(),
        "version": hand.server_version(),
    }
    found["move"] = hand.move(0.03, 0.2)
    found["width"] = hand.read_once().width
    found["miss"] = hand.grasp(0.05, 0.2, 20.0)
    found["miss_held"] = hand.read_once().is_grasped
    hand.move(0.08, 0.2)
    admin(address, "object", width=0.05)
    found["grasp"] = hand.grasp(0.05, 0.2, 20.0, 0.005, 0.005)
    state = hand.read_once()
    found["held"], found["held_width"] = state.is_grasped, state.width
    hand.move(0.08, 0.2)
    found["wrong_width"] = hand.grasp(0.03, 0.2, 20.0, 0.005, 0.005)
    found["blocked"] = hand.move(0.02, 0.2)
    found["stop"] = hand.stop()
    found["too_strong"] = error_of(hand.grasp, 0.05, 0.1, 1000.0)
    found["impossible"] = error_of(hand.move, 0.2, 0.1)
    return found


def wrong_gripper(address):
    return {"raised": error_of(franka.Gripper, address)}


def report(found):
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    report(globals()[sys.argv[1]](**json.loads(sys.argv[2])))
