# SPDX-License-Identifier: Apache-2.0
"""What there was to be seen while a program was late, of a cell whose loop runs by itself."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from multipanda_py.cell.cell import Cell
from multipanda_py.cell.history import RecordedMoment
from multipanda_py.cell.simulation import SimulationState
from multipanda_py.exceptions import MultipandaError
from multipanda_py.learning.gym.control import Control
from multipanda_py.learning.gym.ownership import StoppedArms
from multipanda_py.learning.gym.spaces import HandControl, Observation, Observer
from multipanda_py.learning.gym.task import GymTask
from multipanda_py.learning.gym.task_scene import TaskScene
from multipanda_py.simulation.rendering import Image
from multipanda_py.state import Vector

CAUGHT_UP = 0.1
"""How late steps may be and still come one after the other until they are in time again [s]."""
STEP_TIMEOUT = 2.0
"""How long a step waits for its instant while the cell's clock stands still [s]."""
SHORTEST = 2e-4
"""Sleep before a look at the cell's clock [s]."""
REMEMBERED = 3.5
"""How far back instants that were left out are named, of the four that a loop keeps [s]."""


class StepClock:
    """Let the time of steps pass on a cell's clock.

    Args:
        rate: Steps a second [Hz].
        cycle_rate: Of the cell's loop [Hz].

    Attributes:
        period: Between steps [s].
        due: The instant of the newest step, by the cell's clock [s].
        left_out: Instants before it at which nobody acted, as this program was late.

    Thread: the environment's.
    """

    def __init__(self, rate: float, cycle_rate: float) -> None:
        self._rate, self._cycle_rate, self.due = rate, cycle_rate, 0.0
        self.period = 1.0 / rate
        self.left_out: tuple[float, ...] = ()

    def begin(self, cell: Cell) -> None:
        """Count from now on."""
        self.due, self.left_out = cell.time, ()

    def run(self, cell: Cell, step: int) -> None:
        """Run the cycles of a step, by its number; of 30 Hz they are 33, 33 and 34."""
        begin, end = (round(k * self._cycle_rate / self._rate) for k in (step, step + 1))
        cell.step(end - begin)

    def wait(self, cell: Cell) -> None:
        """Wait for the instant of the next step of a cell whose loop runs by itself.

        Up to :data:`CAUGHT_UP` of lateness are made up for; beyond, whole periods are left out.
        """
        period, now = self.period, cell.time
        due, count = self.due + period, 0
        if (late := now - due - max(period, CAUGHT_UP)) > 0.0:
            count = math.ceil(late / period)
        missed = (due + k * period for k in range(count))
        self.left_out = tuple(instant for instant in missed if instant > now - REMEMBERED)
        due += count * period
        self.due = min(due, now + period)  # the clock stands still while a loop is paused
        patience = time.monotonic() + STEP_TIMEOUT
        while (left := self.due - cell.time) > 0.0 and time.monotonic() < patience:
            time.sleep(max(left, SHORTEST))


AT_REST = 0.01
"""Speed of joints below which arms begin to go home [rad/s, m/s]."""
REST_TIMEOUT = 10.0
"""For that [s]."""


class StartPose:
    """Have arms go to where they start, with open hands, and take the environment's laws there.

    Args:
        cell: That is started.
        laws: Names of the controllets, by arm.
        hands: Arms that have one.
        stopped: Of the same arms.

    Thread: the environment's.
    """

    def __init__(
        self, cell: Cell, laws: Mapping[str, str], hands: Iterable[str], stopped: StoppedArms
    ) -> None:
        self._cell, self._laws = cell, dict(laws)
        self._hands, self._stopped = tuple(hands), stopped

    def go(self, recovers: bool) -> None:
        """Do so; say why, if an arm has stopped before or then.

        Args:
            recovers: Whether arms that have stopped are brought back first.

        Raises:
            MotionFailed: If an arm has stopped.
            MultipandaError: If they cannot go there.
        """
        if recovers:
            self._stopped.recover()
        self._stopped.refuse()
        try:
            self._go()
        except MultipandaError:  # by what came of it
            self._stopped.refuse()
            raise

    def _go(self) -> None:
        cell = self._cell
        for arm in self._hands:
            cell.gripper(arm).move(cell.gripper(arm).state().max_width)
        cell.hold()
        cell.wait(self._rests, REST_TIMEOUT, "arms at rest")
        cell.switch(
            [f"{arm}/joint_trajectory_controller" for arm in self._laws], strictness="force_auto"
        )
        cell.move_to({arm: np.array(cell.config.arms[arm].q_start) for arm in self._laws})
        cell.switch([*self._laws.values()], strictness="force_auto")

    def _rests(self) -> bool:
        return all(np.abs(self._cell.state(arm).dq).max() < AT_REST for arm in self._laws)


