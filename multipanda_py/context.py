# SPDX-License-Identifier: Apache-2.0
"""What a law or feature may know beyond the states it is given each cycle."""

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


MAX_ERROR = np.array([0.15] * 3 + [0.6] * 3)
"""Maximum distance of a seeded target from the measured pose, as the default gate [m], [rad]."""
MAX_STEP = 0.4
"""Farthest that a seeded target may lie from a measured joint, as the default gate [rad]."""
NEAR_FORCE, NEAR_SHARE = 5.0, 0.25
"""Maximum difference to a requested force that a switch closes, absolute [N] and relative."""
SMALL_FORCE, SMALL_TORQUE = 1.0, 0.3
"""What is not worth a word [N], [Nm]."""


def _six() -> Vector:
    return np.zeros(6)


@dataclass(frozen=True, eq=False)
class Handover:
    """How hard one arm was pressing, as far as that may go on.

    An arm at rest does what its torque asks for, whatever sensors say: that torque is handed
    over. An arm that moves also brakes and accelerates; of it only the wrench is handed over that
    is both asked for and measured. A free arm at rest has nothing to hand over.

    A force that users have requested outlives its law. The next law receives it as a goal.

    Attributes:
        tau: Joint torques that keep the arm where it is, without dampers, (n,) [Nm].
        wrench_in_base: The same as force and torque that the tool exerts on the world, at its
            point, (6,) [N, Nm]. What of ``tau`` only moves the elbow is not in it.
        contact_in_base: What of that wrench is measured, too, (6,): the rest is what nobody told
            of, such as a payload, and what sensors do not show.
        load_mass: What the robot has been told that it carries beyond its tool [kg]; its weight
            is compensated and no part of the rest.
        requested_in_base: Contact force that users request of the arm, (6,) [N, Nm]; zero for none
            and without contact. A law that controls forces ramps to it.
    """

    tau: Vector = field(default_factory=lambda: np.zeros(0))
    wrench_in_base: Vector = field(default_factory=_six)
    contact_in_base: Vector = field(default_factory=_six)
    load_mass: float = 0.0
    requested_in_base: Vector = field(default_factory=_six)

    @property
    def force(self) -> float:
        """Size of the force [N]."""
        return math.sqrt(float(np.dot(self.wrench_in_base[:3], self.wrench_in_base[:3])))

    @property
    def contact_force(self) -> float:
        """Size of the measured part of the force [N]."""
        return math.sqrt(float(np.dot(self.contact_in_base[:3], self.contact_in_base[:3])))

    @property
    def torque(self) -> float:
        """Size of the torque at the tool [Nm]."""
        return math.sqrt(float(np.dot(self.wrench_in_base[3:], self.wrench_in_base[3:])))

    @property
    def matters(self) -> bool:
        """Whether it is worth a word."""
        return self.force > SMALL_FORCE or self.torque > SMALL_TORQUE

    def within(self, force: float) -> Handover:
        """Return it scaled down to a largest force [N]."""
        if self.force <= force:
            return self
        share = force / self.force
        return Handover(
            self.tau * share,
            self.wrench_in_base * share,
            self.contact_in_base * share,
            self.load_mass,
            self.requested_in_base,
        )

    @property
    def missing_in_base(self) -> Vector:
        """Difference of the requested force to the wrench, along the request, (6,) [N, Nm]."""
        requested = self.requested_in_base
        squared = float(np.dot(requested, requested))
        if squared == 0.0:
            return _six()
        return requested * (1.0 - float(np.dot(self.wrench_in_base, requested)) / squared)

    def as_requested(self, jacobian: Matrix) -> Handover:
        """Return the handover with the requested force, if the wrench is near it.

        A spring that starts with less stays below the request, and friction takes a little at each
        switch. A force that is far from the request still rises, or its contact is about to end.
        Such a force is left to laws that control forces.

        Args:
            jacobian: Jacobian of the tool, (6, n).
        """
        missing = self.missing_in_base
        size = math.sqrt(float(np.dot(missing, missing)))
        whole = math.sqrt(float(np.dot(self.requested_in_base, self.requested_in_base)))
        if size == 0.0 or size > min(max(NEAR_FORCE, NEAR_SHARE * whole), 0.5 * whole):
            return self
        return Handover(
            self.tau + np.dot(missing, jacobian),
            self.wrench_in_base + missing,
            self.contact_in_base + missing,
            self.load_mass,
            self.requested_in_base,
        )

    def words(self, name: str, share: float) -> str:
        """Say how much of it an arm goes on with, 0 to 1; nothing if it does not matter."""
        if not self.matters:
            return ""
        force, unit = (self.force, "N") if self.force > SMALL_FORCE else (self.torque, "Nm")
        if self.requested_in_base.any():
            whole = self.wrench_in_base + self.missing_in_base
            size = max(force, math.sqrt(float(np.dot(whole[:3], whole[:3]))))
            force, share = size, share * force / max(size, 1e-9)
        if share > 0.98:
            return f"{name} goes on with {force:.1f} {unit}"
        if share > 0.02:
            return f"{name} goes on with {share * force:.1f} of {force:.1f} {unit}"
        told = f"its robot has been told of a load of {self.load_mass:g} kg"
        return f"{name} lets go of {force:.1f} {unit} ({told})"


