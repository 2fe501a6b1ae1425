# SPDX-License-Identifier: Apache-2.0
"""Simulated gripper of an arm: servos of its fingers, and answers to commands."""

from __future__ import annotations

import numpy as np

from multipanda_py.registry import extras_named
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.gripper import Action, GripperCommand, Outcome
from multipanda_py.robots.parallel_gripper import ParallelGripper
from multipanda_py.simulation.world import load_fields, save_fields
from multipanda_py.state import ArmState, Vector

with extras_named():
    import mujoco

MOVE_FORCE = 20.0
"""Force limit of the fingers in motions without a commanded force [N]."""
FORCE_RISE_TIME = 0.1
"""Time in which the force builds up after the fingers are blocked [s]."""
WIDTH_TOLERANCE = 5e-4
"""Tolerance of the width at the end of a motion, and minimum width of an object [m]."""
REST_TIME = 0.05
"""Time for which the fingers must rest before a command ends [s]."""
GRACE_TIME = 1.0
"""Maximum duration of a command in addition to the time of its motion [s]."""


class SimGripper:
    r"""Execution of gripper commands by the position servos of both fingers.

    The set point :math:`q_d` for the opening :math:`q` of each finger moves towards its goal at
    :math:`v / 2`, half the commanded speed of the width. When the fingers are blocked, it moves
    faster. Its distance from the fingers is limited to that at which the servo exerts the
    commanded force F,

    .. math:: |q_d - q| \le \frac{F + d \, v / 2}{k} + 1\,\mathrm{mm} .

    Here k and d are stiffness and damping of the servo. F is also its force limit.

    Args:
        model: Compiled scene; the force limits of this gripper's actuators change while it runs.
        data: Data of the scene, with the arm at its start configuration.
        arm: Description of the arm.
        gripper: Gripper of the arm.
        state: Arm state, which receives finger positions and answers.
        period: Cycle time [s].

    Attributes:
        is_active: True if :meth:`step` must be called in every cycle.

    Thread: control.
    """

    CHANGING = (
        *("is_active", "_goals", "_command", "_set_point", "_step", "_press_step", "_max_lead"),
        *("_rest_speed", "_resting_cycles", "_remaining_cycles"),
    )

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        arm: ArmDescription,
        gripper: ParallelGripper,
        state: ArmState,
        period: float,
    ) -> None:
        first, second = (model.joint(name) for name in arm.finger_joint_names)
        motors = [int(model.actuator(name).id) for name in arm.finger_joint_names]
        at, dof, motor = int(first.qposadr[0]), int(first.dofadr[0]), motors[0]
        if (int(second.qposadr[0]), motors[1]) != (at + 1, motor + 1):
            raise IndexError(
                f"{arm.name}: finger joints or their actuators have no consecutive indices in the "
                "MuJoCo model"
            )
        self.fingers: Vector = data.qpos[at : at + 2]
        self._speeds: Vector = data.qvel[dof : dof + 2]
        self._control: Vector = data.ctrl[motor : motor + 2]
        self._force_range: Vector = model.actuator_forcerange[motor : motor + 2]
        # To press a thin object firmly, the set point must lie beyond the position limits.
        model.actuator_ctrllimited[motor : motor + 2] = 0
        self._stiffness = float(model.actuator_gainprm[motor, 0])
        self._damping = -float(model.actuator_biasprm[motor, 2])
        self._answer, self._period = state.gripper, period
        self._answer[:] = 0
        self.fingers[:] = arm.finger_opening
        self._goals: list[float] = []
        self._command = GripperCommand(Action.STOP)
        self._set_point = self._step = self._press_step = self._max_lead = self._rest_speed = 0.0
        self._resting_cycles = self._remaining_cycles = 0
        self._min_rest_cycles = round(REST_TIME / period)
        self._press_cycles = max(1, self._min_rest_cycles // 2)
        self.is_active = False
        self._force_range[:] = -gripper.force, gripper.force
        self._gripper, self._move_force = gripper, min(MOVE_FORCE, gripper.force)
        self._control[:] = arm.finger_opening

    def save(self) -> tuple[Vector, dict[str, object]]:
        """Return copies of the servos' force limits and of attributes that change at run time."""
        return self._force_range.copy(), save_fields(self, self.CHANGING)

    def load(self, saved: tuple[Vector, dict[str, object]]) -> None:
        """Restore a state from :meth:`save`."""
        self._force_range[:] = saved[0]
        load_fields(self, saved[1])

    def start(self, number: int, record: Vector) -> None:
        """Start a gripper command, in place of the previous one.

        Args:
            number: Number of the command, which is written to ``state.gripper[0]``.
            record: Action and its values, in the format of :attr:`.GripperCommand.record`.
        """
        command = GripperCommand(Action(int(record[0])), *record[1:].tolist())
        answer = self._answer
        answer[0], answer[1] = number, Outcome.MOVING
        if command.action is Action.STOP:
            self._stop_motion()
            answer[1] = Outcome.SUCCEEDED
            return
        self._command = command
        answer[2] = 0
        if command.action is Action.HOMING:
            both_ends = [self._gripper.lower, self._gripper.upper]
            self._move_to(both_ends, self._move_force, self._gripper.speed)
        elif command.action is Action.MOVE:
            self._move_to([command.width / 2.0], self._move_force, command.speed)
        else:
            # Even at closed fingers the servo must exert the commanded force, so its goal lies
            # beyond them.
            closed = self._gripper.lower - command.force / self._stiffness - 1e-3
            self._move_to([closed], command.force, command.speed)

    def step(self) -> None:
        """Move the set point of the fingers for one period, and end a completed command."""
        opening = (self.fingers.item(0) + self.fingers.item(1)) / 2.0
        goal = self._goals[0]
        displacement = goal - self._set_point
        reach = self._step if self._resting_cycles < self._press_cycles else self._press_step
        ahead = self._set_point - opening
        waits = True
        if abs(displacement) <= reach:
            self._set_point = goal
        elif abs(ahead) < self._max_lead or ahead * displacement < 0.0:
            self._set_point += reach if displacement > 0.0 else -reach
            waits = False
        self._control[:] = self._set_point
        if self._remaining_cycles:
            self._end_if_done(opening, goal, waits)
        elif self._answer[2] and not self._command.holds(2.0 * opening):
            self._answer[2] = 0  # The grasped object was lost, so nothing is reported as grasped.

    def _end_if_done(self, opening: float, goal_opening: float, set_point_rests: bool) -> None:
        speed = (self._speeds.item(0) + self._speeds.item(1)) / 2.0
        self._resting_cycles = self._resting_cycles + 1 if abs(speed) < self._rest_speed else 0
        self._remaining_cycles -= 1
        if (
            self._resting_cycles < self._min_rest_cycles or not set_point_rests
        ) and self._remaining_cycles:
            return
        if len(self._goals) > 1:
            self._move_to(self._goals[1:], self._move_force, self._gripper.speed)
            return
        self._remaining_cycles = self._resting_cycles = 0
        arrived = 2.0 * abs(opening - goal_opening) < WIDTH_TOLERANCE
        if self._command.action is Action.GRASP:
            stopped = 2.0 * (opening - self._gripper.lower) > WIDTH_TOLERANCE
            done = stopped and self._command.holds(2.0 * opening)
            self._answer[2] = done
            self.is_active = stopped
        else:
            done = arrived
            self.is_active = False
            if not arrived:
                self._set_point = opening
                # Blocked fingers must not continue to press, so the set point is where they are.
                self._control[:] = opening
        self._answer[1] = Outcome.SUCCEEDED if done else Outcome.UNSUCCESSFUL

    def _move_to(self, goal_openings: list[float], max_force: float, width_speed: float) -> None:
        # An opening is half of a width. The speed of the width is twice that of a finger.
        self._goals = goal_openings
        self._set_point = float(np.mean(self.fingers))
        finger = width_speed / 2.0
        self._step = finger * self._period
        self._max_lead = (max_force + self._damping * finger) / self._stiffness + 1e-3
        self._press_step = max(self._step, self._max_lead * self._period / FORCE_RISE_TIME)
        self._rest_speed = 0.2 * min(finger, 0.01)
        self._force_range[:] = -max_force, max_force
        distance = abs(goal_openings[0] - self._set_point)
        self._resting_cycles = 0
        self._remaining_cycles = round((distance / finger + GRACE_TIME) / self._period)
        self.is_active = True

    def _stop_motion(self) -> None:
        """Stop a motion at the current opening; fingers that hold an object continue to press."""
        if self._remaining_cycles:
            self._remaining_cycles = 0
            self.is_active = False
            self._set_point = float(np.mean(self.fingers))
            self._control[:] = self._set_point
