# SPDX-License-Identifier: Apache-2.0
"""Markdown report of a benchmark, compared with the values in the multipanda_ros2 paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from multipanda_py.apps.bench.conditions import ARM_POSITIONS, CONDITIONS, FORCE_CONDITION
from multipanda_py.apps.bench.processes import cores_of
from multipanda_py.apps.bench.wired import BARE


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def median_and_p99(figures: Mapping[str, float] | None, digits: int = 0) -> str:
    """Return the first two values of a :func:`.summary` (median and p99) as ``12 / 15``."""
    if not figures:
        return ""
    first, second = list(figures.values())[:2]
    return f"{first:.{digits}f} / {second:.{digits}f}"


def missed(figures: Mapping[str, int]) -> str:
    """Return missed and total loop periods as text, such as ``3 of 1000``."""
    return f"{figures['missed']} of {figures['missed'] + figures['cycles']}"


def not_measured(figures: Mapping[str, str]) -> str:
    """Return the reason of a failed measurement as one line; empty after a success."""
    lines = figures.get("trouble", "").splitlines()
    return f"not measured: {lines[0]}" if lines else ""


Figures = Mapping[str, Any]


def scaling_lines(scaling: Figures | None, image: str = "") -> Iterator[str]:
    """Yield the report lines on timing over the number of arms; none if it was not measured."""
    if not scaling:
        return
    if image:
        yield f"![cycle time, physics, processor time and memory over arms]({image})\n"
    hot = scaling["hot"]
    yield table(
        ("arms", "controllets, hot", "with CA-MA", "physics, hot", "control, paced",
         "whole cycle", "lateness", "> 300 us, missed", "loop, ROS process [cores]",
         "memory [MiB]", "targets [1/s]"),
        (
            (n, median_and_p99(hot.get(n), 1), median_and_p99(hot.get(f"{n} CA-MA"), 1),
             median_and_p99(hot.get(f"{n}: physics"), 1), *_paced(result))
            for n, result in scaling["arms"].items()
        ),
    )  # fmt: skip
    yield ""
    yield (
        "Medians / 99th percentiles [us]. When paced, each arm runs a Cartesian impedance with "
        "all features of DC-CA-MA and gets targets at 1 kHz, or as many as this machine sent. "
        "Shared pages of memory are divided among processes."
    )
    yield ""
    yield _limit_text(scaling["end"])
    yield ""
    yield table(
        ("two arms each", "cell", "control, paced", "whole cycle", "lateness",
         "> 300 us, missed", "loop, ROS process [cores]", "memory [MiB]", "targets [1/s]"),
        (
            (how, k + 1, *_paced(result))
            for how, cells in scaling["cells"].items()
            for k, result in enumerate(cells)
        ),
    )  # fmt: skip
    yield ""
    yield (
        "Cells share only the machine and, on one domain, the discovery of each other's topics. "
        "The loop of each cell uses a core without another loop, as long as one is free."
    )


def _paced(result: Figures) -> list[str]:
    if "trouble" in result:
        return [not_measured(result), *[""] * 6]
    names = ("realtime.process", "ros.node.node")
    own = [one["proportional_mib"] for one in result["processes"] if one["name"] in names]
    return [
        median_and_p99(result["control_us"]),
        median_and_p99(result["cycle_us"]),
        median_and_p99(result["lateness_us"]),
        f"{result['over_300_us']}, {missed(result)}"
        + (f"; {result['held']} held" if result["held"] else ""),
        ", ".join(f"{cores_of(result, name):.2f}" for name in names),
        f"{sum(own):.0f}",
        f"{result['targets_per_second']:.0f}" if result["targets_per_second"] else "not measured",
    ]


def _limit_text(end: Figures) -> str:
    if not end:
        return "**Limit of 1 kHz:** unknown, because fewer than two numbers of arms were measured."
    return (
        "**Limit of 1 kHz.** Values between measured numbers of arms are interpolated, values "
        f"beyond are extrapolated through {end['few']} and {end['many']} arms. The median of a "
        f"whole simulated cycle reaches 1 ms {_at(end['cycle_median'])}, its 99th percentile "
        f"{_at(end['cycle_p99'])}. "
        f"The ROS process fills its core {_at(end['ros_process'])}. Real arms need no "
        "physics, but computing time of their drivers instead.\n\n"
        "**Hardware for more arms.** The loop is one thread: a core of twice the speed carries "
        "twice as many arms, and more cores do not help. The 99th percentile depends on other "
        "programs that use the same caches. It improves with a core that runs nothing else "
        "(`isolcpus`). Choose the fastest single core first. Then add one core for each loop, one "
        "for the ROS process, one for the driver of each real arm and one for the system. "
        "Put further arms into a second cell, on other cores or another machine; this costs the "
        "first cell only discovery. Only arms under one controllet must be in one cell."
    )


def _at(arms: float) -> str:
    return "at no number of arms" if arms == float("inf") else f"at {arms:.1f} arms"


PAPER_CONTROL_TIMES = {
    "DC-NF": "< 25",
    "DC-CA": "above it",
    "DC-MA": "+ 40 to 60",
    "DC-CA-MA": "",
    "C-MA": "",
}
"""Control time in section VI-A of the paper [us]."""
PAPER_DELAY = "about 0.5 ms"
PAPER_SWITCH_DELAY = (2.117, 0.493)
"""Mean and standard deviation of the switch delay over 50 trials in the paper [ms]."""
PAPER_MEMORY = "0.2 % of 32 GB"

Report = Mapping[str, Any]


_TWO_ARMS = (
    "# Speed: a report of `multipanda bench`",
    "Two FR3 arms, {:g} s per condition, target poses at 1 kHz over ROS 2 from another process. "
    "The paper used a Ryzen 7 7735U mini-PC, real arms and controllers in C++.",
)
_ROWS_OF_ARMS = (
    "# Number of arms: a report of `multipanda bench --scaling`",
    "Rows of simulated FR3 arms and pairs of cells, {:g} s each, target poses at 1 kHz for every "
    "arm over ROS 2 from another process.",
)
_BUSY = (
    "**At the start, more programs than cores were running ({:.1f} for {}): times, and above all "
    "99th percentiles, are those of a busy machine.**"
)


def markdown(report: Report, image: str = "", arms_figure: str = "") -> str:
    """Return the report as Markdown.

    Args:
        report: Results of :func:`multipanda_py.apps.bench.run.run`.
        image: Path of the plots, relative to the report; empty for no plots.
        arms_figure: Path of the plots over the number of arms; empty for no plots.
    """
    rows_only = "scaling" in report and not {"hot", "cpp", "paced", "wired"} & set(report)
    head, text = _ROWS_OF_ARMS if rows_only else _TWO_ARMS
    parts = [
        head,
        text.format(report["effort"]["seconds"]),
        *_busy_warning(report["machine"]),
        table(("machine", ""), report["machine"].items()),
    ]
    if image:
        parts.append(f"![loop time, delays, processes, switches]({image})")
    for title, lines in (
        ("Time of the control loop", _loop(report)),
        ("Delay from state to torque and from loop to robot", _wired(report)),
        ("Delay of switches and of targets from a topic", _switching(report)),
        ("Processes", _processes(report)),
        ("Parts of a cycle, in a loop without pauses (hot)", _parts(report)),
        ("One to eight arms", scaling_lines(report.get("scaling"), arms_figure)),
        ("Left out", [f"- {name}: {reason}" for name, reason in report["left_out"].items()]),
    ):
        if result := list(lines):
            parts += [f"## {title}", "\n".join(result)]
    return "\n\n".join(parts) + "\n"


def _busy_warning(machine: Mapping[str, str]) -> list[str]:
    load, cores = machine["load before"].split()[0], machine["cores"].split()[0]
    return [_BUSY.format(float(load), cores)] if float(load) > float(cores) else []


def _loop(report: Report) -> Iterator[str]:
    hot, cpp = report.get("hot", {}), report.get("cpp", {})
    conditions = report.get("paced", {}).get("conditions", {})
    rows = []
    for name in (*CONDITIONS, FORCE_CONDITION):
        row = [name, median_and_p99(hot.get(name), 1), _cpp(cpp.get(name))]
        result = conditions.get(name)
        if result is None:
            row += [""] * 6
        elif "trouble" in result:
            row += [not_measured(result), *[""] * 5]
        else:
            control = result["control_us"]
            row += [
                median_and_p99(control),
                f"{control['p99.9']:.0f} / {control['max']:.0f}",
                f"{result['over_300_us']}, {missed(result)}",
                median_and_p99(result["cycle_us"]),
                median_and_p99(result["lateness_us"]),
                median_and_p99(result.get("floor", {}).get("lateness_us")),
            ]
        rows.append([*row, PAPER_CONTROL_TIMES.get(name, "")])
    if not hot and not conditions:
        return
    yield table(
        ("median / p99 [us]", "controllets, hot", "the same in C++", "control, paced",
         "p99.9 / max",
         "> 300 us, missed", "whole cycle with physics", "lateness", "lateness of a C loop",
         "paper"),
        rows,
    )  # fmt: skip
    yield ""
    yield (
        "*Controllets, hot*: models, controllets and features without pauses. *Control*: from "
        "wake-up until all torques are computed, with reading, models, checks and safety, for all "
        "cycles while targets stream. *> 300 us*: cycles whose torques are later than this after "
        "the tick. The C loop only wakes up, on the same core, with the same priority and load."
    )
    for name, result in conditions.items():
        if result.get("held"):
            fraction = 100.0 * result["held"] / result["cycles"]
            yield (
                f"\n{name}: in {fraction:.2f} % of the cycles an arm held, because targets paused."
            )


def _cpp(result: Mapping[str, float] | None) -> str:
    ratio = f", {result['ratio']:.1f} times as fast" if result and "ratio" in result else ""
    return median_and_p99(result, 1) + ratio


def _wired(report: Report) -> Iterator[str]:
    result = report.get("wired", {})
    rows = []
    for name in (*CONDITIONS, BARE):
        entry = result.get(name, {})
        if "trouble" in entry:
            rows.append([name, not_measured(entry), *[""] * 5])
            continue
        for arm in ARM_POSITIONS if entry else ():
            one = entry[arm]
            correlated = one.get("cross_correlation_us")
            text = "not measured" if correlated is None else f"{correlated:.0f}"
            rows.append([
                name, arm, median_and_p99(one["state_to_torque_us"]),
                median_and_p99(one.get("loop_to_robot_us")),
                "" if name == BARE else text,
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
            "Two simulated FCI robots, each with its own clock. *State to torque*: from sending a "
            "state packet to the arrival of the torque packet for it. *Loop to robot*: from the "
            "computation of the torque in the loop to its arrival, as in the paper."
        )


def _switching(report: Report) -> Iterator[str]:
    paced = report.get("paced")
    if not paced:
        return
    switch, (mean, std) = paced["switching"], PAPER_SWITCH_DELAY
    used, rate = paced["topic_to_use_us"], paced.get("targets_per_second")
    rows = [("switches by the ROS service", not_measured(switch), f"{mean} +- {std} ms")]
    if "trouble" not in switch:
        rows = [
            (f"request to first cycle of the new controllet, {switch['trials']} trials, mean and "
             "deviation", f"{switch['mean_ms']:.3f} +- {switch['std_ms']:.3f} ms",
             f"{mean} +- {std} ms"),
            ("the same, maximum", f"{switch['delay_us']['max'] * 1e-3:.2f} ms", ""),
        ]  # fmt: skip
    yield table(
        ("", "ours", "paper"),
        [
            *rows,
            ("topic published to cycle that uses it, median / p99",
             f"{median_and_p99(used)} us" if used else "not measured", ""),
            ("target poses per second and arm", f"{rate:.0f}" if rate else "not measured", "1000"),
            ("start of the node until it is active", f"{paced['start_to_active_s']:.1f} s", ""),
        ],
    )  # fmt: skip


def _processes(report: Report) -> Iterator[str]:
    rows: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    parts = {
        "simulated arms": report.get("paced", {}).get("conditions", {}),
        "simulated robots": report.get("wired", {}),
    }
    for path, conditions in parts.items():
        for result in conditions.values():
            for one in result.get("processes", ()):
                rows.setdefault((path, one["name"]), []).append(one)
    if rows:
        yield table(
            ("on", "process", "cores, mean", "maximum of a condition", "memory, resident [MiB]",
             "shared pages divided [MiB]"),
            (
                (location, f"`{name}`", f"{_mean(value, 'cores'):.2f}",
                 f"{max(one['cores'] for one in value):.2f}",
                 f"{_mean(value, 'resident_mib'):.0f}", f"{_mean(value, 'proportional_mib'):.0f}")
                for (location, name), value in rows.items()
            ),
        )  # fmt: skip
        yield ""
        yield f"The paper reports {PAPER_MEMORY} of memory; processor time only in its Fig. 3c."


def _mean(result: Sequence[Mapping[str, float]], key: str) -> float:
    return sum(one[key] for one in result) / len(result)


def _parts(report: Report) -> Iterator[str]:
    hot, first = report.get("hot", {}), CONDITIONS[0]
    parts = {name.split(": ")[1]: value for name, value in hot.items() if ": " in name}
    speed = parts.pop("inline", None)
    if parts:
        rows = [(name, median_and_p99(value, 1)) for name, value in parts.items()]
        rows.append(("inline, no clock", f"{speed['real_time_factor']:.1f} x real time"))
        yield table((f"{first}, two arms", "median / p99 [us]"), rows)
