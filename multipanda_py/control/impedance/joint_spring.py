# SPDX-License-Identifier: Apache-2.0
"""Joint springs and dampers, and their projection into the nullspace of the task."""

from __future__ import annotations

from collections.abc import Iterator
from math import hypot

import eigenpy
import numpy as np
from numpy import add, dot, maximum, minimum, multiply, subtract

from multipanda_py.context import Context
from multipanda_py.control.impedance.gains import rotor_damping_scale
from multipanda_py.control.impedance.modal_damping import ModalDamping
from multipanda_py.robots import ArmDescription, Robot
from multipanda_py.robots.dynamics.task_inertia import TaskInertia, fade, min_eigenvalue
from multipanda_py.state import ArmLimits, ArmState, Matrix, Vector

MAX_LEAD_FRACTION = 0.4
"""Fraction of the torque limit that a spring may exert on an arm that is held back."""
MIN_JOINT_STIFFNESS = 1.0
"""Joint stiffness below which a spring does not take over a torque, because its deflection would
be too large [Nm/rad]."""
VERIFIED_TORQUE_RATE = 1000.0
"""Torque-rate limit for which ``MAX_LEAD_FRACTION`` has been verified [Nm/s]."""


class JointSpring:
    """Joint spring and damper towards a configuration that may move.

    Equation::

        tau = K (q_d - q) + D (dq_d - dq)

    - tau: Torques, (n,) [Nm].
    - K: Diagonal stiffness, (n, n) [Nm/rad].
    - D: Damping by ``ModalDamping`` for the joint-space inertia, (n, n) [Nm s/rad].
    - q, dq: Measured positions [rad] and velocities [rad/s], (n,).
    - q_d, dq_d: Reference positions and velocities, (n,).

    Args:
        arm: Description of the arm.

    Attributes:
        error: Error q_d - q of the last torque, (n,) [rad].

    Thread: control.
    """

    def __init__(self, arm: ArmDescription) -> None:
        n = arm.n_joints
        self._modal = ModalDamping(n)
        self._mass, self._unit = eigenpy.LLT(np.eye(n)), np.eye(n)
        self.error, self._rate = np.zeros(n), np.zeros(n)
        self._leash: tuple[ArmLimits, Matrix] | None = None
        self._usual, self._lag = (np.array(arm.robot.value(name)) for name in ("stiffness", "lag"))

    def set_gains(self, stiffness: Vector, damping_ratio: Vector) -> None:
        """Set stiffness and damping ratios.

        Args:
            stiffness: Diagonal of the stiffness K, (n,) [Nm/rad].
            damping_ratio: Damping ratios, (n,).
        """
        self._stiffness, self._leash = stiffness, None
        # ``deflection`` divides torques by these values. For a joint without stiffness, infinity
        # yields a deflection of zero.
        self._presses = np.where(stiffness < MIN_JOINT_STIFFNESS, np.inf, stiffness)
        self._desired_stiffness = np.diag(stiffness)
        self._modal.set_root(np.diag(np.sqrt(stiffness)), damping_ratio)

    @property
    def stiffness_scale(self) -> float:
        """Factor by which ``ModalDamping`` reduces the stiffness in the fastest mode, 0 to 1."""
        return self._modal.stiffness_scale

    def leash(self, limits: ArmLimits) -> Matrix:
        """Return the maximum distance of a reference from the measured positions, (2, n) [rad].

        The first row applies to a moving reference, the second row to a reference at rest.

        Equations::

            at rest:   0.4 tau_max / K
            in motion: 0.4 tau_max / K min(1, sqrt(K_0 / K))

        - tau_max: Torque limits, (n,) [Nm].
        - K, K_0: Stiffness and default stiffness of the robot, (n,) [Nm/rad].

        Args:
            limits: Joint limits of the arm.
        """
        if self._leash is not None and self._leash[0] is limits:
            return self._leash[1]
        stiffness = np.maximum(self._stiffness, 1e-3)
        rate = np.minimum(1.0, limits.torque_rate / VERIFIED_TORQUE_RATE)
        at_rest = MAX_LEAD_FRACTION * limits.torque * rate / stiffness
        # With a larger distance in motion, a stiff spring would oscillate at the rate limit.
        moving = at_rest * np.minimum(1.0, np.sqrt(self._usual / stiffness))
        leash = np.array([np.maximum(moving, self._lag), np.maximum(at_rest, self._lag)])
        self._leash = limits, leash
        return leash

    def stiffness_at(self, state: ArmState) -> Matrix:
        """Return the stiffness that the bandwidth limit allows in a state, (n, n) [Nm/rad]."""
        self._mass.compute(state.mass_matrix)
        self._modal.design(self._mass.solve(self._unit))
        return (
            self._desired_stiffness
            if self._modal.stiffness_scale == 1.0
            else self._modal.stiffness
        )

    def deflection(self, stiffness: Matrix, tau: Vector) -> Vector:
        """Return the error at which a stiffness exerts the given torques, (n,) [rad].

        Args:
            stiffness: Result of ``stiffness_at``, (n, n) [Nm/rad].
            tau: Torques, (n,) [Nm]. Joints softer than ``MIN_JOINT_STIFFNESS`` have zero error.
        """
        # The desired stiffness is diagonal, so a division is sufficient.
        if stiffness is self._desired_stiffness:
            return tau / self._presses
        step, held = np.zeros_like(tau), np.isfinite(self._presses)
        step[held] = np.linalg.solve(stiffness[np.ix_(held, held)], tau[held])
        return step

    def apply(self, state: ArmState, q: Vector, dq: Vector, tau: Vector) -> Vector:
        """Write the torques of the spring and damper, (n,) [Nm], and return them.

        Args:
            state: State of the arm.
            q: Reference positions, (n,) [rad].
            dq: Reference velocities, (n,) [rad/s].
            tau: Output torques, (n,) [Nm].
        """
        modal, error, rate = self._modal, self.error, self._rate
        self._mass.compute(state.mass_matrix)
        subtract(q, state.q, error)
        subtract(dq, state.dq, rate)
        brake = modal.damp(self._mass.solve(self._unit), rate)
        if modal.stiffness_scale == 1.0:
            multiply(self._stiffness, error, tau)
        else:
            dot(modal.stiffness, error, tau)
        return add(tau, brake, tau)


