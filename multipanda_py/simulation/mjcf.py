# SPDX-License-Identifier: Apache-2.0
"""Build the MuJoCo scene of a cell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.extras import extras_named
from multipanda_py.robots.arm import ArmDescription
from multipanda_py.robots.scene_object import SceneObject
from multipanda_py.simulation.mjcf_arm import add_arm, add_grip, add_shared_bases
from multipanda_py.simulation.mjcf_elements import Materials, put, quaternion
from multipanda_py.simulation.mjcf_meshes import MeshLibrary
from multipanda_py.simulation.mjcf_world import world_xml

with extras_named():
    import mujoco

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
    """Return a scene with arms and objects on a floor, ready to compile.

    Bodies, joints and the site ``arm.ee_frame`` are named as the links, joints and frames of
    the URDF. An actuator is named as its joint: motors of the arm, limited to its torque, and
    one position servo per finger; a stiff spring keeps both fingers equally far out. The weight
    of every arm that compensates gravity is, with hand and tool: a motor's control is the torque
    without gravity then, as a real Franka takes it.

    Controls of a fresh ``MjData`` are zero, which closes the fingers. The keyframe ``ready``
    has the arms in the ready posture and fingers, position and control, at
    ``finger_opening``: start with ``mujoco.mj_resetDataKeyframe(model, data, 0)``.

    Args:
        arms: The arms, each at its base pose.
        objects: Things on the scene; those with mass get a free joint ``<name>_joint``. Absent
            ones are parked, without weight and contacts: see :class:`.Presence`.
        timestep: Length of a simulation step [s].
        meshes: Folder with the user's own copy of MuJoCo Menagerie's ``franka_fr3/assets``;
            its meshes replace the pictures of the links. Contact geometry stays as it is.

    Returns:
        The specification; call ``compile()`` on it, or edit it first.

    Raises:
        ConfigurationError: If names repeat, the step is not positive or a mesh is missing.
    """
    names = [arm.name for arm in arms] + [thing.name for thing in objects]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"arms and objects need different names, got {names}")
    if not timestep > 0.0:
        raise ConfigurationError(f"timestep must be positive, got {timestep} s")
    library = None if meshes is None else MeshLibrary(meshes)
    spec = mujoco.MjSpec.from_string(world_xml(arms, timestep))
    materials = Materials(spec)
    for arm in arms:
        add_arm(spec, arm, materials, library)
    add_shared_bases(spec, arms)
    for thing in objects:
        _add_object(spec, thing)
        for arm in arms if thing.mass > 0.0 else ():
            add_grip(spec, arm, thing)
    _add_ready_key(spec, arms, objects)
    return spec


def _add_object(spec: mujoco.MjSpec, thing: SceneObject) -> None:
    """Add the body of an object."""
    body = put(spec.worldbody.add_body(), name=thing.name)
    put(body, pos=thing.start, quat=quaternion(thing.rotation))
    geom = put(body.add_geom(), name=f"{thing.name}_geom", type=_SHAPES[thing.shape])
    put(geom, size=np.array((*thing.size, 0.0, 0.0)[:3]), rgba=np.array(thing.rgba))
    # An object's friction counts in its contacts with arms, as the cell file says. Its surface
    # gives way by some 0.1 mm under 10 N.
    put(geom, friction=np.array(thing.friction), condim=4, group=1, priority=1)
    put(geom, solimp=np.array([0.5, 0.95, 0.001, 0.5, 2.0]), solref=np.array(thing.contact))
    if thing.mass > 0.0:
        put(geom, mass=thing.mass)
        joint = put(body.add_joint(), name=f"{thing.name}_joint")
        put(joint, type=mujoco.mjtJoint.mjJNT_FREE)
    if not thing.present:  # it neither falls nor touches
        put(body, gravcomp=1.0)
        put(geom, contype=0, conaffinity=0)


def _add_ready_key(
    spec: mujoco.MjSpec, arms: Sequence[ArmDescription], objects: Sequence[SceneObject]
) -> None:
    """Add the keyframe in which arms are ready and objects where they were put."""
    qpos: list[float] = []
    ctrl: list[float] = []
    for arm in arms:
        fingers = [float(arm.finger_opening or 0.0)] * len(arm.finger_joint_names)
        qpos += [*arm.robot.ready.tolist(), *fingers]
        ctrl += [0.0] * len(arm.joint_names) + fingers
    for thing in objects:
        if thing.mass > 0.0:
            qpos += [*thing.start.tolist(), *quaternion(thing.rotation).tolist()]
    put(spec.add_key(), name=READY_KEY, qpos=np.array(qpos), ctrl=np.array(ctrl))
