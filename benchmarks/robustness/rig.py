# SPDX-License-Identifier: Apache-2.0
"""Simulated cell with one controllet under one condition.

Recorded speeds are those of the simulation, without measurement errors. The rig computes the
contact force itself, so that the surface has exactly the stiffness of the condition.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from cases import Condition, Law, fitted
from numpy.typing import NDArray

from multipanda_py import registry
from multipanda_py.exceptions import TargetRejected
from multipanda_py.robots import MODELS
from multipanda_py.state import Vector
from multipanda_py.testing import simple_cell

OVER_TABLE = np.array([0.0, -0.3, 0.0, -2.2, 0.0, 1.9, 0.785])
AT_BOX = {
    "left": np.array([0.4451, 0.02959, -0.5255, -2.25892, -1.61219, 1.64112, 0.71578]),
    "right": np.array([-0.73593, 0.03744, 0.82009, -2.25883, 1.60509, 1.65203, -0.71612]),
}
HERE = Path(__file__).parent
PLUGIN = HERE / "plugin"
"""Folder with the entry points of the textbook laws, as of a third-party distribution."""
ROD = {
    "mass": 0.2, "com": [0.0, 0.0, 0.04], "inertia": [1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0],
    "position": [0.0, 0.0, 0.08],
}  # fmt: skip
FAULT = 10
"""Lowest event number that latches a fault."""
SURFACE_MASS = 2.0
"""Mass for the damping of the surface, which is 5 % of critical damping [kg]."""


def find_textbook_laws() -> None:
    """Add the laws of :mod:`peers` to the registry and clear its caches."""
    for folder in (HERE, PLUGIN):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    for cached in (registry.names, registry.find, registry.plug_ins):
        cached.cache_clear()


def start_configuration(
    arm: str, law: Law, condition: Condition, rng: np.random.Generator
) -> Vector:
    """Return the default configuration of an arm plus a random offset, (n,) [rad]."""
    robot = MODELS[law.model]
    q = np.array(robot.ready)
    if condition.surface and law.model == "fr3":
        q = AT_BOX[arm] if law.n_arms == 2 else OVER_TABLE
    offset = 0.2 if condition.surface else 0.5
    q = q + rng.uniform(-offset, offset, robot.n_joints)
    return np.clip(q, robot.limits.lower + 0.3, robot.limits.upper - 0.3)


class Rig:
    """Simulation of one episode.

    Args:
        law: Row of the map.
        condition: Column of the map.
        seed: Seed of the start configuration, 0 for the default configuration.

    Attributes:
        cell: Inline cell.
        speed: Simulated joint speeds per cycle, each (joints,) [rad/s].
        tau: Commanded torques per cycle, each (joints,) [Nm].
        force: Contact force per cycle [N].
        limits: Limits of the arms.
        phase: Name of the present phase, for reasons of verdicts.
        pull: Additional external force on each tool in the world frame, (arms, 3) [N].
        faults: Names of the faults so far.
        home: Measured states at the last ``mark``.
    """

    def __init__(self, law: Law, condition: Condition, seed: int) -> None:
        condition = fitted(condition, law.model)
        self.law, self.condition = law, condition
        if law.type not in registry.names("controllets"):
            find_textbook_laws()
        rng = np.random.default_rng(seed)
        arms: dict[str, Any] = {}
        for i, arm in enumerate(law.arms):
            q = start_configuration(arm, law, condition, rng)
            if seed == 0:
                q = start_configuration(arm, law, condition, _Midpoint())  # type: ignore[arg-type]
            arms[arm] = {
                "position": [0.0, (0.3, -0.3)[i] if law.n_arms == 2 else 0.0, 0.0],
                "q_start": q.tolist(),
                "model": law.model,
                "perturbation": dict(condition.perturbation),
                "noise": dict(condition.noise),
                "transmission": dict(condition.joints),
                "gripper": False,
                "tool": ROD,
            }
        if law.moves_by == "leader":  # These errors would move it, as it is guided by hand.
            heavier = () if MODELS[law.model].compensates_gravity else ("inertia_scale",)
            for key in ("payload", "torque_bias", *heavier):
                arms["left"]["perturbation"].pop(key, None)
        declared: dict[str, Any] = {"type": law.type, "params": law.settings}
        if law.n_arms == 2:
            declared["arms"] = list(law.arms)
        if law.type == "hold":
            controllets, active = {}, []
        else:
            controllets = {"law": declared}
            active = ["law"] if law.n_arms == 2 else ["arm/law"]
        self.cell = simple_cell(arms, controllets, active)
        self.cell.start()
        backend = self.cell.loop.backends[0]
        self.model, self.data = backend.model, backend.data
        self._bodies = [int(self.model.body(a.flange_frame).id) for a in backend.descriptions]
        self._states = backend.states
        self._dofs = np.concatenate([np.arange(d.start, d.stop) for d in backend.dofs])
        rotors = [
            self.model.joint(i) for i in range(self.model.njnt)
            if "rotor" in self.model.joint(i).name
        ]  # fmt: skip
        self._rotors = np.array([int(joint.dofadr[0]) for joint in rotors], dtype=int)
        self._reach = np.array(ROD["position"])
        self.speed: list[Vector] = []
        self.tau: list[Vector] = []
        self.force: list[float] = []
        self.pull = np.zeros((law.n_arms, 3))
        self.faults: list[str] = []
        self.phase = "start"
        self._surface: float | None = None
        self._depth = 0.0
        self.limits = limits = MODELS[law.model].limits
        self._rate = np.tile(limits.torque_rate * 1e-3, law.n_arms)
        self._maximum = np.tile(limits.torque, law.n_arms)

    def close(self) -> None:
        """Close the cell."""
        self.cell.close()

    def push(self, speeds: Vector) -> None:
        """Set the joint speeds of all arms in the simulation, (joints,) [rad/s]."""
        self.data.qvel[self._dofs] = speeds
        if len(self._rotors):
            self.data.qvel[self._rotors] = speeds

    def tips(self) -> Vector:
        """Return the tool tips of all arms in the world frame, (arms, 3) [m]."""
        mujoco.mj_kinematics(self.model, self.data)
        rotations = self.data.xmat[self._bodies].reshape(-1, 3, 3)
        return self.data.xpos[self._bodies] + rotations @ self._reach

    def place_surface(self, gap: float) -> None:
        """Place a surface below the last tool, or between both tools of a coupled controllet.

        Args:
            gap: Distance of tool and surface [m].
        """
        self._surface = self._distance() - gap

    def _distance(self) -> float:
        tips = self.tips()
        if self.law.presses_by == "squeeze":
            return float(np.linalg.norm(tips[0] - tips[1]))
        return float(tips[-1, 2])

    def mark(self) -> None:
        """Store the measured states, to which targets are relative."""
        self.home = [self.cell.state(arm) for arm in self.law.arms]
        if self.law.moves_by == "object":
            report = self.cell.report("law")
            self.object_at = np.array([report[f"object_{axis} [m]"] for axis in "xyz"])

    def send_target(self, arm: str, *args: Any, **targets: Any) -> None:
        """Send a target to an arm, and ignore a rejection by the gate of an oscillating arm."""
        with contextlib.suppress(TargetRejected):
            self.cell.set_target(arm, *args, **targets)

    def send_object_target(self, *args: Any, **targets: Any) -> None:
        """Send a target to the object of a coupled controllet, and ignore a rejection."""
        with contextlib.suppress(TargetRejected):
            self.cell.set_object_target("law", *args, **targets)

    def jacobian(self) -> Vector:
        """Return the Jacobian of the first tool in the world frame, (6, n)."""
        jacobian = np.zeros((6, self.model.nv))
        tip = self.tips()[0]
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_jac(self.model, self.data, jacobian[:3], jacobian[3:], tip, self._bodies[0])
        return jacobian[:, self._dofs[: self.limits.n_joints]]

    def step(self, cycles: int) -> None:
        """Run cycles and record speeds, torques, forces and faults."""
        for _ in range(cycles):
            self._act()
            self.cell.step(1)
            self.speed.append(self.data.qvel[self._dofs].copy())
            self.tau.append(np.concatenate([state.tau for state in self._states]))
        self.faults += [e.event.name.lower() for e in self.cell.events() if e.event >= FAULT]

    def limited(self, cycles: int) -> NDArray[np.bool_]:
        """Return flags of the last cycles with a torque or torque rate at its limit, (cycles,)."""
        tau = np.array(self.tau[-cycles - 1 :])
        at_limit = np.abs(tau) > 0.98 * self._maximum
        at_limit[1:] |= np.abs(np.diff(tau, axis=0)) > 0.98 * self._rate
        found: NDArray[np.bool_] = at_limit.any(axis=1)[-cycles:]
        return found

    def _act(self) -> None:
        """Apply the contact force and the external forces of this cycle."""
        force = 0.0
        if self._surface is not None or self.law.moves_by == "leader":
            forces = self.pull.copy()
            tips = self.tips()
            if self._surface is not None:
                k = self.condition.surface
                depth = max(0.0, self._surface - self._distance())
                rate = (depth - self._depth) * 1e3
                damping = 0.1 * np.sqrt(k * SURFACE_MASS)
                force = max(0.0, k * depth + damping * rate) if depth > 0.0 else 0.0
                self._depth = depth
                if self.law.presses_by == "squeeze":
                    normal = (tips[0] - tips[1]) / np.linalg.norm(tips[0] - tips[1])
                    forces[0] += force * normal
                    forces[1] -= force * normal
                else:
                    forces[-1, 2] += force
            mujoco.mj_comPos(self.model, self.data)
            for body, tip, applied in zip(self._bodies, tips, forces):
                lever = tip - self.data.xipos[body]
                self.data.xfrc_applied[body, :3] = applied
                self.data.xfrc_applied[body, 3:] = np.cross(lever, applied)
        self.force.append(force)


class _Midpoint:
    """Substitute for a random generator that returns the middle of the interval."""

    @staticmethod
    def uniform(low: float, high: float, size: int) -> Vector:
        return np.full(size, 0.5 * (low + high))
