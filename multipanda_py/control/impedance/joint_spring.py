# SPDX-License-Identifier: Apache-2.0
"""Spring and damper of a posture, kept from the task."""

from __future__ import annotations

import math
from collections.abc import Iterator

import eigenpy
import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.impedance.gains import damping_share
from multipanda_py.control.impedance.modal_damping import ModalDamping
from multipanda_py.robots import ArmDescription, Robot
from multipanda_py.robots.dynamics.task_inertia import TaskInertia, fade, least_eigenvalue
from multipanda_py.state import ArmLimits, ArmState, Matrix, Vector

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


_dot, _subtract = np.dot, np.subtract

TASK = 6
"""Coordinates of a tool's pose."""
PROJECTORS = ("none", "kinematic", "dynamic")


def nothing_left(context: Context, feature: str) -> Iterator[str]:
    """Say of each arm whose joints the task takes all that a feature in its nullspace is idle."""
    for arm in context.arms:
        if arm.n_joints <= TASK:
            yield (
                f"{arm.name} has {arm.n_joints} joints, all of which its tool's pose takes: "
                f"{feature} acts only where a posture is singular"
            )


class NullspaceProjector:
    r"""Project joint torques into the nullspace of the task, in place.

    .. math::
        N_{kin} = I - J^T (J J^T)^{-1} J, \qquad N_{dyn} = I - J^T \Lambda J M^{-1}

    The kinematic projector leaves torques that exert no wrench in a static equilibrium
    (:math:`J N_{kin} = 0`); the dynamically consistent one leaves torques that accelerate no
    task coordinate (:math:`J M^{-1} N_{dyn} = 0`). In either equilibrium what the task feels of
    a projected torque is zero. An arm with six joints has no nullspace, and
    :math:`N = 0`; :func:`nothing_left` says it.

    Both are exact wherever the smallest singular value of J exceeds
    :data:`TaskInertia.LOST <multipanda_py.robots.dynamics.task_inertia.TaskInertia>`. They need
    no damping to stay bounded: their norms are 1 and at most :math:`\sqrt{\mathrm{cond} M}`.
    Below that value a direction of the task joins the nullspace smoothly, as the nullspace of
    the singular posture has it: its eigenvalue of :math:`(J J^T)^{-1}`, or :math:`\Lambda`, is
    weighted by :math:`\varphi`, see there.

    Sources: Khatib 1987; Dietrich, Ott and Albu-Schäffer, IJRR 2015 (overview of projectors).

    Args:
        joints: Number of joints, n.

    Thread: control.
    """

    def __init__(self, joints: int) -> None:
        self._task, self._wrench = np.zeros(6), np.zeros(6)
        self._part = np.zeros(joints)
        self._normal = np.zeros((6, 6))
        self._diagonal = self._normal.reshape(-1)[::7]
        self._solver = eigenpy.LDLT(np.eye(6))
        self._eigen = eigenpy.SelfAdjointEigenSolver(np.eye(6))

    def dynamic(self, state: ArmState, tau: Vector) -> Vector:
        """Apply the dynamically consistent projector to ``tau``, (n,) [Nm]."""
        space = state.operational_space()
        task = tau.dot(space.minv_jt, self._task)
        inertia = space.projection_inertia() if space.damping else space.inertia
        wrench = inertia.dot(task, self._wrench)
        return _subtract(tau, wrench.dot(state.jacobian, self._part), tau)

    def kinematic(self, state: ArmState, tau: Vector) -> Vector:
        """Apply the kinematic projector to ``tau``, (n,) [Nm]."""
        jacobian, solver = state.jacobian, self._solver
        normal: Matrix = jacobian.dot(jacobian.T, self._normal)
        solver.compute(normal)
        task = jacobian.dot(tau, self._task)
        if least_eigenvalue(solver, self._diagonal) > TaskInertia.LOST**2:
            wrench = solver.solve(task)
        else:
            wrench = self._solve_near_singular(normal, task)
        _subtract(tau, wrench.dot(jacobian, self._part), tau)
        return tau

    def _solve_near_singular(self, normal: Matrix, task: Vector) -> Vector:
        self._eigen.compute(normal)
        w, v = self._eigen.eigenvalues(), self._eigen.eigenvectors()
        return _dot(v, fade(w, TaskInertia.LOST**2) * _dot(task, v), self._wrench)


_subtract = np.subtract
_minimum, _maximum = np.minimum, np.maximum
_norm = math.hypot