@dataclass(frozen=True)
class EpisodeState:
    """What :meth:`.CellEnv.save` returns; for its own environment, and its own start of the cell.

    Attributes:
        simulation: Of the world and the loop.
        steps: Since the episode's beginning.
        goal: Of the task.
        task: What the task keeps to itself.
        random: Of the generator that the next episodes are drawn from.
        controls: What targets of arms are, by arm.
        hands: Which hands are told to be open.
    """

    simulation: SimulationState
    steps: int
    goal: Vector
    task: Mapping[str, Any]
    random: Mapping[str, Any]
    controls: Mapping[str, Mapping[str, Any]]
    hands: Mapping[str, bool]


def saved(
    simulation: SimulationState,
    steps: int,
    goal: Vector,
    task: GymTask,
    random: np.random.Generator,
    controls: Mapping[str, Control],
    hands: Mapping[str, HandControl],
) -> EpisodeState:
    """Return copies of all that an episode goes on from."""
    return EpisodeState(
        simulation, steps, goal.copy(), deepcopy(vars(task)),
        deepcopy(dict(random.bit_generator.state)),
        {name: _targets(control) for name, control in controls.items()},
        {name: hand.is_open for name, hand in hands.items()},
    )  # fmt: skip


def put_back(
    state: EpisodeState,
    task: GymTask,
    random: np.random.Generator,
    controls: Mapping[str, Control],
) -> None:
    """Have task, random numbers and targets go on from a state."""
    vars(task).clear()
    vars(task).update(deepcopy(dict(state.task)))
    random.bit_generator.state = deepcopy(dict(state.random))
    for name, control in controls.items():
        vars(control).update(deepcopy(dict(state.controls[name])))


def _targets(control: Control) -> dict[str, Any]:
    """Return what of a control changes from step to step."""
    fixed = ("arm", "period", "low", "high")
    return deepcopy({key: value for key, value in vars(control).items() if key not in fixed})


class Past:
    """Look back at instants at which nobody acted.

    What was seen is had at once; pictures can be drawn later, when there is time.

    Args:
        scene: Of the environment.
        observer: Of what is seen.
        clock: Of its steps.
        keeps: Whether the cell keeps what was: not in lockstep, and not of one that runs
            elsewhere.

    Thread: the environment's.
    """

    def __init__(
        self, scene: TaskScene, observer: Observer, clock: StepClock, keeps: bool
    ) -> None:
        self._scene, self._observer, self._clock, self._keeps = scene, observer, clock, keeps

    @property
    def slack(self) -> float:
        """How long it is until the next step is due; negative if it is late [s]."""
        return self._clock.due + self._clock.period - self._scene.cell.time

    def left_out(self) -> list[RecordedMoment]:
        """Return the moments before the last step's at which nobody acted."""
        instants = self._clock.left_out if self._keeps else ()
        return [self._scene.cell.at(instant) for instant in instants]

    def seen(self, moment: RecordedMoment) -> tuple[Observation, dict[str, Any]]:
        """Return what was seen at a moment, without pictures of cameras; and its ``time``.

        Targets, hands and topics are as they are now.
        """
        with self._looking_at(moment):
            seen = self._observer.see(self._scene, draws=False)
            info = {"time": moment.time}
            if "images" in seen or self._observer.sizes:
                info["picture_time"] = self._observer.oldest_picture(moment.time)
            return seen, info

    def drawn(self, moment: RecordedMoment) -> dict[str, Image]:
        """Return pictures of all cameras of a moment."""
        with self._looking_at(moment):
            return self._observer.draw(self._scene)

    @contextmanager
    def _looking_at(self, moment: RecordedMoment) -> Iterator[None]:
        before = self._scene.seen
        self._scene.show(moment)
        try:
            yield
        finally:
            if isinstance(before, RecordedMoment):  # for whoever looks next
                self._scene.show(before)
