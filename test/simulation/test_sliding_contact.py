# SPDX-License-Identifier: Apache-2.0
"""Sliding contacts against Coulomb friction."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from multipanda_py.robots import ArmDescription, SceneObject
from multipanda_py.simulation import sliding_contact
from multipanda_py.simulation.mjcf import build_scene

pytestmark = pytest.mark.inline

GRAVITY = 9.81


def sliding_box(friction, contact_time, speed):
    """Return a model and the state in which a box slides along a table, at its lowest point."""
    surface = {"friction": (friction, 0.005, 1e-4), "contact": (contact_time, 1.0)}
    table = SceneObject("table", "box", (0.5, 0.5, 0.02), np.array([1.5, 0.0, 0.2]), **surface)
    box = SceneObject(
        "box", "box", (0.05, 0.05, 0.03), np.array([1.5, 0.0, 0.25]), mass=1.0, **surface
    )
    model = build_scene([ArmDescription("arm", "fr3")], [table, box]).compile()
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    sliding_contact.step(model, data, 500)
    data.joint("box_joint").qvel[:] = 0.0
    data.joint("box_joint").qvel[0] = speed
    return model, data


@pytest.mark.parametrize("contact_time", [0.002, 0.004, 0.02])
@pytest.mark.parametrize("friction", [0.1, 0.3, 0.8])
def test_a_box_that_slid_along_a_hard_table_hopped(friction, contact_time):
    speed = 0.5
    model, data = sliding_box(friction, contact_time, speed)
    joint, start = data.joint("box_joint"), data.joint("box_joint").qpos.copy()
    heights, touched = [], []
    for _ in range(100 + int(1e3 * speed / (friction * GRAVITY))):
        sliding_contact.step(model, data)
        heights.append(joint.qpos[2] - start[2])
        touched.append(data.ncon > 0)
    assert all(touched)
    assert max(heights) < 1e-4
    travel = speed**2 / (2.0 * friction * GRAVITY)
    assert joint.qpos[0] - start[0] == pytest.approx(travel, rel=0.1)
    assert abs(joint.qvel[0]) < 1e-3


def test_contacts_that_stick_are_as_mujoco_computes_them():
    model, data = sliding_box(0.5, 0.004, 0.0)
    mujoco.mj_step1(model, data)
    before = data.efc_aref.copy()
    sliding_contact.correct_friction(model, data)
    np.testing.assert_allclose(data.efc_aref, before, rtol=1e-3, atol=1e-3)


def test_pyramidal_cones_are_left_as_they_are():
    model, data = sliding_box(0.5, 0.004, 0.5)
    model.opt.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    mujoco.mj_step1(model, data)
    before = data.efc_aref.copy()
    sliding_contact.correct_friction(model, data)
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
def test_a_grasped_box_on_a_curved_path_crept_out_of_the_grasp(contact_time):
    """Friction needs a tenth of what the cone permits: the box stays where it is grasped.

    The remainder is of the time step h: an explicit step adds h a / 2 to a tangential velocity.
    """
    model = mujoco.MjModel.from_xml_string(PENDULUM.format(time=contact_time))
    data = mujoco.MjData(model)
    size, rate, radius, step, places = 0.3, np.pi, 0.5, model.opt.timestep, []
    for cycle in range(8000):
        angle = size * min(1.0, cycle * step) * np.sin(rate * cycle * step)
        data.qfrc_applied[0] = 3000.0 * (angle - data.qpos[0]) - 200.0 * data.qvel[0]
        data.qfrc_applied[1] = -50.0
        sliding_contact.step(model, data)
        if cycle in (3999, 7999):
            mujoco.mj_kinematics(model, data)
            turn = data.body("pendulum").xmat.reshape(3, 3)
            places.append(turn.T @ data.body("box").xpos)
    centripetal = 0.5 * (size * rate) ** 2 * radius
    creep = np.linalg.norm(places[1] - places[0]) / (4000 * step)
    assert creep < 0.6 * step * centripetal