MAX_DAMPING, LIGHT_DAMPING, BARE_DAMPING = 12.0, 7.0, 3.4
"""Damping with which a posture moves no faster than laws may brake (see modal_damping), with a
projector, with one and light rotors, and without one: the lightest motions weigh 0.1 and 0.06
kg m^2, and less with lighter rotors (:func:`.damping_share`). Without one it acts beside a law's
own damper of up to 120 1/s, and both are to stay within 180 1/s together [Nm s/rad]."""
SLIDING_RATE = 120.0
"""The same of a joint that slides, over its rotor's inertia [1/s]."""


class PostureSpring:
    r"""Pull the joints of an arm towards a posture without moving the tool.

    .. math::
        \tau = N\, \mathrm{clamp}\left( \begin{bmatrix} K_n & D_n \end{bmatrix}
        \begin{bmatrix} q_n - q \\ \dot q_n - \dot q \end{bmatrix}, \pm\tau_{max} \right), \qquad
        D_n = \min(2 Z_n (K_n m)^{1/2}, d_{max})

    with :math:`N` one of :class:`.NullspaceProjector`, or none, and m what a joint that slides
    carries; 1 kg m^2 for one that turns. The clamp comes first: clamped
    after the projection, the torques would not be in the nullspace any more.

    Args:
        robot: What the arm is, with n joints.

    Attributes:
        project: Keeps torques from the task, in place; None leaves them as they are.

    Thread: control.
    """

    def __init__(self, robot: Robot) -> None:
        joints, self._light = robot.n_joints, damping_share(robot)
        self._slides, self._weight = robot.limits.slides, robot.sliding_mass
        self._most_sliding = SLIDING_RATE * robot.armature
        self._tau, self._gains = np.zeros(joints), np.zeros((joints, 2 * joints))
        self._goal, self._way = np.zeros((2, joints)), np.zeros((2, joints))
        self._posture, self._ways, self._moves = self._goal[0].data, self._way.reshape(-1), False
        projector = NullspaceProjector(joints)
        self._projectors = {"kinematic": projector.kinematic, "dynamic": projector.dynamic}

    def set_gains(
        self, stiffness: Vector, damping_ratio: Vector, max_torque: Vector, projector: str
    ) -> None:
        """Set what pulls.

        Args:
            stiffness: (n,) [Nm/rad].
            damping_ratio: (n,).
            max_torque: Clamp before the projection, (n,) [Nm].
            projector: One of :data:`.PROJECTORS`.
        """
        # A motion in the nullspace may be of light wrist joints alone, as of aligned ones.
        most = BARE_DAMPING * self._light
        if projector != "none":
            most = np.where(self._light < 1.0, LIGHT_DAMPING * self._light, MAX_DAMPING)
        most = np.where(self._slides, self._most_sliding, most)
        damping = np.minimum(2.0 * damping_ratio * np.sqrt(stiffness * self._weight), most)
        self._gains[:] = np.hstack([np.diag(stiffness), np.diag(damping)])
        self._high, self._low = max_torque, -max_torque
        self._least = float(max_torque.min())
        self.project = self._projectors.get(projector)

    def matched(self, state: ArmState, free: Vector) -> Vector:
        """Return the joint motion of a free tool to which the projector is orthogonal, (n,).

        Args:
            state: State of the arm.
            free: Motion of least kinetic energy with the same velocity of the tool, (n,) [rad/s].
        """
        if self.project == self._projectors["kinematic"]:
            free = free - self._projectors["kinematic"](state, free.copy())
        return free

    def torque(self, state: ArmState, posture: Vector, velocity: Vector | None = None) -> Vector:
        """Return the torques, (n,) [Nm]; the array is used again in the next call.

        Args:
            state: The arm.
            posture: (n,) [rad].
            velocity: Of the posture, (n,) [rad/s]; None is rest.
        """
        tau = self.pull(state, posture, velocity)
        if self.project is not None:
            self.project(state, tau)
        return tau

    def pull(self, state: ArmState, posture: Vector, velocity: Vector | None = None) -> Vector:
        """Return the torques before they are projected; else as :meth:`torque`."""
        self._posture[:] = posture
        if velocity is not None or self._moves:
            self._moves = velocity is not None
            self._goal[1] = 0.0 if velocity is None else velocity
        _subtract(self._goal, state.joint_state, self._way)
        tau = self._gains.dot(self._ways, self._tau)
        if _norm(*tau.tolist()) > self._least:
            _minimum(tau, self._high, out=tau)
            _maximum(tau, self._low, out=tau)
        return tau