def tool_wrench(state: ArmState, tau: Vector) -> Vector:
    r"""Return the wrench that joint torques exert at the tool, (6,) [N, Nm].

    .. math:: F = \Lambda J M^{-1} \tau

    Torques of a dynamically consistent nullspace do not appear in it (Khatib 1987).
    """
    space = state.operational_space()
    wrench: Vector = space.inertia.dot(space.minv_jt.T.dot(tau))
    return wrench


def share_of(reached: Vector, wanted: Vector) -> float:
    """Return how much of a wrench (6,) is reached: of its force, or torque if it has none."""
    part = wanted[:3]
    size = float(part.dot(part))
    if size > SMALL_FORCE**2:
        return float(reached[:3].dot(part)) / size
    part = wanted[3:]
    size = float(part.dot(part))
    return float(reached[3:].dot(part)) / size if size > 0.0 else 1.0


def bounded_error(error: Vector, clip: Vector) -> None:
    """Shorten a pose error (6,) [m, rad] in place to what may be seeded.

    Position and rotation apart. Each keeps its direction: a force that points elsewhere would
    be worse than a smaller one.
    """
    beyond = (np.abs(error) / np.minimum(clip, MAX_ERROR)).tolist()
    for start in (0, 3):
        most = max(beyond[start : start + 3])
        if most > 1.0:
            error[start : start + 3] /= most


MOST_NOTICES = 4
"""Notices of one instance in one cycle; more are dropped."""


@dataclass(frozen=True, eq=False)
class Context:
    """The place where an instance works; fixed while the loop runs.

    Attributes:
        period: Cycle time of the loop [s].
        arms: Its own arms, in the order of the states it is given.
        other_arms: The cell's other arms.
        other_states: Their live states, in the same order.
        objects: Things in the scene.
        object_poses: Live poses of the movable ones, in order, (n, 7): position, w x y z. Absent
            ones are parked where nothing else is.
        touches: What the law's hands are for, as :attr:`Controllet.touches` says.
        led: Numbers of own arms that a hand leads, as :attr:`Controllet.led` says.
        touching: Pairs of names that are meant to touch: arms, ``arm/hand``, objects, ``floor``.
        notices: Sentences that the loop has not reported yet; see :meth:`notify`.
    """

    period: float
    arms: tuple[ArmDescription, ...]
    other_arms: tuple[ArmDescription, ...] = ()
    other_states: tuple[ArmState, ...] = ()
    objects: tuple[SceneObject, ...] = ()
    object_poses: Vector = field(default_factory=lambda: np.zeros((0, 7)))
    touches: tuple[str, ...] = ()
    touching: tuple[tuple[str, str], ...] = ()
    led: tuple[int, ...] = ()
    notices: list[str] = field(default_factory=list)

    def notify(self, text: str) -> None:
        """Have the loop report a sentence as an event, after this cycle's update.

        For what a user should know and what is no fault, such as a limit that has begun to act.
        Say it once when it begins, not every cycle: what comes too fast is dropped.

        Raises:
            TypeError: If it is no text.

        Thread: control.
        """
        if not isinstance(text, str):
            raise TypeError(f"notify: got {type(text).__name__}, allowed str")
        if len(self.notices) < MOST_NOTICES:
            self.notices.append(text)

    @property
    def n_arms(self) -> int:
        """Number of its own arms."""
        return len(self.arms)

    @property
    def n_joints(self) -> int:
        """Number of joints of each own arm; for laws that take arms of one number only.

        Raises:
            ConfigurationError: If the own arms have different numbers.
        """
        if len({*self.joints}) > 1:
            found = ", ".join(f"{arm.name} {arm.n_joints}" for arm in self.arms)
            raise ConfigurationError(
                f"number of joints: got {found}, allowed arms of one number here"
            )
        return self.arms[0].n_joints

    @property
    def joints(self) -> tuple[int, ...]:
        """Number of joints of each own arm."""
        return tuple(arm.n_joints for arm in self.arms)

    def joint_zeros(self) -> list[Vector]:
        """Return a vector of zeros for each own arm, (n,)."""
        return [np.zeros(n) for n in self.joints]

    def per_arm(self, value: JointVector) -> tuple[Vector, ...]:
        """Return the value of a :func:`.joint_vector` for each own arm, (n,)."""
        return value if isinstance(value, tuple) else (value,) * self.n_arms

    @property
    def positions_base_in_world(self) -> list[Vector]:
        """Position of each own arm's base, (3,) [m]."""
        return [np.array(arm.position_base_in_world) for arm in self.arms]

    @property
    def rotations_base_in_world(self) -> list[Matrix]:
        """Orientation of each own arm's base, (3, 3)."""
        return [np.array(arm.rotation_base_in_world) for arm in self.arms]

    @classmethod
    def of(cls, period: float, arms: Sequence[ArmDescription]) -> Context:
        """Return the context of arms that are alone in the world."""
        return cls(period, tuple(arms))
