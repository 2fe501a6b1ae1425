# SPDX-License-Identifier: Apache-2.0
"""What happens while a task is done, and the measures that say how well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from multipanda_py.config.describe import bases_in_world
from multipanda_py.state import Matrix, Vector
from multipanda_py.tasks.law_handle import look
from multipanda_py.tasks.runner import TaskRunner
from multipanda_py.tasks.seen import TOOL

FORCED = 0.05
"""Force that counts as asked for [N]."""


@dataclass
class Moment:
    """Where everything is at a time.

    Attributes:
        time: Of the cell [s].
        number: Of the subtask.
        q: Joint positions by arm, (n,) [rad].
        places: Of tools (``ARM/tool``) and things in the world by name, (3,) [m].
        planned: Of things that are carried along a path, where they are to be, (3,) [m].
        force: With which hands press, estimated from the joints, by arm [N].
        asked: With which they are to, by arm [N].
    """

    time: float
    number: int
    q: dict[str, Vector]
    places: dict[str, Vector]
    planned: dict[str, Vector]
    force: dict[str, float]
    asked: dict[str, float]


@dataclass(frozen=True)
class Measures:
    """How well a subtask was done.

    Attributes:
        name: Of the subtask.
        mode: Of the law.
        duration: From its start to the next one's [s].
        replans: Plans after the first.
        force_rmse: Of hands that had pressed once, over the motion, all arms together [N].
        force_peak: Largest of them [N].
        asked: Force that was asked for [N].
        off_rmse: Of things that are carried from where their plans have them [m].
        off_most: The largest of that [m].
    """

    name: str
    mode: str
    duration: float
    replans: int
    force_rmse: float = float("nan")
    force_peak: float = float("nan")
    asked: float = float("nan")
    off_rmse: float = float("nan")
    off_most: float = float("nan")


@dataclass
class TaskBook:
    """Note a task as it is done: call :meth:`note` between its steps, as ``tick`` of ``run``.

    Args:
        runner: Of the task.

    Attributes:
        moments: In their order.

    Thread: the one that steps the runner.
    """

    runner: TaskRunner
    moments: list[Moment] = field(default_factory=list)

    def __post_init__(self) -> None:
        cell = self.runner.cell
        self._bases = bases_in_world(cell.config)
        self._arms = cell.spec(self.runner.task.law).config.arms
        self._points = [
            self.runner.task.points(subtask, cell.config) for subtask in self.runner.task.subtasks
        ]

    def note(self) -> None:
        """Note where everything is now."""
        runner, cell = self.runner, self.runner.cell
        seen, number = look(cell, self._arms), runner.number
        force, asked = {}, {}
        subtask = runner.task.subtasks[number]
        if runner.presses:
            for point in self._points[number]:
                felt = cell.state(point.arm).wrench_ext_in_base[:3]
                inward = seen.pose(point.thing).rotation @ point.inward
                force[point.arm] = -float(inward @ (self._bases[point.arm].rotation @ felt))
                asked[point.arm] = subtask.force
        planned = {}
        if runner.plan is not None:
            after = cell.time - runner.moved_at
            planned = {
                name: runner.plan.expected(name, after).position for name in runner.plan.things
            }
        places = {arm + TOOL: pose.position for arm, pose in seen.tools.items()}
        places |= {name: pose.position for name, pose in seen.things.items()}
        q = {arm: posture.copy() for arm, posture in seen.postures.items()}
        self.moments.append(Moment(cell.time, number, q, places, planned, force, asked))

    def series(self, name: str) -> tuple[Vector, Matrix]:
        """Return times (k,) [s] and places (k, 3) [m] of a tool or a thing, where it was there."""
        found = [(one.time, one.places[name]) for one in self.moments if name in one.places]
        return np.array([t for t, _ in found]), np.array([p for _, p in found]).reshape(-1, 3)

    def measures(self) -> Iterator[Measures]:
        """Yield those of every subtask that was begun."""
        events = self.runner.events
        starts = [k for k, event in enumerate(events) if event.what == "started" and event.subtask]
        for first, last in zip(starts, [*starts[1:], len(events) - 1]):
            start, after = events[first], events[last]
            own = [one for one in self.moments if start.time < one.time <= after.time]
            yield Measures(
                start.subtask,
                start.text.removeprefix("mode "),
                after.time - start.time,
                [event.what for event in events[first:last]].count("replanned"),
                *_of_forces(own),
                *_of_places(own),
            )


def _of_forces(moments: Sequence[Moment]) -> tuple[float, float, float]:
    """Return RMSE, peak and what was asked for, from when all hands first pressed."""
    pressed = [one for one in moments if one.asked]
    asked = max((size for one in pressed for size in one.asked.values()), default=0.0)
    first = next(
        (k for k, one in enumerate(pressed) if min(one.force.values()) > 0.9 * asked), None
    )
    if asked < FORCED or first is None:
        return (float("nan"),) * 3
    felt = np.array([size for one in pressed[first:] for size in one.force.values()])
    return float(np.sqrt(np.square(felt - asked).mean())), float(felt.max()), asked


def _of_places(moments: Sequence[Moment]) -> tuple[float, float]:
    """Return RMSE and largest distance of things from their plans."""
    off = np.array([
        np.linalg.norm(one.places[name] - place)
        for one in moments for name, place in one.planned.items() if name in one.places
    ])  # fmt: skip
    if not off.size:
        return float("nan"), float("nan")
    return float(np.sqrt(np.square(off).mean())), float(off.max())
