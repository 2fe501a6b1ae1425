# SPDX-License-Identifier: Apache-2.0
"""Built-in control of a simulated robot: joint servo, load compensation, reflexes and hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from multipanda_py.exceptions import BackendError
from multipanda_py.pose import Pose
from multipanda_py.registry import extras_named
from multipanda_py.robots import ArmDescription
from multipanda_py.simulation.drivetrain.drivetrain import DrivetrainStage, Measured
from multipanda_py.simulation.drivetrain.elasticity import SpringTorqueSensors
from multipanda_py.state import ArmState, Vector

with extras_named():
    import mujoco

if TYPE_CHECKING:
    from multipanda_py.hardware.franka.settings import FrankaSettings


class JointServo:
    r"""Joint servo that follows ``joint_command`` like a robot's own joint controller.

    .. math:: \tau = K (q_c - q) + D (\dot q_c - \dot q), \qquad |\tau| \le \tau_{max} .

    Here :math:`q_c` is the commanded position, K the stiffness and D the damping. For velocity
    commands, :math:`q_c` is the integral of the commanded velocity.

    Args:
        state: State of the arm; the servo writes its torques to ``tau``.
        motors: Function that returns positions [rad] and velocities [rad/s] of the motors, (n,)
            each.
        gains: Stiffness [Nm/rad] and damping [Nm s/rad], (n,) each.

    Thread: control.
    """

    def __init__(
        self,
        state: ArmState,
        motors: Callable[[], tuple[Vector, Vector]],
        gains: tuple[Vector, Vector],
    ) -> None:
        self._motors = motors
        self._state, self._torque_limit = state, state.limits.torque
        self._stiffness, self._damping = gains

    def drive(self) -> None:
        """Compute the torques of this cycle and write them to ``tau`` of the state."""
        state = self._state
        q, dq = self._motors()
        q_c, dq_c, _ = state.joint_command
        tau = self._stiffness * (q_c - q) + self._damping * (dq_c - dq)
        np.clip(tau, -self._torque_limit, self._torque_limit, out=state.tau)

    def rest(self) -> None:
        """Set ``joint_command`` to the measured position and the torques to zero.

        Call it in each cycle while the arm is stopped, so that it restarts without a jump.
        """
        self._state.tau[:] = 0.0
        self._state.joint_command[0] = self._state.q
        self._state.joint_command[1:] = 0.0


class ExternalTorque:
    r"""External torques of the last step, from the equation of motion.

    .. math:: \tau_{ext} = J_c^T f_c + \tau_{applied} + \sum_b J_b^T F_b .

    The terms are contact forces :math:`f_c`, applied joint torques and applied body wrenches
    :math:`F_b`, with their Jacobians. Joint stops and friction belong to the arm and are excluded.

    Attributes:
        torque: External torques of all degrees of freedom, (nv,) [Nm].

    Thread: control.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        self._model, self._data = model, data
        # Each access to an attribute of ``data`` takes 0.3 us, so views are stored. They stay
        # valid, because MuJoCo's arrays never move.
        self._smooth, self._bias = data.qfrc_smooth, data.qfrc_bias
        self._passive, self._actuator = data.qfrc_passive, data.qfrc_actuator
        self._contact = np.zeros(model.nv)
        self.torque: Vector = np.zeros(model.nv)

    def estimate(self) -> None:
        """Compute the external torques of the last step and write them to :attr:`torque`."""
        data, out = self._data, self.torque
        # Without constraints, smooth = passive - bias + applied + actuator. This is solved for the
        # applied force.
        np.add(self._smooth, self._bias, out)
        np.subtract(out, self._passive, out)
        np.subtract(out, self._actuator, out)
        if data.ncon and data.nefc:
            force = data.efc_force.copy()
            # Contacts are last. Forces of equalities, friction and stops are removed, because they
            # belong to the arm.
            force[: data.ne + data.nf + data.nl] = 0.0
            mujoco.mj_mulJacTVec(self._model, data, self._contact, force)
            out += self._contact


MAX_FREQUENCY_PERIOD_SQUARED = 0.01
"""Maximum square of a joint's natural frequency times the period; explicit steps of all joints
together remain stable far above it."""


