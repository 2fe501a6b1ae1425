# SPDX-License-Identifier: Apache-2.0
"""List what a cell file can name: controllets, features, backends, actuators and robots."""

from __future__ import annotations

import argparse
import inspect
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from multipanda_py import registry
from multipanda_py.apps.commands.command_line import FAILED, OK, complain, print_line
from multipanda_py.config.backend_section import section_of
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.feature import feature_names, feature_specs
from multipanda_py.parameters import Bound, Spec, declared, specs_of
from multipanda_py.robots import MODELS
from multipanda_py.targets import Channel, built_in_channels, channel_table, report_titles

_HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Written by `make docs` from the declarations in the code: edit those, not this file. -->
# Parameters and targets of every controllet, feature and actuator

Names are as in the cell file, under `params` of a controllet, and as ROS parameters of the
controllet's own node. Names of a feature's parameters begin with the name of the feature. All
parameters may be changed while the controllet runs; several values set together take effect
between two cycles:

```
controllets: {soft: {type: cartesian_impedance, params: {gain_frame: tool, gain_time: 0.5}}}
ros2 param set /left/soft nullspace.stiffness "[20.0, 20.0, 20.0, 20.0, 20.0, 20.0, 20.0]"
cell.set_parameters("left/soft", {"gain_frame": "tool", "gain_time": 0.5})
```

Bounds apply to each number of a vector, or there is one bound per number. A parameter with a
number per joint has as many numbers as the robot has joints. Its defaults and bounds are those of
the robot, here an FR3. If the arms of one controllet differ in them, each arm has its own
parameter, such as `stiffness.left` instead of `stiffness`. A value out of bounds is rejected with
the reason, and nothing changes. A parameter of an actuator is one number for all joints, or one
for each."""
_ROBOT = """
## Settings of an arm's robot

In the cell file under the name of an arm's backend, for simulated arms under `franka`. The
settings change while the arm holds; a controllet that has the arm must be deactivated first. A
change releases a real Franka arm for some tenths of a second.
Values of one call, or of one atomic set of parameters, are applied together or not at all.

```
arms: {left: {backend: franka, robot_ip: 172.16.0.2, franka: {load_mass: 0.5}}}
ros2 param set /left/franka load_mass 0.5
cell.set_robot_settings("left", load_mass=0.5, load_com=[0.0, 0.0, 0.1])
```

