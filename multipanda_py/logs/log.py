# SPDX-License-Identifier: Apache-2.0
"""A log as a whole: its arms, what happened, and what it says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from multipanda_py.exceptions import LogError
from multipanda_py.extras import needed
from multipanda_py.logs.arm_log import ArmLog, joined

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Mark:
    """Something that happened at one instant.

    Attributes:
        time: Robot time [s].
        arm: Whom it concerns; empty for the cell.
        kind: ``fault``, ``recovered``, ``law`` (which has the arm from then on) or ``event``, a
            report of the loop.
        text: What, in words.
    """

    time: float
    arm: str
    kind: str
    text: str


@dataclass(frozen=True, eq=False)
class Log:
    """Arms that were recorded together, or one after the other in one experiment.

    Attributes:
        arms: By name.
        source: Files that it was read from.
        about: What the log says of itself: versions, when, how many rows were dropped.
        cell: The cell file as JSON, where it was recorded by a cell; empty elsewhere.
        marks: What happened, by robot time; of several logs those of the first only.
    """

    arms: Mapping[str, ArmLog]
    source: tuple[Path, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)
    cell: str = ""
    marks: tuple[Mark, ...] = ()

    def the_arm(self, name: str | None = None) -> ArmLog:
        """Return an arm by name, or the only one there is.

        Raises:
            LogError: If there is none of this name, or there are several and none is named.
        """
        if name is None and len(self.arms) == 1:
            return next(iter(self.arms.values()))
        if name is None or name not in self.arms:
            what = "no arm was named" if name is None else f"no arm {name!r}"
            raise LogError(f"{self.where}: {what}; there are {', '.join(self.arms)}")
        return self.arms[name]

    @property
    def where(self) -> str:
        """Where it was read from, for messages."""
        return ", ".join(map(str, self.source)) or "log"

    def to_pandas(self) -> pd.DataFrame:
        """Return one table of all arms one behind the other; the column ``arm`` tells them apart.

        See :meth:`.ArmLog.to_pandas` for the others.
        """
        tables = []
        for name, log in self.arms.items():
            table = log.to_pandas()
            table.insert(0, "arm", name)
            tables.append(table)
        return needed("pandas").concat(tables, ignore_index=True)


def joined_logs(logs: Sequence[Log]) -> Log:
    """Return several logs of one experiment as one data set, in the order given.

    Raises:
        LogError: If an arm is another robot in one of them.
    """
    if len(logs) == 1:
        return logs[0]
    names = dict.fromkeys(name for log in logs for name in log.arms)
    arms = {name: joined([log.arms[name] for log in logs if name in log.arms]) for name in names}
    torn = next(({"torn": log.about["torn"]} for log in logs if "torn" in log.about), {})
    return Log(
        arms,
        tuple(path for log in logs for path in log.source),
        {**logs[0].about, **torn},
        logs[0].cell,
        logs[0].marks,
    )
