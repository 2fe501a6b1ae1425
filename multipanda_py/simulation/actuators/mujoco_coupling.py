# SPDX-License-Identifier: Apache-2.0
"""Coupling of MuJoCo with the springs of compliant arms; number of MuJoCo steps per cycle."""

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
from multipanda_py.simulation.mujoco_friction import correct_friction
from multipanda_py.state import Matrix, Vector

with extras_named():
    import mujoco


_NUMBER = re.compile(r"[-+]?\d[\d.]*(e[-+]?\d+)?")


@dataclass(frozen=True, eq=False)
class SavedSprings:
    """Saved state of all springs and motors, and of their torque control."""

    joints: Saved
    drive: tuple[Vector, Matrix, Matrix]
    kicks: Vector | None
    push: Vector


class CompliantWorld:
    """Coupled simulation of MuJoCo and the springs of all compliant arms.

    Springs and motors take substeps of a MuJoCo step: see :class:`.CompliantJoints`. MuJoCo's
    motors exert the mean spring torque.

    Args:
        model: MuJoCo model of the scene.
        data: MuJoCo data of the scene.
        arms: Compliant arms.
        drive: Torque control of their joints, in the order of ``arms``.

    Attributes:
        joints: Springs and motors of all arms, n joints.
        dofs: Indices of these joints in ``qvel``, (n,).
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
        self._reported = set[str]()
        self._max_torque = np.concatenate([arm.link_torque_limit for arm in arms])
        self._bounds = np.zeros((2, len(self.dofs)))
        owners = [(number, joint) for number, arm in enumerate(arms) for joint in arm.elastic]
        self._owner = [number for number, _ in owners]
        self._joint_slices = [slice(self._owner.index(k), self._owner.index(k) + len(arm.elastic))
                     for k, arm in enumerate(arms)]  # fmt: skip

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the compliant arms."""
        return tuple(arm.name for arm in self._arms)

    def joint_indices(self, arm: str) -> list[int]:
        """Return the indices of an arm's compliant joints in :attr:`joints`."""
        owners = [one.name for one in self._arms for _ in one.dofs]
        return [index for index, owner in enumerate(owners) if owner == arm]

    def start(self) -> None:
        """Set all motors to rest at the positions at which springs carry the weight of the arms.

        Raises:
            BackendError: If springs or motors cannot carry the weight.
        """
        q, desired = self._qpos[self._positions], self._desired_torques()
        exerted = self.drive.limited_torque(q, desired)
        names = [(arm.name, name) for arm in self._arms for name in arm.joint_names]
        for joint in np.flatnonzero(np.abs(exerted - desired) > 1e-6 * (1.0 + np.abs(desired))):
            arm, name = names[joint]
            raise BackendError(
                f"arms.{arm}.actuators: {name}: needs {abs(desired[joint]):.4g} Nm at q_start to "
                f"carry the weight, but springs and motors exert up to "
                f"{abs(exerted[joint]):.4g} Nm. Use stronger ones"
            )
        for at, (theta, low, high) in self.drive.beyond_stops(q, desired).items():
            arm, name = names[at]
            raise BackendError(
                f"arms.{arm}.actuators: {name}: a motor needs the position {theta:.4g} to carry "
                f"the weight at q_start, but its stops are {low:.4g} and {high:.4g}. Widen them"
            )
        self.drive.start(q, desired)
        self._ctrl[self._motors] = desired
        self.joints.evaluate()
        self.write_state()

    def max_stiffness(self) -> Vector:
        """Return the maximum spring stiffness at zero and maximum link torque, (n,) [Nm/rad]."""
        max_torque = np.concatenate([arm.torque_limit for arm in self._arms])
        return self.drive.stiffness(self._qpos[self._positions], max_torque)

    def compliance(self) -> Matrix:
        """Return the inverse mass matrix of all compliant joints, (n, n) [1/(kg m^2)]."""
        mujoco.mj_solveM(self._model, self._data, self._rows, self._unit)
        compliance: Matrix = self._rows[:, self.dofs]
        return compliance

    def command(self) -> None:
        """Send desired torques and actuator commands to the motors; apply external torques."""
        command = np.concatenate([a.actuators.command[:, a.elastic] for a in self._arms], axis=1)
        q, dq = self._qpos[self._positions], self._qvel[self.dofs]
        carried = np.concatenate([arm.actuators.carried[arm.elastic] for arm in self._arms])
        np.subtract(carried, self._max_torque, out=self._bounds[0])
        np.add(carried, self._max_torque, out=self._bounds[1])
        self.drive.command(q, dq, self._desired_torques(), command[:3], self._bounds)
        push = command[3]  # External joint torques, (n,) [Nm].
        # ``qfrc_applied`` may contain forces of other sources, so only the change is added.
        if push.tobytes() != self._push.tobytes():
            self._data.qfrc_applied[self.dofs] += push - self._push
            self._push = push.copy()

    def rejected_commands(self) -> list[tuple[str, str]]:
        """Return name of the arm and reason for each command rejected since the last call."""
        refused = self.drive.command_dispatcher.rejections
        refusals = [
            (self._arms[self._owner[joint]].name, reason) for joint, reason in refused.items()
        ]
        refused.clear()
        return refusals

    def new_notices(self) -> list[str]:
        """Return new messages for the user: inaccuracy, limited motors, commands beyond stops."""
        joints, stopped, notices = (
            self.joints,
            self.drive.command_dispatcher.newly_beyond_stops,
            list[str](),
        )
        # Accuracy messages that differ only in their numbers are returned once.
        kind = _NUMBER.sub("", joints.accuracy_warning)
        if kind and kind not in self._reported:
            self._reported.add(kind)
            notices.append(f"compliant arms ({', '.join(self.arms)}): {joints.accuracy_warning}")
        names = [name for arm in self._arms for name in arm.joint_names]
        for joint in [] if self.drive.limiter is None else self.drive.limiter.newly_limited():
            notices.append(
                f"actuators of {self._arms[self._owner[joint]].name}: {names[joint]}: motors are "
                f"limited, because the command needs more than {self._max_torque[joint]:g} Nm; "
                "the limit falls with the speed of the link"
            )
        for (joint, motor), (position, low, high) in stopped.items():
            unit = joints.springs.preset_units[joint] if motor else "rad"
            notices.append(
                f"actuators of {self._arms[self._owner[joint]].name}: {names[joint]}: motor "
                f"{motor + 1}: got position {position:.4g} beyond its stop, allowed {low:g} to "
                f"{high:g} {unit}"
            )
        stopped.clear()
        return notices

    def write_state(self) -> None:
        """Write modes and measurements of motors and springs to the states of all arms."""
        result, modes = self.joints.last_step(), self.joints.mode_numbers
        for arm, own in zip(self._arms, self._joint_slices):
            to, at = arm.actuators, arm.elastic
            to.mode[at] = modes[own]
            to.reference[:, at], to.position[:, at] = result[:2, own], result[2:4, own]
            to.velocity[:, at], to.torque[:, at] = result[4:6, own], result[6:8, own]
            to.load[:, at] = result[8:, own]

    def step(self, steps: int) -> None:
        """Advance MuJoCo and all springs by a number of MuJoCo steps.

        Raises:
            BackendError: If spring torques are not finite.
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
            # ``kicks`` are the accelerations by everything but springs and joint damping. The last
            # step should have used their mean at its start and end, but those at the end are known
            # only now. This corrects the velocity. See ``CompliantJoints``.
            kicks = rest + np.dot(compliance, self._damping * dq)
            if self._kicks is not None:
                dq += 0.5 * duration * self.joints.is_substepped * (kicks - self._kicks)
                self._qvel[dofs] = dq
            self._kicks = kicks
            q = self._qpos[self._positions]
            push = self.joints.advance(q, dq, rest, compliance, duration, self._damping)
            self._ctrl[self._motors] = push.torque
            if self.drive.command_dispatcher.any_commanded:
                self._reject_overloads(push.torque)
            mujoco.mj_step2(model, data)
            self._qpos[self._positions] += push.position_correction(self._qvel[dofs])

    def _reject_overloads(self, torque: Vector) -> None:
        low, high = self._bounds
        requested = self.drive.command_dispatcher
        beyond = requested.actuator_commanded & ~((low <= torque) & (torque <= high))
        for joint in np.flatnonzero(beyond).tolist():
            requested.rejections.setdefault(joint, (
                f"springs exert {torque[joint]:.4g} Nm on a link, allowed {low[joint]:.4g} to "
                f"{high[joint]:.4g} Nm"
            ))  # fmt: skip

    def save(self) -> SavedSprings:
        """Return a copy of the state for :meth:`load`."""
        kicks = None if self._kicks is None else self._kicks.copy()
        return SavedSprings(self.joints.save(), self.drive.save(), kicks, self._push.copy())

    def load(self, saved: SavedSprings) -> None:
        """Restore a state from :meth:`save`."""
        self.joints.restore(saved.joints)
        self.drive.restore(saved.drive)
        self._push = saved.push.copy()
        self._kicks = None if saved.kicks is None else saved.kicks.copy()

    def _desired_torques(self) -> Vector:
        return np.concatenate([arm.desired_torque for arm in self._arms])


STEP_FRACTION = 1.0
"""Maximum step of MuJoCo relative to the inverse angular frequency of the fastest spring. Spring
impulses would resonate with steps of about half of the spring's period."""
MAX_STEPS = 8
"""Maximum number of MuJoCo steps per cycle."""


