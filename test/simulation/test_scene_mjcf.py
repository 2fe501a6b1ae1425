# SPDX-License-Identifier: Apache-2.0
"""MuJoCo scene: contacts, gravity compensation, fingers, objects."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots import READY_CONFIGURATION, ArmDescription, SceneObject
from multipanda_py.robots.geometry import SolidOfRevolution
from multipanda_py.simulation.mjcf_elements import revolve
from multipanda_py.simulation.scene_mjcf import build_scene

pytestmark = pytest.mark.inline


def ready(model):
    """Return data in the keyframe."""
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("ready").id)
    mujoco.mj_forward(model, data)
    return data


def touching(model, data):
    """Return pairs of bodies in contact."""
    return {
        frozenset(model.body(model.geom_bodyid[g]).name for g in (c.geom1, c.geom2))
        for c in data.contact
    }


def dual(distance=0.6, models=("fr3", "fr3")):
    """Return two arms side by side."""
    return [
        ArmDescription(name, model, np.array([0.0, side * distance / 2, 0.0]))
        for name, model, side in zip(("left", "right"), models, (1, -1), strict=True)
    ]


@pytest.mark.parametrize("model", ["fr3", "fer"])
def test_ready_configuration_touches_nothing(model):
    scene = build_scene(dual(models=(model, model))).compile()
    data = ready(scene)
    np.testing.assert_allclose(data.joint(f"right_{model}_joint4").qpos, -3 * np.pi / 4)
    assert touching(scene, data) == set()
    assert data.warning.number.sum() == 0


@pytest.mark.parametrize("model", ["fr3", "fer"])
def test_adjacent_links_do_not_collide(model):
    arm = ArmDescription("arm", model)
    scene = build_scene([arm]).compile()
    data = ready(scene)
    index = {f"{arm.prefix}link{i}": i for i in range(8)}
    index |= {f"{arm.prefix}{b}": 7 for b in ("hand", "leftfinger", "rightfinger")}
    rng = np.random.default_rng(3)
    free = 0
    for _ in range(200):
        data.qpos[:7] = rng.uniform(arm.limits.lower, arm.limits.upper)
        mujoco.mj_fwdPosition(scene, data)
        pairs = [tuple(pair) for pair in touching(scene, data) if "world" not in pair]
        free += not pairs
        assert all(abs(index[a] - index[b]) >= 2 for a, b in pairs)
    assert free > 180


def test_arm_collides_with_itself_floor_and_other_arm():
    scene = build_scene(dual(distance=0.3)).compile()
    data = ready(scene)
    data.joint("left_fr3_joint1").qpos = -0.35
    data.joint("right_fr3_joint1").qpos = 0.35
    mujoco.mj_fwdPosition(scene, data)
    assert any("left" in min(pair) and "right" in max(pair) for pair in touching(scene, data))

    data = ready(scene)
    data.joint("left_fr3_joint2").qpos = 1.6
    mujoco.mj_fwdPosition(scene, data)
    assert any("world" in pair for pair in touching(scene, data))

    data = ready(scene)
    data.joint("left_fr3_joint2").qpos = -1.3
    data.joint("left_fr3_joint4").qpos = -2.9
    data.joint("left_fr3_joint6").qpos = 1.0
    mujoco.mj_fwdPosition(scene, data)
    assert any(all("left" in body for body in pair) for pair in touching(scene, data))


def test_colliding_arms_stop_each_other():
    scene = build_scene(dual(distance=0.5)).compile()
    data = ready(scene)
    left, right = (scene.site(f"{n}_fr3_hand_tcp").id for n in ("left", "right"))
    data.actuator("left_fr3_joint1").ctrl = -8.0
    data.actuator("right_fr3_joint1").ctrl = 8.0
    observed = False
    for _ in range(1500):
        mujoco.mj_step(scene, data)
        observed = observed or bool(touching(scene, data))
        assert data.site_xpos[left][1] > data.site_xpos[right][1]
    assert observed


@pytest.mark.parametrize("model", ["fr3", "fer"])
def test_arm_stays_without_torque(model):
    scene = build_scene(dual(models=(model, model))).compile()
    data = ready(scene)
    start = data.qpos.copy()
    for _ in range(100):
        mujoco.mj_step(scene, data)
    np.testing.assert_allclose(data.qpos, start, atol=1e-6)


def test_fingers_reach_command_within_maximum_force():
    scene = build_scene([ArmDescription("arm", finger_opening=0.03)]).compile()
    data = ready(scene)
    np.testing.assert_allclose(data.qpos[7:], 0.03)
    data.ctrl[7:] = 0.01
    for _ in range(500):
        mujoco.mj_step(scene, data)
        assert np.abs(data.actuator_force[7:]).max() <= 70.0
    np.testing.assert_allclose(data.qpos[7:], 0.01, atol=1e-4)


def test_gripper_holds_cube():
    arm = ArmDescription("arm", finger_opening=0.021)
    tcp = ready(build_scene([arm]).compile()).site("arm_fr3_hand_tcp").xpos.copy()
    cube = SceneObject("cube", "box", (0.02, 0.02, 0.02), position=tcp, mass=0.1)
    scene = build_scene([arm], [cube]).compile()
    data = ready(scene)
    data.ctrl[7:9] = 0.0
    for _ in range(1000):
        mujoco.mj_step(scene, data)
    # The uncontrolled arm sinks under the cube.
    offset = data.body("cube").xpos - data.site("arm_fr3_hand_tcp").xpos
    assert np.linalg.norm(offset) < 0.005


def test_objects_are_fixed_or_movable():
    objects = [
        SceneObject("table", "box", (0.3, 0.3, 0.2), position=np.array([0.6, 0.0, 0.2])),
        SceneObject("ball", "sphere", (0.03,), position=np.array([0.6, 0.0, 0.6]), mass=0.2),
        SceneObject("can", "cylinder", (0.03, 0.06), position=np.array([0.5, 0.2, 0.46]), mass=1),
        SceneObject("peg", "capsule", (0.01, 0.04), position=np.array([0.7, 0.2, 0.6]), mass=0.1),
    ]
    scene = build_scene([], objects).compile()
    assert scene.nv == 18
    np.testing.assert_allclose(scene.body("ball").mass, 0.2)
    data = ready(scene)
    np.testing.assert_allclose(data.joint("can_joint").qpos[:3], (0.5, 0.2, 0.46))
    for _ in range(1000):
        mujoco.mj_step(scene, data)
    np.testing.assert_allclose(data.body("ball").xpos[2], 0.43, atol=2e-3)


def test_names_timestep_and_meshes_are_checked(tmp_path):
    with pytest.raises(ConfigurationError, match="different names"):
        build_scene([ArmDescription("a")], [SceneObject("a", "sphere", (0.1,))])
    with pytest.raises(ConfigurationError, match="timestep"):
        build_scene([ArmDescription("a")], timestep=0.0)
    with pytest.raises(ConfigurationError, match=r"link0_0\.obj"):
        build_scene([ArmDescription("a")], meshes=tmp_path)
    assert build_scene([ArmDescription("a")], timestep=2e-3).compile().opt.timestep == 2e-3


def test_meshes_of_user_replace_visuals(tmp_path):
    corners = "v 0 0 0\nv 0.1 0 0\nv 0 0.1 0\nv 0 0 0.1\n"
    obj = corners + "f 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    for name in ("link0_0", "link0_1", *(f"link{i}" for i in range(1, 8))):
        (tmp_path / f"{name}.obj").write_text(obj)
    scene = build_scene(dual(), meshes=tmp_path).compile()
    names = {scene.mesh(i).name for i in range(scene.nmesh)}
    assert {"mesh_link0_0", "mesh_link0_1", "mesh_link7"} <= names
    assert touching(scene, ready(scene)) == set()


def test_solids_of_revolution_are_closed_and_outward():
    for shape in (
        SolidOfRevolution((0, 0, 0), (0, 0, 0.3), 0.1, 0.1),
        SolidOfRevolution((0, 0, 0), (0, 0, 0.3), 0.1, 0.05, 0.1, 0.05),
    ):
        vertices, faces = revolve(shape.outline())
        edges = np.vstack((faces[:, :2], faces[:, 1:], faces[:, [2, 0]]))
        assert {tuple(e) for e in edges} == {tuple(e[::-1]) for e in edges}
        a, b, c = (vertices[faces[:, i]] for i in range(3))
        volume = float(np.einsum("ij,ij->i", a, np.cross(b, c)).sum()) / 6.0
        assert volume > 0.9 * np.pi * 0.075**2 * 0.3


def test_ready_configuration_is_within_limits():
    for model in ("fr3", "fer"):
        limits = ArmDescription("a", model).limits
        assert ((limits.lower < READY_CONFIGURATION) & (limits.upper > READY_CONFIGURATION)).all()
