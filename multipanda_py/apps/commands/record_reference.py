# SPDX-License-Identifier: Apache-2.0
"""Record of a cycle in Markdown, ``python -m multipanda_py.apps.commands.record_reference``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from multipanda_py.realtime.cycle_record import ARM_FIELDS, ROW_FIELDS, TRACED_CHANNELS, Field
from multipanda_py.realtime.record_ring import ROWS

_HEAD = f"""<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Written by `make docs` from realtime/cycle_record.py: edit that, not this file. -->
# The record of a cycle

Every cycle of the loop leaves one row; the last {ROWS} are kept in shared memory. `cell.row()` and
`cell.rows(since)` return copies as numpy's structured arrays. `cell.follow_rows()` returns a
follower, which gives every row once, in order, and counts in `dropped` what it came too late for.
Another process of the same user makes one from the cell file and `cell.rows_path`:

```python
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.realtime.running_cell import RowFollower

follower = RowFollower(CellConfig.from_yaml("config/dual_sim.yaml"), path)  # path: rows_path
rows = follower.wait(1.0)
q = rows["arms"]["q"]  # (rows, arms, joints)
```

A slot has room for the arm with most joints; other arms fill its beginning, the rest is zero.
Of a joint that slides read m for rad and N for Nm."""


def markdown() -> str:
    """Return the page."""
    channels = ", ".join(f"{k}: `{name}`" for k, name in enumerate(TRACED_CHANNELS))
    return "\n".join(
        [
            _HEAD,
            "\n## A row\n",
            *_table(ROW_FIELDS),
            "\n## `arms`: the record of each arm\n",
            *_table(ARM_FIELDS),
            f"\nBits of `target_channels`: {channels}. References are what the law gets after its",
            "features have shaped them, or where it is on a motion that it plans itself; those",
            "that the law does not follow are zero. Terms are recorded after",
            "`cell.trace_torques()`; `follower.terms(row, arm)` names them.",
            "",
            "What is `sprung` has as many numbers as joints if an arm of the cell has compliant",
            "actuators, else none; `cell.actuators(arm, row)` reads it. There is no slot for what",
            "else only some arms have, such as the angles of motors behind elastic joints. Every",
            "field of an arm is one line of `ARM_FIELDS` in `realtime/cycle_record.py`:",
            "one more at its end, with the shape `joints`, gives each arm a slot in rows, ring",
            "and followers, and a view of it in `ArmState` lets a backend fill it. It is zero",
            "elsewhere. All processes of a cell have to run the same version.",
            "",
        ]
    )


def _table(fields: Sequence[Field]) -> Iterator[str]:
    yield "| field | shape | type | unit | meaning |"
    yield "|---|---|---|---|---|"
    for field in fields:
        shape = " x ".join(map(str, field.shape)) or "1"
        kind = "record" if field.kind == "arm" else field.kind
        yield f"| `{field.name}` | {shape} | {kind} | {field.unit} | {field.doc} |"


if __name__ == "__main__":
    sys.stdout.write(markdown())
