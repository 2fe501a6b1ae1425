# SPDX-License-Identifier: Apache-2.0
"""In how many steps a world goes through a cycle for the springs of its compliant arms."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import BackendError
from multipanda_py.registry import extras_named
from multipanda_py.simulation.actuators.arm import CompliantArm
from multipanda_py.simulation.actuators.joints import Saved
from multipanda_py.simulation.actuators.link_torque import LinkTorque
from multipanda_py.simulation.sliding_contact import correct_friction
from multipanda_py.state import Matrix, Vector

with extras_named():
    import mujoco


_NUMBER = re.compile(r"[-+]?\d[\d.]*(e[-+]?\d+)?")


@dataclass(frozen=True, eq=False)
class SavedSprings:
    """The state of all springs and motors, and of what drives them."""

    joints: Saved
    drive: tuple[Vector, Matrix, Matrix]
    kicks: Vector | None
    push: Vector


class CompliantWorld:
    r"""Move MuJoCo and the springs of all arms on together.

    Springs and motors may be much faster than a step of MuJoCo, and take smaller ones of their
    own: see :class:`.CompliantJoints`. MuJoCo's motors exert the mean of the springs' torque, and
    afterwards the links get the difference between where springs have brought them and where
    MuJoCo has, unless contacts or friction hold them.

    Args:
        model: MuJoCo's model.
        data: Its data.
        arms: The arms with springs.
        drive: Of their joints, all together, arm by arm.

    Attributes:
        joints: Springs and motors of all arms.
        dofs: Places of these joints among all velocities, (n,).
        drive: Torque control of these joints through their springs.

    Thread: control.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        arms: Sequence[CompliantArm],
        drive: LinkTorque,
    ) -> None:
        self._model, self._data, self._arms = model, data, tuple(arms)
        self.drive, self.joints = drive, drive.joints
        self.dofs: NDArray[np.int64] = np.concatenate([arm.dofs for arm in arms])
        self._positions = np.concatenate([arm.positions for arm in arms])
        self._motors = np.concatenate([arm.motors for arm in arms])
        self._unit = np.zeros((len(self.dofs), model.nv))
        self._unit[np.arange(len(self.dofs)), self.dofs] = 1.0
        self._rows = np.zeros_like(self._unit)
        self._qpos, self._qvel, self._ctrl = data.qpos, data.qvel, data.ctrl
        self._smooth = data.qacc_smooth
        self._damping: Vector = np.array(model.dof_damping)[self.dofs]
        self._kicks: Vector | None = None
        self._push = np.zeros(len(self.dofs))
        self._said = set[str]()
        self._most = np.concatenate([arm.bears for arm in arms])
        self._bounds = np.zeros((2, len(self.dofs)))
        owners = [(number, joint) for number, arm in enumerate(arms) for joint in arm.elastic]
        self._owner = [number for number, _ in owners]
        self._own = [slice(self._owner.index(k), self._owner.index(k) + len(arm.elastic))
                     for k, arm in enumerate(arms)]  # fmt: skip

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms."""
        return tuple(arm.name for arm in self._arms)

    def places(self, arm: str) -> list[int]:
        """Return the numbers of an arm's joints among :attr:`joints`."""
        owners = [one.name for one in self._arms for _ in one.dofs]
        return [place for place, owner in enumerate(owners) if owner == arm]

    def start(self) -> None:
        """Put all motors where springs carry the arms as they stand, at rest.

        Raises:
            BackendError: If springs cannot, or motors not within their stops.
        """
        q, wanted = self._qpos[self._positions], self._wanted()
        exerted = self.drive.reachable(q, wanted)
        names = [(arm.name, name) for arm in self._arms for name in arm.joint_names]
        for joint in np.flatnonzero(np.abs(exerted - wanted) > 1e-6 * (1.0 + np.abs(wanted))):
            arm, name = names[joint]
            raise BackendError(
                f"arms.{arm}.actuators: {name}: got {abs(wanted[joint]):.4g} Nm, which carry it "
                f"at q_start, allowed what its springs and motors can exert, "
                f"{abs(exerted[joint]):.4g} Nm"
            )
        for at, (theta, low, high) in self.drive.beyond_stops(q, wanted).items():
            arm, name = names[at]
            raise BackendError(
                f"arms.{arm}.actuators: {name}: got a motor that has to stand at {theta:.4g} to "
                f"carry it at q_start, allowed within its stops, {low:.4g} to {high:.4g}"
            )
        self.drive.start(q, wanted)
        self._ctrl[self._motors] = wanted
        self.joints.look()
        self.show()

    def stiffest(self) -> Vector:
        """Return the stiffness that springs have at the joints' largest torques, (n,) [Nm/rad]."""
        most = np.concatenate([arm.most for arm in self._arms])
        return self.drive.stiffness(self._qpos[self._positions], most)

    def compliance(self) -> Matrix:
        """Return what of the inverse mass matrix is these joints', (n, n) [1/(kg m^2)]."""
        mujoco.mj_solveM(self._model, self._data, self._rows, self._unit)
        found: Matrix = self._rows[:, self.dofs]
        return found

    def command(self) -> None:
        """Have motors bring about what the arms want of their springs now, or what is asked."""
        asked = np.concatenate([a.actuators.command[:, a.elastic] for a in self._arms], axis=1)
        q, dq = self._qpos[self._positions], self._qvel[self.dofs]
        carried = np.concatenate([arm.actuators.carried[arm.elastic] for arm in self._arms])
        np.subtract(carried, self._most, out=self._bounds[0])
        np.add(carried, self._most, out=self._bounds[1])
        self.drive.command(q, dq, self._wanted(), asked[:3], self._bounds)
        push = asked[3]
        if push.tobytes() != self._push.tobytes():  # others push, too
            self._data.qfrc_applied[self.dofs] += push - self._push
            self._push = push.copy()

    def refusals(self) -> list[tuple[str, str]]:
        """Return arms whose joints could not do what was asked since the last call, and why."""
        refused = self.drive.asked.refused
        found = [(self._arms[self._owner[joint]].name, why) for joint, why in refused.items()]
        refused.clear()
        return found

    def news(self) -> list[str]:
        """Return what is to be said once; mostly nothing.

        That is what steps cannot hold exactly, each kind of it once, whatever modes come and go;
        and commands beyond a stop.
        """
        joints, stopped, found = self.joints, self.drive.asked.stopped, list[str]()
        kind = _NUMBER.sub("", joints.complaint)
        if kind and kind not in self._said:
            self._said.add(kind)
            found.append(f"arms on springs ({', '.join(self.arms)}): {joints.complaint}")
        names = [name for arm in self._arms for name in arm.joint_names]
        for joint in [] if self.drive.kept is None else self.drive.kept.news():
            found.append(
                f"actuators of {self._arms[self._owner[joint]].name}: {names[joint]}: motors are "
                f"kept back: got commands that take more than allowed, {self._most[joint]:g} Nm, "
                "less the faster the link is"
            )
        for (joint, motor), (told, low, high) in stopped.items():
            unit = joints.springs.preset_units[joint] if motor else "rad"
            found.append(
                f"actuators of {self._arms[self._owner[joint]].name}: {names[joint]}: motor "
                f"{motor + 1}: got {told:.4g}, which its stop bounds, allowed {low:g} to {high:g} "
                f"{unit}"
            )
        stopped.clear()
        return found

    def show(self) -> None:
        """Write what motors and springs do to the arms' states."""
        found, modes = self.joints.as_stepped(), self.joints.mode_numbers
        for arm, own in zip(self._arms, self._own):
            to, at = arm.actuators, arm.elastic
            to.mode[at] = modes[own]
            to.reference[:, at], to.position[:, at] = found[:2, own], found[2:4, own]
            to.velocity[:, at], to.torque[:, at] = found[4:6, own], found[6:8, own]
            to.load[:, at] = found[8:, own]

    def step(self, steps: int) -> None:
        """Move on by some steps of MuJoCo, with controls of rigid joints as they are.

        Raises:
            BackendError: If springs push with what is not finite.
        """
        model, data, dofs = self._model, self._data, self.dofs
        duration = float(model.opt.timestep)
        for _ in range(steps):
            mujoco.mj_step1(model, data)
            if data.ncon:
                correct_friction(model, data)
            self._ctrl[self._motors] = 0.0
            mujoco.mj_fwdActuation(model, data)
            mujoco.mj_fwdAcceleration(model, data)
            rest, compliance, dq = self._smooth[dofs], self.compliance(), self._qvel[dofs]
            # The other half of the last step's kick, which the joints' own damping is no part of.
            kicks = rest + np.dot(compliance, self._damping * dq)
            if self._kicks is not None:
                dq += 0.5 * duration * self.joints.inner * (kicks - self._kicks)
                self._qvel[dofs] = dq
            self._kicks = kicks
            q = self._qpos[self._positions]
            push = self.joints.advance(q, dq, rest, compliance, duration, self._damping)
            self._ctrl[self._motors] = push.torque
            if self.drive.asked.leads:
                self._look_for_overload(push.torque)
            mujoco.mj_step2(model, data)
            self._qpos[self._positions] += push.shift_for(self._qvel[dofs])

    def _look_for_overload(self, torque: Vector) -> None:
        """Refuse to go on where springs do what they are told and links do not bear it."""
        low, high = self._bounds
        asked = self.drive.asked
        beyond = asked.led & ~((low <= torque) & (torque <= high))
        for joint in np.flatnonzero(beyond).tolist():
            asked.refused.setdefault(joint, (
                f"springs exert {torque[joint]:.4g} Nm on a link, allowed {low[joint]:.4g} to "
                f"{high[joint]:.4g} Nm"
            ))  # fmt: skip

    def save(self) -> SavedSprings:
        """Return copies of all that changes."""
        kicks = None if self._kicks is None else self._kicks.copy()
        return SavedSprings(self.joints.save(), self.drive.save(), kicks, self._push.copy())

    def load(self, saved: SavedSprings) -> None:
        """Go back to what :meth:`save` has returned."""
        self.joints.restore(saved.joints)
        self.drive.restore(saved.drive)
        self._push = saved.push.copy()
        self._kicks = None if saved.kicks is None else saved.kicks.copy()

    def _wanted(self) -> Vector:
        return np.concatenate([arm.wanted for arm in self._arms])


