# SPDX-License-Identifier: Apache-2.0
"""What there was to be seen while a program was late, of a cell whose loop runs by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from multipanda_py.cell.moment import RecordedMoment
from multipanda_py.gym.observation import Observation, Observer
from multipanda_py.gym.step_clock import StepClock
from multipanda_py.gym.task_scene import TaskScene
from multipanda_py.view.rendering import Image


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