def stable_gains(stiffness: Vector, compliance: Vector, period: float) -> tuple[Vector, Vector]:
    r"""Return stable stiffness K [Nm/rad] and critical damping D [Nm s/rad] of joints, (n,).

    .. math:: K \le 0.01 / (c T^2), \qquad D = 2 \sqrt{K / c} .

    Args:
        stiffness: Desired stiffness of the joints [Nm/rad]. If it has fewer than n numbers, they
            are repeated; numbers after the first n are ignored.
        compliance: Inverse inertia c of each joint, (n,) [1/(kg m^2)].
        period: Cycle time T [s].
    """
    bound = MAX_FREQUENCY_PERIOD_SQUARED / (period**2 * compliance)
    desired = np.resize(np.asarray(stiffness, float), bound.shape)
    chosen = np.minimum(desired, bound)
    return chosen, 2.0 * np.sqrt(chosen / compliance)


_AXES = ("x", "y", "z", "rotation about x", "rotation about y", "rotation about z")


class SimRobot(DrivetrainStage):
    r"""Drivetrain stage with the robot's own control: load, collision thresholds, reflex hold.

    The joint torque :math:`-J_c^T m g` carries the load of mass m. Here :math:`J_c` is the
    Jacobian of its centre of mass and g the gravity vector. A robot that compensates gravity adds
    this torque to every commanded torque.

    Collision thresholds apply only if the settings contain them. The external wrench is compared
    in the stiffness frame K,

    .. math::
        f_K = R_K^T f, \quad n_K = R_K^T (n - p_K \times f) .

    Here f and n are force and torque at the end effector; :math:`p_K` and :math:`R_K` are the pose
    of K. The compared torques include sensor noise, but neither the measurement delay nor tare.

    After a reflex at the position :math:`q_0`, the robot holds the arm by
    :math:`\tau = k (q_0 - q) - d \dot q`, with gains of :meth:`servo_gains`. On elastic joints, q
    are the motor positions.

    Args:
        model: MuJoCo model of the scene.
        data: MuJoCo data of the scene.
        arm: Description of the arm.
        state: State of the arm, updated in every cycle.
        dof: Index of the arm's first joint in ``qvel``.
        options: Settings of the robot.
        describe_errors: Function that returns the text for error names of libfranka.
        period: Cycle time [s].
        springs: Springs of elastic joints; None for rigid joints.
        lag: Time constant with which the motors follow a commanded torque [s].

    Attributes:
        stopped: True if the robot holds the arm and executes no commanded torques.
        fault: Reason of the last stop; the caller clears it after reading.
        tau_ext: Measured external torques, without delay and tare, (n,) [Nm].

    Thread: control.
    """

    CHANGING = ("stopped", "fault", "_q", "_stiffness", "_damping", "tau_ext")

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        arm: ArmDescription,
        state: ArmState,
        dof: int,
        options: FrankaSettings,
        describe_errors: Callable[[Iterable[str]], str],
        period: float,
        springs: SpringTorqueSensors | None = None,
        lag: float = 0.0,
    ) -> None:
        self._period, self._springs, self._lag = period, springs, lag
        self._words_of = describe_errors
        self._model, self._data, self._state = model, data, state
        self._dofs = slice(dof, dof + arm.n_joints)
        q_at = int(model.jnt_qposadr[model.dof_jntid[dof]])
        self._joints = data.qpos[q_at : q_at + arm.n_joints], data.qvel[self._dofs]
        self._flange = int(model.body(arm.flange_frame).id)
        self._jacobian = np.zeros((3, model.nv))
        self._weight = np.zeros(arm.n_joints)
        self._torque_limit = arm.limits.torque
        self._compensates_gravity = arm.compensates_gravity
        self._q, self._stiffness, self._damping, self.tau_ext = np.zeros((4, arm.n_joints))
        self.stopped = False
        self.fault = ""
        self.configure(options)

    def configure(self, options: FrankaSettings) -> None:
        """Apply thresholds, load, stiffness frame and stiffness; other settings have no effect.

        Raises:
            BackendError: If the number of torque thresholds is not that of the joints.
        """
        requested = options.given
        self._options = options
        self._torque_thresholds = self._wrench_thresholds = None
        if "upper_torque_thresholds" in requested:
            if len(options.upper_torque_thresholds) != len(self._torque_limit):
                raise BackendError(
                    f"upper_torque_thresholds of {self._state.name}: got "
                    f"{len(options.upper_torque_thresholds)} numbers, allowed "
                    f"{len(self._torque_limit)}, one per joint"
                )
            self._torque_thresholds = np.array(options.upper_torque_thresholds)
        if "upper_force_thresholds" in requested:
            self._wrench_thresholds = np.array(options.upper_force_thresholds)
        self._frame = Pose.from_rpy(options.stiffness_position, options.stiffness_rpy)
        self._load = options.load
        if self._load.mass <= 0.0:
            self._weight[:] = 0.0

    def measure(self, state: Measured) -> None:
        """Add the torque that carries the load to ``state.tau_ext``, and copy the sum."""
        if self._load.mass > 0.0:
            state.tau_ext += self._weight
        self.tau_ext[:] = state.tau_ext

    def execute(self, tau: Vector) -> None:
        """Add the torque that carries the load; after a stop, replace commands by holding torques.

        An exceeded collision threshold stops the arm.

        Args:
            tau: Commanded torques, (n,) [Nm], changed to motor torques in place.
        """
        if not self.stopped and (
            self._torque_thresholds is not None or self._wrench_thresholds is not None
        ):
            self._stop_beyond_thresholds()
        if self.stopped:
            q, dq = self._motor_state()
            tau[:] = self._stiffness * (self._q - q) - self._damping * dq
            np.clip(tau, -self._torque_limit, self._torque_limit, out=tau)
            self._state.tau[:] = 0.0
            # ``tau_gravity`` is zero for an arm that compensates its weight itself.
            tau += self._state.tau_gravity
        if self._load.mass > 0.0:
            self._update_load_torque()
            if self._compensates_gravity:
                tau += self._weight

    def _update_load_torque(self) -> None:
        data, body = self._data, self._flange
        centre = data.xpos[body] + data.xmat[body].reshape(3, 3) @ self._load.com
        mujoco.mj_jac(self._model, data, self._jacobian, None, centre, body)
        force = -self._load.mass * self._model.opt.gravity
        np.dot(force, self._jacobian[:, self._dofs], out=self._weight)

    def _stop_beyond_thresholds(self) -> None:
        errors, positions = [], []
        if self._torque_thresholds is not None:
            tau = self.tau_ext
            for i in np.flatnonzero(np.abs(tau) > self._torque_thresholds):
                errors.append("joint_reflex")
                positions.append(
                    f"joint {i + 1}: {tau[i]:.3g} Nm, allowed {self._torque_thresholds[i]:g} Nm"
                )
        if self._wrench_thresholds is not None:
            wrench = self.wrench_in_stiffness_frame()
            for i in np.flatnonzero(np.abs(wrench) > self._wrench_thresholds):
                errors.append("cartesian_reflex")
                unit = "N" if i < 3 else "Nm"
                positions.append(
                    f"{_AXES[i]} of the stiffness frame: {wrench[i]:.3g} {unit}, "
                    f"allowed {self._wrench_thresholds[i]:g} {unit}"
                )
        if errors:
            text = self._words_of(dict.fromkeys(errors))
            self.fault = (
                f"reflex: arm {self._state.name}: {text}: {'; '.join(positions)}; recover it "
                "to continue"
            )
            self.stop()

    def wrench_in_stiffness_frame(self) -> Vector:
        """Return the measured external wrench in the stiffness frame, (6,) [N, Nm]."""
        state = self._state
        wrench = state.wrench_ext_in_base
        # ``wrench_ext_in_base`` is tared and delayed, as ``state.tau_ext``; ``self.tau_ext`` is
        # not. Add the wrench of their difference.
        if not np.array_equal(self.tau_ext, state.tau_ext):
            beyond = self.tau_ext - state.tau_ext
            wrench = wrench + np.linalg.lstsq(state.jacobian.T, beyond, rcond=None)[0]
        force, torque = wrench[:3], wrench[3:]
        lever = state.rotation_ee_in_base @ self._frame.position
        rotation = state.rotation_ee_in_base @ self._frame.rotation
        return np.concatenate([force @ rotation, (torque - np.cross(lever, force)) @ rotation])

    def stop(self) -> None:
        """Stop the arm and hold it at its current position."""
        self._q = self._motor_state()[0].copy()
        self._stiffness, self._damping = self.servo_gains()
        self.stopped = True

    def _motor_state(self) -> tuple[Vector, Vector]:
        """Return undelayed motor positions [rad] and velocities [rad/s], (n,) each."""
        return self._joints if self._springs is None else self._springs.motors

    def servo_gains(self) -> tuple[Vector, Vector]:
        """Return stiffness [Nm/rad] and damping [Nm s/rad] of the robot's joint servo, (n,)."""
        inverse_mass = np.asarray(np.linalg.inv(self._state.mass_matrix), float)
        compliance = inverse_mass.diagonal()
        if self._springs is not None:
            compliance = np.maximum(compliance, self._springs.rotor_compliance)
        delay = self._period + self._lag
        return stable_gains(np.array(self._options.joint_impedance), compliance, delay)