STEP_SHARE = 1.0
"""Of the inverse of the fastest spring's angular frequency: what a step of the world may last, as
its steps and impulses of springs fall in with each other near half a period."""
MOST_STEPS = 8
"""Per cycle."""


def spring_steps(world: CompliantWorld, period: float) -> tuple[int, list[str]]:
    r"""Return the number of steps, and what they cannot hold, in a sentence for each arm.

    With the inverse C of the links' inertia where they are, and the stiffness :math:`\sigma` that
    springs have at the joints' largest torques, :math:`\omega^2` is at most the largest sum of a
    row of :math:`|C| \sigma`.

    Args:
        world: The arms, at their start, with the mass matrix computed.
        period: Of a cycle [s].
    """
    fastest = np.sqrt(np.dot(np.abs(world.compliance()), world.stiffest()))
    steps, found = 1, []
    for arm in world.arms:
        omega = float(fastest[world.places(arm)].max())
        wanted = math.ceil(period * omega / STEP_SHARE)
        steps = max(steps, min(wanted, MOST_STEPS))
        if wanted > MOST_STEPS:
            found.append(
                f"arms.{arm}.actuators: springs vibrate at up to {omega / math.tau:.0f} Hz, "
                f"more than {MOST_STEPS} steps of the world per cycle hold exactly, "
                f"{MOST_STEPS * STEP_SHARE / (math.tau * period):.0f} Hz; softer springs, a lower "
                "preset or more output_inertia would be"
            )
    return steps, found
