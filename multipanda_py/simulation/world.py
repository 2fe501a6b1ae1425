# SPDX-License-Identifier: Apache-2.0
"""Simulated world: access to bodies, contacts at the start, saving and restoring."""

from __future__ import annotations

import copy
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.exceptions import SimulationRejected, UnknownName
from multipanda_py.pose import Pose
from multipanda_py.registry import extras_named
from multipanda_py.simulation.mjcf_elements import quaternion
from multipanda_py.simulation.object_activation import TOUCH_DEPTH, ObjectActivation
from multipanda_py.state import Matrix, Vector

with extras_named():
    import mujoco


_UNSTABLE_TEXT = "unstable"
_DIVERGENCE_WARNINGS = [
    int(one)
    for one in (
        mujoco.mjtWarning.mjWARN_BADQPOS,
        mujoco.mjtWarning.mjWARN_BADQVEL,
        mujoco.mjtWarning.mjWARN_BADQACC,
    )
]
_KIND_LENGTH = 24
"""Number of first characters of a warning that identify its kind, before any numbers."""

_log = logging.getLogger(__name__)
_logged_kinds: set[str] = set()
_newest_warning = ""


def install_warning_handler() -> None:
    """Install a handler that logs MuJoCo's warnings, unless the program has its own handler."""
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_store_and_log_warning)


def divergence_message(description: str) -> str:
    """Return ``description`` of a divergence, with MuJoCo's reason if known."""
    reason = f": {_newest_warning}" if _UNSTABLE_TEXT in _newest_warning else ""
    return description + reason


def was_reset(data: mujoco.MjData, time_before: float) -> bool:
    """Return True if MuJoCo diverged and reset its state since ``time_before`` the step [s]."""
    # A reset sets the time back to 0. In the first step, only warnings show a reset.
    return bool(
        data.time <= time_before
        or (time_before == 0.0 and data.warning.number[_DIVERGENCE_WARNINGS].any())
    )


def _store_and_log_warning(text: str) -> None:
    global _newest_warning
    _newest_warning = " ".join(text.split())
    kind = _newest_warning[:_KIND_LENGTH]
    # The backend reports divergence.
    if _UNSTABLE_TEXT not in _newest_warning and kind not in _logged_kinds:
        _logged_kinds.add(kind)
        _log.warning("MuJoCo: %s", _newest_warning)


FLOOR = "floor"
"""Name of MuJoCo's world body, which is fixed."""


