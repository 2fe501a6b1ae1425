# SPDX-License-Identifier: Apache-2.0
"""The parameters of an arm's law: sliders, boxes and choices, as they are declared."""

from __future__ import annotations

import math
import time
from typing import Any

from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.panel.desk import Desk
from multipanda_py.parameter_spec import Spec

SETTLED = 0.5
"""Time after its last use from which on an element shows what is in force [s]."""
STEPS = 1000
"""At least so many steps has a slider."""
_AXES = ("x", "y", "z", "rx", "ry", "rz")


class Gains:
    """Show one parameter of the law that an arm has, by choice, and change it.

    One at a time, because a law and its features have dozens.

    Args:
        desk: Of the panel.
        folder: Element of the page that they go into.

    Attributes:
        elements: Of the page, one for each number of the parameter.

    Thread: the panel's.
    """

    def __init__(self, desk: Desk, folder: Any) -> None:
        self._desk, self._folder = desk, folder
        self._law: InstanceSpec | None = None
        self._spec: Spec | None = None
        self._choice: Any = None
        self.elements: list[Any] = []

    def show(self, law: InstanceSpec) -> None:
        """Show the parameters of a law, with what is in force."""
        if law is not self._law:
            self._law = law
            self._list(law)
        self._refresh()

    def _list(self, law: InstanceSpec) -> None:
        for element in (self._choice, *self.elements):
            if element is not None:
                element.remove()
        self._choice, self.elements, self._spec = None, [], None
        specs = {spec.name: spec for spec in law.parameter_specs if not spec.read_only}
        if not specs:
            return
        with self._folder:
            self._choice = self._desk.server.gui.add_dropdown("parameter", tuple(specs))

        def chosen(viewer: int, name: Any) -> None:  # to look at one needs no command
            if name in specs and law is self._law:
                act = lambda: self._open(law, specs[name])  # noqa: E731
                self._desk.inbox.post(("parameter", law.name), None, act)

        self._desk.on_use(self._choice, chosen)
        self._open(law, next(iter(specs.values())))

    def _open(self, law: InstanceSpec, spec: Spec) -> None:
        """Put the elements of one parameter in the place of the last one's."""
        for element in self.elements:
            element.remove()
        self._spec = spec
        values = _parts(spec, self._desk.cell.parameters(law.name)[spec.name])
        with self._folder:
            self.elements = [
                self._add(spec, label, bounds, value)
                for label, bounds, value in zip(_labels(spec), spec.bounds, values)
            ]
        for index, element in enumerate(self.elements):
            self._desk.on_use(element, self._change(law, spec, index))

    def _change(self, law: InstanceSpec, spec: Spec, index: int) -> Any:
        cell = self._desk.cell

        def change(viewer: int, value: Any) -> None:
            def act() -> object:
                values = _parts(spec, cell.parameters(law.name)[spec.name])
                values[index] = value
                whole = values if spec.kind == "vector" else values[0]
                return cell.set_parameters(law.name, {spec.name: whole})

            self._desk.ask(("parameter", law.name, spec.name, index), viewer, act)

        return change

    def _refresh(self) -> None:
        """Show what is in force, also where others have changed it, or it was refused."""
        if self._law is None or self._spec is None:
            return
        values = _parts(self._spec, self._desk.cell.parameters(self._law.name)[self._spec.name])
        for element, value in zip(self.elements, values):
            if element.value != value and time.time() - element.update_timestamp > SETTLED:
                element.value = value

    def _add(self, spec: Spec, label: str, bounds: tuple[float, float], value: Any) -> Any:
        gui, hint = self._desk.server.gui, f"{spec.doc} ({spec.allowed})"
        if spec.kind == "flag":
            return gui.add_checkbox(label, value, hint=hint)
        if spec.kind == "choice":
            return gui.add_dropdown(label, spec.options, initial_value=value, hint=hint)
        low, high = bounds
        number = int if spec.kind == "integer" else float
        if not all(map(math.isfinite, bounds)):
            return gui.add_number(label, number(value), hint=hint)
        step = 1 if number is int else step_of(low, high)
        return gui.add_slider(label, number(low), number(high), step, number(value), hint=hint)


def step_of(low: float, high: float) -> float:
    """Return a power of ten that divides a range into ``STEPS`` steps or more."""
    return float(10.0 ** math.floor(math.log10((high - low) / STEPS)))


def _parts(spec: Spec, value: Any) -> list[Any]:
    return [float(one) for one in value] if spec.kind == "vector" else [value]


def _labels(spec: Spec) -> list[str]:
    """Return the name of every element, with its unit."""
    units = [part.strip() for part in spec.unit.split(",")]
    unit = [f" [{part}]" if part else "" for part in units]
    if spec.kind != "vector":
        return [f"{spec.name}{unit[0]}"]
    if not spec.per_joint and spec.width == len(_AXES):
        return [f"{axis}{unit[0] if axis in 'xyz' else unit[-1]}" for axis in _AXES]
    word = "joint" if spec.per_joint else "element"
    return [f"{word} {index + 1}{unit[0]}" for index in range(spec.width)]
