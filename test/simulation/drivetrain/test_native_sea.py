# SPDX-License-Identifier: Apache-2.0
"""Series elastic joint of a MuJoCo tendon and servo against springs and motors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

from multipanda_py.config.arm_section import JointsConfig
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.actuated_joints import OperationMode
from multipanda_py.robots.read_robot import read_robot
from multipanda_py.simulation.actuators.compliant_actuators import Sea
from multipanda_py.simulation.actuators.joints import CompliantJoints
from multipanda_py.simulation.actuators.motors import Motors
from multipanda_py.simulation.actuators.robot import CompliantRobot
from multipanda_py.simulation.drivetrain.elasticity import add_rotors
from multipanda_py.simulation.scene_mjcf import build_scene

pytestmark = [pytest.mark.sim, pytest.mark.inline]

FOLDER = Path(__file__).parents[3] / "config" / "compliant"
INERTIA, DAMPING, P, D, MAXIMUM = 0.0233, 0.2698, 125.0, 4.5, 6.0
STEP, GOAL = 1e-3, 1.0
JOINT = "arm_one_joint_joint_1"


def scene(armature):
    robot = read_robot(urdf=FOLDER / "one_joint.urdf", base="base", tip="tip")
    robot = replace(robot, armature=np.array([armature]))
    arm = ArmDescription("arm", robot, compensates_gravity=False, joint_damping=np.array([0.02]))
    return arm, build_scene([arm], timestep=STEP)


def native(stiffness, steps, each=1):
    """Return angles of a link with a tendon to a rotor with a position servo."""
    arm, spec = scene(INERTIA)
    add_rotors(spec, arm, JointsConfig(stiffness=[stiffness], damping=[0.0]), 1.0)
    (rotor,) = [joint for joint in spec.joints if joint.name == "arm_one_joint_rotor1"]
    damping = np.zeros_like(rotor.damping)
    damping.flat[0] = DAMPING
    rotor.damping = damping if damping.ndim else DAMPING
    (servo,) = spec.actuators
    servo.gainprm[0], servo.biasprm[1:3] = P, (-P, -D)
    servo.biastype = mujoco.mjtBias.mjBIAS_AFFINE
    servo.forcerange, servo.ctrllimited = np.array([-MAXIMUM, MAXIMUM]), False
    model = spec.compile()
    model.opt.timestep = STEP / each
    data = mujoco.MjData(model)
    data.ctrl[0] = GOAL
    link, found = int(model.joint(JOINT).qposadr[0]), []
    for _ in range(steps):
        mujoco.mj_step(model, data, each)
        found.append(float(data.qpos[link]))
    return np.array(found)


def of_springs(stiffness, steps):
    """Return the same angles with a spring, a motor and a controller of this package."""
    _, spec = scene(0.0)
    sea = [(Sea(1, {"stiffness": stiffness, "max_deflection": 3.0}), [0])]
    motors = Motors.of(
        sea, inertia=INERTIA, damping=DAMPING, max_torque=MAXIMUM, p=P, d=D, friction=0.0,
        max_velocity=100.0,
    )  # fmt: skip
    joints = CompliantJoints(sea, 1, motors, OperationMode.MOTOR_PID)
    robot = CompliantRobot(spec.compile(), [JOINT], joints, STEP)
    joints.command("reference_1", GOAL)
    found = []
    for _ in range(steps):
        robot.step()
        found.append(float(robot.q[0]))
    return np.array(found)


@pytest.mark.parametrize("stiffness", [10.0, 200.0, 400.0])
def test_native_and_package_joints_move_alike(stiffness):
    steps = 600
    one, other = native(stiffness, steps), of_springs(stiffness, steps)
    assert np.abs(one).max() > 0.9
    assert np.abs(one - other).max() < 5e-3, np.abs(one - other).max()
    finer = native(stiffness, steps, 8)  # Springs use several substeps, MuJoCo a single step.
    assert np.abs(finer - other).max() < 1e-3, np.abs(finer - other).max()
