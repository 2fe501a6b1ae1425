# SPDX-License-Identifier: Apache-2.0
"""Visual geometry of arms from their URDF, without effect on their motion."""

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


def visuals(model, link):
    body = model.body(f"arm_{link}").id
    shown = (model.geom_bodyid == body) & (model.geom_group == VISUAL_GROUP)
    return [int(geom) for geom in np.flatnonzero(shown)]


def test_urdf_cylinder_is_cylinder_in_scene():
    model = scene(BENCH_ARM)
    (geom,) = visuals(model, "bench_arm_upper_arm_link")
    assert model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_CYLINDER
    np.testing.assert_allclose(model.geom_size[geom, :2], (0.045, 0.17))
    np.testing.assert_allclose(model.geom_pos[geom], (0, 0, 0.15), atol=1e-12)
    np.testing.assert_allclose(model.geom_rgba[geom], (0.93, 0.94, 0.95, 1), atol=1e-6)
    assert model.geom_contype[geom] == model.geom_conaffinity[geom] == 0


def test_mesh_is_shown_without_mass(tmp_path):
    urdf = tmp_path / "bench_arm.urdf"
    urdf.write_text(BENCH_ARM.read_text().replace(CYLINDER, '<mesh filename="a.obj"/>'))
    (tmp_path / "a.obj").write_text(OBJ)
    model, plain = scene(urdf), scene(BENCH_ARM)
    (geom,) = visuals(model, "bench_arm_upper_arm_link")
    assert model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH
    np.testing.assert_allclose(model.body_mass, plain.body_mass)
    np.testing.assert_allclose(model.body_inertia, plain.body_inertia)


def test_capsules_replace_missing_mesh(tmp_path):
    urdf = tmp_path / "bench_arm.urdf"
    urdf.write_text(BENCH_ARM.read_text().replace(CYLINDER, '<mesh filename="a.obj"/>'))
    model = scene(urdf)
    (geom,) = visuals(model, "bench_arm_upper_arm_link")
    assert model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH  # The mesh of the capsule.


def test_visuals_of_yaml_are_shown(tmp_path):
    extra = tmp_path / "bench_arm.yaml"
    extra.write_text("visuals: {upper_arm_link: [[blue, [0, 0, 0], [0, 0, 0.1], 0.02]]}\n")
    model = scene(BENCH_ARM, extra=extra)
    (geom,) = visuals(model, "bench_arm_upper_arm_link")
    assert model.material(int(model.geom_matid[geom])).name == "blue"
