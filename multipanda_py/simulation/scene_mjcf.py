# SPDX-License-Identifier: Apache-2.0
"""MJCF of the MuJoCo scene of a cell: floor, light, cameras, arms and objects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.registry import extras_named
from multipanda_py.robots.arm import ArmDescription, SceneObject
from multipanda_py.robots.geometry import look_at
from multipanda_py.simulation.arm_mjcf import (
    PAD_SOLREF,
    MeshLibrary,
    add_arm,
    add_shared_bases,
    contact_name,
)
from multipanda_py.simulation.mjcf_elements import Materials, put, quaternion

with extras_named():
    import mujoco


CAMERA_FIELD_OF_VIEW = 45.0
"""Default vertical field of view, as of MuJoCo's cameras [deg]."""


def add_cameras(spec: mujoco.MjSpec, config: CellConfig) -> None:
    """Add the cameras of a cell to a scene that already has the camera ``overview``."""
    for name, camera in config.cameras.items():
        if camera.position is None or camera.look_at is None:
            continue
        position = np.array(camera.position)
        rotation = look_at(np.array(camera.look_at) - position)
        placed = put(spec.worldbody.add_camera(), name=name, pos=position)
        put(placed, quat=quaternion(rotation), fovy=camera.fovy or CAMERA_FIELD_OF_VIEW)


AZIMUTH, ELEVATION = 145.0, -18.0  # Viewing direction of the scene's two cameras [deg].
OVERVIEW_FIELD_OF_VIEW = 40.0  # Vertical field of view [deg].
ARM_CENTER = (0.25, 0.0, 0.37)  # Centre of an arm in its ready configuration, in its base [m].
ARM_RADIUS = 0.62  # Radius of a ball around that centre that contains the arm [m].
VIEW_DISTANCE_RATIO = 60.0  # Viewing distance, as a multiple of the size of the scene.
PATTERN_PERIOD = 2.0  # Period of the floor's pattern, two squares [m].

# The floor is drawn as one finite plane up to the viewing distance. MuJoCo would draw an infinite
# plane as thousands of tiles, which takes half of the rendering time of a small image without a
# GPU. In contacts, every plane is infinite.
#
# The scene starts from XML, because the bindings of MuJoCo 3.2 cannot set nested options such as
# visual/global. An impratio above 1 makes friction stiffer. The noslip iterations remove the
# remaining creep of a grasped object: 0.3 mm/s with 0.8 kg between two rods that press with 50 N.
_WORLD = """
<mujoco model="cell">
  <compiler angle="radian" autolimits="true"/>
  <option timestep="{timestep}" integrator="implicitfast" solver="Newton" cone="elliptic"
          impratio="10" noslip_iterations="3"/>
  <statistic center="{center}" extent="{extent}"/>
  <visual>
    <global azimuth="{azimuth}" elevation="{elevation}" fovy="{fovy}"
            offwidth="1920" offheight="1200"/>
    <quality shadowsize="4096" offsamples="8"/>
    <map znear="0.01" zfar="{zfar:g}" shadowclip="2" shadowscale="0.6"/>
    <headlight ambient="0.36 0.36 0.36" diffuse="0.32 0.32 0.32" specular="0 0 0"/>
    <rgba haze="0.86 0.89 0.93 1"/>
  </visual>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" width="256" height="1536"
             rgb1="0.96 0.97 0.98" rgb2="0.62 0.70 0.80"/>
    <texture name="floor" type="2d" builtin="checker" width="512" height="512" mark="edge"
             rgb1="0.80 0.82 0.84" rgb2="0.76 0.78 0.805" markrgb="0.84 0.86 0.88"/>
    <material name="floor" texture="floor" texuniform="true" texrepeat="1 1"/>
  </asset>
  <worldbody>
    <geom name="floor" type="plane" size="{far} {far} {far}" pos="0 0 {floor}" material="floor"/>
    <light directional="true" castshadow="true" pos="{key}" dir="-1.2 1.6 -3"
           diffuse="0.55 0.55 0.55" specular="0.25 0.25 0.25" ambient="0 0 0"/>
    <light directional="true" castshadow="false" pos="{fill}" dir="-1 -2 -1.5"
           diffuse="0.18 0.18 0.18" specular="0.25 0.25 0.25" ambient="0 0 0"/>
    <camera name="overview" pos="{camera}" xyaxes="{xyaxes}" fovy="{fovy}"/>
  </worldbody>
</mujoco>
"""


