# SPDX-License-Identifier: Apache-2.0
"""Context of a controllet or feature: arms, objects and bumpless-transfer data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.parameters import JointVector
from multipanda_py.state import ArmState, Matrix, Vector

if TYPE_CHECKING:
    from multipanda_py.robots import ArmDescription, SceneObject


MAX_POSE_ERROR = np.array([0.15] * 3 + [0.6] * 3)
"""Maximum distance from the measured pose to the target that a controllet sets at its activation,
per axis [m, rad]. It equals the default gate."""
MAX_JOINT_ERROR = 0.4
"""Maximum distance from a measured joint position to the target that a controllet sets at its
activation [rad]. It equals the default gate."""
COMPENSATED_FORCE, COMPENSATED_FRACTION = 5.0, 0.25
"""Maximum difference between requested and transferred force that a switch compensates. It is the
larger of an absolute value [N] and a fraction of the request."""
SMALL_FORCE, SMALL_TORQUE = 1.0, 0.3
"""Force [N] and torque [Nm] below which a transferred wrench is not reported."""


def _six() -> Vector:
    return np.zeros(6)


@dataclass(frozen=True, eq=False)
class BumplessTransfer:
    """Torque and wrench of one arm that the next controllet continues (bumpless transfer).

    At rest, the commanded torque is transferred. In motion, only the measured part of the
    commanded wrench is transferred. For an arm at rest without contact, all values are zero.

    Attributes:
        tau: Joint torques that keep the arm at rest, without damping, (n,) [Nm].
        wrench_in_base: Wrench of ``tau`` on the environment at the tool, (6,) [N, Nm].
        contact_in_base: Measured part of ``wrench_in_base``, (6,) [N, Nm].
        load_mass: Mass of the load in the settings of the robot, without the tool [kg]. Wrenches
            exclude its weight.
        requested_in_base: Wrench that users have requested from an earlier controllet, (6,) [N,
            Nm]. A controllet with a force target adopts it. Zero without request or contact.
    """

    tau: Vector = field(default_factory=lambda: np.zeros(0))
    wrench_in_base: Vector = field(default_factory=_six)
    contact_in_base: Vector = field(default_factory=_six)
    load_mass: float = 0.0
    requested_in_base: Vector = field(default_factory=_six)

    @property
    def force(self) -> float:
        """Magnitude of the transferred force [N]."""
        return math.sqrt(float(np.dot(self.wrench_in_base[:3], self.wrench_in_base[:3])))

    @property
    def contact_force(self) -> float:
        """Magnitude of the force in ``contact_in_base`` [N]."""
        return math.sqrt(float(np.dot(self.contact_in_base[:3], self.contact_in_base[:3])))

    @property
    def torque(self) -> float:
        """Magnitude of the transferred torque at the tool [Nm]."""
        return math.sqrt(float(np.dot(self.wrench_in_base[3:], self.wrench_in_base[3:])))

    @property
    def is_significant(self) -> bool:
        """True if the force exceeds ``SMALL_FORCE`` or the torque ``SMALL_TORQUE``."""
        return self.force > SMALL_FORCE or self.torque > SMALL_TORQUE

    def within(self, force: float) -> BumplessTransfer:
        """Return this transfer with torques and wrenches scaled down to a maximum force.

        Args:
            force: Maximum of :attr:`force` in the result [N].
        """
        if self.force <= force:
            return self
        scale = force / self.force
        return BumplessTransfer(
            self.tau * scale,
            self.wrench_in_base * scale,
            self.contact_in_base * scale,
            self.load_mass,
            self.requested_in_base,
        )

    @property
    def missing_in_base(self) -> Vector:
        """Part of the requested wrench that the arm does not exert, (6,) [N, Nm].

        It is ``requested_in_base`` minus the projection of ``wrench_in_base`` onto its direction.
        """
        requested = self.requested_in_base
        squared = float(np.dot(requested, requested))
        if squared == 0.0:
            return _six()
        return requested * (1.0 - float(np.dot(self.wrench_in_base, requested)) / squared)

    def as_requested(self, jacobian: Matrix) -> BumplessTransfer:
        """Return a copy that adds :attr:`missing_in_base` to the wrench if it is small.

        The limit is the larger of :data:`COMPENSATED_FORCE` and :data:`COMPENSATED_FRACTION` of
        the request, but at most half of the request. Above it, return this object.

        Args:
            jacobian: Jacobian of the tool, (6, n).
        """
        missing = self.missing_in_base
        size = math.sqrt(float(np.dot(missing, missing)))
        whole = math.sqrt(float(np.dot(self.requested_in_base, self.requested_in_base)))
        if size == 0.0 or size > min(
            max(COMPENSATED_FORCE, COMPENSATED_FRACTION * whole), 0.5 * whole
        ):
            return self
        return BumplessTransfer(
            self.tau + np.dot(missing, jacobian),
            self.wrench_in_base + missing,
            self.contact_in_base + missing,
            self.load_mass,
            self.requested_in_base,
        )

    def describe(self, name: str, fraction: float) -> str:
        """Return a message such as ``left keeps 9.8 N`` about the force after a switch.

        The message is empty if :attr:`is_significant` is False.

        Args:
            name: Name of the arm.
            fraction: Fraction of the force that the next controllet continues, 0 to 1.
        """
        if not self.is_significant:
            return ""
        force, unit = (self.force, "N") if self.force > SMALL_FORCE else (self.torque, "Nm")
        if self.requested_in_base.any():
            whole = self.wrench_in_base + self.missing_in_base
            size = max(force, math.sqrt(float(np.dot(whole[:3], whole[:3]))))
            force, fraction = size, fraction * force / max(size, 1e-9)
        if fraction > 0.98:
            return f"{name} keeps {force:.1f} {unit}"
        if fraction > 0.02:
            return f"{name} keeps {fraction * force:.1f} of {force:.1f} {unit}"
        load_text = f"load_mass is {self.load_mass:g} kg; set it if a payload caused this force"
        return f"{name} releases {force:.1f} {unit} ({load_text})"


def tool_wrench(state: ArmState, tau: Vector) -> Vector:
    r"""Return the wrench F of joint torques at the tool along the base axes, (6,) [N, Nm].

    .. math:: F = \Lambda J M^{-1} \tau

    with the Jacobian J, the inertia matrix M and the task-space inertia :math:`\Lambda`. Joint
    torques in the dynamically consistent nullspace give no wrench (Khatib 1987).

    Args:
        state: State of the arm.
        tau: Joint torques, (n,) [Nm].
    """
    space = state.operational_space()
    wrench: Vector = space.inertia.dot(space.minv_jt.T.dot(tau))
    return wrench


def fraction_of(reached: Vector, desired: Vector) -> float:
    """Return the fraction of a desired wrench that is reached, 1 for the whole wrench.

    It is the component of the reached force along the desired force, divided by the desired force.
    For a desired force below :data:`SMALL_FORCE`, it is computed from the torques.

    Args:
        reached: Reached wrench, (6,) [N, Nm].
        desired: Desired wrench, (6,) [N, Nm].
    """
    part = desired[:3]
    size = float(part.dot(part))
    if size > SMALL_FORCE**2:
        return float(reached[:3].dot(part)) / size
    part = desired[3:]
    size = float(part.dot(part))
    return float(reached[3:].dot(part)) / size if size > 0.0 else 1.0


def bounded_error(error: Vector, clip: Vector) -> None:
    """Scale a pose error down in place, until no axis exceeds ``clip`` or :data:`MAX_POSE_ERROR`.

    Position and rotation are scaled separately, so that each keeps its direction.

    Args:
        error: Pose error, (6,) [m, rad].
        clip: Maximum pose error per axis, (6,) [m, rad].
    """
    beyond = (np.abs(error) / np.minimum(clip, MAX_POSE_ERROR)).tolist()
    for start in (0, 3):
        max_value = max(beyond[start : start + 3])
        if max_value > 1.0:
            error[start : start + 3] /= max_value


MAX_NOTICES = 4
"""Maximum number of notices of one instance per cycle; further ones are dropped."""


@dataclass(frozen=True, eq=False)
class Context:
    """Environment of a controllet instance; fixed while the loop runs.

    Attributes:
        period: Cycle time of the loop [s].
        arms: Arms that the instance owns (own arms), in the order of ``states`` in its methods.
        other_arms: All other arms of the cell.
        other_states: Live states of ``other_arms``, in the same order.
        objects: Objects in the scene.
        object_poses: Live poses of the movable objects in the world, (n, 7): position [m],
            quaternion w x y z. Absent objects are far from the cell.
        contact_classes: Obstacles that the own grippers may approach: ``objects`` or ``grippers``.
        leader_arms: Indices of own arms that a person guides.
        allowed_contacts: Pairs of bodies that may touch, by name: arms, ``arm/gripper``, objects,
            floor.
        notices: Messages that the loop has not reported yet; see :meth:`notify`.
    """

    period: float
    arms: tuple[ArmDescription, ...]
    other_arms: tuple[ArmDescription, ...] = ()
    other_states: tuple[ArmState, ...] = ()
    objects: tuple[SceneObject, ...] = ()
    object_poses: Vector = field(default_factory=lambda: np.zeros((0, 7)))
    contact_classes: tuple[str, ...] = ()
    allowed_contacts: tuple[tuple[str, str], ...] = ()
    leader_arms: tuple[int, ...] = ()
    notices: list[str] = field(default_factory=list)

    def notify(self, text: str) -> None:
        """Report a message to the user as an event, after the update of this cycle.

        Call it once when a condition starts, such as an active limit: excess messages are dropped.

        Raises:
            TypeError: If the message is not a string.

        Thread: control.
        """
        if not isinstance(text, str):
            raise TypeError(f"notify: got {type(text).__name__}, allowed str")
        if len(self.notices) < MAX_NOTICES:
            self.notices.append(text)

    @property
    def n_arms(self) -> int:
        return len(self.arms)

    @property
    def n_joints(self) -> int:
        """Number of joints of each own arm, if it is equal for all.

        Raises:
            ConfigurationError: If own arms have different numbers of joints.
        """
        if len({*self.joints}) > 1:
            result = ", ".join(f"{arm.name} {arm.n_joints}" for arm in self.arms)
            raise ConfigurationError(
                f"number of joints: got {result}, allowed equal numbers for all arms"
            )
        return self.arms[0].n_joints

    @property
    def joints(self) -> tuple[int, ...]:
        """Number of joints of each own arm."""
        return tuple(arm.n_joints for arm in self.arms)

    def joint_zeros(self) -> list[Vector]:
        """Return one vector of zeros per own arm, (n,) each."""
        return [np.zeros(n) for n in self.joints]

    def per_arm(self, value: JointVector) -> tuple[Vector, ...]:
        """Convert the value of a :func:`.joint_vector` to one array per own arm, (n,) each."""
        return value if isinstance(value, tuple) else (value,) * self.n_arms

    @property
    def positions_base_in_world(self) -> list[Vector]:
        """Position of each own arm's base in the world, (3,) [m]."""
        return [np.array(arm.position_base_in_world) for arm in self.arms]

    @property
    def rotations_base_in_world(self) -> list[Matrix]:
        """Rotation of each own arm's base in the world, (3, 3)."""
        return [np.array(arm.rotation_base_in_world) for arm in self.arms]

    @classmethod
    def from_arms(cls, period: float, arms: Sequence[ArmDescription]) -> Context:
        """Return a context with a cycle time [s] and own arms, without other arms and objects."""
        return cls(period, tuple(arms))
