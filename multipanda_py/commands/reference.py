# SPDX-License-Identifier: Apache-2.0
"""The parameter reference in Markdown: what `multipanda list` says, to be read on a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from multipanda_py.channel import Channel, built_in_channels

_HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Written by `make docs` from the declarations in the code: edit those, not this file. -->
# Parameters and targets of every controllet, feature and actuator

Names are as in the cell file, under `params` of a controllet, and as ROS parameters of the
controllet's own node; those of a feature begin with its name. All may be changed while the law
runs, several at once, between two cycles:

```
controllets: {soft: {type: cartesian_impedance, params: {gain_frame: tool, gain_time: 0.5}}}
ros2 param set /left/soft nullspace.stiffness "[20.0, 20.0, 20.0, 20.0, 20.0, 20.0, 20.0]"
cell.set_parameters("left/soft", {"gain_frame": "tool", "gain_time": 0.5})
```

Bounds hold for each number of a vector, or there is one for each. What has a number per joint has
as many as the robot has joints; its defaults and bounds are the robot's, here those of an FR3.
Where arms of one controllet differ in these, each has its own: `stiffness.left` in place of
`stiffness`. A value out of bounds is refused with the reason, and nothing changes. What
actuators have is one number for all joints, or one for each."""
_ROBOT = """
## Settings of an arm's robot

In the cell file under the name of an arm's backend, for simulated arms under `franka`, and changed
while the arm holds; a controllet that has the arm must be deactivated first. Real Franka arms are
let go of for some tenths of a second for that.
Values of one call, or of one atomic set of parameters, are applied as a whole or not at all.

```
arms: {left: {backend: franka, robot_ip: 172.16.0.2, franka: {load_mass: 0.5}}}
ros2 param set /left/franka load_mass 0.5
cell.set_robot_settings("left", load_mass=0.5, load_com=[0.0, 0.0, 0.1])
```

A simulated arm stops at upper thresholds that are given, not at the defaults; it compensates the
load, and holds with `joint_impedance` after it has stopped. The rest it takes without effect.
"""
_COLUMNS = ("parameter", "type", "unit", "bounds", "default", "meaning")


def markdown(
    found: Mapping[str, Sequence[Mapping[str, Any]]],
) -> str:
    """Return a Markdown page: what the registry found, by kind, and settings of robots."""
    kinds = (line for kind in found for line in _kind(kind, found))
    return "\n".join([_HEAD, *_targets(), *kinds, *_robot(found.get("backends", ()))])


def _targets() -> Iterator[str]:
    yield "\n## Targets\n"
    yield "Methods are those of `Cell`; by ROS the same is asked through topics and an action.\n"
    rows = [_channel_row(channel) for channel in built_in_channels().values()]
    yield from _table(("target", "meaning", "topic or action", "method"), rows)


def _channel_row(channel: Channel) -> tuple[str, ...]:
    kind = channel.message.replace("/msg/", "/")
    return (channel.name, channel.doc, f"`{channel.place}`, {kind}", f"`{channel.method}`")


def _kind(kind: str, found: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    yield f"\n## {kind.capitalize()}"
    for item in found[kind]:
        yield f"\n### {item['name']}\n"
        if "error" in item:
            yield f"Cannot be loaded: {item['error']}"
            continue
        yield item["summary"]
        facts = list(_facts(item))
        if facts:
            yield "\n" + "\n".join(f"- {fact}" for fact in facts)
        rows = [_row(parameter) for parameter in item.get("parameters", ())]
        if rows and kind != "backends":  # theirs have a section of their own
            yield ""
            yield from _table(_COLUMNS, rows)


def _robot(backends: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the settings that may change, of every backend that has its own."""
    yield _ROBOT
    for backend in backends:
        live = [setting for setting in backend.get("parameters", ()) if not setting["read_only"]]
        if live:
            yield f"### Settings under `{backend['name']}`\n"
            yield from _table(_COLUMNS, [_row(setting) for setting in live])


def _facts(item: Mapping[str, Any]) -> Iterator[str]:
    """Say what an entry works on and with."""
    if "arms" in item:
        least, most = item["arms"]["min"], item["arms"]["max"]
        yield (
            f"arms: {least} or more"
            if most is None
            else (f"arms: {least}" + f" to {most}" * (most > least))
        )
    if "motors" in item:
        yield from actuator_facts(item)
    if "targets" in item and ("arms" in item or item["targets"]):
        yield f"targets: {_listed(item['targets'])}"
    for channel in item.get("own_targets", ()):
        kind = channel["message"].replace("/msg/", "/")
        yield (
            f"target `{channel['name']}`: {channel['doc']}, {channel['width'] or 'in'} "
            f"{channel['unit'] or '(no unit)'}; `{channel['topic']}`, {kind}; "
            f"`{channel['method']}`"
        )
    if item.get("features"):
        yield f"features by default: {_listed(item['features'])}"
    if item.get("needs"):
        yield f"for controllets whose target has: {_listed(item['needs'])}"
    if item.get("reports"):
        titles = (f"`{title}`" for title in item["reports"])
        pairs = zip(titles, item["report_docs"])
        yield f"reports: {', '.join(f'{title} {doc}'.rstrip() for title, doc in pairs)}"


def actuator_facts(item: Mapping[str, Any]) -> list[str]:
    """Say how many motors an actuator has, what is found from data, and where it is from."""
    preset = f"2 motors per joint; stiffness presets in {item['preset']}"
    facts = [preset if item["motors"] == 2 else "1 motor per joint; no stiffness presets"]
    if item["identified"]:
        facts.append(f"found from data: {', '.join(item['identified'])}")
    return [*facts, f"source: {item['source']}"] if item["source"] else facts


def _row(parameter: Mapping[str, Any]) -> tuple[str, ...]:
    low, high, default = parameter["low"], parameter["high"], parameter["default"]
    if parameter["options"]:
        bounds = _listed(parameter["options"])
    elif parameter["type"] == "flag":
        bounds = "true, false"
    else:
        low, high = (_bound(bound) for bound in (low, high))
        bounds = f"{low or 'any'} to {high or 'any'}" if low or high else "finite"
    if isinstance(default, list):
        text = ", ".join(f"{value:g}" for value in default)
    else:
        text = f"{default:g}" if isinstance(default, float) else str(default).lower()
    return (f"`{parameter['name']}`", parameter["type"], parameter["unit"], bounds, text,
            parameter["doc"])  # fmt: skip


def _bound(bound: Any) -> str:
    if isinstance(bound, list):
        return ", ".join(_bound(element) for element in bound)
    return "" if bound is None else f"{bound:g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"
