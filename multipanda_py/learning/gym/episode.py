# SPDX-License-Identifier: Apache-2.0
"""Episodes of an environment: timing of steps, start, ownership, arm faults and saved states."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from multipanda_py.cell.cell import Cell
from multipanda_py.cell.simulation import SimulationState
from multipanda_py.cell.state_reader import HistorySnapshot
from multipanda_py.exceptions import (
    ActionRejected,
    LoopError,
    LoopTimeout,
    MotionFailed,
    MultipandaError,
    RecoveryFailed,
)
from multipanda_py.learning.gym.control import Control
from multipanda_py.learning.gym.spaces import GripperControl, Observation, Observer
from multipanda_py.learning.gym.task import ACTION_TIMEOUT, GymTask
from multipanda_py.learning.gym.task_scene import TaskScene
from multipanda_py.realtime.events import LoopEvent
from multipanda_py.simulation.rendering import Image
from multipanda_py.state import Vector


class OwnershipCheck:
    """Check that the environment's controllets still own their arms and receive targets in time.

    Args:
        cell: Running cell in this process. A remote cell performs these checks itself.
        controllets: Names of the controllets by arm.
        is_lockstep: True if the cell time advances only in steps.

    Thread: that of the environment.
    """

    def __init__(self, cell: Cell, controllets: Mapping[str, str], is_lockstep: bool) -> None:
        self._cell, self._controllets, self._is_lockstep = cell, dict(controllets), is_lockstep
        self._last_target_time = math.inf

    def reset(self) -> None:
        """Forget the time of the last targets, at the start of an episode."""
        self._last_target_time = math.inf

    def mark_sent(self) -> None:
        """Store the present time as that of the last targets."""
        self._last_target_time = time.monotonic()

    def ownership_fault(self) -> str:
        """Return a message if another controllet owns an arm that has no fault, else ""."""
        for name, controllet in self._controllets.items():
            state = self._cell.state(name)
            if not state.fault and state.owner != controllet:
                return (
                    f"{state.owner} controls {name}, which was stopped or received no targets "
                    "for too long"
                )
        return ""

    def refuse(self) -> None:
        """Raise an exception if another controllet owns an arm, or targets were not sent in time.

        Raises:
            ActionRejected: If another controllet owns an arm.
            LoopError: If the last targets are older than :data:`ACTION_TIMEOUT`.
        """
        # The arm may have been moved meanwhile, so its next target could be far away from it.
        if taken := self.ownership_fault():
            raise ActionRejected(f"step: {taken}. Call reset() first.")
        age = time.monotonic() - self._last_target_time
        if not self._is_lockstep and age > ACTION_TIMEOUT:
            raise LoopError(
                f"step: no action for {age:.2f} s, allowed {ACTION_TIMEOUT:g} s. The arms hold. "
                "Call reset() to start a new episode."
            )


RECOVER_OPTION = "recover"
"""Option of ``reset`` that recovers stopped arms."""


class ArmFaults:
    """Faults of an environment's arms: messages about them, and recovery.

    Args:
        cell: Running cell.
        arms: Names of the arms of the environment.

    Thread: that of the environment.
    """

    def __init__(self, cell: Cell, arms: Iterable[str]) -> None:
        self._cell, self._arms = cell, tuple(arms)

    def reasons(self) -> str:
        """Return the faults as text, with the names of their arms; empty without faults."""
        faults = self._faults()
        if not faults:
            return ""
        events_by_arm = self._latest_fault_events()
        words = {arm: f"{arm}: {fault}" for arm, fault in faults.items()}
        return ", ".join(
            f"{words[arm]} ({events_by_arm[arm].text})" if arm in events_by_arm else words[arm]
            for arm in faults
        )

    def refuse(self) -> None:
        """Raise an exception if an arm has a fault, which a person must inspect first.

        Raises:
            MotionFailed: If an arm has a fault. The message explains how to recover it.
        """
        if reasons := self.reasons():
            raise MotionFailed(
                f"reset: {reasons}. Once the arms may move, call "
                f"reset(options={{{RECOVER_OPTION!r}: True}})."
            )

    def recover(self) -> None:
        """Try to recover all stopped arms. Arms that cannot recover keep their fault.

        Raises:
            LoopError: If the loop has ended.
        """
        with contextlib.suppress(LoopTimeout, RecoveryFailed):
            self._cell.recover(self._arms)

    def _faults(self) -> dict[str, str]:
        faults = {arm: self._cell.state(arm).fault for arm in self._arms}
        return {arm: fault for arm, fault in faults.items() if fault}

    def _latest_fault_events(self) -> dict[str, LoopEvent]:
        _, events = self._cell.events_since(0)
        return {event.arm: event for event in events if event.event.is_fault}


MAX_CAUGHT_UP_DELAY = 0.1
"""Delay up to which no step is skipped [s]. The following steps wait less instead."""
STEP_TIMEOUT = 2.0
"""Maximum time that a step waits while the time of the cell does not advance [s]."""
MIN_SLEEP = 2e-4
"""Minimum sleep between two checks of the cell time [s]."""
MAX_STEP_AGE = 3.5
"""Maximum age of missed steps that are reported [s]. The loop stores records of 4 s."""


class StepClock:
    """Timing of the steps of an environment, based on the time of its cell.

    Args:
        rate: Steps per second [Hz].
        cycle_rate: Rate of the control loop [Hz].

    Attributes:
        period: Duration of a step [s].
        deadline: Cell time at which the latest step ends [s].
        left_out: Cell times at which the steps skipped by the last :meth:`wait` would have ended
            [s].

    Thread: that of the environment.
    """

    def __init__(self, rate: float, cycle_rate: float) -> None:
        self._rate, self._cycle_rate, self.deadline = rate, cycle_rate, 0.0
        self.period = 1.0 / rate
        self.left_out: tuple[float, ...] = ()

    def reset(self, cell: Cell) -> None:
        """Set the deadline to the present cell time at the start of an episode."""
        self.deadline, self.left_out = cell.time, ()

    def run(self, cell: Cell, step: int) -> None:
        """Run the control cycles of step number ``step`` of the episode, counted from 0."""
        # At 30 steps and 1000 cycles per second, steps have 33, 33 and 34 cycles.
        start, end = (round(k * self._cycle_rate / self._rate) for k in (step, step + 1))
        cell.step(end - start)

    def wait(self, cell: Cell) -> None:
        """Wait in real time until the present step ends, and set ``deadline`` and ``left_out``.

        After a delay of more than :data:`MAX_CAUGHT_UP_DELAY`, steps are skipped.
        """
        # After a shorter delay, the program catches up by shorter waits.
        period, now = self.period, cell.time
        deadline, count = self.deadline + period, 0
        if (late := now - deadline - max(period, MAX_CAUGHT_UP_DELAY)) > 0.0:
            count = math.ceil(late / period)
        missed = (deadline + k * period for k in range(count))
        self.left_out = tuple(instant for instant in missed if instant > now - MAX_STEP_AGE)
        deadline += count * period
        # While a loop is paused, the cell time stands still. After the pause, the program must not
        # wait longer than one period.
        self.deadline = min(deadline, now + period)
        timeout = time.monotonic() + STEP_TIMEOUT
        while (left := self.deadline - cell.time) > 0.0 and time.monotonic() < timeout:
            time.sleep(max(left, MIN_SLEEP))


REST_SPEED = 0.01
"""Joint speed below which arms may move to their start configuration [rad/s, m/s]."""
REST_TIMEOUT = 10.0
"""Maximum time in which arms have to come to rest before they move to the start [s]."""


class HomeMotion:
    """Motion of the arms of a real-time cell to their start configuration, with open grippers.

    Args:
        cell: Running cell.
        controllets: Names of the controllets by arm.
        hands: Names of the arms with a gripper.
        stopped: Faults and recovery of the arms.

    Thread: that of the environment.
    """

    def __init__(
        self, cell: Cell, controllets: Mapping[str, str], hands: Iterable[str], stopped: ArmFaults
    ) -> None:
        self._cell, self._controllets = cell, dict(controllets)
        self._hands, self._stopped = tuple(hands), stopped

    def go(self, recovers: bool) -> None:
        """Move the arms to their start configuration and activate the controllets.

        Args:
            recovers: True to first recover stopped arms, False to raise an exception.

        Raises:
            MotionFailed: If an arm has stopped on a fault, before or during the motion.
            MultipandaError: If the motion fails for another reason.
        """
        if recovers:
            self._stopped.recover()
        self._stopped.refuse()
        try:
            self._go()
        except MultipandaError:  # Report the fault of a stopped arm as the cause.
            self._stopped.refuse()
            raise

    def _go(self) -> None:
        cell = self._cell
        for arm in self._hands:
            cell.gripper(arm).move(cell.gripper(arm).state().max_width)
        cell.hold()
        cell.wait(self._rests, REST_TIMEOUT, "arms at rest")
        cell.switch(
            [f"{arm}/joint_trajectory_controller" for arm in self._controllets],
            strictness="force_auto",
        )
        cell.move_to({arm: np.array(cell.config.arms[arm].q_start) for arm in self._controllets})
        cell.switch([*self._controllets.values()], strictness="force_auto")

    def _rests(self) -> bool:
        return all(
            np.abs(self._cell.state(arm).dq).max() < REST_SPEED for arm in self._controllets
        )


@dataclass(frozen=True)
class EpisodeState:
    """State of an episode saved by :meth:`.CellEnv.save`, valid until its cell is restarted.

    Attributes:
        simulation: State of simulation and loop.
        steps: Steps since the start of the episode.
        goal: Goal of the task.
        task: Attributes of the task object.
        random: State of the random generator.
        controls: Targets and other variables of the control of each arm, by arm.
        hands: Last gripper commands by arm: True to open, False to close.
    """

    simulation: SimulationState
    steps: int
    goal: Vector
    task: Mapping[str, Any]
    random: Mapping[str, Any]
    controls: Mapping[str, Mapping[str, Any]]
    hands: Mapping[str, bool]


def copy_episode(
    simulation: SimulationState,
    steps: int,
    goal: Vector,
    task: GymTask,
    random: np.random.Generator,
    controls: Mapping[str, Control],
    hands: Mapping[str, GripperControl],
) -> EpisodeState:
    """Return a copy of the state of an episode, which later steps do not change."""
    return EpisodeState(
        simulation, steps, goal.copy(), deepcopy(vars(task)),
        deepcopy(dict(random.bit_generator.state)),
        {name: _targets(control) for name, control in controls.items()},
        {name: hand.is_open for name, hand in hands.items()},
    )  # fmt: skip


def restore_state(
    state: EpisodeState,
    task: GymTask,
    random: np.random.Generator,
    controls: Mapping[str, Control],
) -> None:
    """Set the attributes of task, random generator and controls to those of a saved state."""
    vars(task).clear()
    vars(task).update(deepcopy(dict(state.task)))
    random.bit_generator.state = deepcopy(dict(state.random))
    for name, control in controls.items():
        vars(control).update(deepcopy(dict(state.controls[name])))


def _targets(control: Control) -> dict[str, Any]:
    fixed = ("arm", "period", "low", "high")
    return deepcopy({key: value for key, value in vars(control).items() if key not in fixed})


class MissedSteps:
    """Access to the states at missed steps, for which the program called ``step`` too late.

    Args:
        scene: Scene of the environment.
        observer: Observer of the environment.
        clock: Timing of the steps.
        keeps: True if the cell stores past states, False in lockstep and for remote cells.

    Thread: that of the environment.
    """

    def __init__(
        self, scene: TaskScene, observer: Observer, clock: StepClock, keeps: bool
    ) -> None:
        self._scene, self._observer, self._clock, self._keeps = scene, observer, clock, keeps

    @property
    def slack(self) -> float:
        """Time left until the end of the next step [s], negative after that end."""
        return self._clock.deadline + self._clock.period - self._scene.cell.time

    def left_out(self) -> list[HistorySnapshot]:
        """Return the states at the steps missed before the latest step; empty without any."""
        instants = self._clock.left_out if self._keeps else ()
        return [self._scene.cell.snapshot_at(instant) for instant in instants]

    def observation(self, moment: HistorySnapshot) -> tuple[Observation, dict[str, Any]]:
        """Return observation and info of a missed step, without camera images.

        Targets, gripper commands and topics have their present values.
        """
        with self._scene_showing(moment):
            obs = self._observer.see(self._scene, with_images=False)
            info = {"time": moment.time}
            if "images" in obs or self._observer.sizes:
                info["image_time"] = self._observer.oldest_image_time(moment.time)
            return obs, info

    def drawn(self, moment: HistorySnapshot) -> dict[str, Image]:
        """Render the images of all cameras for a recorded state, by name of the camera."""
        with self._scene_showing(moment):
            return self._observer.draw(self._scene)

    @contextmanager
    def _scene_showing(self, moment: HistorySnapshot) -> Iterator[None]:
        before = self._scene.observed_state
        self._scene.show(moment)
        try:
            yield
        finally:
            # The next observation needs the state that the scene has shown before.
            if isinstance(before, HistorySnapshot):
                self._scene.show(before)
