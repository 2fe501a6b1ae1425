# SPDX-License-Identifier: Apache-2.0
"""MoveIt's scene of a cell, as MoveIt parses it, against the world that MuJoCo compiles."""

from __future__ import annotations

from typing import NamedTuple

import coal
import mujoco
import numpy as np
import pinocchio as pin
import pytest
from repository import CONFIG

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.planning.moveit_files import SCENE, moveit_files

pytestmark = pytest.mark.inline
SIZES = {"box": 3, "sphere": 1, "cylinder": 2}
KINDS = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
}


class Shape(NamedTuple):
    kind: str
    size: list[float]
    pose: pin.SE3
    color: list[float]


def read(text):
    """Parse a scene as MoveIt does, with line breaks only after names: shapes by object."""
    name, _, rest = text.partition("\n")
    lines = iter(rest.splitlines())
    objects, words = {}, iter(())

    def number():
        nonlocal words
        while (word := next(words, None)) is None:
            words = iter(next(lines).split())
        return float(word)

    def pose():
        x, y, z, qx, qy, qz, qw = (number() for _ in range(7))
        return pin.SE3(pin.Quaternion(qw, qx, qy, qz).toRotationMatrix(), np.array([x, y, z]))

    for line in lines:
        if line == ".":
            assert list(lines) == []
            return name, objects
        marker, _, scene_object = line.partition(" ")
        assert marker == "*"
        assert scene_object not in objects, "MoveIt would add the shapes to those of the first"
        placed, objects[scene_object] = pose(), []
        for _ in range(int(number())):
            kind = next(lines)
            size = [number() for _ in range(SIZES[kind])]
            within = pose()
            objects[scene_object].append(
                Shape(kind, size, placed * within, [number() for _ in range(4)])
            )
        assert number() == 0, "no frames"
    raise AssertionError("no end")


OBJECTS = {
    "block": {"shape": "box", "size": [0.1, 0.2, 0.05], "rpy": [0.3, -0.4, 1.2]},
    "ball": {"shape": "sphere", "size": [0.07], "mass": 0.2},
    "can": {"shape": "cylinder", "size": [0.03, 0.08], "rpy": [1.0, 0.2, 0.0], "mass": 0.1},
    "pill": {"shape": "capsule", "size": [0.02, 0.06], "rpy": [0.0, 1.1, -0.5]},
}


@pytest.fixture(scope="module")
def world():
    """A cell with an object of each shape: its parsed scene and MuJoCo's model."""
    objects = {
        name: {
            **scene_object,
            "position": [1.5, 0.4 * i, 0.5 + 0.1 * i],
            "rgba": [0.1 * i, 0.5, 0.5, 1],
        }
        for i, (name, scene_object) in enumerate(OBJECTS.items())
    }
    config = CellConfig.from_dict({
        "arms": {"left": {"position": [0.0, 0.0, -0.3]}},
        "objects": objects,
        "controllets": {"follow": {"type": "joint_trajectory"}},
        "cell": {"name": "shapes", "placement": "inline"},
    })  # fmt: skip
    with Cell(config) as cell:
        model = cell.loop.backends[0].model
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    return read(moveit_files(config)[SCENE]), model, data


def test_objects_are_at_poses_of_mujoco(world):
    (name, objects), model, data = world
    assert name.endswith("+"), "Isaac's reader refuses a file without it"
    assert set(objects) == {"floor", *OBJECTS}
    for scene_object in ("block", "ball", "can"):
        [shape] = objects[scene_object]
        geom = model.geom(f"{scene_object}_geom")
        assert geom.type[0] == KINDS[shape.kind]
        half = np.array(shape.size) / 2.0
        half = {"sphere": shape.size, "cylinder": [shape.size[0], half[-1]]}.get(shape.kind, half)
        np.testing.assert_allclose(geom.size[: len(half)], half, atol=1e-9)
        placed = data.geom(f"{scene_object}_geom")
        np.testing.assert_allclose(shape.pose.translation, placed.xpos, atol=1e-8)
        np.testing.assert_allclose(shape.pose.rotation.ravel(), placed.xmat, atol=1e-8)
        np.testing.assert_allclose(shape.color, geom.rgba, atol=1e-6)


def test_capsule_is_cylinder_between_two_spheres(world):
    (_, objects), model, data = world
    cylinder, *ends = objects["pill"]
    geom, placed = model.geom("pill_geom"), data.geom("pill_geom")
    assert geom.type[0] == mujoco.mjtGeom.mjGEOM_CAPSULE
    np.testing.assert_allclose(cylinder.size, [geom.size[0], 2.0 * geom.size[1]])
    axis = placed.xmat.reshape(3, 3)[:, 2]
    for end, sign in zip(ends, (1.0, -1.0)):
        assert (end.kind, end.size) == ("sphere", [geom.size[0]])
        center = placed.xpos + sign * geom.size[1] * axis
        np.testing.assert_allclose(end.pose.translation, center, atol=1e-8)


def test_floor_is_slightly_below_floor_of_world(world):
    (_, objects), _, data = world
    [floor] = objects["floor"]
    top = floor.pose.translation[2] + floor.size[2] / 2.0
    assert 0.0 < data.geom("floor").xpos[2] - top < 0.01


@pytest.mark.parametrize("cell", sorted(path.name for path in (CONFIG / "moveit").iterdir()))
def test_ready_arm_is_free_in_scene_and_bowed_arm_collides(cell):
    """MoveIt would refuse every start if objects on the floor touched it."""
    folder = CONFIG / "moveit" / cell
    robot = pin.buildModelFromUrdf(str(folder / "cell.urdf"))
    solids = pin.buildGeomFromUrdf(robot, str(folder / "cell.urdf"), pin.COLLISION)
    pin.loadReferenceConfigurations(robot, str(folder / "cell.srdf"), False)
    links = solids.ngeoms
    for scene_object, shapes in read((folder / SCENE).read_text())[1].items():
        for number, shape in enumerate(shapes):
            solid = {"box": coal.Box, "sphere": coal.Sphere, "cylinder": coal.Cylinder}
            placed = pin.GeometryObject(
                f"{scene_object}_{number}", 0, shape.pose, solid[shape.kind](*shape.size)
            )
            index = solids.addGeometryObject(placed)
            for link in range(links):
                solids.addCollisionPair(pin.CollisionPair(link, index))

    def touching(q):
        placed = pin.GeometryData(solids)
        return pin.computeCollisions(robot, robot.createData(), solids, placed, q, True)

    ready = robot.referenceConfigurations["ready"]
    assert not touching(ready)
    bowed = ready.copy()
    for joint in range(1, robot.njoints):
        if robot.names[joint].endswith("joint2"):
            bowed[robot.joints[joint].idx_q] = 1.6
    assert touching(bowed)
