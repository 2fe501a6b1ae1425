# SPDX-License-Identifier: Apache-2.0
"""Sliding contacts against Coulomb friction, and joints held by dry friction."""

from __future__ import annotations

import itertools

import mujoco
import numpy as np
import pytest
from spring_links import chain, run
from springs_of_fr3 import springs

from multipanda_py.robots import ArmDescription, SceneObject
from multipanda_py.simulation import mujoco_friction
from multipanda_py.simulation.actuators import CompliantJoints, CompliantRobot, Motors
from multipanda_py.simulation.actuators.compliant_actuators import Qbmove, Sea
from multipanda_py.simulation.mujoco_friction import let_friction_stick
from multipanda_py.simulation.scene_mjcf import build_scene

pytestmark = pytest.mark.inline

GRAVITY = 9.81


def sliding_box(friction, contact_time, speed):
    """Return a model and a state with a box that slides along a table."""
    surface = {"friction": (friction, 0.005, 1e-4), "contact": (contact_time, 1.0)}
    table = SceneObject("table", "box", (0.5, 0.5, 0.02), np.array([1.5, 0.0, 0.2]), **surface)
    box = SceneObject(
        "box", "box", (0.05, 0.05, 0.03), np.array([1.5, 0.0, 0.25]), mass=1.0, **surface
    )
    model = build_scene([ArmDescription("arm", "fr3")], [table, box]).compile()
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco_friction.step(model, data, 500)
    data.joint("box_joint").qvel[:] = 0.0
    data.joint("box_joint").qvel[0] = speed
    return model, data


@pytest.mark.parametrize("contact_time", [0.002, 0.004, 0.02])
@pytest.mark.parametrize("friction", [0.1, 0.3, 0.8])
def test_sliding_box_hopped_on_hard_table(friction, contact_time):
    speed = 0.5
    model, data = sliding_box(friction, contact_time, speed)
    joint, start = data.joint("box_joint"), data.joint("box_joint").qpos.copy()
    heights, touched = [], []
    for _ in range(100 + int(1e3 * speed / (friction * GRAVITY))):
        mujoco_friction.step(model, data)
        heights.append(joint.qpos[2] - start[2])
        touched.append(data.ncon > 0)
    assert all(touched)
    assert max(heights) < 1e-4
    travel = speed**2 / (2.0 * friction * GRAVITY)
    assert joint.qpos[0] - start[0] == pytest.approx(travel, rel=0.1)
    assert abs(joint.qvel[0]) < 1e-3


def test_sticking_contacts_equal_those_of_mujoco():
    model, data = sliding_box(0.5, 0.004, 0.0)
    mujoco.mj_step1(model, data)
    before = data.efc_aref.copy()
    mujoco_friction.correct_friction(model, data)
    np.testing.assert_allclose(data.efc_aref, before, rtol=1e-3, atol=1e-3)


def test_pyramidal_cones_are_unchanged():
    model, data = sliding_box(0.5, 0.004, 0.5)
    model.opt.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    mujoco.mj_step1(model, data)
    before = data.efc_aref.copy()
    mujoco_friction.correct_friction(model, data)
    np.testing.assert_array_equal(data.efc_aref, before)