TASK_SIZE = 6
"""Number of task coordinates of a tool pose."""
PROJECTORS = ("none", "kinematic", "dynamic")


def missing_nullspace_warnings(context: Context, feature: str) -> Iterator[str]:
    """Yield a warning for each arm without a nullspace, on which a feature has hardly any effect.

    Args:
        context: Context of the controllet.
        feature: Name of the feature that acts in the nullspace.
    """
    for arm in context.arms:
        if arm.n_joints <= TASK_SIZE:
            yield (
                f"{arm.name}: the tool pose determines all {arm.n_joints} joints, so {feature} "
                "acts only near singular configurations"
            )


class NullspaceProjector:
    """Projection of joint torques into the nullspace of the task, in place.

    Equations::

        N_kin = I - J^T (J J^T)^-1 J
        N_dyn = I - J^T Lambda J M^-1

    - J: Jacobian of the tool, (6, n).
    - M: Inertia matrix, (n, n).
    - Lambda: Task-space inertia (J M^-1 J^T)^-1, (6, 6).

    After the kinematic projector, torques exert no wrench in static equilibrium (J N_kin = 0).
    After the dynamically consistent projector, torques do not accelerate the tool (J M^-1 N_dyn =
    0). An arm with six joints has no nullspace, so N = 0.

    Both projectors are exact if the smallest singular value of J exceeds
    ``TaskInertia.SIGMA_MIN_EXACT``. Below this value, the singular direction becomes part of the
    nullspace without a step.

    Sources: Khatib 1987; Dietrich, Ott and Albu-Schäffer, IJRR 2015 (overview of projectors).

    Args:
        joints: Number of joints n.

    Attributes:
        wrench: Wrench F of the torques J^T F that the last projection removed, (6,) [N, Nm].

    Thread: control.
    """

    def __init__(self, joints: int) -> None:
        self._task, self.wrench = np.zeros(6), np.zeros(6)
        self._part = np.zeros(joints)
        self._normal = np.zeros((6, 6))
        self._diagonal = self._normal.reshape(-1)[::7]
        self._solver = eigenpy.LDLT(np.eye(6))
        self._eigen = eigenpy.SelfAdjointEigenSolver(np.eye(6))

    def dynamic(self, state: ArmState, tau: Vector) -> Vector:
        """Apply the dynamically consistent projector to ``tau`` (n,) [Nm] in place; return it."""
        space = state.operational_space()
        task = tau.dot(space.minv_jt, self._task)
        inertia = space.projection_inertia() if space.damping else space.inertia
        wrench = inertia.dot(task, self.wrench)
        return subtract(tau, wrench.dot(state.jacobian, self._part), tau)

    def kinematic(self, state: ArmState, tau: Vector) -> Vector:
        """Apply the kinematic projector to ``tau`` (n,) [Nm] in place, and return it."""
        jacobian, solver = state.jacobian, self._solver
        normal: Matrix = jacobian.dot(jacobian.T, self._normal)
        solver.compute(normal)
        task = jacobian.dot(tau, self._task)
        if min_eigenvalue(solver, self._diagonal) > TaskInertia.SIGMA_MIN_EXACT**2:
            self.wrench[:] = solver.solve(task)
        else:
            self._solve_near_singular(normal, task)
        subtract(tau, self.wrench.dot(jacobian, self._part), tau)
        return tau

    def _solve_near_singular(self, normal: Matrix, task: Vector) -> None:
        self._eigen.compute(normal)
        w, v = self._eigen.eigenvalues(), self._eigen.eigenvectors()
        dot(v, fade(w, TaskInertia.SIGMA_MIN_EXACT**2) * dot(task, v), self.wrench)


