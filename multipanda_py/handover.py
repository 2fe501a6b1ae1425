# SPDX-License-Identifier: Apache-2.0
"""What an arm was pressing with when its controllet changed, for the next law to go on with."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from multipanda_py.state import ArmState, Matrix, Vector

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
