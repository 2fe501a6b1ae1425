# SPDX-License-Identifier: Apache-2.0
"""The whole state of a simulated world, saved and loaded."""

from __future__ import annotations

import copy
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.exceptions import SimulationRefused, UnknownName
from multipanda_py.pose import Pose
from multipanda_py.registry import extras_named
from multipanda_py.simulation.mjcf_elements import quaternion
from multipanda_py.simulation.object_activation import Presence
from multipanda_py.state import Matrix, Vector

with extras_named():
    import mujoco


_DIVERGED = "unstable"
_GAVE_UP = [
    int(one)
    for one in (
        mujoco.mjtWarning.mjWARN_BADQPOS,
        mujoco.mjtWarning.mjWARN_BADQVEL,
        mujoco.mjtWarning.mjWARN_BADQACC,
    )
]
_KIND = 24  # characters of a warning that do not depend on numbers in it

_log = logging.getLogger(__name__)
_kinds: set[str] = set()
_newest = ""


def listen() -> None:
    """Take MuJoCo's warnings, if the program has no handler of its own."""
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_keep)


def diverged(what: str) -> str:
    """Say in one line that a simulation has diverged, and what MuJoCo found."""
    return f"{what}: {_newest}" if _DIVERGED in _newest else what


def was_reset(data: mujoco.MjData, before: float) -> bool:
    """Return whether MuJoCo has put everything to its start while it made a step.

    Time tells, but in the very first step: it begins at 0, as what was put to its start does.

    Args:
        data: After the step.
        before: Its time before [s].
    """
    return bool(data.time <= before or (before == 0.0 and data.warning.number[_GAVE_UP].any()))


def _keep(text: str) -> None:
    """Keep a warning; log the first of its kind unless the backend reports it. Thread: any."""
    global _newest
    _newest = " ".join(text.split())
    kind = _newest[:_KIND]
    if _DIVERGED not in _newest and kind not in _kinds:
        _kinds.add(kind)
        _log.warning("MuJoCo: %s", _newest)


FLOOR = "floor"
"""Name of what stands still and has no other one."""