def _bounding_ball(arms: Sequence[ArmDescription]) -> tuple[NDArray[np.float64], float]:
    """Return centre, (3,) [m], and radius [m] of a ball around all arms in ready configuration."""
    bases = [(a.position_base_in_world, a.rotation_base_in_world) for a in arms]
    bases = bases or [(np.zeros(3), np.eye(3))]
    middles = np.array([position + rotation @ ARM_CENTER for position, rotation in bases])
    center = (middles.min(axis=0) + middles.max(axis=0)) / 2.0
    return center, ARM_RADIUS + float(np.linalg.norm(middles - center, axis=1).max())


def _attribute_text(values: Sequence[float] | NDArray[np.float64]) -> str:
    return " ".join(f"{value:.9g}" for value in values)


def world_xml(arms: Sequence[ArmDescription], timestep: float) -> str:
    """Return the MJCF of a scene with floor, lights and cameras, but without arms.

    The free camera and the camera ``overview`` show all given arms. The floor is at height 0, or
    at the lowest base if that is below 0.

    Args:
        arms: Descriptions of the arms that will be added.
        timestep: Length of a simulation step [s].
    """
    center, radius = _bounding_ball(arms)
    azimuth, elevation = np.radians((AZIMUTH, ELEVATION))
    direction = np.array([np.cos(azimuth), np.sin(azimuth), np.tan(elevation)])
    direction /= np.linalg.norm(direction)
    distance = 0.75 * radius / np.sin(np.radians(OVERVIEW_FIELD_OF_VIEW) / 2.0)
    rotation, extent = look_at(direction), 1.1 * radius
    return _WORLD.format(
        timestep=repr(float(timestep)),
        center=_attribute_text(center),
        extent=_attribute_text([extent]),
        zfar=VIEW_DISTANCE_RATIO,
        far=_attribute_text(
            [PATTERN_PERIOD * np.ceil(VIEW_DISTANCE_RATIO * extent / PATTERN_PERIOD)]
        ),
        azimuth=AZIMUTH,
        elevation=ELEVATION,
        fovy=OVERVIEW_FIELD_OF_VIEW,
        floor=_attribute_text([min([0.0, *(float(a.position_base_in_world[2]) for a in arms)])]),
        key=_attribute_text(center + (1.0 + radius) * np.array([1.2, -1.6, 3.0])),
        fill=_attribute_text(center + (1.0 + radius) * np.array([1.0, 2.0, 1.5])),
        camera=_attribute_text(center - distance * direction),
        xyaxes=_attribute_text([*rotation[:, 0], *rotation[:, 1]]),
    )


READY_KEY = "ready"
_SHAPES = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
}


