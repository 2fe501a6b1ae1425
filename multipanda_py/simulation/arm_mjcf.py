# SPDX-License-Identifier: Apache-2.0
"""MJCF of an arm in a MuJoCo scene: links, joints, motors, gripper and tool."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, permutations
from pathlib import Path

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.registry import extras_named
from multipanda_py.robots.arm import ArmDescription, Tool
from multipanda_py.robots.franka import LINK_CAPSULES
from multipanda_py.robots.geometry import Block
from multipanda_py.robots.importing.source import Shape, shapes_of, tree_of
from multipanda_py.robots.parallel_gripper import GripperBody, ParallelGripper
from multipanda_py.robots.robot import Robot
from multipanda_py.robots.tree import chain_of
from multipanda_py.simulation.mjcf_elements import (
    VISUAL_GROUP,
    Materials,
    add_contact_block,
    add_contact_capsule,
    put,
    quaternion,
    set_inertia,
    set_inertial,
)
from multipanda_py.simulation.mujoco_friction import STICKING_SOLIMP, sticking_solref
from multipanda_py.state import Matrix

with extras_named():
    import mujoco


DEFAULT_COLOR = (0.78, 0.80, 0.83, 1.0)
"""Default red, green, blue and opacity of visual geometry."""
Placed = tuple[Shape, Matrix]
_TYPES = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
}


def visual_shapes(robot: Robot) -> tuple[tuple[Placed, ...], ...]:
    """Return the visual shapes of every link in the robot's URDF or MJCF file.

    Each shape has its pose in the link, (4, 4). Without such a file, or if a mesh file is missing,
    links have no shapes.
    """
    if robot.source is None:
        return ((),) * len(robot.links)
    return _read(robot.source, robot.links[0].name, robot.flange.name, robot.links[-1].name)


@lru_cache(maxsize=16)
def _read(source: Path, base: str, flange: str, last: str) -> tuple[tuple[Placed, ...], ...]:
    tree = tree_of(source)
    chain = chain_of(tree, base, flange if flange in tree.bodies else last)
    result: list[list[Placed]] = [[] for _ in chain.links]
    try:
        shapes = shapes_of(source, list(chain.link_indices))
    except ConfigurationError:
        return ((),) * len(chain.links)
    for link, (number, pose) in chain.link_indices.items():
        result[number] += [(shape, pose) for shape in shapes.get(link, {}).get("visual", ())]
    return tuple(map(tuple, result))


def add_shape(spec: mujoco.MjSpec, body: mujoco.MjsBody, shape: Shape, pose: Matrix) -> None:
    """Add a visual shape of a link to a MuJoCo body.

    Args:
        spec: MuJoCo model.
        body: Body of the link, or of a link to which it is fixed.
        shape: Shape in the frame of the link.
        pose: Pose of the link in the body, (4, 4).
    """
    geom = put(body.add_geom(), contype=0, conaffinity=0, group=VISUAL_GROUP, mass=0.0)
    put(
        geom,
        pos=pose[:3, :3] @ shape.position + pose[:3, 3],
        rgba=np.array(shape.rgba or DEFAULT_COLOR),
    )
    put(geom, quat=quaternion(pose[:3, :3] @ shape.rotation))
    if shape.mesh is None:
        size = np.array([*shape.size, 0.0, 0.0][:3])
        half = np.array([0.5, 0.5, 0.5] if shape.kind == "box" else [1.0, 0.5, 0.0])
        put(geom, type=_TYPES[shape.kind], size=half * size)
        return
    name = f"mesh_of_{body.name}_{len(spec.meshes)}"
    points, triangles = shape.mesh()
    mesh = put(spec.add_mesh(), name=name, uservert=points.ravel(), userface=triangles.ravel())
    put(mesh, inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL)
    put(geom, type=mujoco.mjtGeom.mjGEOM_MESH, meshname=name)


class MeshLibrary:
    """Visual meshes of the links of an FR3, from ``franka_fr3/assets`` of MuJoCo Menagerie."""

    def __init__(self, folder: Path) -> None:
        """Find the mesh files of link 0 to link 7.

        Args:
            folder: Path of the folder ``assets``.

        Raises:
            ConfigurationError: If a link has no file.
        """
        self._files: list[list[Path]] = []
        self._known: set[str] = set()
        # Link i has the file link<i>.obj or several files link<i>_<part>.obj.
        for i in range(len(LINK_CAPSULES)):
            parts = sorted(folder.glob(f"link{i}.obj")) + sorted(folder.glob(f"link{i}_*.obj"))
            if not parts:
                raise ConfigurationError(
                    f"meshes: {folder} has neither link{i}.obj nor link{i}_0.obj. "
                    "Give the folder franka_fr3/assets of mujoco_menagerie"
                )
            self._files.append(parts)

    def add_visuals(self, spec: mujoco.MjSpec, body: mujoco.MjsBody, index: int) -> None:
        """Add the meshes of link ``index``, 0 for the base, to its body."""
        for path in self._files[index]:
            name = f"mesh_{path.stem}"
            if name not in self._known:
                self._known.add(name)
                put(spec.add_mesh(), name=name, file=str(path.resolve()))
            geom = put(body.add_geom(), type=mujoco.mjtGeom.mjGEOM_MESH, meshname=name)
            put(geom, contype=0, conaffinity=0, group=VISUAL_GROUP, mass=0.0, material="shell")


# The servo of a finger reaches the force of the Franka Hand at an error of 14 mm. It is critically
# damped for the mass that it moves.
FINGER_ARMATURE = 0.1  # Reflected mass of the drive at one finger [kg].
FINGER_STIFFNESS = 5000.0  # Stiffness of the servo of one finger [N/m].
# Contact parameters of finger pads and stops: time constant [s] and damping ratio. With MuJoCo's
# default, a light finger would sink 4 mm into an object that it presses with 60 N. With these, its
# pad deforms by 0.2 mm.
PAD_SOLREF = (0.004, 1.0)
STOP_SOLREF = (0.002, 1.0)

# One belt drives both fingers, so that they move together. It is modelled as a spring, which needs
# no constraint. It stretches by 0.1 mm under 5 N.
BELT_STIFFNESS = 5.0e4  # Maximum stiffness of the belt [N/m]; reduced for time steps above 1.5 ms.
BELT_DAMPING_RATIO = 0.2

_ON_FLANGE = ("hand", "leftfinger", "rightfinger", "tool")


def add_arm(
    spec: mujoco.MjSpec, arm: ArmDescription, materials: Materials, library: MeshLibrary | None
) -> None:
    """Add links, joints, motors, gripper and tool of an arm at its base pose.

    Args:
        spec: MuJoCo model.
        arm: Description of the arm.
        materials: Materials of the visual shapes.
        library: Meshes of the links; None for simple shapes.
    """
    kind, gravcomp = arm.robot, float(bool(arm.compensates_gravity))
    body = put(spec.worldbody.add_body(), name=arm.base_frame)
    put(body, pos=arm.position_base_in_world, quat=quaternion(arm.rotation_base_in_world))
    _add_inertia_and_geometry(spec, arm, body, 0, materials, library)
    for i, joint in enumerate(kind.joints):
        name = arm.prefix + kind.links[i + 1].name
        body = put(body.add_body(), name=name, gravcomp=gravcomp)
        put(body, pos=np.array(joint.origin.position), quat=quaternion(joint.origin.rotation))
        _add_joint(spec, arm, body, i)
        _add_inertia_and_geometry(spec, arm, body, i + 1, materials, library)
    origin = kind.flange.origin
    flange = put(body.add_body(), name=arm.flange_frame, pos=np.array(origin.position))
    put(flange, quat=quaternion(origin.rotation))
    put(flange.add_site(), name=arm.flange_frame, size=np.full(3, 0.005), group=4)
    if arm.gripper is not None:
        _add_gripper(spec, arm.prefix, arm.gripper, flange, materials, gravcomp)
    if arm.tool is not None:
        _add_tool(arm.prefix, arm.tool, flange, materials, gravcomp)
    _exclude_overlapping_links(spec, arm)


def _add_inertia_and_geometry(
    spec: mujoco.MjSpec,
    arm: ArmDescription,
    body: mujoco.MjsBody,
    index: int,
    materials: Materials,
    library: MeshLibrary | None,
) -> None:
    link = arm.robot.links[index]
    set_inertial(body, link.inertial)
    own = visual_shapes(arm.robot)[index]
    # The library has the meshes of a Franka arm, which other arms cannot use.
    if library is not None and arm.robot.has_hand:
        library.add_visuals(spec, body, index)
    elif own:
        for shape, pose in own:
            add_shape(spec, body, shape, pose)
    else:
        for solid in link.visuals:
            materials.add_visual(body, solid)
    for i, capsule in enumerate(link.capsules):
        add_contact_capsule(body, capsule, f"{arm.prefix}{link.name}_capsule{i}")


def _add_joint(spec: mujoco.MjSpec, arm: ArmDescription, body: mujoco.MjsBody, index: int) -> None:
    name, limits = arm.joint_names[index], arm.limits
    kind = mujoco.mjtJoint.mjJNT_SLIDE if limits.slides[index] else mujoco.mjtJoint.mjJNT_HINGE
    joint = put(body.add_joint(), name=name, type=kind)
    put(
        joint,
        axis=np.array(arm.robot.joints[index].axis),
        armature=float(arm.robot.armature[index]),
    )
    if not limits.endless[index]:
        put(joint, limited=True, range=np.array([limits.lower[index], limits.upper[index]]))
    # In MuJoCo 4 the damping is a polynomial, in earlier versions a number. Writing to the first
    # element works in both.
    damping = np.zeros_like(joint.damping)
    damping.flat[0] = arm.joint_damping[index]
    put(joint, damping=damping if damping.ndim else float(damping))
    put(joint, frictionloss=float(arm.joint_frictionloss[index]), solimp_friction=STICKING_SOLIMP)
    put(joint, solref_friction=sticking_solref(spec.option.timestep))
    span = np.array([-limits.torque[index], limits.torque[index]])
    motor = put(spec.add_actuator(), name=name, target=name)
    put(motor, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    put(motor, ctrllimited=True, ctrlrange=span, forcelimited=True, forcerange=span)
    offset = float(arm.robot.torque_offset[index])
    # The simulated torque sensor reads the control of the motor. The actuator's bias subtracts
    # ``torque_offset`` from the torque that the joint receives.
    if offset:
        put(motor, biastype=mujoco.mjtBias.mjBIAS_AFFINE, biasprm=np.array([-offset] + [0.0] * 9))


def _add_gripper(
    spec: mujoco.MjSpec,
    prefix: str,
    gripper: ParallelGripper,
    flange: mujoco.MjsBody,
    materials: Materials,
    gravcomp: float,
) -> None:
    hand = put(flange.add_body(), name=f"{prefix}hand", gravcomp=gravcomp)
    put(hand, pos=np.array(gripper.mount.position), quat=quaternion(gripper.mount.rotation))
    _add_gripper_body(hand, f"{prefix}hand", gripper.body, materials)
    tcp = put(hand.add_site(), name=f"{prefix}hand_tcp", pos=np.array(gripper.tcp.position))
    put(tcp, quat=quaternion(gripper.tcp.rotation), size=np.full(3, 0.005), group=4)
    # Mass of a finger and its drive [kg].
    moving_mass = FINGER_ARMATURE + max(finger.inertial.mass for finger in gripper.fingers)
    for i, (side, finger) in enumerate(zip(("left", "right"), gripper.fingers), start=1):
        body = put(hand.add_body(), name=f"{prefix}{side}finger", gravcomp=gravcomp)
        put(body, pos=np.array(finger.origin.position), quat=quaternion(finger.origin.rotation))
        _add_gripper_body(body, f"{prefix}{side}finger", finger, materials)
        name = f"{prefix}finger_joint{i}"
        joint = put(body.add_joint(), name=name, type=mujoco.mjtJoint.mjJNT_SLIDE)
        put(joint, axis=np.array(finger.axis), limited=True, armature=FINGER_ARMATURE)
        span = np.array([gripper.lower, gripper.upper])
        put(joint, range=span, solref_limit=np.array(STOP_SOLREF))
        _add_finger_servo(spec, name, gripper, moving_mass)
    _add_finger_belt(spec, prefix, moving_mass)


def _add_gripper_body(
    body: mujoco.MjsBody, name: str, part: GripperBody, materials: Materials
) -> None:
    set_inertial(body, part.inertial)
    for shape in part.visuals:
        materials.add_visual(body, shape)
    for i, solid in enumerate(part.contact):
        if isinstance(solid, Block):
            add_contact_block(body, solid, contact_name(name, part, i))
        else:
            add_contact_capsule(body, solid, contact_name(name, part, i))


def contact_name(name: str, part: GripperBody, i: int) -> str:
    kind = "block" if isinstance(part.contact[i], Block) else "capsule"
    return f"{name}_{kind}{i}"


def _add_finger_servo(
    spec: mujoco.MjSpec, finger_joint: str, gripper: ParallelGripper, moving_mass: float
) -> None:
    servo = put(spec.add_actuator(), name=finger_joint, target=finger_joint)
    put(servo, trntype=mujoco.mjtTrn.mjTRN_JOINT, gaintype=mujoco.mjtGain.mjGAIN_FIXED)
    put(servo, biastype=mujoco.mjtBias.mjBIAS_AFFINE)
    gain, bias = np.zeros(10), np.zeros(10)
    gain[0] = FINGER_STIFFNESS
    bias[1:3] = -FINGER_STIFFNESS, -2.0 * np.sqrt(FINGER_STIFFNESS * moving_mass)
    put(servo, gainprm=gain, biasprm=bias)
    put(servo, ctrllimited=True, ctrlrange=np.array([gripper.lower, gripper.upper]))
    put(servo, forcelimited=True, forcerange=np.array([-gripper.force, gripper.force]))


def _add_finger_belt(spec: mujoco.MjSpec, prefix: str, moving_mass: float) -> None:
    belt = put(spec.add_tendon(), name=f"{prefix}finger_belt", springlength=np.zeros(2))
    for number, side in ((1, 1.0), (2, -1.0)):
        belt.wrap_joint(f"{prefix}finger_joint{number}", side)
    # A larger stiffness would be unstable in explicit steps.
    stiffness = min(BELT_STIFFNESS, moving_mass / spec.option.timestep**2)
    damping = BELT_DAMPING_RATIO * np.sqrt(2.0 * stiffness * moving_mass)
    for name, value in (("stiffness", stiffness), ("damping", damping)):
        # In MuJoCo 4 the attribute is a polynomial, in earlier versions a number. Writing to the
        # first element works in both.
        numbers = np.zeros_like(getattr(belt, name))
        numbers.flat[0] = value
        put(belt, **{name: numbers if numbers.ndim else float(numbers)})


def _add_tool(
    prefix: str, tool: Tool, flange: mujoco.MjsBody, materials: Materials, gravcomp: float
) -> None:
    body = put(flange.add_body(), name=f"{prefix}tool", gravcomp=gravcomp)
    if tool.mass > 0.0:
        set_inertia(body, tool.mass, tool.com_in_flange, tool.inertia)
    for shape in tool.visual:
        materials.add_visual(body, shape)
    for i, capsule in enumerate(tool.capsules):
        geom = add_contact_capsule(body, capsule, f"{prefix}tool_capsule{i}")
        # Objects have priority 1. With priority 2, the friction of the tool applies in contacts
        # with them.
        if tool.friction > 0.0:
            put(geom, friction=np.array([tool.friction, 0.005, 0.0001]), condim=4, priority=2)
    pose = tool.pose_tcp_in_flange
    site = put(body.add_site(), name=f"{prefix}tool_tcp", pos=pose[:3, 3].copy())
    put(site, quat=quaternion(pose[:3, :3]), size=np.full(3, 0.005), group=4)


def add_shared_bases(spec: mujoco.MjSpec, arms: Sequence[ArmDescription]) -> None:
    """Let each arm collide only with its own copy of a base link that several arms share."""
    for one, other in permutations(arms, 2):
        for name in other.capsules if one.shares_base(other) else ():
            if name != other.base_frame:
                put(spec.add_exclude(), bodyname1=one.base_frame, bodyname2=name)


def _exclude_overlapping_links(spec: mujoco.MjSpec, arm: ArmDescription) -> None:
    # Capsules of successive links overlap at the joint, others if the robot model declares it.
    # Gripper and tool count as parts of the last link.
    link_index = {link.name: i for i, link in enumerate(arm.robot.links)}
    link_index |= dict.fromkeys(_ON_FLANGE, arm.n_joints)
    present = [b for b in link_index if f"{arm.prefix}{b}" in arm.link_names]
    for one, other in combinations(present, 2):
        i, j = link_index[one], link_index[other]
        if abs(i - j) <= 1 or (i, j) in arm.robot.overlapping:
            exclude = spec.add_exclude()
            put(exclude, bodyname1=f"{arm.prefix}{one}", bodyname2=f"{arm.prefix}{other}")