A simulated arm stops at upper thresholds that are set explicitly, not at the defaults. It
compensates the payload, and holds with `joint_impedance` after a stop. Other settings have no
effect.
"""
_COLUMNS = ("parameter", "type", "unit", "bounds", "default", "meaning")


def markdown(
    result: Mapping[str, Sequence[Mapping[str, Any]]],
) -> str:
    """Return a Markdown page on all controllets, features, backends and actuators."""
    kinds = (line for kind in result for line in _kind_section(kind, result))
    return "\n".join(
        [_HEAD, *_targets(), *kinds, *_live_settings_tables(result.get("backends", ()))]
    )


def _targets() -> Iterator[str]:
    yield "\n## Targets\n"
    yield "Methods are those of `Cell`. In ROS, topics and an action provide the same targets.\n"
    rows = [_channel_row(channel) for channel in built_in_channels().values()]
    yield from _table(("target", "meaning", "topic or action", "method"), rows)


def _channel_row(channel: Channel) -> tuple[str, ...]:
    kind = channel.message.replace("/msg/", "/")
    return (channel.name, channel.doc, f"`{channel.topic_path}`, {kind}", f"`{channel.method}`")


def _kind_section(kind: str, parts: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    yield f"\n## {kind.capitalize()}"
    for item in parts[kind]:
        yield f"\n### {item['name']}\n"
        if "error" in item:
            yield f"Cannot be loaded: {item['error']}"
            continue
        yield item["summary"]
        facts = list(_fact_lines(item))
        if facts:
            yield "\n" + "\n".join(f"- {fact}" for fact in facts)
        rows = [_parameter_cells(parameter) for parameter in item.get("parameters", ())]
        if rows and kind != "backends":  # _live_settings_tables() lists parameters of backends.
            yield ""
            yield from _table(_COLUMNS, rows)


def _live_settings_tables(backends: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield _ROBOT
    for backend in backends:
        live = [setting for setting in backend.get("parameters", ()) if not setting["read_only"]]
        if live:
            yield f"### Settings under `{backend['name']}`\n"
            yield from _table(_COLUMNS, [_parameter_cells(setting) for setting in live])


def _fact_lines(item: Mapping[str, Any]) -> Iterator[str]:
    if "arms" in item:
        min_value, max_value = item["arms"]["min"], item["arms"]["max"]
        yield (
            f"arms: {min_value} or more"
            if max_value is None
            else (f"arms: {min_value}" + f" to {max_value}" * (max_value > min_value))
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
    """Return lines on an actuator: number of motors, identified parameters and source."""
    preset = f"2 motors per joint; stiffness presets in {item['preset']}"
    facts = [preset if item["motors"] == 2 else "1 motor per joint; no stiffness presets"]
    if item["identified"]:
        facts.append(f"identified from data: {', '.join(item['identified'])}")
    return [*facts, f"source: {item['source']}"] if item["source"] else facts


def _parameter_cells(parameter: Mapping[str, Any]) -> tuple[str, ...]:
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


_ROLE = re.compile(r":\w+:`(?:~[\w.]*\.|\.)?([^`]*)`")
SUMMARY = "List controllets, features, backends and actuators with parameters, and robots."
ROBOTS = "robots"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kind", nargs="?", choices=(*registry.KINDS, ROBOTS), help="list only this kind"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print the page doc/parameters.md")
    parser.add_argument(
        "--built-in", action="store_true", help="leave out parts of other packages"
    )


def run(options: argparse.Namespace) -> int:
    """Print the available controllets, features, backends, actuators and robots."""
    kinds = [options.kind] if options.kind else [*registry.KINDS, ROBOTS]
    names = registry.built_in if options.built_in else registry.names
    parts = {kind: [entry(kind, name) for name in names(kind)] for kind in kinds if kind != ROBOTS}
    # The Markdown page shows parameters. Robots have none.
    if ROBOTS in kinds and not options.markdown:
        parts[ROBOTS] = list(map(robot, robots(options.built_in)))
    if options.markdown:
        broken = [item for entries in parts.values() for item in entries if "error" in item]
        if broken:  # An incomplete page must not be written.
            complain("\n".join(f"multipanda list: {item['error']}" for item in broken))
            return FAILED
        print_line(markdown(parts))
        return OK
    if options.json:
        print_line(json.dumps(parts, indent=2))
        return OK
    for kind, entries in parts.items():
        print_line(kind)
        for item in entries:
            print_line("\n".join(_lines(item)))
    return OK


def entry(kind: str, name: str) -> dict[str, Any]:
    """Return a description of a controllet, feature, backend or actuator as plain data.

    If loading fails, the description has only the name and an ``error``.
    """
    try:
        return _entry(kind, name)
    except ConfigurationError as error:
        return {"name": name, "error": str(error)}
    except Exception as error:  # Code of other packages may raise any error.
        return {"name": name, "error": f"its declarations raise {type(error).__name__}: {error}"}


def _entry(kind: str, name: str) -> dict[str, Any]:
    part = registry.find(kind, name)
    item: dict[str, Any] = {
        "name": name,
        "summary": _ROLE.sub(r"\1", (inspect.getdoc(part) or "").split("\n\n")[0]).replace(
            "\n", " "
        ),
        "class": f"{part.__module__}.{part.__qualname__}",
    }
    if kind == "controllets":
        item["arms"] = {"min": part.min_arms, "max": part.max_arms}
        item["targets"] = [str(channel) for channel in part.Target.channels]
        item["features"] = list(feature_names(part, None))
        item["reports"] = list(report_titles(part.report_names))
        item["report_docs"] = [getattr(report, "doc", "") for report in part.report_names]
        item["own_targets"] = _custom_channels(part.Target.channels)
    if kind == "features":
        item["needs"] = list(part.requires)
        item["targets"] = [str(channel) for channel in part.channels]
        item["own_targets"] = _custom_channels(part.channels)
    if kind == "actuators":
        item["motors"] = 2 if part.preset_unit else 1
        item["preset"] = part.preset_unit
        item["source"] = part.source
        item["identified"] = list(part.identified)
    if kind == "backends":
        section = section_of(name)
        item["section"] = section
        if section == name:
            item["parameters"] = [_parameter(spec) for spec in declared(part.Settings)]
    else:
        is_feature = kind == "features"
        specs = feature_specs(name, part.Params) if is_feature else specs_of(part.Params)
        item["parameters"] = [_parameter(spec) for spec in specs]
    return item


def robots(built_in: bool) -> list[str]:
    """Return the names of the robots.

    Args:
        built_in: True to leave out robots of other packages.
    """
    return [name for name in MODELS if MODELS.is_built_in(name) or not built_in]


def robot(name: str) -> dict[str, Any]:
    """Return a description of a robot as plain data; with ``error`` if it cannot be read."""
    try:
        robot = MODELS[name]
    except ConfigurationError as error:
        return {"name": name, "error": str(error)}
    endless = [
        joint.name for joint, rotations in zip(robot.joints, robot.limits.endless) if rotations
    ]
    mass = sum(link.inertial.mass for link in robot.links)
    words = f"{robot.n_joints} joints, {mass:.1f} kg, up to {robot.limits.torque.max():g} Nm"
    if endless:
        words += f"; {', '.join(endless)} turn without limits"
    words += "; has a built-in gripper" * robot.has_hand
    return {
        "name": name,
        "summary": words,
        "joints": [joint.name for joint in robot.joints],
        "endless": endless,
        "torque": robot.limits.torque.tolist(),
        "flange": robot.flange.name,
        "hand": robot.has_hand,
    }


def _custom_channels(declared: Iterable[str | Channel]) -> list[dict[str, Any]]:
    return [
        {
            "name": channel.name,
            "width": channel.width,
            "per_joint": channel.per_joint,
            "unit": channel.unit,
            "low": _json_bound(channel.low),
            "high": _json_bound(channel.high),
            "doc": channel.doc,
            "topic": channel.topic_path,
            "message": channel.message,
            "method": channel.method,
        }
        for channel in channel_table(declared).values()
        if channel.name not in built_in_channels()
    ]


def _parameter(spec: Spec) -> dict[str, Any]:
    default = spec.default.tolist() if isinstance(spec.default, np.ndarray) else spec.default
    return {
        "name": spec.name,
        "type": _type(spec),
        "unit": spec.unit,
        "low": _json_bound(spec.low),
        "high": _json_bound(spec.high),
        "options": list(spec.options),
        "default": default,
        "doc": spec.doc,
        "read_only": spec.read_only,
    }


def _type(spec: Spec) -> str:
    if spec.per_joint:
        return "a number per joint"
    return f"{spec.width} numbers" if spec.kind == "vector" else spec.kind


def _json_bound(bound: Bound) -> Any:
    """Return a bound as JSON data; None for infinity."""
    if isinstance(bound, tuple):
        return [_json_bound(element) for element in bound]
    return None if math.isinf(bound) else bound


def _lines(item: dict[str, Any]) -> list[str]:
    if "error" in item:
        return [f"  {item['name']}", f"    BROKEN: {item['error']}"]
    lines = [f"  {item['name']}", f"    {item['summary']}"]
    if "arms" in item:
        min_value, max_value = item["arms"]["min"], item["arms"]["max"]
        arms = (
            f"{min_value} or more"
            if max_value is None
            else f"{min_value}" + f" to {max_value}" * (max_value > min_value)
        )
        lines.append(f"    arms: {arms}; targets: {', '.join(item['targets']) or 'none'}; "
                     f"features by default: {', '.join(item['features']) or 'none'}")  # fmt: skip
    if "motors" in item:
        lines += [f"    {fact}" for fact in actuator_facts(item)]
    if item.get("needs"):
        lines.append(f"    for controllets whose target has: {', '.join(item['needs'])}")
    for channel in item.get("own_targets", ()):
        plural = "s" * (channel["width"] > 1)
        count = f"{channel['width']} number{plural}" if channel["width"] else "a number per joint"
        numbers = f"{count} {channel['unit']}".strip()
        lines.append(
            f"    target {channel['name']}: {channel['doc']}; {numbers}; {channel['topic']}, "
            f"{channel['message']}; {channel['method']}"
        )
    rows = [_parameter_row(parameter) for parameter in item.get("parameters", ())]
    widths = [max(len(row[column]) for row in rows) for column in range(5)] if rows else []
    for row in rows:
        cells = [text.ljust(width) for text, width in zip(row, widths)]
        lines.append(f"      {'  '.join([*cells, row[5]])}".rstrip())
    return [*lines, ""]


def _parameter_row(parameter: dict[str, Any]) -> tuple[str, ...]:
    low, high, default = parameter["low"], parameter["high"], parameter["default"]
    if parameter["options"]:
        bounds = " | ".join(parameter["options"])
    elif low is None and high is None:
        bounds = "any" if parameter["type"] != "flag" else "true | false"
    else:
        bounds = f"{bound_text(low, '-inf')} .. {bound_text(high, 'inf')}"
    if isinstance(default, list):
        text = f"{default[0]:g} each" if len(set(default)) == 1 else _joined(default)
    else:
        text = f"{default:g}" if isinstance(default, float) else json.dumps(default).strip('"')
    return (parameter["name"], parameter["type"], parameter["unit"] or "-", bounds, text,
            parameter["doc"])  # fmt: skip


def bound_text(bound: Any, missing: str) -> str:
    """Return a bound, or a list of bounds, as text; ``missing`` is the text for None."""
    if isinstance(bound, list):
        return " ".join(bound_text(element, missing) for element in bound)
    return missing if bound is None else f"{bound:g}"


def _joined(values: list[float]) -> str:
    return " ".join(f"{value:g}" for value in values)
