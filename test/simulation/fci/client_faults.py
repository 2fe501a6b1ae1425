# SPDX-License-Identifier: Apache-2.0
"""Client cases with faults; see ``clients.py``."""

from __future__ import annotations

import os
import time

import pylibfranka as franka
from back_door import admin
from client_tools import connect, error_of, finish, fresh, report, spin


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
    del handle  # The destructor sends StopMove.
    dropped = fresh(robot).robot_mode.name
    finish(robot.start_torque_control())
    return {"stopped": stopped, "mode": mode, "second": second, "dropped": dropped,
            "end": fresh(robot).robot_mode.name}  # fmt: skip


def reflex(address, provoke, steps=200, tau=0.0):
    """Provoke a reflex by the administration port or by a step to ``tau``; then recover."""
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
    """Accelerate joint 1 until the robot reports an error."""
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
    """Raise every error separately; return the errors that the client reads, and their texts."""
    robot = connect(address)
    observed, texts = [], []
    for name in names:
        admin(address, "fault", errors=[name])
        errors = fresh(robot).current_errors
        observed.append([other for other in names if getattr(errors, other)])
        texts.append(str(errors))
    return {"seen": observed, "texts": texts}


def fault_at(address, at):
    """Count the cycles until a planned fault of the robot."""
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


def gap(address, pause=False, lost=None):
    """Pause until the robot aborts, or lose commands, and continue."""
    robot = connect(address)
    handle = robot.start_torque_control()
    spin(handle, 150)
    if lost:
        admin(address, "drop", **lost)
    while pause and admin(address, "stats")["mode"] == "move":
        time.sleep(0.01)
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
    """Lose the robot during a motion."""
    robot = connect(address)
    handle = robot.start_torque_control()
    spin(handle, 10)
    admin(address, command)
    report({"raised": error_of(spin, handle, 5000)})
    os._exit(0)  # Destructors would wait for the missing robot.


def refused(address):
    """Connect to a robot that rejects the client."""
    return {"raised": error_of(connect, address)}


def in_use(address):
    """Connect twice."""
    first = connect(address)
    raised = error_of(connect, address)
    return {"raised": raised, "first": fresh(first).robot_mode.name}


def wrong_gripper(address):
    return {"raised": error_of(franka.Gripper, address)}
