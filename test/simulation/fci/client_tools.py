# SPDX-License-Identifier: Apache-2.0
"""Shared functions of client cases; see ``clients.py``."""

from __future__ import annotations

import json
import math
import os
import sys
import time

import numpy as np
import pylibfranka as franka

UNIT = np.eye(4).ravel().tolist()


def connect(address):
    """Return a robot; reset the real-time priority that libfranka sets for the thread."""
    robot = franka.Robot(address, franka.RealtimeConfig.kIgnore)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return robot


def fresh(robot):
    """Return a state newer than those in the socket."""
    robot.read_once()
    return robot.read_once()


def settled(robot, maximum=500):
    """Return a state of the arm at rest, or the last one after ``maximum`` cycles."""
    state = fresh(robot)
    for _ in range(maximum):
        if np.abs(state.dq).max() < 1e-4:
            break
        state = robot.read_once()
    return state


def error_of(function, *args):
    """Return type, text and delay of the exception of a call."""
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
    """End a torque motion in the answer to a state."""
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


def report(found):
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
