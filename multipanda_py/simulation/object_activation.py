# SPDX-License-Identifier: Apache-2.0
"""Objects that can be added to and removed from a compiled simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.pose import Pose
from multipanda_py.registry import extras_named
from multipanda_py.robots.arm import ABSENT_POSITION
from multipanda_py.state import Vector

with extras_named():
    import mujoco

TOUCH_DEPTH = 1e-3
"""Penetration depth up to which bodies count as touching, such as a grasped object [m]."""
_MAX_EXACT_DISTANCE = 0.01
"""Maximum distance of bodies that MuJoCo computes exactly; larger ones do not matter [m]."""


def prepare_activation(spec: mujoco.MjSpec, object_names: Sequence[str]) -> None:
    """Prepare a scene so that weight and contacts of objects can be enabled and disabled."""
    for name in object_names:
        body = spec.body(name)
        # MuJoCo cannot enable gravity compensation or contacts later if they are off now.
        body.gravcomp = 1.0
        for geom in body.geoms:
            geom.contype = geom.conaffinity = 1


class ObjectActivation:
    """Addition and removal of movable objects at run time.

    An absent object has no contacts, its weight is compensated, and it rests far away from the
    scene.

    Args:
        model: Model of a scene that :func:`prepare_activation` has prepared.
        data: MuJoCo data of the scene.
        object_names: Names of the movable objects, in the order of the cell file.
        present: 1 for objects in the scene, 0 for absent ones, (n,).
        arms: Prefix of the link names of every arm, by arm name.

    Thread: control, between two cycles.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        object_names: Sequence[str],
        present: NDArray[np.int64],
        arms: Mapping[str, str],
    ) -> None:
        self._model, self._data = model, data
        self._bodies = [int(model.body(name).id) for name in object_names]
        self._geoms = [int(model.geom(f"{name}_geom").id) for name in object_names]
        joints = [model.joint(f"{name}_joint") for name in object_names]
        self._q = [int(joint.qposadr[0]) for joint in joints]
        self._dof = [int(joint.dofadr[0]) for joint in joints]
        self._owner = _owner_names(model, arms)
        self.links = {
            arm: frozenset(body for body, owner in enumerate(self._owner) if owner == arm)
            for arm in arms
        }
        """Body indices of all links of each arm."""
        self._is_link = np.array([self._owner[body] in arms for body in model.geom_bodyid])
        self._is_plane = model.geom_type == int(mujoco.mjtGeom.mjGEOM_PLANE)
        for object_index, is_present in enumerate(present.tolist()):
            self._set(object_index, bool(is_present))

    def is_present(self, body_id: int) -> bool:
        """Return False for an absent object; True for other objects, links and the floor."""
        return body_id not in self._bodies or self._model.body_gravcomp[body_id] == 0.0

    def overlap(
        self, object_index: int, pose: Pose, only_arms: bool = False
    ) -> tuple[str, float] | None:
        """Return the body that an object would penetrate most at a pose, and the depth [m].

        Args:
            object_index: Index of an absent object, or of any object if ``only_arms`` is True.
            pose: Pose in the world frame.
            only_arms: True to ignore objects and the floor.

        Returns:
            Name of an arm, an object or ``floor``, and the depth [m]; None up to
            :data:`TOUCH_DEPTH`.
        """
        model, data, geom = self._model, self._data, self._geoms[object_index]
        # ``geom_xpos`` and ``geom_xmat`` are those before the last step, so they are updated.
        mujoco.mj_kinematics(model, data)
        center, rotation = data.geom_xpos[geom], data.geom_xmat[geom]
        before = center.copy(), rotation.copy()
        center[:], rotation[:] = pose.position, pose.rotation.ravel()
        far = np.linalg.norm(data.geom_xpos - center, axis=1) - model.geom_rbound
        near = self._is_plane | (far < model.geom_rbound[geom])
        solid = (model.geom_contype | model.geom_conaffinity) != 0
        deepest, result = TOUCH_DEPTH, -1
        if only_arms:
            solid &= self._is_link
        for other in np.flatnonzero(near & solid).tolist():
            depth = -mujoco.mj_geomDistance(model, data, geom, other, _MAX_EXACT_DISTANCE, None)
            if depth > deepest:
                deepest, result = depth, other
        center[:], rotation[:] = before
        return None if result < 0 else (self._owner[model.geom_bodyid[result]], deepest)

    def activate(self, object_index: int) -> None:
        """Enable weight and contacts of an object at its current pose."""
        self._set(object_index, True)

    def deactivate(self, object_index: int) -> None:
        """Disable weight and contacts of an object, and park it at rest."""
        self._set(object_index, False)
        data, q, dof = self._data, self._q[object_index], self._dof[object_index]
        data.qpos[q : q + 7] = *ABSENT_POSITION, 1.0, 0.0, 0.0, 0.0
        for motion in (data.qvel, data.qacc, data.qacc_warmstart):
            motion[dof : dof + 6] = 0.0
        data.xfrc_applied[self._bodies[object_index]] = 0.0
        mujoco.mj_forward(self._model, data)

    def pose(self, object_index: int) -> Vector:
        """Return position [m] and quaternion w x y z of an object in the world, (7,)."""
        q = self._q[object_index]
        pose: Vector = self._data.qpos[q : q + 7].copy()
        return pose

    def _set(self, object_index: int, is_present: bool) -> None:
        model, geom = self._model, self._geoms[object_index]
        model.body_gravcomp[self._bodies[object_index]] = float(not is_present)
        model.geom_contype[geom] = model.geom_conaffinity[geom] = int(is_present)


def _owner_names(model: mujoco.MjModel, prefix_of_arm: Mapping[str, str]) -> list[str]:
    """Return the name of the arm of each body; other bodies have their own names."""
    names = ["floor", *(str(model.body(body).name) for body in range(1, model.nbody))]
    longest_last = sorted(prefix_of_arm.items(), key=lambda item: len(item[1]))
    owners = dict(zip(names, names))
    # Body names of an arm ``a_b`` also start with the prefix ``a_`` of an arm ``a``. The longest
    # matching prefix therefore decides.
    for arm, prefix in longest_last:
        owners |= {name: arm for name in names if name.startswith(prefix)}
    return [owners[name] for name in names]
