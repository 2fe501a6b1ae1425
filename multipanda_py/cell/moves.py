# SPDX-License-Identifier: Apache-2.0
"""Move arms of a running cell to places without touching anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from multipanda_py.cell.begun_moves import BegunMoves
from multipanda_py.cell.holding import Holding
from multipanda_py.cell.move_finder import MoveFinder
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.places import Place
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.cell.target_writer import TargetWriter
from multipanda_py.exceptions import PlanRejected
from multipanda_py.moves.move_plan import MovePlan


class Moves:
    """Find motions and have arms make them.

    Args:
        names: Of the cell's arms.
        reader: Of its states.
        targets: Where trajectories go.
        holding: What hands hold.
        parameters: Function that returns the present parameters of a controllet.
    """

    def __init__(
        self,
        names: CellNames,
        reader: StateReader,
        targets: TargetWriter,
        holding: Holding,
        parameters: Callable[[str], Mapping[str, Any]],
    ) -> None:
        self._finder = MoveFinder(names, reader, holding, parameters)
        self._begun, self._lock = BegunMoves(names, reader, targets), targets.motions.lock

    def plan(
        self,
        goals: Mapping[str, Place],
        *,
        via: Sequence[Mapping[str, Place]] = (),
        frame: str = "",
        **options: Any,
    ) -> MovePlan:
        """Find a motion; nothing moves. See :meth:`.Cell.plan`."""
        return self._finder.plan(goals, via, frame, options, self._begun.refuse_under_way)

    def begin(self, plan: MovePlan) -> float:
        """Have all arms of a plan that move begin together; see :meth:`.Cell.begin_move`.

        Returns:
            Time of the controlled world at which the motion ends [s].
        """
        if not isinstance(plan, MovePlan):
            raise PlanRejected(f"plan: got {plan!r:.40}, allowed what plan() returns")
        with self._lock:  # of two that are begun at once one is too late
            self._begun.refuse_under_way()
            self._finder.check(plan)
            return self._begun.begin(plan)

    def has_ended(self, plan: MovePlan) -> bool:
        """Return whether all arms of a plan have come to its goal; see :meth:`.Cell.has_ended`."""
        return self._begun.has_ended(plan)
