# SPDX-License-Identifier: Apache-2.0
"""A spring and an inertia-aware damper of one arm's joints."""

from __future__ import annotations

import eigenpy
import numpy as np

from multipanda_py.control.modal_damping import ModalDamping
from multipanda_py.limits import ArmLimits
from multipanda_py.robots import ArmDescription
from multipanda_py.state import ArmState, Matrix, Vector

_dot, _add, _multiply, _subtract = np.dot, np.add, np.multiply, np.subtract
LEASH_SHARE = 0.4
"""Of the torque limit that a spring may pull a held arm with."""
SOFT = 1.0
"""Stiffness of a joint too small to press with [Nm/rad]."""
FULL_RATE = 1000.0
"""Torque rate at which that has been tried out [Nm/s]."""


class JointSpring:
    r"""Pull the joints of an arm to a posture that may move.

    .. math::
        \tau = K (q_d - q) + D (\dot q_d - \dot q)

    with D from :class:`.ModalDamping` for the joint-space inertia.

    Args:
        arm: The arm.

    Attributes:
        error: :math:`q_d - q` of the last torque, (n,) [rad].

    Thread: control.
    """

    def __init__(self, arm: ArmDescription) -> None:
        n = arm.n_joints
        self._modal = ModalDamping(n)
        self._mass, self._unit = eigenpy.LLT(np.eye(n)), np.eye(n)
        self.error, self._rate = np.zeros(n), np.zeros(n)
        self._leash: tuple[ArmLimits, Matrix] | None = None
        self._usual, self._lag = (
            np.array(arm.robot.figure(name)) for name in ("stiffness", "lag")
        )

    def set_gains(self, stiffness: Vector, damping_ratio: Vector) -> None:
        """Prepare K^1/2 and Z for K, (n,) [Nm/rad], and damping ratios, (n,)."""
        self._stiffness, self._leash = stiffness, None
        # What holds nothing would have to be infinitely far away.
        self._presses = np.where(stiffness < SOFT, np.inf, stiffness)
        self._asked = np.diag(stiffness)
        self._modal.set_root(np.diag(np.sqrt(stiffness)), damping_ratio)

    @property
    def kept(self) -> float:
        """Smallest share of the stiffness that any mode has kept at the last posture."""
        return self._modal.kept

    def leash(self, limits: ArmLimits) -> Matrix:
        r"""Return the leash of a governed reference, (2, n) [rad].

        At rest :math:`0.4\, \tau_{max} / K`, on the way the same times
        :math:`\min(1, \sqrt{K_0 / K})` with the default K: the damper of a stiffer spring needs
        torque faster, and a late arm let go of would swing at the limit of torque rate. Neither is
        less than what an arm lags behind that is heavier than its model.
        """
        if self._leash is not None and self._leash[0] is limits:
            return self._leash[1]
        stiffness = np.maximum(self._stiffness, 1e-3)
        rate = np.minimum(1.0, limits.torque_rate / FULL_RATE)
        at_rest = LEASH_SHARE * limits.torque * rate / stiffness
        moving = at_rest * np.minimum(1.0, np.sqrt(self._usual / stiffness))
        leash = np.array([np.maximum(moving, self._lag), np.maximum(at_rest, self._lag)])
        self._leash = limits, leash
        return leash

    def stiffness_at(self, state: ArmState) -> Matrix:
        """Return what the posture leaves of the stiffness, (n, n)."""
        self._mass.compute(state.mass)
        self._modal.design(self._mass.solve(self._unit))
        return self._asked if self._modal.kept == 1.0 else self._modal.stiffness

    def deflection(self, stiffness: Matrix, tau: Vector) -> Vector:
        """Return how far a target has to be for a stiffness (n, n) to make torques (n,) [rad].

        Joints softer than :data:`SOFT` are left where they are.
        """
        if stiffness is self._asked:  # diagonal
            return tau / self._presses
        step, held = np.zeros_like(tau), np.isfinite(self._presses)
        step[held] = np.linalg.solve(stiffness[np.ix_(held, held)], tau[held])
        return step

    def pull(self, state: ArmState, q: Vector, dq: Vector, tau: Vector) -> None:
        """Write the torques towards a posture q [rad] that moves with dq [rad/s], (n,) [Nm]."""
        modal, error, rate = self._modal, self.error, self._rate
        self._mass.compute(state.mass)
        _subtract(q, state.q, error)
        _subtract(dq, state.dq, rate)
        brake = modal.damp(self._mass.solve(self._unit), rate)
        if modal.kept == 1.0:
            _multiply(self._stiffness, error, tau)
        else:
            _dot(modal.stiffness, error, tau)
        _add(tau, brake, tau)
