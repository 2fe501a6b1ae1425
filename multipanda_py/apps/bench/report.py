# SPDX-License-Identifier: Apache-2.0
"""The report in words and tables, beside the figures of the multipanda_ros2 paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from multipanda_py.apps.bench.conditions import ARMS, CONDITIONS, FORCE
from multipanda_py.apps.bench.processes import cores_of
from multipanda_py.apps.bench.wired import BARE


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def two(figures: Mapping[str, float] | None, digits: int = 0) -> str:
    """Return median and 99th percentile, the first two of some figures; nothing of nothing."""
    if not figures:
        return ""
    first, second = list(figures.values())[:2]
    return f"{first:.{digits}f} / {second:.{digits}f}"


def missed(figures: Mapping[str, int]) -> str:
    """Return how many periods passed without a cycle, of all periods."""
    return f"{figures['missed']} of {figures['missed'] + figures['cycles']}"


def not_measured(figures: Mapping[str, str]) -> str:
    """Return why there is no figure, in a line; empty if there is."""
    lines = figures.get("trouble", "").splitlines()
    return f"not measured: {lines[0]}" if lines else ""


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
    names = ("realtime.process", "ros.node.node")
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


PAPER = {"DC-NF": "< 25", "DC-CA": "above it", "DC-MA": "+ 40 to 60", "DC-CA-MA": "", "C-MA": ""}
"""Of its section VI-A: time of the control function [us]."""
PAPER_DELAY = "about 0.5 ms"
PAPER_SWITCH = (2.117, 0.493)
"""Mean and standard deviation [ms], 50 trials."""
PAPER_MEMORY = "0.2 % of 32 GB"

Report = Mapping[str, Any]


_TWO_ARMS = (
    "# How fast: a report of `multipanda bench`",
    "Two FR3 arms, {:g} s per condition, target poses at 1 kHz over ROS 2 from a process of their "
    "own. The paper's machine was a Ryzen 7 7735U mini-PC with real arms; its laws are C++.",
)
_ROWS_OF_ARMS = (
    "# How many arms: a report of `multipanda bench --scaling`",
    "Rows of simulated FR3 arms and pairs of cells, {:g} s each, target poses at 1 kHz for every "
    "arm over ROS 2 from a process of their own.",
)
_BUSY = (
    "**More programs than cores wanted to run at the start ({:.1f} for {}): times, and above all "
    "99th percentiles, are those of a busy machine.**"
)


def markdown(report: Report, picture: str = "", picture_of_arms: str = "") -> str:
    """Return the report as Markdown.

    Args:
        report: As :func:`multipanda_py.apps.bench.run.run` returns it.
        picture: File of the plots, relative to the report; empty: none.
        picture_of_arms: That of numbers of arms.
    """
    rows_only = "scaling" in report and not {"hot", "cpp", "paced", "wired"} & set(report)
    head, text = _ROWS_OF_ARMS if rows_only else _TWO_ARMS
    parts = [
        head,
        text.format(report["effort"]["seconds"]),
        *_busy(report["machine"]),
        table(("machine", ""), report["machine"].items()),
    ]
    if picture:
        parts.append(f"![loop time, delays, processes, switches]({picture})")
    for title, lines in (
        ("Time of the control loop", _loop(report)),
        ("State to torque, loop to robot", _wired(report)),
        ("Switching, and from a topic to the loop", _switching(report)),
        ("Processes", _processes(report)),
        ("Parts of a cycle, hot", _parts(report)),
        ("One to eight arms", scaling_lines(report.get("scaling"), picture_of_arms)),
        ("Left out", [f"- {name}: {why}" for name, why in report["left_out"].items()]),
    ):
        if found := list(lines):
            parts += [f"## {title}", "\n".join(found)]
    return "\n\n".join(parts) + "\n"


def _busy(machine: Mapping[str, str]) -> list[str]:
    """Return a line if the machine was busy before anything was measured."""
    load, cores = machine["load before"].split()[0], machine["cores"].split()[0]
    return [_BUSY.format(float(load), cores)] if float(load) > float(cores) else []


def _loop(report: Report) -> Iterator[str]:
    hot, cpp = report.get("hot", {}), report.get("cpp", {})
    conditions = report.get("paced", {}).get("conditions", {})
    rows = []
    for name in (*CONDITIONS, FORCE):
        row = [name, two(hot.get(name), 1), _cpp(cpp.get(name))]
        found = conditions.get(name)
        if found is None:
            row += [""] * 6
        elif "trouble" in found:
            row += [not_measured(found), *[""] * 5]
        else:
            control = found["control_us"]
            row += [
                two(control),
                f"{control['p99.9']:.0f} / {control['max']:.0f}",
                f"{found['over_300_us']}, {missed(found)}",
                two(found["cycle_us"]),
                two(found["lateness_us"]),
                two(found.get("floor", {}).get("lateness_us")),
            ]
        rows.append([*row, PAPER.get(name, "")])
    if not hot and not conditions:
        return
    yield table(
        ("median / p99 [us]", "laws, hot", "the same in C++", "control, paced", "p99.9 / max",
         "> 300 us, missed", "whole cycle with physics", "lateness", "lateness of a C loop",
         "paper"),
        rows,
    )  # fmt: skip
    yield ""
    yield (
        "*Laws, hot*: models, laws and features in a loop of their own. *Control*: from wake-up "
        "until all torques are known, reading, models, checks and safety included, of all cycles "
        "while targets stream. *> 300 us*: torques known later than that after the tick. "
        "The C loop does nothing but wake up, on the same core, with the same priority, under the "
        "same load."
    )
    for name, found in conditions.items():
        if found.get("held"):
            share = 100.0 * found["held"] / found["cycles"]
            yield f"\n{name}: in {share:.2f} % of the cycles an arm held, as targets paused."


def _cpp(found: Mapping[str, float] | None) -> str:
    ratio = f", {found['ratio']:.1f} times as fast" if found and "ratio" in found else ""
    return two(found, 1) + ratio


def _wired(report: Report) -> Iterator[str]:
    found = report.get("wired", {})
    rows = []
    for name in (*CONDITIONS, BARE):
        entry = found.get(name, {})
        if "trouble" in entry:
            rows.append([name, not_measured(entry), *[""] * 5])
            continue
        for arm in ARMS if entry else ():
            one = entry[arm]
            correlated = one.get("cross_correlation_us")
            seen = "not seen" if correlated is None else f"{correlated:.0f}"
            rows.append([
                name, arm, two(one["state_to_torque_us"]), two(one.get("loop_to_robot_us")),
                "" if name == BARE else seen,
                f"{one['lost_of_10000']:.1f} ({one['longest_run']})",
                "" if name == BARE else PAPER_DELAY,
            ])  # fmt: skip
    if rows:
        yield table(
            ("condition", "arm", "state to torque, median / p99 [us]",
             "loop to robot, median / p99 [us]", "the same by cross-correlation [us]",
             "lost of 10 000 (in a row)", "paper, by cross-correlation"),
            rows,
        )  # fmt: skip
        yield ""
        yield (
            "Two simulated FCI robots, each by its own clock. *State to torque*: from sending a "
            "state packet to the arrival of the torque that answers it. *Loop to robot*: from the "
            "moment that the loop has the torque until it arrives; what the paper measured."
        )


def _switching(report: Report) -> Iterator[str]:
    paced = report.get("paced")
    if not paced:
        return
    switch, (mean, std) = paced["switching"], PAPER_SWITCH
    used, rate = paced["topic_to_use_us"], paced.get("targets_per_second")
    rows = [("switches by the ROS service", not_measured(switch), f"{mean} +- {std} ms")]
    if "trouble" not in switch:
        rows = [
            (f"request to first cycle of the new law, {switch['trials']} trials, mean and "
             "deviation", f"{switch['mean_ms']:.3f} +- {switch['std_ms']:.3f} ms",
             f"{mean} +- {std} ms"),
            ("the same, longest", f"{switch['delay_us']['max'] * 1e-3:.2f} ms", ""),
        ]  # fmt: skip
    yield table(
        ("", "ours", "paper"),
        [
            *rows,
            ("topic published to cycle that uses it, median / p99",
             f"{two(used)} us" if used else "not seen", ""),
            ("target poses per second and arm", f"{rate:.0f}" if rate else "not seen", "1000"),
            ("start of the node until it is active", f"{paced['start_to_active_s']:.1f} s", ""),
        ],
    )  # fmt: skip


def _processes(report: Report) -> Iterator[str]:
    rows: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    parts = {
        "simulated arms": report.get("paced", {}).get("conditions", {}),
        "simulated robots": report.get("wired", {}),
    }
    for where, conditions in parts.items():
        for found in conditions.values():
            for one in found.get("processes", ()):
                rows.setdefault((where, one["name"]), []).append(one)
    if rows:
        yield table(
            ("on", "process", "cores, mean", "largest of a condition", "memory, resident [MiB]",
             "shared pages divided [MiB]"),
            (
                (where, f"`{name}`", f"{_mean(found, 'cores'):.2f}",
                 f"{max(one['cores'] for one in found):.2f}",
                 f"{_mean(found, 'resident_mib'):.0f}", f"{_mean(found, 'proportional_mib'):.0f}")
                for (where, name), found in rows.items()
            ),
        )  # fmt: skip
        yield ""
        yield f"The paper: {PAPER_MEMORY} of memory; processor time in its Fig. 3c only."


def _mean(found: Sequence[Mapping[str, float]], key: str) -> float:
    return sum(one[key] for one in found) / len(found)


def _parts(report: Report) -> Iterator[str]:
    hot, first = report.get("hot", {}), CONDITIONS[0]
    parts = {name.split(": ")[1]: value for name, value in hot.items() if ": " in name}
    speed = parts.pop("inline", None)
    if parts:
        rows = [(name, two(value, 1)) for name, value in parts.items()]
        rows.append(("inline, no clock", f"{speed['real_time_factor']:.1f} x real time"))
        yield table((f"{first}, two arms", "median / p99 [us]"), rows)