PENDULUM = """
<mujoco>
  <option timestep="0.001" integrator="implicitfast" cone="elliptic" impratio="10"
          noslip_iterations="3" gravity="0 0 0"/>
  <worldbody>
    <body name="pendulum">
      <joint name="swing" axis="0 1 0"/>
      <geom size="0.1" mass="5" contype="0" conaffinity="0"/>
      <geom type="capsule" fromto="0 -0.115 -0.5 0 -0.165 -0.5" size="0.02" mass="0.5"/>
      <body name="finger" pos="0 0.115 -0.5">
        <joint name="press" type="slide" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0.05 0" size="0.02" mass="0.5"/>
      </body>
    </body>
    <body name="box" pos="0 0 -0.5">
      <freejoint/>
      <geom type="box" size="0.06 0.095 0.1" mass="0.8" friction="0.8 0.005 0.0001" condim="4"
            priority="1" solref="{time} 1" solimp="0.5 0.95 0.001 0.5 2"/>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.mark.parametrize("contact_time", [0.004, 0.02])
def test_grasped_box_on_curved_path_crept_out_of_grasp(contact_time):
    """The required friction is a tenth of the cone limit, so the box stays in the grasp.

    The remainder comes from the time step h: an explicit step adds h a / 2 to a tangential
    velocity.
    """
    model = mujoco.MjModel.from_xml_string(PENDULUM.format(time=contact_time))
    data = mujoco.MjData(model)
    amplitude, rate, radius, step, positions = 0.3, np.pi, 0.5, model.opt.timestep, []
    for cycle in range(8000):
        angle = amplitude * min(1.0, cycle * step) * np.sin(rate * cycle * step)
        data.qfrc_applied[0] = 3000.0 * (angle - data.qpos[0]) - 200.0 * data.qvel[0]
        data.qfrc_applied[1] = -50.0
        mujoco_friction.step(model, data)
        if cycle in (3999, 7999):
            mujoco.mj_kinematics(model, data)
            rotation = data.body("pendulum").xmat.reshape(3, 3)
            positions.append(rotation.T @ data.body("box").xpos)
    centripetal = 0.5 * (amplitude * rate) ** 2 * radius
    creep = np.linalg.norm(positions[1] - positions[0]) / (4000 * step)
    assert creep < 0.6 * step * centripetal


STEP = 1e-3
STICKS = 1e-4
"""Speed of 1 mrad in 10 s [rad/s]."""
FASTEST = 1000.0
"""Maximum acceleration without friction for this accuracy of sticking [rad/s^2]."""
CASES = list(itertools.product([1e-3, 0.025, 0.5, 10.0], [1e-4, 5e-3, 0.1, 5.0]))
"""Friction [Nm] and inertia of the link [kg m^2]."""


def free_link(loss, inertia):
    """Return a model with one weightless link, and its state."""
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{STEP}" gravity="0 0 0"/><worldbody><body><joint axis="0 0 1" '
        f'frictionloss="{loss}"/><inertial pos="0 0 0" mass="1" '
        f'diaginertia="{inertia} {inertia} {inertia}"/></body></worldbody></mujoco>'
    )
    let_friction_stick(model)
    return model, mujoco.MjData(model)


@pytest.mark.parametrize(("loss", "inertia"), CASES)
def test_link_sticks_slips_and_stops_by_coulomb_friction(loss, inertia):
    model, data = free_link(loss, inertia)
    data.qfrc_applied[0] = load = 0.9 * loss
    mujoco.mj_step(model, data, 1000)
    assert abs(data.qvel[0]) < STICKS * max(1.0, load / inertia / FASTEST)

    data.qfrc_applied[0] = 1.5 * loss  # The link slips; half of the friction accelerates it.
    before = data.qvel[0]
    mujoco.mj_step(model, data, 100)
    np.testing.assert_allclose(data.qvel[0] - before, 0.05 * loss / inertia, rtol=1e-6)

    data.qfrc_applied[0] = 0.0
    speed = data.qvel[0] = 0.2025 * loss / inertia  # It stops within step 203.
    data.qpos[0] = 0.0
    speeds = []
    for _ in range(300):
        mujoco.mj_step(model, data)
        speeds.append(data.qvel[0])
    assert np.diff(speeds, prepend=speed).max() <= 1e-12 * speed, "speed never increases"
    assert min(speeds) >= -1e-12 * speed, "motion does not reverse"
    assert abs(speeds[-1]) < 1e-9 * speed
    np.testing.assert_allclose(data.qpos[0], 0.5 * speed * 0.2025, rtol=0.01)


@pytest.mark.parametrize(("kind", "mode"), [(Qbmove, 6), (Qbmove, 3), (Sea, 3)])
def test_link_on_springs_crept_under_friction(kind, mode):
    actuators = [(kind(1), [0])]
    joints = CompliantJoints(actuators, 1, Motors.of(actuators), mode)
    robot = CompliantRobot(chain(1, loss=0.025), ["j1"], joints)
    joints.command("equilibrium_position", 0.8)
    if kind is Qbmove:
        joints.command("stiffness_preset", 0.2)
    run(robot, 3000)  # The link rests before the equilibrium.
    before = robot.q[0]
    run(robot, 1000)
    assert abs(robot.q[0] - before) < 1e-4
    pulled = robot.link_torque[0] - robot.weight[0]
    assert 1e-3 < abs(pulled) < 0.025, "friction carries part of the load"


def test_friction_parameters_of_model_are_kept():
    xml = (
        '<mujoco><worldbody><body><joint name="a" frictionloss="1" solreffriction="0.05 1"/>'
        '<geom size="0.1"/><body><joint name="b" frictionloss="1"/><geom size="0.1"/></body>'
        "</body></worldbody></mujoco>"
    )
    model = mujoco.MjModel.from_xml_string(xml)
    let_friction_stick(model)
    np.testing.assert_allclose(model.dof_solref, [[0.05, 1.0], [2.0 * model.opt.timestep, 1.0]])
    np.testing.assert_allclose(model.dof_solimp[:, 0], [0.9, 0.9999])


FRICTION = 4.0
LAWS = {"free": {"type": "gravity_compensation"}}


@pytest.mark.slow
@pytest.mark.parametrize(
    "arm",
    [
        {"joint_friction": [FRICTION] * 7},
        {"perturbation": {"coulomb": [FRICTION] * 7}},
        {"joint_friction": [FRICTION] * 7, "actuators": springs()},
    ],
    ids=["known friction", "unknown friction", "on springs"],
)
def test_arm_sticks_within_one_milliradian_in_ten_seconds(make_cell, arm):
    cell = make_cell({"arm": {"gripper": False, **arm}}, LAWS, ["arm/free"])
    cell.step(1000)
    cell.simulation.apply_wrench("arm_fr3_link7", [4.0, 4.0, 4.0])
    cell.step(1500)  # The initial deflection of the joints settles.
    before = cell.state("arm").q
    cell.step(500)
    assert np.abs(cell.state("arm").q - before).max() < 0.5e-4
    cell.simulation.apply_wrench("arm_fr3_link7", [40.0, 0.0, 0.0])
    cell.step(100)
    assert np.abs(cell.state("arm").dq).max() > 0.01, "the arm slips under ten times the load"
