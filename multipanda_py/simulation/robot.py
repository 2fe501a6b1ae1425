# SPDX-License-Identifier: Apache-2.0
"""What a robot does by itself, for one simulated arm: carry a load, stop at a collision, hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from multipanda_py.exceptions import BackendError
from multipanda_py.pose import Pose
from multipanda_py.registry import extras_named
from multipanda_py.robots import ArmDescription
from multipanda_py.simulation.drivetrain.drive import Measured, Stage
from multipanda_py.simulation.drivetrain.elasticity import Springs
from multipanda_py.state import ArmState, Vector

with extras_named():
    import mujoco

if TYPE_CHECKING:
    from multipanda_py.hardware.franka.settings import FrankaSettings


class JointServo:
    r"""Follow ``joint_command`` as a robot's own joint controller does.

    .. math:: \tau = K (q_c - q) + D (\dot q_c - \dot q), \qquad |\tau| \le \tau_{max}

    critically damped for the inertia that a joint moves when all others are free. A command of
    velocities comes with the positions that it has led to, as inside a robot.

    Args:
        state: Of the arm; its ``tau`` is what the servo does.
        motors: Returns positions [rad] and velocities [rad/s] of its motors, (n,) each.
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
        self._state, self._limit = state, state.limits.torque
        self._stiffness, self._damping = gains

    def drive(self) -> None:
        """Write this cycle's torques to the state."""
        state = self._state
        q, dq = self._motors()
        q_c, dq_c, _ = state.joint_command
        tau = self._stiffness * (q_c - q) + self._damping * (dq_c - dq)
        np.clip(tau, -self._limit, self._limit, out=state.tau)

    def rest(self) -> None:
        """Command an arm that does not listen to be where it is."""
        self._state.tau[:] = 0.0
        self._state.joint_command[0] = self._state.q
        self._state.joint_command[1:] = 0.0