class World:
    """Access to bodies by name: contacts, poses, external wrenches, friction and inertia.

    Bodies are objects of the cell file, links of arms (``left_fr3_link7``, as in the URDF) and
    ``floor``. Some methods also accept the name of an arm for all its links. All quantities are in
    the world frame.

    Args:
        model: MuJoCo model of the scene.
        data: MuJoCo data of the scene.
        presence: Addition and removal of movable objects.

    Thread: control, between two cycles.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        presence: ObjectActivation,
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
        """Names of all bodies, including absent ones."""
        return tuple(self._body)

    def contact_force(self, body: str, other: str | None = None) -> Vector:
        """Return the contact force on a body in the last step, along the world's axes, (3,) [N].

        Args:
            body: Name of a body or an arm.
            other: Name of the body or arm that exerts the force; None for all bodies.
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
        """Return the pose of a body in the world frame.

        Raises:
            SimulationRejected: If it is absent.
        """
        body_id = self._find_present(body)
        return Pose(self._data.xpos[body_id].copy(), self._data.xmat[body_id].reshape(3, 3).copy())

    def set_pose(self, body: str, pose: Pose, twist: ArrayLike = (0.0,) * 6) -> None:
        """Set the pose of an object.

        Args:
            body: Name of an object in the cell file. An object without mass does not move
                afterwards.
            pose: New pose.
            twist: Linear velocity, and angular velocity along the axes of the object, (6,)
                [m/s, rad/s].

        Raises:
            SimulationRejected: If the body is a link, the floor or absent, or pose or twist are
                invalid.
        """
        model, data, body_id = self._model, self._data, self._find_present(body)
        if not isinstance(pose, Pose):
            raise SimulationRejected(f"{body}: pose: got {pose!r:.60}, allowed a Pose")
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
            raise SimulationRejected(f"set_pose: got {body}, allowed objects of the cell file")
        mujoco.mj_forward(model, data)

    def apply_wrench(
        self,
        body: str,
        force: ArrayLike = (0.0, 0.0, 0.0),
        torque: ArrayLike = (0.0, 0.0, 0.0),
        point: ArrayLike | None = None,
    ) -> None:
        """Apply a constant wrench to a body, until the next call for this body.

        Args:
            body: Name of the body.
            force: Force, (3,) [N].
            torque: Torque, (3,) [Nm].
            point: Current point of application of the force, (3,) [m]; by default the centre of
                mass. The point then moves with the centre of mass.

        Raises:
            SimulationRejected: If the body is absent, or a value is not numeric.
        """
        body_id = self._find_present(body)
        push, torque_vector = (
            _numbers(f"{body}: force", force, 3),
            _numbers(f"{body}: torque", torque, 3),
        )
        if point is not None:
            lever = _numbers(f"{body}: point", point, 3) - self._data.xipos[body_id]
            torque_vector = torque_vector + np.cross(lever, push)
        self._data.xfrc_applied[body_id, :3] = push
        self._data.xfrc_applied[body_id, 3:] = torque_vector

    def set_friction(self, body: str, sliding: float) -> None:
        """Set the coefficient of sliding friction of a body, or of all links of an arm.

        In contacts with an object, the object's friction applies; in all other contacts, the
        larger friction of both bodies.
        """
        value = _positive(f"{body}: friction", sliding, zero=True)
        model, bodies = self._model, self._group(body)
        for geom in range(model.ngeom):
            if int(model.geom_bodyid[geom]) in bodies:
                model.geom_friction[geom, 0] = value
        # Contact pairs of finger pads and objects have their own friction, which MuJoCo uses
        # instead of that of the geoms.
        for pair in range(model.npair):
            geoms = (int(model.pair_geom1[pair]), int(model.pair_geom2[pair]))
            if any(int(model.geom_bodyid[geom]) in bodies for geom in geoms):
                model.pair_friction[pair, :2] = value

    def scale_inertia(self, body: str, factor: float) -> None:
        """Set mass and inertia of a body or an arm to a multiple of their initial values.

        MuJoCo still compensates the weight of an arm's links.

        Args:
            body: Name of a body or an arm.
            factor: Factor on the initial mass and inertia.
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
            raise SimulationRejected(f"{body}: the object is absent. Add it to the scene first")
        return body_id

    def _group(self, name: str) -> frozenset[int]:
        links = self._presence.links.get(name)
        return frozenset((self._find(name),)) if links is None else links


def _numbers(description: str, values: ArrayLike, count: int) -> Vector:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise SimulationRejected(
            f"{description}: got {values!r:.60}, allowed {count} numbers"
        ) from None
    if array.shape != (count,) or not np.isfinite(array).all():
        raise SimulationRejected(
            f"{description}: got {array.tolist()}, allowed {count} finite numbers"
        )
    return array


def _positive(description: str, value: float, zero: bool = False) -> float:
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not (is_number and np.isfinite(value) and (value > 0.0 or (zero and value == 0.0))):
        raise SimulationRejected(
            f"{description}: got {value!r:.60}, allowed {'0 or more' if zero else 'more than 0'}"
        )
    return float(value)


def start_contacts(
    model: mujoco.MjModel, data: mujoco.MjData, prefixes: Mapping[str, str]
) -> list[str]:
    """Return a warning for each body that an arm penetrates at the start.

    Args:
        model: Model of the scene.
        data: State with contacts, after ``mj_forward`` at the start.
        prefixes: Prefix of the body names of each arm, by arm name.
    """
    owner = {
        body: name
        # Body names of an arm ``a_b`` also start with the prefix ``a_`` of an arm ``a``. The
        # longest matching prefix therefore decides.
        for name in sorted(prefixes, key=len)
        for body in range(model.nbody)
        if model.body(body).name.startswith(prefixes[name])
    }
    deepest: dict[tuple[str, str], tuple[float, str]] = {}
    for contact in data.contact:
        one, other = (int(model.geom_bodyid[geom]) for geom in contact.geom)
        if one not in owner:
            one, other = other, one
        if one not in owner or contact.dist > -TOUCH_DEPTH:
            continue
        other_name = owner.get(other) or ("the floor" if other == 0 else model.body(other).name)
        pair = (owner[one], "itself" if other_name == owner[one] else other_name)
        deepest[pair] = min(deepest.get(pair, (0.0, "")), (contact.dist, model.body(one).name))
    return [
        f"{arm} starts inside {description}: {body} is {-1e3 * dist:.0f} mm deep, which pushes "
        f"the arm away or jams a joint. Change arms.{arm}.q_start"
        for (arm, description), (dist, body) in deepest.items()
    ]


def save_fields(part: object, names: Sequence[str]) -> dict[str, object]:
    """Return copies of the given attributes of an object, by name, for :func:`load_fields`."""
    return {name: _saved(getattr(part, name)) for name in names}


def load_fields(part: object, saved: Mapping[str, Any]) -> None:
    """Restore attributes from :func:`save_fields`."""
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
    return value  # Other values are immutable and need no copy.


@dataclass(frozen=True)
class WorldState:
    """Copy of MuJoCo's complete data, and of poses and presence of objects in the model.

    Attributes:
        data: Copy of MuJoCo's data, including the last computed forces.
        body_pos: Positions of bodies in their parents, (n, 3) [m].
        body_quat: Orientations of bodies in their parents, w x y z, (n, 4).
        presence: Gravity compensation of bodies, ``contype`` and ``conaffinity`` of geoms.
    """

    data: mujoco.MjData
    body_pos: Matrix
    body_quat: Matrix
    presence: tuple[Vector, NDArray[np.int32], NDArray[np.int32]]

    @classmethod
    def capture(cls, model: mujoco.MjModel, data: mujoco.MjData) -> WorldState:
        """Return a copy of MuJoCo's current state, for :meth:`load`."""
        presence = (
            model.body_gravcomp.copy(), model.geom_contype.copy(), model.geom_conaffinity.copy(),
        )  # fmt: skip
        return cls(copy.copy(data), model.body_pos.copy(), model.body_quat.copy(), presence)

    def load(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Restore this state in place; views of arrays of ``data`` stay valid."""
        mujoco.mj_copyData(data, model, self.data)
        model.body_pos[:], model.body_quat[:] = self.body_pos, self.body_quat
        compensated, contype, conaffinity = self.presence
        model.body_gravcomp[:] = compensated
        model.geom_contype[:], model.geom_conaffinity[:] = contype, conaffinity
