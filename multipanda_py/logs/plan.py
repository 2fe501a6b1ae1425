# SPDX-License-Identifier: Apache-2.0
"""What a recorder is told about a cell, in numbers and names that fit into JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from multipanda_py.loop.row_place import RowPlace

CELL_FILE = "cell.json"
"""Attachment of every log: the cell as it ran."""


@dataclass(frozen=True)
class ArmPlan:
    """One arm.

    Attributes:
        name: In the cell.
        joints: Names of its joints, with the prefix of the arm.
        base: Name of its base frame.
    """

    name: str
    joints: tuple[str, ...]
    base: str


@dataclass(frozen=True)
class CellPlan:
    """A cell, as much of it as a recorder needs; see :class:`.RowPlace`.

    Attributes:
        name: Of the cell.
        rate: Cycles per second.
        place: Of its rows.
        arms: In their order.
        laws: Names of its controllets, by index.
        attachments: Texts that go with every file, by file name: the cell, robot descriptions.
        about: What every file says of itself.
    """

    name: str
    rate: float
    place: RowPlace
    arms: tuple[ArmPlan, ...]
    laws: tuple[str, ...]
    attachments: dict[str, str] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return it in one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> CellPlan:
        """Return what :meth:`to_json` has written."""
        data: dict[str, Any] = json.loads(text)
        place = data.pop("place")
        arms = tuple(
            ArmPlan(arm["name"], tuple(arm["joints"]), arm["base"]) for arm in data.pop("arms")
        )
        laws = tuple(data.pop("laws"))
        sizes = tuple(place.pop("sizes"))
        return cls(place=RowPlace(**place, sizes=sizes), arms=arms, laws=laws, **data)
