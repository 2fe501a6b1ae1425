# SPDX-License-Identifier: Apache-2.0
"""Arms look in simulation as their own URDF says, and move as without it."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from repository import BENCH_ARM

from multipanda_py.robots import ArmDescription
from multipanda_py.robots.read_robot import read_robot
from multipanda_py.simulation.mjcf_elements import VISUAL_GROUP
from multipanda_py.simulation.scene_mjcf import build_scene

pytestmark = [pytest.mark.sim, pytest.mark.inline]

CYLINDER = '<cylinder radius="0.045" length="0.34"/>'
OBJ = "v 0 0 0\nv 0.1 0 0\nv 0 0.1 0\nv 0 0 0.1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


def scene(urdf, **extra):
    robot = read_robot(urdf=urdf, base="base_link", tip="tool0", **extra)
    return build_scene([ArmDescription("arm", robot, hand=False)]).compile()


def pictures(model, link):
    body = model.body(f"arm_{link}").id
    shown = (model.geom_bodyid == body) & (model.geom_group == VISUAL_GROUP)
    return [int(geom) for geom in np.flatnonzero(shown)]


def test_a_cylinder_of_the_urdf_is_one_in_the_scene():
    model = scene(BENCH_ARM)
    (geom,) = pictures(model, "bench_arm_upper_arm_link")
    assert model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_CYLINDER
    np.testing.assert_allclose(model.geom_size[geom, :2], (0.045, 0.17))
    np.testing.assert_allclose(model.geom_pos[geom], (0, 0, 0.15), atol=1e-12)
    np.testing.assert_allclose(model.geom_rgba[geom], (0.93, 0.94, 0.95, 1), atol=1e-6)
    assert model.geom_contype[geom] == model.geom_conaffinity[geom] == 0


def test_a_mesh_is_shown_and_weighs_nothing(tmp_path):
    urdf = tmp_path / "bench_arm.urdf"
    urdf.write_text(BENCH_ARM.read_text().replace(CYLINDER, '<mesh filename="a.obj"/>'))
    (tmp_path / "a.obj").write_text(OBJ)
    model, plain = scene(urdf), scene(BENCH_ARM)
    (geom,) = pictures(model, "bench_arm_upper_arm_link")
    assert model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH
    np.testing.assert_allclose(model.body_mass, plain.body_mass)
    np.testing.assert_allclose(model.body_inertia, plain.body_inertia)


def test_where_a_mesh_is_not_there_capsules_are_shown(tmp_path):
    urdf = tmp_path / "bench_arm.urdf"
    urdf.write_text(BENCH_ARM.read_text().replace(CYLINDER, '<mesh filename="a.obj"/>'))
    model = scene(urdf)
    (geom,) = pictures(model, "bench_arm_upper_arm_link")
    assert model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH  # a turned solid, of its capsule


def test_who_draws_an_arm_in_its_yaml_sees_that(tmp_path):
    extra = tmp_path / "bench_arm.yaml"
    extra.write_text("visuals: {upper_arm_link: [[blue, [0, 0, 0], [0, 0, 0.1], 0.02]]}\n")
    model = scene(BENCH_ARM, extra=extra)
    (geom,) = pictures(model, "bench_arm_upper_arm_link")
    assert model.material(int(model.geom_matid[geom])).name == "blue"