class ExternalTorque:
    r"""Read it off the equation of motion, of the last step.

    .. math:: \tau_{ext} = J_c^T f_c + \tau_{applied} + \sum_b J_b^T F_b

    contacts, applied joint torques and applied body wrenches, without joint stops and
    friction, which are the arm's own.

    Args:
        model: The world.
        data: Its state.

    Attributes:
        torque: Of all degrees of freedom, (nv,) [Nm].

    Thread: control.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        self._model, self._data = model, data
        # MuJoCo keeps its arrays where they are; to ask for one costs 0.3 us each time.
        self._smooth, self._bias = data.qfrc_smooth, data.qfrc_bias
        self._passive, self._actuator = data.qfrc_passive, data.qfrc_actuator
        self._contact = np.zeros(model.nv)
        self.torque: Vector = np.zeros(model.nv)

    def estimate(self) -> None:
        """Refresh it."""
        data, out = self._data, self.torque
        # What mj_fwdAcceleration added up beyond the arm's own torques.
        np.add(self._smooth, self._bias, out)
        np.subtract(out, self._passive, out)
        np.subtract(out, self._actuator, out)
        if data.ncon and data.nefc:
            force = data.efc_force.copy()
            force[: data.ne + data.nf + data.nl] = 0.0  # equalities, friction, stops
            mujoco.mj_mulJacTVec(self._model, data, self._contact, force)
            out += self._contact


STABLE = 0.01
"""Square of natural frequency times period of a joint: explicit steps of all joints together are
stable far beyond it."""


def stable_gains(stiffness: Vector, compliance: Vector, period: float) -> tuple[Vector, Vector]:
    r"""Return stiffness [Nm/rad] and critical damping [Nm s/rad] of joints, each (n,).

    .. math:: K \le 0.01 / (c T^2), \qquad D = 2 \sqrt{K / c}

    Args:
        stiffness: As wanted, for n joints or those of a robot with others, [Nm/rad].
        compliance: Inverse of what each joint moves, c, (n,) [1/(kg m^2)].
        period: Cycle time, T [s].
    """
    bound = STABLE / (period**2 * compliance)
    wanted = np.resize(np.asarray(stiffness, float), bound.shape)
    chosen = np.minimum(wanted, bound)
    return chosen, 2.0 * np.sqrt(chosen / compliance)


_AXES = ("x", "y", "z", "rotation about x", "rotation about y", "rotation about z")


class SimRobot(Stage):
    r"""Compensate the load, watch the thresholds, and hold after a collision.

    The load weighs on the joints with :math:`-J_c^T m g` at its centre of mass c, which the
    robot expects to meet and, if it compensates gravity, adds to any torque. Thresholds count if
    they were given explicitly. The wrench is compared in the stiffness frame K:

    .. math::
        f_K = R_K^T f, \quad m_K = R_K^T (m - p_K \times f)

    An arm that has stopped is held by :math:`\tau = K (q_0 - q) - D \dot q`, critically damped
    joint by joint, with the stiffness of the robot's own controller as far as explicit steps
    stay stable; it knows its joints at once, however late laws learn of them. On elastic joints
    it holds the motors, with gains for their inertia alone: that of the links comes late.

    What is compared with the thresholds is what this robot measures: as noisy as its sensors
    are, not delayed on the way to the laws, and not tared.

    Args:
        model: MuJoCo's model.
        data: MuJoCo's data.
        arm: The arm.
        state: Its live state.
        dof: The first of its velocities.
        options: Its settings.
        words_of: Says what names of errors mean, as for a real robot.
        period: Cycle time [s].
        springs: Of elastic joints, whose motors it holds.
        lag: With which its motors bring a torque about [s].

    Attributes:
        stopped: Whether it holds by itself and executes no torques.
        fault: Why it has stopped; whoever reads clears it.
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
        words_of: Callable[[Iterable[str]], str],
        period: float,
        springs: Springs | None = None,
        lag: float = 0.0,
    ) -> None:
        self._period, self._springs, self._lag = period, springs, lag
        self._words_of = words_of
        self._model, self._data, self._state = model, data, state
        self._dofs = slice(dof, dof + arm.n_joints)
        q_at = int(model.jnt_qposadr[model.dof_jntid[dof]])
        self._joints = data.qpos[q_at : q_at + arm.n_joints], data.qvel[self._dofs]
        self._flange = int(model.body(arm.flange_frame).id)
        self._jacobian = np.zeros((3, model.nv))
        self._weight = np.zeros(arm.n_joints)
        self._limit = arm.limits.torque
        self._compensates_gravity = arm.compensates_gravity
        self._q, self._stiffness, self._damping, self.tau_ext = np.zeros((4, arm.n_joints))
        self.stopped = False
        self.fault = ""
        self.configure(options)

    def configure(self, options: FrankaSettings) -> None:
        """Take settings; those of the robot's own motions mean nothing here."""
        given = options.given
        self._options = options
        self._torques = self._wrench = None
        if "upper_torque_thresholds" in given:
            if len(options.upper_torque_thresholds) != len(self._limit):
                raise BackendError(
                    f"upper_torque_thresholds of {self._state.name}: got "
                    f"{len(options.upper_torque_thresholds)} numbers, allowed {len(self._limit)}, "
                    "one per joint: thresholds per joint are those of a Franka arm"
                )
            self._torques = np.array(options.upper_torque_thresholds)
        if "upper_force_thresholds" in given:
            self._wrench = np.array(options.upper_force_thresholds)
        self._frame = Pose.from_rpy(options.stiffness_position, options.stiffness_rpy)
        self._load = options.load
        if self._load.mass <= 0.0:
            self._weight[:] = 0.0

    def measure(self, state: Measured) -> None:
        """Complete a state that was measured after the last :meth:`execute`."""
        if self._load.mass > 0.0:
            state.tau_ext += self._weight
        self.tau_ext[:] = state.tau_ext

    def execute(self, tau: Vector) -> None:
        """Turn commanded torques (n,) [Nm] into those of the motors, without the arm's gravity."""
        if not self.stopped and (self._torques is not None or self._wrench is not None):
            self._watch()
        if self.stopped:
            q, dq = self._motors()
            tau[:] = self._stiffness * (self._q - q) - self._damping * dq
            np.clip(tau, -self._limit, self._limit, out=tau)
            self._state.tau[:] = 0.0
            tau += self._state.tau_gravity  # its own, where the loop gives none
        if self._load.mass > 0.0:
            self._weigh()
            if self._compensates_gravity:
                tau += self._weight

    def _weigh(self) -> None:
        """Compute what carries the load, (n,) [Nm]."""
        data, body = self._data, self._flange
        centre = data.xpos[body] + data.xmat[body].reshape(3, 3) @ self._load.com
        mujoco.mj_jac(self._model, data, self._jacobian, None, centre, body)
        force = -self._load.mass * self._model.opt.gravity
        np.dot(force, self._jacobian[:, self._dofs], out=self._weight)

    def _watch(self) -> None:
        """Stop if a threshold is passed."""
        errors, places = [], []
        if self._torques is not None:
            tau = self.tau_ext
            for i in np.flatnonzero(np.abs(tau) > self._torques):
                errors.append("joint_reflex")
                places.append(f"joint {i + 1}: {tau[i]:.3g} Nm, allowed {self._torques[i]:g} Nm")
        if self._wrench is not None:
            wrench = self.wrench_in_stiffness_frame()
            for i in np.flatnonzero(np.abs(wrench) > self._wrench):
                errors.append("cartesian_reflex")
                unit = "N" if i < 3 else "Nm"
                places.append(
                    f"{_AXES[i]} of the stiffness frame: {wrench[i]:.3g} {unit}, "
                    f"allowed {self._wrench[i]:g} {unit}"
                )
        if errors:
            text = self._words_of(dict.fromkeys(errors))
            self.fault = (
                f"reflex: arm {self._state.name}: {text}: {'; '.join(places)}; recover it to go on"
            )
            self.stop()

    def wrench_in_stiffness_frame(self) -> Vector:
        """Return the measured external wrench in the stiffness frame, (6,) [N, Nm]."""
        state = self._state
        wrench = state.wrench_ext_in_base
        if not np.array_equal(self.tau_ext, state.tau_ext):  # the laws' estimate is tared, or late
            beyond = self.tau_ext - state.tau_ext
            wrench = wrench + np.linalg.lstsq(state.jacobian.T, beyond, rcond=None)[0]
        force, torque = wrench[:3], wrench[3:]
        lever = state.rotation_ee_in_base @ self._frame.position
        turn = state.rotation_ee_in_base @ self._frame.rotation
        return np.concatenate([force @ turn, (torque - np.cross(lever, force)) @ turn])

    def stop(self) -> None:
        """Hold where the arm is, with gains for its inertia there."""
        self._q = self._motors()[0].copy()
        self._stiffness, self._damping = self.servo_gains()
        self.stopped = True

    def _motors(self) -> tuple[Vector, Vector]:
        """Return where it is and how fast, (n,) each: of now, however late laws learn of it."""
        return self._joints if self._springs is None else self._springs.motors

    def servo_gains(self) -> tuple[Vector, Vector]:
        """Return stiffness and damping of its own joint controller in this posture, (n,) each."""
        moved = np.asarray(np.linalg.inv(self._state.mass), float)  # inverse of what a joint moves
        compliance = moved.diagonal()
        if self._springs is not None:
            compliance = np.maximum(compliance, self._springs.rotor_compliance)
        late = self._period + self._lag
        return stable_gains(np.array(self._options.joint_impedance), compliance, late)
