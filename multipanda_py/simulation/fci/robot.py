# SPDX-License-Identifier: Apache-2.0
"""Simulated FR3: modes, motions, errors and recovery.

Behaviour that neither the FCI documentation nor libfranka specify is marked *assumed*.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import UnknownName
from multipanda_py.robots.franka import ELBOW_FLIP
from multipanda_py.robots.inertial import NO_LOAD, Load
from multipanda_py.simulation.fci.cartesian import FlangeFrames
from multipanda_py.simulation.fci.collision_reflex import Thresholds, violations
from multipanda_py.simulation.fci.cycles import CycleStatistics
from multipanda_py.simulation.fci.motion_generator import Motion
from multipanda_py.simulation.fci.wire import (
    ERRORS,
    Controller,
    Generator,
    Mode,
    MoveStatus,
    RecoveryStatus,
    RobotRequest,
    StateDatagram,
)
from multipanda_py.simulation.fci.world import PERIOD, Physics

Vector = NDArray[np.float64]

_ZERO_TWIST = np.zeros(6)


class RobotState:
    """Writer of the state datagram of a robot.

    Args:
        robot: Robot whose state is sent.
        carried: Mass and inertia of the end effector, which Desk sets on a real robot.

    Attributes:
        datagram: Datagram with the newest state.
    """

    def __init__(self, robot: FciRobot, carried: Load) -> None:
        self._robot = robot
        self.datagram = StateDatagram()
        fields = self._fields = self.datagram.fields
        # Clients need this field, from which libfranka computes gravity torques.
        fields["O_ddP_O"][:] = robot.physics.gravity_in_base
        self._write_load("ee", carried)
        self._tau_J = np.array(robot.physics.tau_J)
        self._held_at: Vector | None = None
        self._held = np.eye(4)
        self.configure()

    def configure(self) -> None:
        """Write frames and load to the datagram; they change only by requests of the client."""
        frames, fields = self._robot.frames, self._fields
        self._held_at = None
        fields["F_T_NE"][:] = frames.F_T_NE.ravel(order="F")
        fields["NE_T_EE"][:] = frames.NE_T_EE.ravel(order="F")
        fields["EE_T_K"][:] = frames.EE_T_K.ravel(order="F")
        fields["F_T_EE"][:] = frames.pose_ee_in_flange.ravel(order="F")
        self._write_load("load", self._robot.load)

    def _write_load(self, name: str, load: Load) -> None:
        self._fields[f"m_{name}"][:] = load.mass
        self._fields[f"F_x_C{name}"][:] = load.com
        self._fields[f"I_{name}"][:] = load.inertia.ravel(order="F")

    def errors(self, name: str, active: tuple[str, ...]) -> None:
        """Set the flags of active errors in a field of the datagram, and clear all others.

        Args:
            name: Name of the field, ``errors`` or ``reflex_reason``.
            active: Names of the errors.
        """
        self._fields[name][:] = [error in active for error in ERRORS]

    def fill(self, message_id: int, success_rate: float) -> bytearray:
        """Write all fields that change in every cycle, and return the datagram.

        ``success_rate`` is the fraction of the last commands that arrived, 0 to 1.
        """
        robot, fields, physics = self._robot, self._fields, self._robot.physics
        motion = robot.motion
        fields["message_id"][0] = message_id
        for name in ("q", "theta"):
            fields[name][:] = physics.q
        for name in ("dq", "dtheta"):
            fields[name][:] = physics.dq
        fields["tau_J"][:] = physics.tau_J
        fields["dtau_J"][:] = (physics.tau_J - self._tau_J) / PERIOD
        self._tau_J[:] = physics.tau_J
        if motion is None or motion.external or robot.reports_measured:
            fields["q_d"][:] = robot.hold_q if motion is None else physics.q
            fields["dq_d"][:] = 0.0 if motion is None else physics.dq
            fields["ddq_d"][:] = 0.0
        else:
            fields["q_d"][:] = motion.q_d
            fields["dq_d"][:] = motion.dq_d
            fields["ddq_d"][:] = motion.ddq_d
        fields["tau_J_d"][:] = motion.tau if motion is not None else 0.0
        self._fill_elbow()
        self._fill_poses()
        self._fill_contacts()
        generator = Generator.IDLE if motion is None else motion.generator
        controller = Controller.OTHER if motion is None else motion.controller
        fields["motion_generator_mode"][0] = generator + 1
        fields["controller_mode"][0] = controller
        fields["robot_mode"][0] = robot.mode
        fields["control_command_success_rate"][0] = success_rate if motion is not None else 0.0
        return self.datagram.buffer

    def _fill_elbow(self) -> None:
        fields = self._fields
        for name, q in (("elbow", "q"), ("elbow_d", "q_d"), ("elbow_c", "q_d")):
            fields[name][:] = (fields[q][2], np.sign(fields[q][3] - ELBOW_FLIP))
        fields["delbow_c"][0], fields["ddelbow_c"][0] = fields["dq_d"][2], fields["ddq_d"][2]

    def _fill_poses(self) -> None:
        robot, fields = self._robot, self._fields
        fields["O_T_EE"][:] = robot.pose_ee.ravel(order="F")
        motion = robot.motion
        pose, twist, acceleration = robot.pose_ee, _ZERO_TWIST, _ZERO_TWIST
        if motion is None:
            pose = self._pose_at_hold_q()
        elif motion.cartesian is not None:
            reference = motion.cartesian
            pose, twist = reference.pose, reference.trend.velocity
            acceleration = reference.trend.acceleration
        elif not motion.external:
            pose, J = robot.physics.kinematics_at(motion.q_d, robot.frames.pose_ee_in_flange)
            twist, acceleration = J @ motion.dq_d, J @ motion.ddq_d
        for name in ("O_T_EE_d", "O_T_EE_c"):
            fields[name][:] = pose.ravel(order="F")
        for name in ("O_dP_EE_d", "O_dP_EE_c"):
            fields[name][:] = twist
        fields["O_ddP_EE_c"][:] = acceleration

    def _pose_at_hold_q(self) -> Vector:
        robot = self._robot
        if self._held_at is not robot.hold_q:
            self._held_at = robot.hold_q
            self._held, _ = robot.physics.kinematics_at(
                robot.hold_q, robot.frames.pose_ee_in_flange
            )
        return self._held

    def _fill_contacts(self) -> None:
        robot, fields, thresholds = self._robot, self._fields, self._robot.thresholds
        fields["tau_ext_hat_filtered"][:] = robot.tau_ext
        fields["O_F_ext_hat_K"][:] = robot.wrench_base
        fields["K_F_ext_hat_K"][:] = robot.wrench_stiffness
        torque, force = np.abs(robot.tau_ext), np.abs(robot.wrench_stiffness)
        fields["joint_contact"][:] = torque > thresholds.lower_torque
        fields["joint_collision"][:] = torque > thresholds.upper_torque
        fields["cartesian_contact"][:] = force > thresholds.lower_force
        fields["cartesian_collision"][:] = force > thresholds.upper_force


Answer = Callable[[RobotRequest, int, bytes], None]

RECOVERY_CYCLES = 100
"""Duration of automatic error recovery (assumed) [ms]."""
GUIDING_DAMPING = 2.0  # Damping of a hand-guided arm (assumed) [Nm s/rad].
_REST_TOLERANCE = 1e-5  # Error [rad] and speed [rad/s] below which the brakes hold the arm.


class FciRobot:
    r"""Simulated robot without sockets and clocks; :meth:`cycle` advances it by 1 ms.

    In torque control the motors exert the commanded torque, :math:`\tau = \tau_{J,d}`, with
    gravity compensated. All other modes use a critically damped joint impedance controller,
    :math:`\tau = K (q_d - q) + D (\dot q_d - \dot q)`. At rest, brakes hold the arm, unless an
    external push acts (``tau_push``, ``wrench_push``).

    Args:
        answer: Function that sends an answer to the client, with type and number of the request.
        physics: Simulation of the arm and its load; None: an ideal arm alone in a scene.

    Attributes:
        frames: Frames of the end effector.
        thresholds: Thresholds of contacts and collisions.
        load: Load at the flange, set by the client.
        mode: Mode of the robot.
        motion: Running motion; None without a motion.
        errors: Names of the current errors.
        hold_q: Joint positions that the robot holds without a motion, (7,) [rad].
        cycles: Statistics of control cycles.
        state: Writer of the state that is sent to the client.
        message_id: Number of the newest state, which is the robot's time [ms].
        reports_measured: True to report measured positions as q_d, and to accept commands that
            violate limits of motions.
    """

    def __init__(self, answer: Answer, physics: Physics | None = None) -> None:
        self._answer = answer
        self.physics = physics = physics or Physics()
        known = physics.end_effector
        self.frames = FlangeFrames(None if known is None else known.pose_tcp_in_flange)
        self.thresholds, self.load = Thresholds(), NO_LOAD
        self.stiffness = np.array([600.0] * 4 + [250.0, 150.0, 50.0])
        self.mode = Mode.IDLE
        self.motion: Motion | None = None
        self.errors: tuple[str, ...] = ()
        self.hold_q = self.physics.q.copy()
        self.cycles = CycleStatistics()
        self.message_id = 0
        self.reports_measured = False
        self.tau_push, self.wrench_push = np.zeros(7), np.zeros(6)
        self._recovery: tuple[int, int] | None = None
        self._damping = self._critical_damping()
        self._update_pose_and_wrench()
        carried = known and Load(known.mass, known.com_in_flange, known.inertia)
        self.state = RobotState(self, carried or NO_LOAD)

    def start_motion(self, motion: Motion) -> None:
        """Start a motion and report this to the client; the robot must be idle."""
        self.mode, self.motion = Mode.MOVE, motion
        self.physics.begins()
        self._damping = self._critical_damping()
        self.cycles.start_motion()
        self._send(RobotRequest.MOVE, motion.request_id, MoveStatus.MOTION_STARTED)

    def end_motion(self, status: MoveStatus, mode: Mode = Mode.IDLE) -> None:
        """End the running motion, and send its final answer to the client.

        Args:
            status: Final answer to the client's Move request.
            mode: Mode of the robot afterwards.
        """
        motion, self.motion, self.mode = self.motion, None, mode
        self.physics.ends()
        finished = motion is not None and not motion.external and status is MoveStatus.SUCCESS
        self.hold_q = motion.q_d if motion is not None and finished else self.physics.q.copy()
        if motion is not None:
            self._send(RobotRequest.MOVE, motion.request_id, status)

    def fault(self, *names: str) -> None:
        """Stop the robot with errors as in a reflex; it then needs a recovery.

        Args:
            names: Names of libfranka errors, such as ``joint_reflex``.

        Raises:
            UnknownName: If an error does not exist.
        """
        for name in names:
            if name not in ERRORS:
                raise UnknownName("error", name, ERRORS)
        self.errors = names
        self.state.errors("errors", names)
        self.state.errors("reflex_reason", names)
        self.end_motion(MoveStatus.REFLEX_ABORTED, Mode.REFLEX)

    def recover(self, request_id: int) -> None:
        """Start automatic error recovery; the client gets the answer when the recovery ends.

        Without an error, or in a mode without recovery, the client gets the answer at once.

        Args:
            request_id: Number of the client's request.
        """
        statuses = {
            Mode.USER_STOPPED: RecoveryStatus.MANUAL_REQUIRED,
            Mode.MOVE: RecoveryStatus.NOT_POSSIBLE,
            Mode.GUIDING: RecoveryStatus.NOT_POSSIBLE,
            Mode.RECOVERY: RecoveryStatus.NOT_POSSIBLE,
            Mode.IDLE: RecoveryStatus.SUCCESS,
        }
        if self.mode in statuses:
            self._send(RobotRequest.AUTOMATIC_ERROR_RECOVERY, request_id, statuses[self.mode])
            return
        self.mode = Mode.RECOVERY
        self._recovery = (request_id, self.message_id + RECOVERY_CYCLES)

    def user_stop(self, pressed: bool) -> None:
        """Press or release the user stop.

        After its release the robot is idle, or in mode ``REFLEX`` if it had errors before.
        """
        if pressed:
            self._abort_recovery(RecoveryStatus.EMERGENCY_ABORTED)
            self.end_motion(MoveStatus.EMERGENCY_ABORTED, Mode.USER_STOPPED)
        elif self.mode is Mode.USER_STOPPED:
            self.mode = Mode.REFLEX if self.errors else Mode.IDLE

    def guiding(self, pressed: bool) -> None:
        """Press or release the guiding button; a guided arm moves freely with damping."""
        if pressed:
            self._abort_recovery(RecoveryStatus.ABORTED)
            self.end_motion(MoveStatus.ABORTED, Mode.GUIDING)
        elif self.mode is Mode.GUIDING:
            self.hold_q = self.physics.q.copy()
            self.mode = Mode.REFLEX if self.errors else Mode.IDLE

    def cycle(self, command: np.void | None) -> bytearray:
        """Advance by one period; return the datagram of the new state.

        Args:
            command: Command of the client for the last state; None if it is missing.
        """
        if self.motion is not None:
            self._control(self.motion, command)
        self._move_arm()
        self._update_pose_and_wrench()
        if self.motion is not None:
            q, dq = self.physics.q, self.physics.dq
            result = violations(q, dq, self.tau_ext, self.wrench_stiffness, self.thresholds)
            if result:
                self.fault(*result)
        if self._recovery is not None and self.message_id >= self._recovery[1]:
            self._finish_recovery(self._recovery[0])
        self.message_id += 1
        return self.state.fill(self.message_id, self.cycles.success_rate)

    def _control(self, motion: Motion, command: np.void | None) -> None:
        if command is None:
            motion.repeat()
            if motion.started and not motion.asynchronous and self.cycles.missed():
                self.fault("communication_constraints_violation")
            return
        if command["torque_finished"] or command["motion_finished"]:
            self.end_motion(MoveStatus.SUCCESS)
            return
        before = motion.tau
        error = motion.receive(command)
        if self.reports_measured:
            error = None
        self.cycles.answered(int(command["message_id"]), command["tau_J_d"],
                             command["tau_J_d"] - before)  # fmt: skip
        if error is not None:
            self.fault(error)
        elif motion.asynchronous:
            motion.repeat()

    def _move_arm(self) -> None:
        physics, motion = self.physics, self.motion
        if motion is not None and motion.external and motion.started:
            tau = motion.tau
        elif self.mode is Mode.GUIDING:
            self.hold_q = physics.q.copy()
            tau = -GUIDING_DAMPING * physics.dq
        else:
            q_d, dq_d = (self.hold_q, 0.0) if motion is None else (motion.q_d, motion.dq_d)
            error, speed = q_d - physics.q, dq_d - physics.dq
            pushed = self.tau_push.any() or self.wrench_push.any()
            if not pushed and max(np.abs(error).max(), np.abs(speed).max(),
                                  np.abs(physics.dq).max()) < _REST_TOLERANCE:  # fmt: skip
                physics.rest()
                return
            tau = self.stiffness * error + self._damping * speed
        physics.step(tau, self.tau_push, self.wrench_push, self.pose_ee[:3, 3])

    def _update_pose_and_wrench(self) -> None:
        physics, frames = self.physics, self.frames
        self.pose_ee: Vector = physics.flange() @ frames.pose_ee_in_flange
        # As on a Franka robot, torques that the arm exerts on its environment are positive.
        self.tau_ext: Vector = -physics.tau_ext
        stiffness = self.pose_ee @ frames.EE_T_K
        self.wrench_base, self.wrench_stiffness = np.zeros(6), np.zeros(6)
        if self.tau_ext.any():
            self.wrench_base = physics.wrench_at(stiffness[:3, 3], self.tau_ext)
            rotation = stiffness[:3, :3].T
            self.wrench_stiffness[:3] = rotation @ self.wrench_base[:3]
            self.wrench_stiffness[3:] = rotation @ self.wrench_base[3:]

    def _critical_damping(self) -> Vector:
        return np.asarray(2.0 * np.sqrt(self.stiffness * self.physics.inertias()))

    def _finish_recovery(self, request_id: int) -> None:
        self._recovery = None
        self.mode, self.errors = Mode.IDLE, ()
        self.state.errors("errors", ())
        self._send(RobotRequest.AUTOMATIC_ERROR_RECOVERY, request_id, RecoveryStatus.SUCCESS)

    def _abort_recovery(self, status: RecoveryStatus) -> None:
        if self._recovery is not None:
            self._send(RobotRequest.AUTOMATIC_ERROR_RECOVERY, self._recovery[0], status)
            self._recovery = None

    def _send(self, request: RobotRequest, request_id: int, status: int) -> None:
        self._answer(request, request_id, bytes([status]))
