# SPDX-License-Identifier: Apache-2.0
"""Devices asked at a steady rate, each for its arms."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence

from multipanda_py.cell import Cell
from multipanda_py.exceptions import ConfigurationError, MultipandaError, UnknownName
from multipanda_py.teleoperation.checked_command import checked
from multipanda_py.teleoperation.clutch import Clutch
from multipanda_py.teleoperation.guided_arm import GuidedArm
from multipanda_py.teleoperation.source import FeelingSource, HandCommand, Source

RATES = (20.0, 100.0)
"""Allowed [Hz]: slower ones are felt, faster ones tell laws at 1 kHz nothing new."""
MOST_WAIT = 0.25
"""A source that takes longer to answer counts as lost for that time [s]."""
_AT_REST = HandCommand()


class Teleoperator:
    """Move arms of a cell by devices; each arm follows one device at most.

    Args:
        cell: A started cell, whose active laws take poses.
        sources: The devices. They are closed by their owner.
        rate: Of targets [Hz].
        scale: Metres of the tool per metre of the device.
        turn_scale: Likewise of turns.
        say: Takes a sentence for the user.
        clock: Returns the time [s].
        laws: Names of those that are switched on again, once all clutches are open and no arm has
            a fault, after they were lost: the loop has arms hold when this program stood still.
            For who has the cell alone; none where somebody else may have stopped it.

    Attributes:
        arms: Arms by name, with their clutches.

    Raises:
        ConfigurationError: If the rate or a scale is not allowed, no source has an arm, or two
            have the same.
        UnknownName: If a source has an arm that the cell does not have.

    Thread: one.
    """

    def __init__(
        self,
        cell: Cell,
        sources: Sequence[Source],
        rate: float = 50.0,
        scale: float = 1.0,
        turn_scale: float = 1.0,
        say: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        laws: Sequence[str] = (),
    ) -> None:
        if not RATES[0] <= rate <= RATES[1]:
            raise ConfigurationError(
                f"rate: got {rate:g}, allowed [{RATES[0]:g}, {RATES[1]:g}] Hz"
            )
        for name, value in (("scale", scale), ("turn_scale", turn_scale)):
            if not 0.0 < value <= 10.0:
                raise ConfigurationError(f"{name}: got {value:g}, allowed (0, 10]")
        arms = [arm for source in sources for arm in source.arms]
        if not arms:
            raise ConfigurationError("sources: got none that has an arm, allowed one or more")
        for arm in arms:
            if arm not in cell.arms:
                raise UnknownName("arm", arm, cell.arms)
            if arms.count(arm) > 1:
                raise ConfigurationError(f"{arm}: got two sources, allowed one")
        self._cell, self._sources, self._say, self._clock = cell, tuple(sources), say, clock
        self._period, self._given = 1.0 / rate, dict[str, float]()
        self._laws, self._why_lost = tuple(laws), ""
        self.arms = {arm: GuidedArm(cell, arm, Clutch(scale, turn_scale), say) for arm in arms}

    def tick(self) -> None:
        """Ask every source once, and give their arms targets."""
        is_open = True
        for source in self._sources:
            began = self._clock()
            problem, commands = "", dict[str, HandCommand]()
            try:
                commands = checked(source.read(), source.arms)
            except Exception as error:  # whoever wrote the source: arms are not to move by it
                problem = f"{source.name}: {str(error) or type(error).__name__}"
            if (took := self._clock() - began) > MOST_WAIT:
                problem = problem or f"{source.name}: took {took:.2f} s to answer"
            if problem:
                commands = {arm: HandCommand(problem=problem) for arm in source.arms}
            is_open = is_open and not any(one.is_engaged for one in commands.values())
            self._give(source, commands, began)
        if is_open and not set(self._cell.active).issuperset(self._laws):
            self._take_laws_again()

    def _take_laws_again(self) -> None:
        """Switch laws on again that were lost: clutches are open, so arms stay as they are."""
        if any(self._cell.state(arm).fault for arm in self._cell.arms):
            return
        try:
            self._cell.switch(self._laws, strictness="auto")
        except MultipandaError as error:
            if str(error) != self._why_lost:
                self._say(str(error))
            self._why_lost = str(error)
        else:
            self._say(f"{', '.join(self._laws)} had lost arms, and has them again")
            self._why_lost = ""

    def run(self, duration: float = math.inf) -> None:
        """Tick at the rate for a time [s]; a cell that is stepped by hand is stepped as well.

        Raises:
            LoopError: If the cell's loop has ended.
        """
        is_inline = self._cell.config.cell.placement == "inline"
        cycles = max(1, round(self._period * self._cell.config.cell.rate))
        begin = due = self._clock()
        while due < begin + duration:
            self._cell.check()
            self.tick()
            if is_inline:
                self._cell.step(cycles)
            # Late ticks are left out, so that a pause is not followed by many at once.
            due = max(due + self._period, self._clock())
            time.sleep(max(0.0, due - self._clock()))

    def _give(self, source: Source, commands: Mapping[str, HandCommand], now: float) -> None:
        for arm in source.arms:
            guided = self.arms[arm]
            passed = max(self._period, now - self._given.get(arm, now))
            self._given[arm] = now
            guided.take(commands.get(arm, _AT_REST), self._period, passed)
            if isinstance(source, FeelingSource):
                try:
                    source.feel(arm, guided.touch(self._period))
                except Exception as error:  # as of read
                    guided.hold(f"{source.name}: {str(error) or type(error).__name__}")
