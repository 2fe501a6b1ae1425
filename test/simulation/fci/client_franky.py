# SPDX-License-Identifier: Apache-2.0
"""Motions of the third-party client franky-control; see ``test_franky_control.py``.

``python client_franky.py ADDRESS LOSS`` prints a JSON object with the outcome of each motion. From
this project it uses only the administration port, for packet loss.
"""

from __future__ import annotations

import json
import os
import sys
import time

import franky as f
import numpy as np
from back_door import admin

SPEED = 0.1  # Fraction of the limits of franky; 0.2 exceeds the acceleration limit.
READY = [0.0, -np.pi / 4, 0.0, -3 * np.pi / 4, 0.0, np.pi / 2, np.pi / 4]
BY = f.ReferenceType.Relative


def by(x, y, z, angle=0.0):
    return f.Affine([x, y, z], [0.0, 0.0, np.sin(angle / 2), np.cos(angle / 2)])


def interrupted(robot, motion, seconds):
    """Run an endless motion for some time."""
    robot.move(motion, asynchronous=True)
    time.sleep(seconds)
    robot.stop()
    try:
        robot.join_motion()
    except f.ControlException as error:
        if "preempted" not in str(error):
            raise


def preempted(robot, motion, seconds, other):
    robot.move(motion, asynchronous=True)
    time.sleep(seconds)
    robot.move(other)


def motions(robot):
    """Return all kinds of motions, ordered so that some begin while the arm settles."""
    twist = f.Twist([0.05, -0.03, 0.02], [0.0, 0.1, 0.1])
    there, back = by(0.03, 0.02, -0.03), by(-0.03, -0.02, 0.03)
    elbow = f.RobotPose(by(0.0, 0.0, -0.02), f.ElbowState(0.05))
    hold, short = f.Duration(50), f.Duration(100)

    def waypoint(kind, target):
        return kind(target, hold_target_duration=hold)

    def cartesian(target):
        return f.CartesianMotion(target, BY)

    ready = f.JointState(READY)
    return {
        "joint": lambda: robot.move(f.JointMotion(f.JointState([0.05] * 7), BY)),
        "joint waypoints": lambda: robot.move(
            f.JointWaypointMotion([f.JointWaypoint([s * 0.03] * 7, BY) for s in (1, -1)])
        ),
        "joint velocity": lambda: robot.move(f.JointVelocityMotion([0.05] * 7, short)),
        "joint preempted": lambda: preempted(
            robot, f.JointMotion(ready), 0.1, f.JointStopMotion()
        ),
        "ready": lambda: robot.move(f.JointMotion(ready)),
        "cartesian": lambda: robot.move(cartesian(there)),
        "cartesian back": lambda: robot.move(cartesian(back)),
        "cartesian turn": lambda: robot.move(cartesian(by(0.0, 0.0, 0.02, 0.1))),
        "cartesian waypoints": lambda: robot.move(
            f.CartesianWaypointMotion(
                [f.CartesianWaypoint(by(0.0, y, 0.0), BY) for y in (0.03, -0.03)]
            )
        ),
        "elbow": lambda: robot.move(cartesian(elbow)),
        "cartesian stop": lambda: robot.move(f.CartesianStopMotion()),
        "cartesian velocity": lambda: robot.move(f.CartesianVelocityMotion(twist, short)),
        "cartesian velocity waypoints": lambda: robot.move(
            f.CartesianVelocityWaypointMotion(
                [waypoint(f.CartesianVelocityWaypoint, f.Twist([v, 0, 0])) for v in (0.05, 0.0)]
            )
        ),
        "velocity preempted": lambda: preempted(
            robot, f.CartesianVelocityMotion(twist, f.Duration(500)), 0.1,
            f.CartesianVelocityStopMotion(),
        ),
        "impedance": lambda: interrupted(
            robot, f.CartesianImpedanceMotion(by(0.0, 0.03, 0.0), None, BY), 0.2
        ),
        "cartesian while settling": lambda: robot.move(cartesian(there)),
        "joint impedance": lambda: interrupted(
            robot, f.JointImpedanceMotion(robot.state.q + 0.03), 0.2
        ),
        "again while settling": lambda: robot.move(cartesian(back)),
        "torque stop": lambda: robot.move(f.TorqueStopMotion()),
        "home": lambda: robot.move(f.JointMotion(ready)),
    }  # fmt: skip


def main(address, loss):
    robot = f.Robot(address, realtime_config=f.RealtimeConfig.Ignore)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    robot.relative_dynamics_factor = SPEED
    admin(address, "drop", probability=float(loss))
    found = {}
    for name, run in motions(robot).items():
        try:
            run()
            robot.join_motion()
            found[name] = "done"
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
            robot.recover_from_errors()
    admin(address, "heal")
    time.sleep(0.5)  # The arm settles.
    off = float(np.abs(robot.state.q - np.array(READY)).max())
    sys.stdout.write(json.dumps({"motions": found, "off": off}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