def build_scene(
    arms: Sequence[ArmDescription],
    objects: Sequence[SceneObject] = (),
    timestep: float = 1e-3,
    meshes: Path | None = None,
) -> mujoco.MjSpec:
    """Build a scene with arms and objects on a floor, ready to compile.

    Bodies, joints and the site ``arm.ee_frame`` have the names of the URDF. Each actuator has the
    name of its joint: a motor for a joint of an arm, a position servo for a finger. The control of
    an arm with gravity compensation is the torque without gravity.

    Controls of a new ``MjData`` are zero, which closes the fingers. The keyframe ``ready`` has
    arms in the ready configuration and fingers at ``finger_opening``.

    Args:
        arms: Descriptions of the arms, each with its base pose.
        objects: Objects in the scene; those with mass get a free joint ``<name>_joint``. Absent
            objects have neither weight nor contacts: see :class:`.ObjectActivation`.
        timestep: Length of a simulation step [s].
        meshes: Folder with a copy of ``franka_fr3/assets`` of MuJoCo Menagerie, whose meshes
            replace the visual geometry of the links.

    Returns:
        Specification of the scene, which can be edited before ``compile()``.

    Raises:
        ConfigurationError: If names repeat, the step is not positive or a mesh is missing.
    """
    names = [arm.name for arm in arms] + [scene_object.name for scene_object in objects]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"arms and objects need different names, got {names}. Rename one")
    if not timestep > 0.0:
        raise ConfigurationError(f"timestep: got {timestep} s, allowed more than 0 s")
    library = None if meshes is None else MeshLibrary(meshes)
    spec = mujoco.MjSpec.from_string(world_xml(arms, timestep))
    materials = Materials(spec)
    for arm in arms:
        add_arm(spec, arm, materials, library)
    add_shared_bases(spec, arms)
    for obj in objects:
        _add_object(spec, obj)
        for arm in arms if obj.mass > 0.0 else ():
            _add_pad_contacts(spec, arm, obj)
    _add_ready_keyframe(spec, arms, objects)
    return spec


def _add_object(spec: mujoco.MjSpec, obj: SceneObject) -> None:
    body = put(spec.worldbody.add_body(), name=obj.name)
    put(body, pos=obj.start, quat=quaternion(obj.rotation))
    geom = put(body.add_geom(), name=f"{obj.name}_geom", type=_SHAPES[obj.shape])
    put(geom, size=np.array((*obj.size, 0.0, 0.0)[:3]), rgba=np.array(obj.rgba))
    # The priority makes the object's friction, which the cell file specifies, apply in contacts
    # with arms and floor. The surface of the object deforms by about 0.1 mm under 10 N.
    put(geom, friction=np.array(obj.friction), condim=4, group=1, priority=1)
    put(geom, solimp=np.array([0.5, 0.95, 0.001, 0.5, 2.0]), solref=np.array(obj.contact))
    if obj.mass > 0.0:
        put(geom, mass=obj.mass)
        joint = put(body.add_joint(), name=f"{obj.name}_joint")
        put(joint, type=mujoco.mjtJoint.mjJNT_FREE)
    if not obj.present:  # An absent object must not fall, and must not collide.
        put(body, gravcomp=1.0)
        put(geom, contype=0, conaffinity=0)


def _add_pad_contacts(spec: mujoco.MjSpec, arm: ArmDescription, obj: SceneObject) -> None:
    sliding, torsional, rolling = obj.friction
    fingers = arm.gripper.fingers if arm.gripper is not None else ()
    for side, finger in zip(("left", "right"), fingers):
        pad = contact_name(f"{arm.prefix}{side}finger", finger, finger.pad)
        grip = put(spec.add_pair(), geomname1=pad)
        put(grip, geomname2=f"{obj.name}_geom", condim=4, solref=np.array(PAD_SOLREF))
        put(grip, friction=np.array([sliding, sliding, torsional, rolling, rolling]))


def _add_ready_keyframe(
    spec: mujoco.MjSpec, arms: Sequence[ArmDescription], objects: Sequence[SceneObject]
) -> None:
    qpos: list[float] = []
    ctrl: list[float] = []
    for arm in arms:
        fingers = [float(arm.finger_opening or 0.0)] * len(arm.finger_joint_names)
        qpos += [*arm.robot.ready.tolist(), *fingers]
        ctrl += [0.0] * len(arm.joint_names) + fingers
    for obj in objects:
        if obj.mass > 0.0:
            qpos += [*obj.start.tolist(), *quaternion(obj.rotation).tolist()]
    put(spec.add_key(), name=READY_KEY, qpos=np.array(qpos), ctrl=np.array(ctrl))
