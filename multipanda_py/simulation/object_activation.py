# SPDX-License-Identifier: Apache-2.0
"""Things of a simulated world that come and go, though it is compiled only once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.pose import Pose
from multipanda_py.registry import extras_named
from multipanda_py.robots.arm import PARKED
from multipanda_py.state import Vector

with extras_named():
    import mujoco

DEEP = 1e-3
"""What is less far inside something touches it, as a held thing does [m]."""
_NEAR = 0.01
"""Distances beyond this need not be known [m]."""


def let_come_and_go(spec: mujoco.MjSpec, things: Sequence[str]) -> None:
    """Have a scene compiled so that weight and contacts of some things can be switched later.

    MuJoCo leaves out compensation of weight where no body has any, and bodies that touch nothing.
    """
    for name in things:
        body = spec.body(name)
        body.gravcomp = 1.0
        for geom in body.geoms:
            geom.contype = geom.conaffinity = 1


class Presence:
    """Put movable things into a world and take them out of it.

    What is absent has no contacts, and its weight is compensated, so that it rests where it is
    parked, far away; it costs less of a step than what lies on a table. What arms and other things
    feel is what they would feel without it.

    Args:
        model: A scene that :func:`let_come_and_go` has prepared.
        data: Its state.
        things: Names of the movable things, in the order of the cell file.
        present: Which of them are in the scene, (n,).
        arms: Prefix of the links of every arm, by the arm's name.

    Thread: that of the loop's cycles, between two of them.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        things: Sequence[str],
        present: NDArray[np.int64],
        arms: Mapping[str, str],
    ) -> None:
        self._model, self._data = model, data
        self._bodies = [int(model.body(name).id) for name in things]
        self._geoms = [int(model.geom(f"{name}_geom").id) for name in things]
        joints = [model.joint(f"{name}_joint") for name in things]
        self._q = [int(joint.qposadr[0]) for joint in joints]
        self._dof = [int(joint.dofadr[0]) for joint in joints]
        self._owner = _owners(model, arms)
        self.links = {
            arm: frozenset(body for body, owner in enumerate(self._owner) if owner == arm)
            for arm in arms
        }
        """MuJoCo's numbers of all links of an arm."""
        self._is_link = np.array([self._owner[body] in arms for body in model.geom_bodyid])
        self._is_plane = model.geom_type == int(mujoco.mjtGeom.mjGEOM_PLANE)
        for thing, is_present in enumerate(present.tolist()):
            self._set(thing, bool(is_present))

    def is_present(self, body: int) -> bool:
        """Return whether a body, by MuJoCo's number, is in the scene; links always are."""
        return body not in self._bodies or self._model.body_gravcomp[body] == 0.0

    def overlap(self, thing: int, pose: Pose, only_arms: bool = False) -> tuple[str, float] | None:
        """Return what a thing would be inside of somewhere, and how deep [m].

        Args:
            thing: An absent one, or any if only arms count.
            pose: In the world.
            only_arms: Whether things and the floor do not count.

        Returns:
            Name of an arm, a thing or ``floor`` with the largest depth; None if none is deeper
            than 1 mm.
        """
        model, data, geom = self._model, self._data, self._geoms[thing]
        mujoco.mj_kinematics(model, data)  # that of the last step is a period old
        center, turn = data.geom_xpos[geom], data.geom_xmat[geom]
        before = center.copy(), turn.copy()
        center[:], turn[:] = pose.position, pose.rotation.ravel()
        far = np.linalg.norm(data.geom_xpos - center, axis=1) - model.geom_rbound
        near = self._is_plane | (far < model.geom_rbound[geom])
        solid = (model.geom_contype | model.geom_conaffinity) != 0
        deepest, found = DEEP, -1
        if only_arms:
            solid &= self._is_link
        for other in np.flatnonzero(near & solid).tolist():
            depth = -mujoco.mj_geomDistance(model, data, geom, other, _NEAR, None)
            if depth > deepest:
                deepest, found = depth, other
        center[:], turn[:] = before
        return None if found < 0 else (self._owner[model.geom_bodyid[found]], deepest)

    def enter(self, thing: int) -> None:
        """Give a thing its weight and its contacts, wherever it is."""
        self._set(thing, True)

    def leave(self, thing: int) -> None:
        """Take both away, and park it, without motion and pushes."""
        self._set(thing, False)
        data, q, dof = self._data, self._q[thing], self._dof[thing]
        data.qpos[q : q + 7] = *PARKED, 1.0, 0.0, 0.0, 0.0
        for motion in (data.qvel, data.qacc, data.qacc_warmstart):
            motion[dof : dof + 6] = 0.0
        data.xfrc_applied[self._bodies[thing]] = 0.0
        mujoco.mj_forward(self._model, data)

    def pose(self, thing: int) -> Vector:
        """Return position and quaternion w x y z of a thing, (7,)."""
        q = self._q[thing]
        found: Vector = self._data.qpos[q : q + 7].copy()
        return found

    def _set(self, thing: int, is_present: bool) -> None:
        model, geom = self._model, self._geoms[thing]
        model.body_gravcomp[self._bodies[thing]] = float(not is_present)
        model.geom_contype[geom] = model.geom_conaffinity[geom] = int(is_present)


def _owners(model: mujoco.MjModel, arms: Mapping[str, str]) -> list[str]:
    """Return what each body belongs to: an arm, ``floor``, or itself."""
    names = ["floor", *(str(model.body(body).name) for body in range(1, model.nbody))]
    longest_last = sorted(arms.items(), key=lambda item: len(item[1]))
    found = dict(zip(names, names))
    for arm, prefix in longest_last:  # a_b's after those that begin with a's name, too
        found |= {name: arm for name in names if name.startswith(prefix)}
    return [found[name] for name in names]
