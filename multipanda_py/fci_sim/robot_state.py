# SPDX-License-Identifier: Apache-2.0
"""Fill the state that the robot sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from multipanda_py.fci_sim.wire import ERRORS, Controller, Generator, StateDatagram
from multipanda_py.fci_sim.world import PERIOD
from multipanda_py.robots.franka import ELBOW_FLIP
from multipanda_py.robots.load import Load

if TYPE_CHECKING:
    from multipanda_py.fci_sim.robot import FciRobot

Vector = NDArray[np.float64]

_ZERO = np.zeros(6)


class RobotState:
    """The state datagram of a robot, refilled in every cycle.

    Attributes:
        datagram: The state.
    """

    def __init__(self, robot: FciRobot, carried: Load) -> None:
        self._robot = robot
        self.datagram = StateDatagram()
        fields = self._fields = self.datagram.fields
        fields["O_ddP_O"][:] = robot.physics.gravity_in_base  # for libfranka's gravity torques
        self._write_load("ee", carried)
        self._tau_J = np.array(robot.physics.tau_J)
        self._held_at: Vector | None = None
        self._held = np.eye(4)
        self.configure()

    def configure(self) -> None:
        """Write what only requests change: frames and the load."""
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

    def errors(self, name: str, found: tuple[str, ...]) -> None:
        """Write ``errors`` or ``reflex_reason``."""
        self._fields[name][:] = [error in found for error in ERRORS]

    def fill(self, message_id: int, success_rate: float) -> bytearray:
        """Write everything that may have changed and return the datagram."""
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
        """Write joint 3 and the sign of joint 4: as they are, and as they are desired."""
        fields = self._fields
        for name, q in (("elbow", "q"), ("elbow_d", "q_d"), ("elbow_c", "q_d")):
            fields[name][:] = (fields[q][2], np.sign(fields[q][3] - ELBOW_FLIP))
        fields["delbow_c"][0], fields["ddelbow_c"][0] = fields["dq_d"][2], fields["ddq_d"][2]

    def _fill_poses(self) -> None:
        """Write poses; what is desired is what was commanded last, not where the arm is."""
        robot, fields = self._robot, self._fields
        fields["O_T_EE"][:] = robot.pose_ee.ravel(order="F")
        motion = robot.motion
        pose, twist, acceleration = robot.pose_ee, _ZERO, _ZERO
        if motion is None:
            pose = self._held_pose()
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

    def _held_pose(self) -> Vector:
        """Return the end effector's pose where the robot holds, computed when that changes."""
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
