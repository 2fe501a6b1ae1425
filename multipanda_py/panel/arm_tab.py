# SPDX-License-Identifier: Apache-2.0
"""What a page shows of one arm and lets be done with it: law, gains, hand, fault."""

from __future__ import annotations

from functools import partial
from typing import Any

from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.panel.desk import Desk, viewer_named
from multipanda_py.panel.gains import Gains
from multipanda_py.panel.gizmo import Gizmo
from multipanda_py.panel.inbox import Act
from multipanda_py.panel.served import Answer
from multipanda_py.pose import Pose

HOLD = "hold"
SWITCH_TIMEOUT = 5.0
"""How long arms may take to come to rest first, where a law needs that [s]."""
GRASP_FORCE = 20.0
"""[N]"""


class ArmTab:
    """The elements of one arm, in a tab of their own.

    Args:
        desk: Of the panel.
        tabs: Group of the page that gets one more.
        arm: Name of the arm.
        base: Pose of its base in the world.

    Attributes:
        gizmo: Its target in the scene.
        gains: Of its law.
        law: Choice of the arm's controllet.
        state: Text about faults and holds.

    Thread: the panel's.
    """

    def __init__(self, desk: Desk, tabs: Any, arm: str, base: Pose) -> None:
        self._desk, self._arm = desk, arm
        self.gizmo = Gizmo(desk, arm, base)
        self._laws = [spec for spec in desk.cell.specs if arm in spec.config.arms]
        gui = desk.server.gui
        with tabs.add_tab(arm):
            names = (HOLD, *(spec.name for spec in self._laws if not spec.is_hold))
            self.law = gui.add_dropdown("law", names)
            self.state = gui.add_markdown("")
            self._recover = gui.add_button("Recover", color="yellow", visible=False)
            if desk.cell.descriptions[arm].gripper is not None:
                self._add_hand(gui)
            self.gains = Gains(desk, gui.add_folder("Gains"))
        desk.on_use(self.law, self._choose)
        desk.on_use(self._recover, self._ask_recovery)

    def owner(self) -> InstanceSpec:
        """Return what the arm does."""
        active = self._desk.cell.active
        owners = [spec for spec in self._laws if spec.name in active]
        laws = [spec for spec in owners if not spec.is_hold]
        return (laws or owners or self._laws)[0]

    def refresh(self, reason: str, hold_reason: str) -> None:
        """Show the controllet and its gains, and the reasons of a fault and of hold."""
        law, fault = self.owner(), self._desk.cell.state(self._arm).fault
        name = HOLD if law.is_hold else law.name
        if self.law.value != name:
            self.law.value = name
        self._recover.visible = bool(fault)
        text = f"**fault: {fault}**: {reason}" if fault else "no fault"
        if law.is_hold and hold_reason and not fault:
            text += f"; holds: {hold_reason}"
        if not fault and not Gizmo.takes_poses(law):
            text += "; this law takes no pose: choose another one to drag"
        if self.state.content != text:
            self.state.content = text
        self.gains.show(law)

    def _add_hand(self, gui: Any) -> None:
        hand = self._desk.cell.gripper(self._arm)
        most = hand.description.max_width
        width = gui.add_slider("hand [m]", 0.0, most, 0.001, most)
        move, grasp = gui.add_button("Move hand"), gui.add_button("Grasp")

        def ask(viewer: int, act: Act) -> None:
            self._desk.ask(("hand", self._arm), viewer, act)

        self._desk.on_use(move, lambda viewer, _: ask(viewer, lambda: hand.move(width.value)))
        any_width = {"force": GRASP_FORCE, "epsilon_outer": most}
        self._desk.on_use(
            grasp, lambda viewer, _: ask(viewer, lambda: hand.grasp(0.0, **any_width))
        )

    def _choose(self, viewer: int, name: Any) -> None:
        act = partial(self._switch, name, viewer_named(viewer))
        self._desk.ask(("law", self._arm), viewer, act)

    def _switch(self, name: str, by: str) -> Answer | None:
        law, ask = self.owner(), self._desk.cell.ask_switch
        if name != HOLD:
            return ask(activate=[name], strictness="force_auto", timeout=SWITCH_TIMEOUT, by=by)
        return None if law.is_hold else ask(deactivate=[law.name], strictness="best_effort", by=by)

    def _ask_recovery(self, viewer: int, _: Any) -> None:
        act = partial(self._desk.cell.ask_recovery, [self._arm])
        self._desk.ask(("recover", self._arm), viewer, act)
