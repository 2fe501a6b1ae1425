# SPDX-License-Identifier: Apache-2.0
"""The part of a report on numbers of arms and of cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from multipanda_py.bench.tables import missed, table, two

Figures = Mapping[str, Any]


def scaling_lines(scaling: Figures | None) -> Iterator[str]:
    """Return the lines of a report; none if nothing was measured."""
    if not scaling:
        return
    hot = scaling["hot"]
    yield table(
        ("arms", "laws, hot", "with CA-MA", "physics, hot", "control, paced", "whole cycle",
         "lateness", "> 300 us, missed", "loop, ROS process [cores]", "memory [MiB]"),
        (
            (n, two(hot.get(n), 1), two(hot.get(f"{n} CA-MA"), 1),
             two(hot.get(f"{n}: physics"), 1), *_paced(found))
            for n, found in scaling["arms"].items()
        ),
    )  # fmt: skip
    yield ""
    yield (
        "Medians / 99th percentiles [us]; each arm under a Cartesian impedance with all features "
        "of DC-CA-MA when paced, targets at 1 kHz per arm, memory with shared pages divided."
    )
    yield ""
    yield _end(scaling["end"])
    yield ""
    yield table(
        ("two arms each", "cell", "control, paced", "whole cycle", "lateness",
         "> 300 us, missed", "loop, ROS process [cores]", "memory [MiB]"),
        (
            (how, k + 1, *_paced(found))
            for how, cells in scaling["cells"].items()
            for k, found in enumerate(cells)
        ),
    )  # fmt: skip
    yield ""
    yield (
        "Cells share nothing but the machine and, on one domain, the discovery of each other's "
        "topics. Loops of two cells want a core each (`realtime: {cpu: ...}`); here both keep to "
        "the last core, as they do by default."
    )


def _paced(found: Figures) -> list[str]:
    cores = {"loop.process": 0.0, "ros.node": 0.0}
    memory = 0.0
    for one in found["processes"]:
        if one["name"] in cores:
            cores[one["name"]] += one["cores"]
            memory += one["proportional_mib"]
    return [
        two(found["control_us"]),
        two(found["cycle_us"]),
        two(found["lateness_us"]),
        f"{found['over_300_us']}, {missed(found)}"
        + (f"; {found['held']} held" if found["held"] else ""),
        ", ".join(f"{value:.2f}" for value in cores.values()),
        f"{memory:.0f}",
    ]


def _end(end: Figures) -> str:
    """Say where 1 kHz ends on this machine, and what helps."""
    return (
        f"**Where 1 kHz ends.** By a straight line through the first and the last row: the median "
        f"of a whole simulated cycle fills its millisecond at {end['cycle_median']:.0f} arms, its "
        f"99th percentile at {end['cycle_p99']:.0f}, and the ROS process its core at "
        f"{end['ros_process']:.0f} arms with a target each per millisecond. The loop is one "
        "thread: buy speed of a single core first, then a core for each loop, for the driver of "
        "each real arm and for the ROS process; beyond that, cells of a few arms each on machines "
        "of their own."
    )
