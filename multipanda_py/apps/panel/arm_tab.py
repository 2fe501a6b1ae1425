# SPDX-License-Identifier: Apache-2.0
"""Tab of one arm in the panel, with controllet, gains, gripper and fault; plots of all arms."""

from __future__ import annotations

import math
import time
from collections import deque
from functools import partial
from typing import Any

import numpy as np

from multipanda_py.apps.panel.cell_protocol import PendingResponse
from multipanda_py.apps.panel.gizmo import Gizmo
from multipanda_py.apps.panel.session import Act, Session, viewer_named
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.parameters import Spec
from multipanda_py.pose import Pose

USER_VALUE_TIME = 0.5
"""Time after its last use for which an element keeps the user's value [s]."""
MIN_SLIDER_STEPS = 1000
"""Minimum number of steps of a slider."""
_AXES = ("x", "y", "z", "rx", "ry", "rz")


class Gains:
    """List of a controllet's parameters, and input elements for the selected one.

    Args:
        session: Session of the panel.
        folder: Folder of the page for the elements.

    Attributes:
        elements: Input elements, one for each number of the selected parameter.

    Thread: the panel's.
    """

    def __init__(self, session: Session, folder: Any) -> None:
        self._session, self._folder = session, folder
        self._law: InstanceSpec | None = None
        self._spec: Spec | None = None
        self._choice: Any = None
        self.elements: list[Any] = []

    def show(self, law: InstanceSpec) -> None:
        """Show the parameters of a controllet with their current values."""
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
            self._choice = self._session.server.gui.add_dropdown("parameter", tuple(specs))

        # Any viewer may select a parameter, even if another one is in command.
        def chosen(viewer: int, name: Any) -> None:
            if name in specs and law is self._law:
                act = lambda: self._select_parameter(law, specs[name])  # noqa: E731
                self._session.queue.post(("parameter", law.name), None, act)

        self._session.on_use(self._choice, chosen)
        self._select_parameter(law, next(iter(specs.values())))

    def _select_parameter(self, law: InstanceSpec, spec: Spec) -> None:
        for element in self.elements:
            element.remove()
        self._spec = spec
        values = _parts(spec, self._session.cell.parameters(law.name)[spec.name])
        with self._folder:
            self.elements = [
                self._add(spec, label, bounds, value)
                for label, bounds, value in zip(_labels(spec), spec.bounds, values)
            ]
        for index, element in enumerate(self.elements):
            self._session.on_use(element, self._change(law, spec, index))

    def _change(self, law: InstanceSpec, spec: Spec, index: int) -> Any:
        cell = self._session.cell

        def change(viewer: int, value: Any) -> None:
            def act() -> object:
                values = _parts(spec, cell.parameters(law.name)[spec.name])
                values[index] = value
                whole = values if spec.kind == "vector" else values[0]
                return cell.set_parameters(law.name, {spec.name: whole})

            self._session.ask(("parameter", law.name, spec.name, index), viewer, act)

        return change

    def _refresh(self) -> None:
        if self._law is None or self._spec is None:
            return
        values = _parts(self._spec, self._session.cell.parameters(self._law.name)[self._spec.name])
        for element, value in zip(self.elements, values):
            if element.value != value and time.time() - element.update_timestamp > USER_VALUE_TIME:
                element.value = value

    def _add(self, spec: Spec, label: str, bounds: tuple[float, float], value: Any) -> Any:
        gui, hint = self._session.server.gui, f"{spec.doc} ({spec.allowed})"
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
    """Return the step of a slider: a power of ten that gives ``MIN_SLIDER_STEPS`` or more."""
    return float(10.0 ** math.floor(math.log10((high - low) / MIN_SLIDER_STEPS)))


def _parts(spec: Spec, value: Any) -> list[Any]:
    return [float(one) for one in value] if spec.kind == "vector" else [value]


def _labels(spec: Spec) -> list[str]:
    units = [part.strip() for part in spec.unit.split(",")]
    unit = [f" [{part}]" if part else "" for part in units]
    if spec.kind != "vector":
        return [f"{spec.name}{unit[0]}"]
    if not spec.per_joint and spec.width == len(_AXES):
        return [f"{axis}{unit[0] if axis in 'xyz' else unit[-1]}" for axis in _AXES]
    word = "joint" if spec.per_joint else "element"
    return [f"{word} {index + 1}{unit[0]}" for index in range(spec.width)]


RATE = 10.0
"""Rate of samples [Hz]."""
PLOT_DURATION = 10.0
"""Duration that the plots show [s]."""
_COLORS = ("#d62728", "#2ca02c", "#1f77b4", "#ff7f0e", "#9467bd", "#8c564b", "#17becf")