class World:
    """Bodies by name: their contacts, poses, pushes, friction and inertia.

    A name is that of a thing in the cell file, of a link of an arm (``left_fr3_link7``, as in the
    URDF), or ``floor``; where it says so, that of an arm for all its links together. Everything
    is in the world frame.

    Args:
        model: MuJoCo's model.
        data: Its data.
        presence: Which things are in the scene, and which links are an arm's.

    Thread: that of the loop's cycles, between two of them.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        presence: Presence,
    ) -> None:
        self._model, self._data, self._presence = model, data, presence
        names = [FLOOR, *(model.body(body).name for body in range(1, model.nbody))]
        self._body = {name: body for body, name in enumerate(names) if name}
        self._mass, self._inertia = model.body_mass.copy(), model.body_inertia.copy()
        self._body_of = model.geom_bodyid.copy()
        self._scratch = mujoco.MjData(model)
        self._wrench = np.zeros(6)

    @property
    def bodies(self) -> tuple[str, ...]:
        """Names of all bodies, absent ones among them."""
        return tuple(self._body)

    def contact_force(self, body: str, other: str | None = None) -> Vector:
        """Return what ``other``, or everything, exerts on a body by contact, (3,) [N].

        Both may be arms. It is that of the last step, as are the states that laws see next.
        """
        mine, theirs = self._group(body), None if other is None else self._group(other)
        model, data, total = self._model, self._data, np.zeros(3)
        contacts = data.contact
        for number, (first, second) in enumerate(self._body_of[contacts.geom].tolist()):
            if (first in mine) == (second in mine):
                continue
            sign, partner = (-1.0, second) if first in mine else (1.0, first)
            if theirs is None or partner in theirs:
                mujoco.mj_contactForce(model, data, number, self._wrench)
                total += sign * self._wrench[:3] @ contacts[number].frame.reshape(3, 3)
        return total

    def pose(self, body: str) -> Pose:
        """Return where a body is.

        Raises:
            SimulationRefused: If it is absent.
        """
        body_id = self._find_present(body)
        return Pose(self._data.xpos[body_id].copy(), self._data.xmat[body_id].reshape(3, 3).copy())

    def set_pose(self, body: str, pose: Pose, twist: ArrayLike = (0.0,) * 6) -> None:
        """Put a thing somewhere else.

        Args:
            body: A thing of the cell file. One without mass stays where it is put.
            pose: Where.
            twist: Its linear velocity, and its angular velocity in its own axes, (6,)
                [m/s, rad/s].

        Raises:
            SimulationRefused: If it is a link, or the floor, or absent, or pose or twist are none.
        """
        model, data, body_id = self._model, self._data, self._find_present(body)
        if not isinstance(pose, Pose):
            raise SimulationRefused(f"{body}: pose: got {pose!r:.60}, allowed a Pose")
        velocity = _numbers(f"{body}: twist", twist, 6)
        joint = int(model.body_jntadr[body_id])
        if joint >= 0 and model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
            q_at, dof = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
            data.qpos[q_at : q_at + 3] = pose.position
            data.qpos[q_at + 3 : q_at + 7] = quaternion(pose.rotation)
            data.qvel[dof : dof + 6] = velocity
        elif body_id and joint < 0 and model.body_parentid[body_id] == 0:
            model.body_pos[body_id] = pose.position
            model.body_quat[body_id] = quaternion(pose.rotation)
        else:
            raise SimulationRefused(f"set_pose: got {body}, allowed things of the cell file")
        mujoco.mj_forward(model, data)

    def apply_wrench(
        self,
        body: str,
        force: ArrayLike = (0.0, 0.0, 0.0),
        torque: ArrayLike = (0.0, 0.0, 0.0),
        point: ArrayLike | None = None,
    ) -> None:
        """Push a body from now on, until it is told otherwise.

        Args:
            body: What is pushed.
            force: (3,) [N].
            torque: (3,) [Nm].
            point: Where the force acts now, (3,) [m]; by default at the centre of mass, with
                which it then moves.

        Raises:
            SimulationRefused: If it is absent, or these are no numbers.
        """
        body_id = self._find_present(body)
        push, turn = _numbers(f"{body}: force", force, 3), _numbers(f"{body}: torque", torque, 3)
        if point is not None:
            lever = _numbers(f"{body}: point", point, 3) - self._data.xipos[body_id]
            turn = turn + np.cross(lever, push)
        self._data.xfrc_applied[body_id, :3] = push
        self._data.xfrc_applied[body_id, 3:] = turn

    def set_friction(self, body: str, sliding: float) -> None:
        """Change the coefficient of sliding friction of a body, or of all of an arm.

        Between two bodies that of the thing counts, else the larger one.
        """
        value = _positive(f"{body}: friction", sliding, zero=True)
        model, bodies = self._model, self._group(body)
        for geom in range(model.ngeom):
            if int(model.geom_bodyid[geom]) in bodies:
                model.geom_friction[geom, 0] = value
        for pair in range(model.npair):  # of the pads of fingers and things
            geoms = (int(model.pair_geom1[pair]), int(model.pair_geom2[pair]))
            if any(int(model.geom_bodyid[geom]) in bodies for geom in geoms):
                model.pair_friction[pair, :2] = value

    def scale_inertia(self, body: str, factor: float) -> None:
        """Make a body, or an arm, heavier or lighter than its description, by a factor.

        The weight of an arm's links stays compensated.
        """
        scale = _positive(f"{body}: factor of inertia", factor)
        bodies = sorted(self._group(body))
        self._model.body_mass[bodies] = scale * self._mass[bodies]
        self._model.body_inertia[bodies] = scale * self._inertia[bodies]
        mujoco.mj_setConst(self._model, self._scratch)

    def _find(self, body: str) -> int:
        if body not in self._body:
            raise UnknownName("body", body, self.bodies)
        return self._body[body]

    def _find_present(self, body: str) -> int:
        body_id = self._find(body)
        if not self._presence.is_present(body_id):
            raise SimulationRefused(f"{body}: got an absent thing, allowed what is in the scene")
        return body_id

    def _group(self, name: str) -> frozenset[int]:
        links = self._presence.links.get(name)
        return frozenset((self._find(name),)) if links is None else links


def _numbers(what: str, values: ArrayLike, count: int) -> Vector:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise SimulationRefused(f"{what}: got {values!r:.60}, allowed {count} numbers") from None
    if array.shape != (count,) or not np.isfinite(array).all():
        raise SimulationRefused(f"{what}: got {array.tolist()}, allowed {count} finite numbers")
    return array


def _positive(what: str, value: float, zero: bool = False) -> float:
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not (is_number and np.isfinite(value) and (value > 0.0 or (zero and value == 0.0))):
        raise SimulationRefused(
            f"{what}: got {value!r:.60}, allowed {'0 or more' if zero else 'more than 0'}"
        )
    return float(value)


def save_fields(part: object, names: Sequence[str]) -> dict[str, object]:
    """Return copies of attributes of a part, by name."""
    return {name: _saved(getattr(part, name)) for name in names}


def load_fields(part: object, saved: Mapping[str, Any]) -> None:
    """Give a part the attributes that :func:`save_fields` has copied."""
    for name, value in saved.items():
        now = getattr(part, name)
        if isinstance(now, np.random.Generator):
            now.bit_generator.state = value
        else:
            setattr(part, name, _saved(value))


def _saved(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, (tuple, list, deque)):
        return type(value)(_saved(item) for item in value)
    return value  # numbers, words and frozen records


@dataclass(frozen=True)
class WorldState:
    """All of MuJoCo's data, and where things stand that have no joint.

    More than MuJoCo's integration state: also what was computed last, so that the forces that
    laws feel in the next cycle are those that they would have felt.

    Attributes:
        data: A copy of MuJoCo's data.
        body_pos: Positions of bodies in their parents (n, 3) [m].
        body_quat: Their orientations, (n, 4).
        presence: Of bodies, how much of their weight is compensated; of geoms, what they touch.
    """

    data: mujoco.MjData
    body_pos: Matrix
    body_quat: Matrix
    presence: tuple[Vector, NDArray[np.int32], NDArray[np.int32]]

    @classmethod
    def of(cls, model: mujoco.MjModel, data: mujoco.MjData) -> WorldState:
        """Return a copy of the state of now."""
        presence = (
            model.body_gravcomp.copy(), model.geom_contype.copy(), model.geom_conaffinity.copy(),
        )  # fmt: skip
        return cls(copy.copy(data), model.body_pos.copy(), model.body_quat.copy(), presence)

    def load(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Put a world into this state; arrays of ``data`` that others view stay where they are."""
        mujoco.mj_copyData(data, model, self.data)
        model.body_pos[:], model.body_quat[:] = self.body_pos, self.body_quat
        compensated, contype, conaffinity = self.presence
        model.body_gravcomp[:] = compensated
        model.geom_contype[:], model.geom_conaffinity[:] = contype, conaffinity
