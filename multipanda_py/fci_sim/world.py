# SPDX-License-Identifier: Apache-2.0
"""The MuJoCo world that simulated robots share: their arms, and what stands around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import BackendError
from multipanda_py.extras import extras_named
from multipanda_py.machine.mujoco_warnings import diverged, listen, was_reset
from multipanda_py.robots import MODELS, READY_POSTURE, ArmDescription, SceneObject, Tool
from multipanda_py.robots.fci_limits import LOWER, UPPER
from multipanda_py.simulation.drive import Drive
from multipanda_py.simulation.mjcf import build_scene
from multipanda_py.simulation.mjcf_elements import put
from multipanda_py.simulation.sliding_contact import correct_friction

with extras_named():
    import mujoco

Vector = NDArray[np.float64]

PERIOD = 1e-3
"""Of the control loop and of the physics [s]."""
DEEP = 2e-3
"""What is so far inside something is in its way [m]."""
STOP_MARGIN = 0.05
"""The mechanical stops lie this far behind the limits that the robot guards [rad]."""
_FIRST_CONTACT = int(mujoco.mjtConstraint.mjCNSTR_CONTACT_FRICTIONLESS)


@dataclass(frozen=True, eq=False)
class WorldArm:
    """An arm of the world.

    Attributes:
        described: As its robot believes it to be; a hand is a tool here.
        real: As it is.
        q_start: Where it is at first, (7,) [rad].
        add: Puts further bodies on it before the world is compiled.
        drive: Returns what is imperfect about it, for a model, its data and the arm's first
            velocity there; None for an arm as it is described.
    """

    described: ArmDescription
    real: ArmDescription
    q_start: Vector
    add: Callable[[mujoco.MjSpec], None] | None = None
    drive: Callable[[mujoco.MjModel, mujoco.MjData, int], Drive] | None = None


def lone_arm() -> WorldArm:
    """Return an FR3 with its hand that is as it is described."""
    hand = MODELS["fr3"].hand
    tool = None
    if hand is not None:
        load = hand.load
        tool = Tool(load.mass, load.com, load.inertia, hand.pose_tcp_in_flange)
    arm = ArmDescription("robot", "fr3", hand=False, tool=tool)
    return WorldArm(arm, arm, READY_POSTURE)


class RobotWorld:
    """Let the arms of several robots, each with a clock of its own, move in one world.

    It moves on by a period when every arm has said its torque, or when one comes for the second
    time: an arm whose robot is off, or late, stops no other.

    Args:
        arms: All arms.
        things: What stands and lies around them.
        tidy: Whether movable things are put back when a robot begins to move and no other one
            does, as somebody would between two runs.

    Attributes:
        arms: As given.
        model: MuJoCo's model.
        data: Its state.
        drives: What is imperfect about each arm, or None.
        rests: Whether nothing in it moves while a single arm rests.

    Raises:
        ConfigurationError: If names repeat.
    """

    def __init__(
        self, arms: Sequence[WorldArm], things: Sequence[SceneObject] = (), *, tidy: bool = False
    ) -> None:
        listen()
        self._tidy, self._moving = tidy, 0
        self.arms = tuple(arms)
        spec = build_scene([arm.real for arm in arms], things, timestep=PERIOD)
        for arm in arms:
            flange = next(body for body in spec.bodies if body.name == arm.real.flange_frame)
            load = put(flange.add_body(), name=f"{arm.real.prefix}load", gravcomp=1.0)
            put(load, explicitinertial=True)
            if arm.add is not None:
                arm.add(spec)
        self.model = model = spec.compile()
        self.data = mujoco.MjData(model)
        for arm in arms:
            joints = [int(model.joint(name).id) for name in arm.real.joint_names]
            model.jnt_range[joints] = np.column_stack((LOWER - STOP_MARGIN, UPPER + STOP_MARGIN))
        self.drives = [
            arm.drive
            and arm.drive(model, self.data, int(model.joint(arm.real.joint_names[0]).dofadr[0]))
            for arm in arms
        ]
        free = np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
        self._movable = [
            (slice(int(model.jnt_qposadr[j]), int(model.jnt_qposadr[j]) + 7),
             slice(int(model.jnt_dofadr[j]), int(model.jnt_dofadr[j]) + 6))
            for j in free
        ]  # fmt: skip
        self.rests = len(arms) == 1 and not len(free) and arms[0].drive is None
        self._sense: list[Callable[[Vector], None] | None] = [None] * len(arms)
        self._contact = np.zeros(model.nv)
        self._said = 0

    def join(self, place: int, sense: Callable[[Vector], None]) -> bool:
        """Have what is measured on an arm refreshed whenever the world has moved on.

        Args:
            place: Index of the arm.
            sense: Function that takes the generalized contact forces of the world, (nv,), and
                refreshes the measurements.

        Returns:
            Whether the arm is new to the world: a robot that was switched off and on is not.
        """
        is_new = self._sense[place] is None
        self._sense[place] = sense
        return is_new

    def go_on(self, place: int) -> None:
        """Take note that an arm has said its torque, and move on if it is time.

        Raises:
            BackendError: If the simulation has diverged.
        """
        mine = 1 << place
        again = bool(self._said & mine)
        self._said |= mine
        if again or self._said == (1 << len(self.arms)) - 1:
            self._said = mine if again else 0
            self._step()

    def begins(self, place: int) -> None:
        """Take note that a robot begins a motion."""
        if self._tidy and not self._moving:
            self.put_back()
        self._moving |= 1 << place

    def ends(self, place: int) -> None:
        """Take note that a robot does not move any more."""
        self._moving &= ~(1 << place)

    def put_back(self) -> bool:
        """Put everything that can be moved back to where it was at first, at rest.

        Returns:
            Whether that was possible: nothing was in the way.
        """
        before = self.data.qpos.copy(), self.data.qvel.copy()
        for positions, velocities in self._movable:
            self.data.qpos[positions] = self.model.qpos0[positions]
            self.data.qvel[velocities] = 0.0
        mujoco.mj_step1(self.model, self.data)
        if any(contact.dist < -DEEP for contact in self.data.contact):
            self.data.qpos[:], self.data.qvel[:] = before
            mujoco.mj_step1(self.model, self.data)
            return False
        return True

    def places(self) -> dict[str, list[float]]:
        """Return where everything is that can be moved, by name, (3,) [m]."""
        model, data = self.model, self.data
        free = np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
        bodies = [int(model.jnt_bodyid[j]) for j in free]
        return {model.body(body).name: data.xpos[body].tolist() for body in bodies}

    def _step(self) -> None:
        model, data = self.model, self.data
        before = data.time
        if data.ncon:
            correct_friction(model, data)
        mujoco.mj_step2(model, data)
        if was_reset(data, before):
            raise BackendError(diverged("the simulated arm diverged"))
        contact = self._contact
        contact[:] = 0.0
        if data.ncon and data.nefc:
            force = np.where(data.efc_type >= _FIRST_CONTACT, data.efc_force, 0.0)
            mujoco.mj_mulJacTVec(model, data, contact, force)
        for sense in self._sense:
            if sense is not None:
                sense(contact)
        mujoco.mj_step1(model, data)