def spring_steps(world: CompliantWorld, period: float) -> tuple[int, list[str]]:
    r"""Return the number of MuJoCo steps per cycle, and a warning per arm with too stiff springs.

    A step lasts at most :data:`STEP_FRACTION` divided by the angular frequency of the springs. The
    square of this frequency is at most the largest element of :math:`|C| \sigma`. Here C is the
    inverse mass matrix, and :math:`\sigma` is from :meth:`CompliantWorld.max_stiffness`.

    Args:
        world: Compliant arms at their start, with the mass matrix computed.
        period: Cycle time [s].
    """
    fastest = np.sqrt(np.dot(np.abs(world.compliance()), world.max_stiffness()))
    steps, warnings = 1, list[str]()
    for arm in world.arms:
        omega = float(fastest[world.joint_indices(arm)].max())
        desired = math.ceil(period * omega / STEP_FRACTION)
        steps = max(steps, min(desired, MAX_STEPS))
        if desired > MAX_STEPS:
            warnings.append(
                f"arms.{arm}.actuators: springs vibrate at up to {omega / math.tau:.0f} Hz, but "
                f"{MAX_STEPS} steps per cycle are accurate only up to "
                f"{MAX_STEPS * STEP_FRACTION / (math.tau * period):.0f} Hz. Use softer springs, a "
                "lower preset or more output_inertia"
            )
    return steps, warnings