MAX_DAMPING, LIGHT_DAMPING, BARE_DAMPING = 12.0, 7.0, 3.4
"""Maximum joint damping with a projector, with a projector and light rotors, and without a
projector [Nm s/rad]. The first two keep the nullspace motion within the bandwidth limit (see
``modal_damping``). The smallest inertias of nullspace motions are 0.1 and 0.06 kg m^2, and less
with lighter rotors (``rotor_damping_scale``). Without a projector, the damping adds to that of a
controllet of up to 120 1/s. Both together must stay within 180 1/s."""
SLIDING_RATE = 120.0
"""Maximum damping of a prismatic joint divided by its rotor inertia [1/s]."""


class ConfigurationSpring:
    """Joint spring and damper towards a configuration, projected into the nullspace.

    Equations::

        tau = N clamp(K_n (q_n - q) + D_n (dq_n - dq), -tau_max, tau_max)
        D_n = min(2 Z_n (K_n m)^1/2, d_max)

    - N: Projector of ``NullspaceProjector``, or the identity.
    - K_n, D_n: Diagonal stiffness [Nm/rad] and damping [Nm s/rad], (n, n).
    - Z_n: Damping ratios, (n,).
    - m: Mass on a prismatic joint [kg]; 1 kg m^2 for a revolute joint.
    - d_max: Maximum damping, see ``MAX_DAMPING``.
    - q, dq: Measured joint state; q_n, dq_n: desired configuration and its velocity, (n,).
    - tau_max: Torque bounds, (n,) [Nm].

    Args:
        robot: Robot model with n joints.

    Attributes:
        project: Projection, applied in place; None if torques are not projected.
        projector: Projector that executes ``project``.

    Thread: control.
    """

    def __init__(self, robot: Robot) -> None:
        joints, self._light = robot.n_joints, rotor_damping_scale(robot)
        self._slides, self._weight = robot.limits.slides, robot.prismatic_mass
        self._max_sliding = SLIDING_RATE * robot.armature
        self._tau, self._gains = np.zeros(joints), np.zeros((joints, 2 * joints))
        self._goal, self._error = np.zeros((2, joints)), np.zeros((2, joints))
        self._configuration, self._errors, self._moves = (
            self._goal[0].data,
            self._error.reshape(-1),
            False,
        )
        self.projector = projector = NullspaceProjector(joints)
        self._projectors = {"kinematic": projector.kinematic, "dynamic": projector.dynamic}

    def set_gains(
        self, stiffness: Vector, damping_ratio: Vector, max_torque: Vector, projector: str
    ) -> None:
        """Set stiffness, damping, torque bounds and projector.

        Args:
            stiffness: Joint stiffness, (n,) [Nm/rad].
            damping_ratio: Joint damping ratios, (n,).
            max_torque: Torque bounds before the projection, (n,) [Nm].
            projector: One of ``PROJECTORS``.
        """
        # With a projector, the damping bound depends on the smallest inertia of a nullspace
        # motion. This is small if wrist axes are aligned, because only the wrist then moves.
        max_value = BARE_DAMPING * self._light
        if projector != "none":
            max_value = np.where(self._light < 1.0, LIGHT_DAMPING * self._light, MAX_DAMPING)
        max_value = np.where(self._slides, self._max_sliding, max_value)
        damping = np.minimum(2.0 * damping_ratio * np.sqrt(stiffness * self._weight), max_value)
        self._gains[:] = np.hstack([np.diag(stiffness), np.diag(damping)])
        self._high, self._low = max_torque, -max_torque
        self._min = float(max_torque.min())
        self.project = self._projectors.get(projector)

    def orthogonal_motion(self, state: ArmState, free: Vector) -> Vector:
        """Return the joint velocities of a tool motion minus their nullspace part, (n,) [rad/s].

        The result differs from ``free`` only with the kinematic projector.

        Args:
            state: State of the arm.
            free: Joint velocities of minimum kinetic energy for the tool motion, (n,) [rad/s].
        """
        if self.project == self._projectors["kinematic"]:
            free = free - self._projectors["kinematic"](state, free.copy())
        return free

    def torque(
        self, state: ArmState, configuration: Vector, velocity: Vector | None = None
    ) -> Vector:
        """Return the projected torques, (n,) [Nm]. The next call overwrites them.

        Args:
            state: State of the arm.
            configuration: Desired configuration q_n, (n,) [rad].
            velocity: Velocity of the desired configuration, (n,) [rad/s]; None means rest.
        """
        tau = self.apply(state, configuration, velocity)
        if self.project is not None:
            self.project(state, tau)
        return tau

    def apply(
        self, state: ArmState, configuration: Vector, velocity: Vector | None = None
    ) -> Vector:
        """Return the torques before the projection, (n,) [Nm]. The next call overwrites them.

        Args:
            state: State of the arm.
            configuration: Desired configuration, (n,) [rad].
            velocity: Velocity of the desired configuration, (n,) [rad/s]; None means rest.
        """
        self._configuration[:] = configuration
        if velocity is not None or self._moves:
            self._moves = velocity is not None
            self._goal[1] = 0.0 if velocity is None else velocity
        subtract(self._goal, state.joint_state, self._error)
        tau = self._gains.dot(self._errors, self._tau)
        # Clamp before the projection, because clamped torques would leave the nullspace.
        if hypot(*tau.tolist()) > self._min:
            minimum(tau, self._high, out=tau)
            maximum(tau, self._low, out=tau)
        return tau
