# SPDX-License-Identifier: Apache-2.0
"""Validation tasks on a table: a sinusoidal force, and a constant force along a circle."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.identification.validation.task import (
    FAST_TARGET_CYCLES,
    TARGET_CYCLES,
    PassTime,
    Task,
    configuration_at,
    object_like,
    pointing,
    retreat,
    rod,
    task_cell,
    tool_in_world,
    with_start,
)
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.state import Matrix, Vector


class PlainForce:
    r"""Force controller with feed-forward and PI terms only.

    .. math:: F = F_d + k_p (F_d - F_m) + k_i \int (F_d - F_m)\,dt.

    Symbols: desired force :math:`F_d`, and force :math:`F_m` exerted by the tool, estimated from
    joint torques. The default gains are those of the libfranka example ``force_control``. If the
    contact is lost, the tool accelerates freely.

    Args:
        kp: Proportional gain [-].
        ki: Integral gain [1/s].
    """

    def __init__(self, kp: float = 1.0, ki: float = 2.0) -> None:
        self._kp, self._ki, self._sum = kp, ki, 0.0

    def force(self, desired: float, measured: float, period: float) -> float:
        """Return the force to command [N], and advance the integral by one period.

        Args:
            desired: Desired force [N].
            measured: Measured force [N].
            period: Time since the last call [s].
        """
        error = desired - measured
        self._sum += error * period
        return desired + self._kp * error + self._ki * self._sum


UFIC_CONTROLLER, PLAIN_CONTROLLER = "ufic", "plain_pi"
START_CONFIGURATION = np.array([0.0, -0.3, 0.0, -2.2, 0.0, 1.9, 0.785])
"""Start configuration of a Franka arm. Other arms start near their ready configuration."""
DOWN = np.array([0.0, 0.0, -1.0])
START_CLEARANCE = 0.003
"""Distance between tool and table at the start [m]."""
CIRCLE_RADIUS = 0.1
"""Radius of the circle that the tool follows [m]."""
CIRCLE_PERIOD = 10.0
"""Period of the circle [s]. A shorter task covers only a part of it."""
MAX_FORCE = 60.0
"""Maximum force command of the plain PI controller [N]."""
FIRST_FORCE = 5.0
"""Force while contact is established [N]."""
DESCENT_SPEED, DESCENT_STIFFNESS = 0.01, 600.0
"""Speed [m/s] and stiffness [N/m] of the descent with the plain PI controller."""
CONTACT_FORCE, MAX_DEPTH = 2.0, 0.04
"""Contact force [N] and maximum depth [m] that end the descent with the plain PI controller."""
LIFT_OFF_HEIGHT = 0.03
"""Height to which real arms lift off the table [m]."""


class PressingTask(Task):
    """Task that presses on a table under the tool of the first arm.

    Attributes:
        plain: PI force controller, available after :meth:`settle`.
    """

    controllets = (UFIC_CONTROLLER, PLAIN_CONTROLLER)
    settling_cycles = 2000
    max_force: float
    stiffness: tuple[float, ...] = (100.0, 100.0, 50.0, 10.0, 10.0, 10.0)

    @property
    def needs_every_cycle(self) -> bool:
        """True if ``controllet`` is ``plain_pi``: the task itself then controls the force."""
        return self.controllet == PLAIN_CONTROLLER

    def scene(self, config: CellConfig) -> CellConfig:
        """Return a cell with a table under the tool of the first arm."""
        (name,) = self.names(config)
        self._name = name
        arm = with_start(config.arms[name], np.array(config.arms[name].q_start), rod(0.1))
        described = describe_arm(name, arm)
        self._described = described
        q = START_CONFIGURATION if arm.robot.name in ("fr3", "fer") else np.array(arm.robot.ready)
        here = tool_in_world(described, q)
        description = f"task {self.number}"
        pose = Pose(here.position, pointing(here.rotation, DOWN))
        q = configuration_at(described, pose, q, description)
        self._choose_table_centre(described, here)
        arm = with_start(arm, q, None)
        x, y, z = self._centre.tolist()
        table = {"shape": "box", "size": [0.18, 0.18, 0.02],
                 "position": [x, y, z - START_CLEARANCE - 0.02], "friction": 0.2}  # fmt: skip
        controllet: dict[str, Any] = {"type": "force_impedance"}
        stiffness = list(self.stiffness)
        if self.controllet == PLAIN_CONTROLLER:
            controllet["type"] = "cartesian_impedance"
            stiffness[2] = 0.0
        controllet["params"] = {"stiffness": stiffness}
        if self.controllet == PLAIN_CONTROLLER:
            controllet["params"]["wrench"] = {"time_constant": 0.0}
        self.objects = {"table": object_like(config, "table", table)}
        self.forces_on_objects = {name: self.max_force * DOWN}
        return task_cell(config, {name: arm}, controllet, self.objects, [f"{name} table"])

    def _choose_table_centre(self, arm: ArmDescription, tool_in_world: Pose) -> None:
        away = tool_in_world.position - arm.position_base_in_world
        away[2] = 0.0
        distance = float(np.linalg.norm(away))
        # The arm has to reach the circle around this centre.
        side = away / max(distance, 1e-6) * (1.0 if distance < 0.55 else -1.0)
        self._centre: Vector = tool_in_world.position + CIRCLE_RADIUS * side
        self._start_angle = math.atan2(-side[1], -side[0])

    def settle(self, cell: Cell, advance: PassTime) -> None:
        """Press on the table with a small force until the contact has settled."""
        self.plain, self._last_press_time = PlainForce(), cell.time
        advance(TARGET_CYCLES)
        self._start = cell.pose(self._name)
        self._to_base = self._described.rotation_base_in_world.T
        inline = cell.config.cell.placement == "inline"
        step = FAST_TARGET_CYCLES if self.needs_every_cycle and not inline else TARGET_CYCLES
        left = self.settling_cycles
        if self.controllet == PLAIN_CONTROLLER:
            left -= self._lower_until_contact(cell, advance)
            self._last_press_time = float(cell.latest_record()["time"])
        for _ in range(left // step):
            self._press(cell, FIRST_FORCE)
            advance(step)

    def _lower_until_contact(self, cell: Cell, advance: PassTime) -> int:
        """Lower the tool slowly until contact, and return the number of cycles."""
        springs = [*self.stiffness[:2], DESCENT_STIFFNESS, *self.stiffness[3:]]
        cell.set_target(self._name, stiffness=springs)
        up_in_base = self._described.rotation_base_in_world[2]
        taken, depth = 0, 0.0
        start = self._start
        # Without contact, the plain force controller would accelerate the tool freely.
        while depth < MAX_DEPTH:
            depth += DESCENT_SPEED * TARGET_CYCLES / cell.config.cell.rate
            position = start.position + self._to_base @ (depth * DOWN)
            self._start = Pose(position, start.rotation)
            cell.set_target(self._name, self._start)
            advance(TARGET_CYCLES)
            taken += TARGET_CYCLES
            if up_in_base @ cell.state(self._name).wrench_ext_in_base[:3] > CONTACT_FORCE:
                break
        cell.set_target(self._name, stiffness=[*springs[:2], 0.0, *springs[3:]])
        return taken

    def _press(self, cell: Cell, force: float, pose: Pose | None = None) -> None:
        if self.controllet == PLAIN_CONTROLLER:
            state = cell.state(self._name)
            before, self._last_press_time = self._last_press_time, state.time
            up_in_base = self._described.rotation_base_in_world[2]
            measured = float(up_in_base @ state.wrench_ext_in_base[:3])
            force = self.plain.force(force, measured, self._last_press_time - before)
            force = min(max(force, 0.0), MAX_FORCE)
        wrench = np.zeros(6)
        wrench[:3] = self._to_base @ (force * DOWN)
        cell.set_target(self._name, pose, wrench=wrench)

    def restore_scene(self, cell: Cell, advance: PassTime) -> None:
        """Lift the tool off the table, so that the next motion does not collide with it."""
        arms, steps = {self._name: self._described}, {self._name: -LIFT_OFF_HEIGHT * DOWN}
        retreat(cell, arms, steps, f"task {self.number}")

    def contact_forces(self, cell: Cell) -> Matrix:
        """Return the force of the table on the tool, (1, 3) [N]."""
        tool = f"{self._described.prefix}tool"
        return np.array([cell.simulation.contact_force(tool, "table")])

    def force_component(self, contact_forces: Matrix) -> Vector:
        """Return the vertical component of the contact force on the tool, (1,) [N]."""
        return contact_forces[:, 2]


class ForceSine(PressingTask):
    r"""Task that presses with one period of :math:`15\,\mathrm{N}\,(1 - \cos(2\pi t / T))`.

    T is the duration of the task.
    """

    number, title = 3, "0 to 30 N on a plane"
    # The calibration estimates contact parameters from the oscillation after the first contact.
    keeps_settling = True
    max_force = 30.0

    def requested_force(self, times: Vector) -> Vector | None:
        """Return the sinusoidal force at the given times, (n,) [N]."""
        force: Vector = 15.0 * (1.0 - np.cos(2.0 * math.pi * times / self.seconds))
        return force

    def set_targets(self, cell: Cell, time: float) -> None:
        force = 15.0 * (1.0 - math.cos(2.0 * math.pi * time / self.seconds))
        self._press(cell, force)


class ForceCircle(PressingTask):
    """Task that presses with 9.81 N while the tool follows a circle of 10 cm radius."""

    number, title = 4, "9.81 N along a circle"
    stiffness = (800.0, 800.0, 50.0, 20.0, 20.0, 20.0)
    max_force = force = 9.81

    def requested_force(self, times: Vector) -> Vector | None:
        """Return the constant force of 9.81 N at each of the given times, (n,) [N]."""
        return np.full(len(times), self.force)

    def set_targets(self, cell: Cell, time: float) -> None:
        phase = self._start_angle - 2.0 * math.pi * time / CIRCLE_PERIOD
        displacement = self._on_circle(phase) - self._on_circle(self._start_angle)
        goal = self._start.with_position(self._start.position + self._to_base @ displacement)
        self._press(cell, self.force, goal)

    def _on_circle(self, phase: float) -> Vector:
        point: Vector = self._centre + CIRCLE_RADIUS * np.array(
            [math.cos(phase), math.sin(phase), 0.0]
        )
        return point
