# SPDX-License-Identifier: Apache-2.0
"""Collision model of all arms and of the objects in the scene."""

from __future__ import annotations

import math
from typing import Any

import coal
import numpy as np
import pinocchio as pin

from multipanda_py.context import Context
from multipanda_py.pose import quaternion_from_rotation
from multipanda_py.robots import ArmDescription, SceneObject
from multipanda_py.robots.collision_pairs import (
    CollisionPairs,
    Grasps,
    Group,
    Solid,
    is_gripper,
    is_static_capsule,
)
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio
from multipanda_py.state import Matrix, Vector


def _rotation_of_products() -> Matrix:
    # Linear map from products of quaternion elements (w x y z) to a column-major rotation matrix.
    w, x, y, z = range(4)
    terms = {
        (0, 0): ((w, w, 1), (x, x, 1), (y, y, -1), (z, z, -1)),
        (1, 1): ((w, w, 1), (x, x, -1), (y, y, 1), (z, z, -1)),
        (2, 2): ((w, w, 1), (x, x, -1), (y, y, -1), (z, z, 1)),
        (0, 1): ((x, y, 2), (w, z, -2)),
        (1, 0): ((x, y, 2), (w, z, 2)),
        (0, 2): ((x, z, 2), (w, y, 2)),
        (2, 0): ((x, z, 2), (w, y, -2)),
        (1, 2): ((y, z, 2), (w, x, -2)),
        (2, 1): ((y, z, 2), (w, x, 2)),
    }
    rotation = np.zeros((4, 4, 9))
    for (row, column), parts in terms.items():
        for one, other, factor in parts:
            rotation[one, other, 3 * column + row] = factor
    return rotation.reshape(16, 9)


_ROTATION = _rotation_of_products()


class ObjectPlacements:
    """Writer of the poses of movable objects into the data of a pinocchio model.

    Each object has a joint with one degree of freedom, whose placement is overwritten.

    Args:
        data: Data of the model, which must outlive this object.
        joints: Indices of the n object joints at the root of the model.
        poses: Poses in the world, position [m] and quaternion w x y z, (n, 7). ``write`` reads
            them.

    Thread: control.
    """

    def __init__(self, data: Any, joints: range, poses: Matrix) -> None:
        # Free joints would need much memory, because some data of pinocchio grow with the third
        # power of the number of degrees of freedom.
        self._poses, n = poses, len(joints)
        self._products, self._placed = np.zeros((n, 4, 4)), np.zeros((n, 12))
        self._flat = self._products.reshape(n, 16)
        # A ``pin.SE3`` contains the rotation in column-major order, followed by the translation.
        # These views write both without a copy.
        whole = [
            np.lib.stride_tricks.as_strided(data.oMi[joint].rotation, (12,), (8,))
            for joint in joints
        ]
        self._views = [(view.data, row.data) for view, row in zip(whole, self._placed)]

    def write(self) -> None:
        """Write the current poses of the objects into the pinocchio data.

        Call this after the forward kinematics, which overwrites the placements of the objects.
        """
        if not self._views:
            return
        quaternions = self._poses[:, 3:]
        np.multiply(quaternions[:, :, None], quaternions[:, None, :], self._products)
        self._placed[:, :9] = self._flat.dot(_ROTATION)
        self._placed[:, 9:] = self._poses[:, :3]
        for view, row in self._views:
            view[:] = row


# Maximum ratio of the angle between two orientations [rad] to the distance of their quaternions.
_ANGLE_PER_DISTANCE = 2.3
_BOTH = np.ones(2)
_UP = np.array([0.0, 0.0, 1.0])


