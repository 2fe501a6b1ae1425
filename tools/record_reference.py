# SPDX-License-Identifier: Apache-2.0
"""Print the reference page of the cycle record as Markdown.

Run it with ``python tools/record_reference.py``; ``make docs`` does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from multipanda_py.realtime.cycle_record import (
    ARM_FIELDS,
    CAPACITY,
    RECORD_FIELDS,
    TRACED_CHANNELS,
    Field,
)

_HEAD = f"""<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Written by `make docs` from realtime/cycle_record.py: edit that, not this file. -->
# The record of a cycle

The control loop writes one record per cycle. The last {CAPACITY} records are kept in shared
memory. `cell.latest_record()` and `cell.records(since)` return copies as structured numpy arrays.
`cell.follow_records()` returns a follower, which yields every record once and in order. If it
reads too late, it counts the missed records in `dropped`.
Another process of the same user creates one from the cell file and `cell.records_path`:

```python
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.realtime.running_cell import RecordFollower

follower = RecordFollower(CellConfig.from_yaml("config/dual_sim.yaml"), path)  # path: records_path
records = follower.wait(1.0)
q = records["arms"]["q"]  # (records, arms, joints)
```

Joint arrays have as many elements as the arm with most joints. An arm with fewer joints fills the
first elements, and the others are zero.
For prismatic joints, read m for rad and N for Nm."""


def markdown() -> str:
    channels = ", ".join(f"{k}: `{name}`" for k, name in enumerate(TRACED_CHANNELS))
    return "\n".join(
        [
            _HEAD,
            "\n## A record\n",
            *_table(RECORD_FIELDS),
            "\n## `arms`: the record of each arm\n",
            *_table(ARM_FIELDS),
            f"\nBits of `target_channels`: {channels}. A reference is the target after the",
            "features have shaped it, or the current point of a motion that the controllet plans.",
            "References that the controllet does not follow are zero. Terms are recorded after",
            "`cell.trace_torques()`; `follower.terms(record, arm)` names them.",
            "",
            "Fields with the shape `sprung` have one number per joint if an arm of the cell has",
            "compliant actuators, and none otherwise; `cell.actuators(arm, record)` reads them.",
            "Other quantities that only some arms have, such as motor angles of elastic joints,",
            "have no field. Each field of an arm is one line of `ARM_FIELDS` in",
            "`realtime/cycle_record.py`. A new line at its end, with the shape `joints`, adds an",
            "array to all records. A backend fills it through a view in `ArmState`; otherwise it",
            "stays zero. All processes of a cell must run the same version.",
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
