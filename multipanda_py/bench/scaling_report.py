# SPDX-License-Identifier: Apache-2.0
"""The part of a report on numbers of arms and of cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from multipanda_py.bench.processes import cores_of
from multipanda_py.bench.tables import missed, not_measured, table, two

Figures = Mapping[str, Any]


def scaling_lines(scaling: Figures | None, picture: str = "") -> Iterator[str]:
    """Return the lines of a report; none if nothing was measured."""
    if not scaling:
        return
    if picture:
        yield f"![time of a cycle, physics, processor time and memory over arms]({picture})\n"
    hot = scaling["hot"]
    yield table(
        ("arms", "laws, hot", "with CA-MA", "physics, hot", "control, paced", "whole cycle",
         "lateness", "> 300 us, missed", "loop, ROS process [cores]", "memory [MiB]",
         "targets [1/s]"),
        (
            (n, two(hot.get(n), 1), two(hot.get(f"{n} CA-MA"), 1),
             two(hot.get(f"{n}: physics"), 1), *_paced(found))
            for n, found in scaling["arms"].items()
        ),
    )  # fmt: skip
    yield ""
    yield (
        "Medians / 99th percentiles [us]; each arm under a Cartesian impedance with all features "
        "of DC-CA-MA when paced, targets at 1 kHz for each arm or as many as this machine sent, "
        "memory with shared pages divided."
    )
    yield ""
    yield _end(scaling["end"])
    yield ""
    yield table(
        ("two arms each", "cell", "control, paced", "whole cycle", "lateness",
         "> 300 us, missed", "loop, ROS process [cores]", "memory [MiB]", "targets [1/s]"),
        (
            (how, k + 1, *_paced(found))
            for how, cells in scaling["cells"].items()
            for k, found in enumerate(cells)
        ),
    )  # fmt: skip
    yield ""
    yield (
        "Cells share nothing but the machine and, on one domain, the discovery of each other's "
        "topics. The loop of each cell takes a core without another loop, as long as there is one."
    )


def _paced(found: Figures) -> list[str]:
    if "trouble" in found:
        return [not_measured(found), *[""] * 6]
    names = ("loop.process", "ros.node")
    own = [one["proportional_mib"] for one in found["processes"] if one["name"] in names]
    return [
        two(found["control_us"]),
        two(found["cycle_us"]),
        two(found["lateness_us"]),
        f"{found['over_300_us']}, {missed(found)}"
        + (f"; {found['held']} held" if found["held"] else ""),
        ", ".join(f"{cores_of(found, name):.2f}" for name in names),
        f"{sum(own):.0f}",
        f"{found['targets_per_second']:.0f}" if found["targets_per_second"] else "not seen",
    ]


def _end(end: Figures) -> str:
    """Say where 1 kHz ends on this machine, and what to buy."""
    if not end:
        return "**Where 1 kHz ends** cannot be said: fewer than two numbers of arms were measured."
    return (
        "**Where 1 kHz ends.** By straight lines between the rows, and beyond them by one through "
        f"{end['few']} and {end['many']} arms, the median of a whole simulated cycle fills its "
        f"millisecond {_at(end['cycle_median'])}, its 99th percentile {_at(end['cycle_p99'])}, "
        f"and the ROS process its core {_at(end['ros_process'])}. With real arms the "
        "physics of the cycle is theirs, and their drivers' time comes instead.\n\n"
        "**What to buy.** The loop is one thread, so a core that is twice as fast carries twice "
        "as many arms, and more cores carry none; the 99th percentile is what the neighbours "
        "leave of its caches, and gets better with a core that nothing else runs on "
        "(`isolcpus`). So: first the fastest single core, then one core for each loop, one for "
        "the ROS process, one for each real arm's driver and one for the system. Arms beyond that "
        "go into a second cell, on other cores or another machine, which costs the first "
        "one nothing but discovery; only arms under one law have to be in one cell."
    )


def _at(arms: float) -> str:
    return "at no number of arms" if arms == float("inf") else f"at {arms:.1f} arms"