class CollisionGeometry:
    """Collision model of arms and objects, with bounds on the motion of each body.

    The model has the joints of all arms, and one joint per movable object (``ObjectPlacements``).

    ``reach`` contains weights r_i. For changes of the joint positions, no point of an arm moves
    further than::

        sum_i r_i |delta q_i|

    - r_i: Maximum distance of any point of the arm after joint i from that joint [m]; 1 for a
      prismatic joint.
    - delta q_i: Motion of joint i [rad or m].

    A grasped object counts as part of its gripper, see ``groups_with``.

    Attributes:
        model: Kinematics of all bodies.
        data: Pinocchio data of the model.
        joint_count: Number of elements in ``raw`` per arm.
        joints: Slice of each arm in the joint vector q of the model.
        raw: Joint positions of all arms, then poses of all objects (position and quaternion w x y
            z), (joint_count n_arms + 7 n_objects,) [rad; m].
        q: Joint positions of the model, (nq,) [rad, m]; zero for objects.
        reach: Weights of the motion bounds, one row per body, (bodies, len(raw)). The last row
            belongs to the world and is zero.
        v: Joint velocities of the model, (nv,) [rad/s, m/s]; zero for objects.
        groups: Groups of pairs that contain an arm of the controllet, without the groups for
            grasped objects (see ``groups_with``).
    """

    def __init__(self, context: Context) -> None:
        arms = (*context.arms, *context.other_arms)
        objects = [scene_object for scene_object in context.objects if scene_object.mass > 0.0]
        self.joint_count = max(arm.n_joints for arm in arms)
        self.joints: list[slice] = []
        # In ``raw``, the object poses follow the joint positions of all arms.
        start = self.joint_count * len(arms)
        size = start + 7 * len(objects)
        self.model = pin.Model()
        self.raw: Vector = np.zeros(size)
        self.reach = np.zeros((len(arms) + len(objects) + 1, size))
        # Maximum distance of a point of each link from the joint of the link [m].
        self._farthest: list[float] = []
        # Maximum distance of a point of each movable object from the centre of the object [m].
        self._radii: list[float] = []
        self._arms = [self._add_arm(index, arm) for index, arm in enumerate(arms)]
        self._movable = [
            self._add_object(len(arms) + index, scene_object, start + 7 * index)
            for index, scene_object in enumerate(objects)
        ]
        fixed = [
            _solid(scene_object, 0) for scene_object in context.objects if scene_object.mass == 0.0
        ]
        height = min(0.0, *(float(arm.position_base_in_world[2]) for arm in arms))
        floor = coal.Halfspace(_UP, height)
        ground = Solid(floor, 0, pin.SE3.Identity(), names=("floor",))
        self.q: Vector = pin.neutral(self.model)
        self._order = np.array(
            [
                self.joint_count * i + joint
                for i, arm in enumerate(arms)
                for joint in range(arm.n_joints)
            ]
        )
        poses = self.raw[start:].reshape(-1, 7)
        for pose, obj in zip(poses, objects):
            x, y, z, w = quaternion_from_rotation(obj.rotation)
            pose[:] = *obj.start, w, x, y, z
        self.data = self.model.createData()
        self.v: Vector = np.zeros(self.model.nv)
        moving = self.joints[-1].stop
        self._q_of_arms = self.q[:moving]
        self._objects = ObjectPlacements(self.data, range(1 + moving, self.model.njoints), poses)
        self._motions = [self.data.v[joint].vector for joint in range(1, 1 + moving)]
        self._motion, self._squares = np.zeros((2, moving, 6))
        self._of_each = np.kron(np.eye(2), np.ones((3, 1)))
        self._lengths = np.stack([np.ones(moving), self._farthest], 1)
        self._pairs = CollisionPairs(
            arms, context.n_arms, self._arms, self._movable, fixed, ground,
            touching=context.allowed_contacts, hands_meet="grippers" in context.contact_classes,
        )  # fmt: skip
        self.groups = list(self._pairs.groups())
        for group in self.groups:
            group.build()

    def _add_arm(self, index: int, arm: ArmDescription) -> list[Solid]:
        own = build_pinocchio(arm, base_in_world=True)
        joint, before, n = 0, self.model.njoints - 1, arm.n_joints
        self.joints.append(slice(before, before + n))
        slides = arm.limits.slides
        for number, part in enumerate(arm.robot.joints, start=1):
            axis = np.array(part.axis)
            kind = pin.JointModelRZ() if axis[2] == 1.0 else pin.JointModelRevoluteUnaligned(axis)
            if slides[number - 1]:
                kind = pin.JointModelPrismaticUnaligned(axis)
            joint = self.model.addJoint(
                joint, kind, own.jointPlacements[number], f"{index}_{number}"
            )
        solids, extent = [], np.zeros(n + 1)
        for link, capsules in arm.capsules.items():
            frame = own.frames[own.getFrameId(link)]
            number = int(frame.parentJoint)
            for capsule in capsules:
                start, end = np.array(capsule.start), np.array(capsule.end)
                for point in (start, end):
                    far = float(np.linalg.norm(frame.placement.act(point))) + capsule.radius
                    extent[number] = max(extent[number], far)
                is_hand = is_gripper(arm, link, number)
                solids.append(
                    Solid(
                        coal.Capsule(capsule.radius, float(np.linalg.norm(end - start))),
                        before + number if number else 0,
                        frame.placement * _capsule_pose(start, end),
                        number,
                        is_static_capsule(arm, number, frame.placement, start, end),
                        is_hand,
                        (arm.name, f"{arm.name}/gripper") if is_hand else (arm.name,),
                    )
                )
        self._farthest += extent[1:].tolist()
        for number in range(n, 0, -1):
            slide = bool(slides[number - 1])
            self.reach[index, self.joint_count * index + number - 1] = (
                1.0 if slide else extent[number]
            )
            step = float(np.linalg.norm(own.jointPlacements[number].translation))
            if slide:
                step += float(np.abs([arm.limits.lower, arm.limits.upper])[:, number - 1].max())
            extent[number - 1] = max(extent[number - 1], step + extent[number])
        return solids

    def _add_object(self, body: int, obj: SceneObject, at: int) -> Solid:
        joint = self.model.addJoint(0, pin.JointModelRZ(), pin.SE3.Identity(), f"object_{body}")
        # The pose of the object is raw[at : at + 7].
        weights = self.reach[body, at : at + 7]
        capsule = obj.shape == "capsule"
        radius = sum(obj.size) if capsule else float(np.linalg.norm(obj.size))
        weights[:3], weights[3:] = 1.0, _ANGLE_PER_DISTANCE * radius
        self._radii.append(radius)
        return _solid(obj, joint, radius)

    def extent(self, arm: int, index: int) -> float:
        """Return the maximum distance of any point of an object from the last joint of an arm [m].

        Args:
            arm: Index of the arm.
            index: Index of the movable object.
        """
        joint = self.data.oMi[self.joints[arm].stop].translation
        centre = self.data.oMi[self._movable[index].joint].translation
        return float(np.linalg.norm(centre - joint)) + self._radii[index]

    def groups_with(self, held: Grasps) -> list[Group]:
        """Return the groups of solid pairs to check for collisions while objects are grasped.

        Args:
            held: Grasped objects: pairs of arm index and object index.
        """
        there = [group for group in self.groups if group.is_active(held)]
        return there + self._pairs.grasped_object_groups(held)

    def update_placements(self) -> None:
        """Update the model to the positions in ``raw`` and the joint velocities in ``v``."""
        np.take(self.raw, self._order, out=self._q_of_arms)
        pin.forwardKinematics(self.model, self.data, self.q, self.v)
        self._objects.write()

    def speeds(self) -> Vector:
        """Return an upper bound of the speed of any point of each link, (joints,) [m/s].

        Equation for link k::

            |v_k| + rho_k |omega_k|

        - v_k, omega_k: Linear [m/s] and angular velocity [rad/s] of joint k.
        - rho_k: Maximum distance of a point of the link from the joint [m].
        """
        motion, squares = self._motion, self._squares
        np.concatenate(self._motions, out=motion.reshape(-1))
        np.multiply(motion, motion, squares)
        parts = np.sqrt(squares.dot(self._of_each))
        fastest: Vector = np.multiply(parts, self._lengths, parts).dot(_BOTH)
        return fastest


def _capsule_pose(start: Vector, end: Vector) -> Any:
    axis = (end - start) / np.linalg.norm(end - start)
    rotation = pin.Quaternion.FromTwoVectors(_UP, axis).toRotationMatrix()
    return pin.SE3(rotation, (start + end) / 2.0)


def _solid(obj: SceneObject, joint: int, radius: float = math.inf) -> Solid:
    size = obj.size
    if obj.shape == "box":
        shape = coal.Box(2.0 * size[0], 2.0 * size[1], 2.0 * size[2])
    elif obj.shape == "sphere":
        shape = coal.Sphere(size[0])
    elif obj.shape == "cylinder":
        shape = coal.Cylinder(size[0], 2.0 * size[1])
    else:
        shape = coal.Capsule(size[0], 2.0 * size[1])
    placement = (
        pin.SE3.Identity() if joint else pin.SE3(np.array(obj.rotation), np.array(obj.position))
    )
    return Solid(shape, joint, placement, names=(obj.name,), radius=radius)