class Plots:
    """Plots of external force and joint torques of the arm that viewers select.

    Args:
        session: Session of the panel.
        torque: Title of the torque plot, such as ``measured torque``.

    Thread: the panel's.
    """

    def __init__(self, session: Session, torque: str) -> None:
        self._session = session
        gui, arms = session.server.gui, session.cell.arms
        with gui.add_folder("Plots"):
            self._choice = gui.add_dropdown("arm", arms)
            joints = max(session.cell.state(arm).q.size for arm in arms)
            self._force = _plot(gui, "force on the tool [N]", ("x", "y", "z"))
            self._torque = _plot(gui, f"{torque} [Nm]", tuple(str(n + 1) for n in range(joints)))
        self._joints = joints
        self._shown = arms[0]
        self._samples: deque[list[float]] = deque(maxlen=round(RATE * PLOT_DURATION))

    def sample(self) -> None:
        """Add the current state of the selected arm to the plots."""
        arm = self._choice.value
        if arm not in self._session.cell.arms:  # A page may send an invalid name.
            self._choice.value = arm = self._shown
        if arm != self._shown:
            self._shown = arm
            self._samples.clear()
        state = self._session.cell.state(arm)
        torques = np.zeros(self._joints)
        torques[: state.tau.size] = state.tau
        self._samples.append([state.time, *state.wrench_ext_in_base[:3], *torques])
        columns = np.nan_to_num(np.array(self._samples)).T
        self._force.data = (columns[0], *columns[1:4])
        self._torque.data = (columns[0], *columns[4:])


def _plot(gui: Any, title: str, names: tuple[str, ...]) -> Any:
    from viser import uplot

    lines = [uplot.Series(label=name, stroke=color) for name, color in zip(names, _COLORS * 2)]
    empty = tuple(np.zeros(1) for _ in range(len(names) + 1))
    return gui.add_uplot(
        empty, (uplot.Series(label="t [s]"), *lines), title=title, height=180,
        scales={"x": uplot.Scale(time=False)},
    )  # fmt: skip


HOLD = "hold"
SWITCH_TIMEOUT = 5.0
"""Maximum time for arms to come to rest before a switch that requires rest [s]."""
GRASP_FORCE = 20.0
"""Force of a grasp [N]."""


class ArmTab:
    """Tab of one arm in the page of the panel.

    Args:
        session: Session of the panel.
        tabs: Tab group of the page.
        arm: Name of the arm.
        base: Pose of the arm's base in the world.

    Attributes:
        gizmo: Gizmo for the arm's target in the scene.
        gains: Elements for parameters of the controllet.
        law: Drop-down for the arm's controllet.
        state: Text about faults and holds.

    Thread: the panel's.
    """

    def __init__(self, session: Session, tabs: Any, arm: str, base: Pose) -> None:
        self._session, self._arm = session, arm
        self.gizmo = Gizmo(session, arm, base)
        self._laws = [spec for spec in session.cell.specs if arm in spec.config.arms]
        gui = session.server.gui
        with tabs.add_tab(arm):
            names = (HOLD, *(spec.name for spec in self._laws if not spec.is_hold))
            self.law = gui.add_dropdown("law", names)
            self.state = gui.add_markdown("")
            self._recover = gui.add_button("Recover", color="yellow", visible=False)
            if session.cell.descriptions[arm].gripper is not None:
                self._add_hand(gui)
            self.gains = Gains(session, gui.add_folder("Gains"))
        session.on_use(self.law, self._choose)
        session.on_use(self._recover, self._ask_recovery)

    def owner(self) -> InstanceSpec:
        """Return the active controllet of the arm, which may be its hold."""
        active = self._session.cell.active
        owners = [spec for spec in self._laws if spec.name in active]
        laws = [spec for spec in owners if not spec.is_hold]
        return (laws or owners or self._laws)[0]

    def refresh(self, reason: str, hold_reason: str) -> None:
        """Update the elements of controllet, gains and state.

        Args:
            reason: Reason of the arm's fault; empty without a fault.
            hold_reason: Reason why the arm holds; empty if no reason is known.
        """
        law, fault = self.owner(), self._session.cell.state(self._arm).fault
        name = HOLD if law.is_hold else law.name
        if self.law.value != name:
            self.law.value = name
        self._recover.visible = bool(fault)
        text = f"**fault: {fault}**: {reason}" if fault else "no fault"
        if law.is_hold and hold_reason and not fault:
            text += f"; holds: {hold_reason}"
        if not fault and not Gizmo.takes_poses(law):
            text += "; this controllet takes no pose: choose another one to drag the tool"
        if self.state.content != text:
            self.state.content = text
        self.gains.show(law)

    def _add_hand(self, gui: Any) -> None:
        hand = self._session.cell.gripper(self._arm)
        max_value = hand.description.max_width
        width = gui.add_slider("gripper [m]", 0.0, max_value, 0.001, max_value)
        move, grasp = gui.add_button("Move gripper"), gui.add_button("Grasp")

        def ask(viewer: int, act: Act) -> None:
            self._session.ask(("hand", self._arm), viewer, act)

        self._session.on_use(move, lambda viewer, _: ask(viewer, lambda: hand.move(width.value)))
        any_width = {"force": GRASP_FORCE, "epsilon_outer": max_value}
        self._session.on_use(
            grasp, lambda viewer, _: ask(viewer, lambda: hand.grasp(0.0, **any_width))
        )

    def _choose(self, viewer: int, name: Any) -> None:
        act = partial(self._switch, name, viewer_named(viewer))
        self._session.ask(("law", self._arm), viewer, act)

    def _switch(self, name: str, by: str) -> PendingResponse | None:
        law, ask = self.owner(), self._session.cell.request_switch
        if name != HOLD:
            return ask(activate=[name], strictness="force_auto", timeout=SWITCH_TIMEOUT, by=by)
        return None if law.is_hold else ask(deactivate=[law.name], strictness="best_effort", by=by)

    def _ask_recovery(self, viewer: int, _: Any) -> None:
        act = partial(self._session.cell.request_recovery, [self._arm])
        self._session.ask(("recover", self._arm), viewer, act)
