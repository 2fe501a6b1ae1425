# SPDX-License-Identifier: Apache-2.0
"""Controller-manager services for hardware: arms as components with a life cycle."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from controller_manager_msgs.msg import HardwareComponentState, HardwareInterface
from controller_manager_msgs.srv import (
    ListHardwareComponents,
    ListHardwareInterfaces,
    SetHardwareComponentState,
)
from lifecycle_msgs.msg import State

from multipanda_py.cell import Cell
from multipanda_py.config.part_rules import interfaces_of
from multipanda_py.exceptions import MultipandaError, SwitchRejected, shortened
from multipanda_py.ros.node.deferred_responses import Work
from multipanda_py.ros.node.guard import GuardedNode

STATE_INTERFACES = ("position", "velocity", "effort")
TIMEOUT = 0.8
"""Maximum time that an activation waits for a recovery [s]. A longer recovery continues
afterwards."""
_LABELS = {
    State.PRIMARY_STATE_UNCONFIGURED: "unconfigured",
    State.PRIMARY_STATE_INACTIVE: "inactive",
    State.PRIMARY_STATE_ACTIVE: "active",
    State.PRIMARY_STATE_FINALIZED: "finalized",
}


class HardwareServices:
    """Arms as hardware components that can be listed and set inactive or active.

    An inactive arm holds: its controllets are deactivated, and no controllet can be activated on
    it. An arm with a fault is inactive, and its activation is a recovery. Arms stay configured
    while their cell runs.

    Args:
        node: Controller-manager node that offers the services.
        main: Main node of the cell, which resolves names and logs.
        cell: Cell of the arms.
        arms: Names of the arms that are components here.
        prefix: Prefix of the service names.

    Thread: executor.
    """

    def __init__(
        self, node: GuardedNode, main: GuardedNode, cell: Cell, arms: Sequence[str], prefix: str
    ) -> None:
        self._cell, self._arms, self._logger = cell, arms, main.get_logger()
        self._commands = {arm: interfaces_of(cell.config.arms[arm]) for arm in arms}
        for kind, name, answer in (
            (ListHardwareComponents, "list_hardware_components", self._list),
            (ListHardwareInterfaces, "list_hardware_interfaces", self._list_interfaces),
        ):
            node.create_service(kind, main.resolve_service_name(prefix + name), answer)
        name = main.resolve_service_name(f"{prefix}set_hardware_component_state")
        self._name = f"service {name}"
        node.serve(SetHardwareComponentState, name, self._set)

    def _list(self, request: Any, response: Any) -> Any:
        response.component = [self._component(arm) for arm in self._arms]
        return response

    def _list_interfaces(self, request: Any, response: Any) -> Any:
        response.command_interfaces = [one for arm in self._arms for one in self._taken(arm)]
        response.state_interfaces = [one for arm in self._arms for one in self._measured(arm)]
        return response

    def _set(self, request: Any, response: Any) -> Work:
        arm, target = request.name, request.target_state
        desired = target.label or _LABELS.get(target.id, str(target.id))
        try:
            if arm not in self._arms:
                raise SwitchRejected(
                    f"hardware component {arm!r:.60}: does not exist; known: "
                    f"{', '.join(self._arms)}"
                )
            if desired == "active":
                yield from self._activate(arm)
            elif desired == "inactive":
                pending = self._cell.ask_rest(arm, by=self._name)
                while pending.poll() is None:
                    yield
            else:
                raise SwitchRejected(
                    f"{arm}: cannot become {desired:.60}, allowed inactive or active. Arms stay "
                    "configured while their cell runs"
                )
            response.ok = True
            self._logger.info(f"{arm} is {desired} on request")
        except MultipandaError as error:
            response.ok = False
            self._logger.warning(f"life cycle request rejected: {shortened(str(error))}")
        response.state = self._state(arm) if arm in self._arms else State()

    def _activate(self, arm: str) -> Work:
        self._cell.wake(arm)
        pending, since = self._cell.ask_recovery([arm]), time.monotonic()
        while pending.poll() is None:
            if time.monotonic() - since > TIMEOUT:
                raise SwitchRejected(
                    f"{arm}: the fault {pending.faults[arm]} is not cleared after {TIMEOUT:g} s; "
                    "the recovery continues"
                )
            yield

    def _component(self, arm: str) -> HardwareComponentState:
        component = HardwareComponentState(
            name=arm,
            type="system",
            state=self._state(arm),
            command_interfaces=list(self._taken(arm)),
            state_interfaces=list(self._measured(arm)),
        )
        backend, rate = self._cell.config.arms[arm].backend, round(self._cell.config.cell.rate)
        for field, value in (("plugin_name", backend), ("class_type", backend), ("rw_rate", rate)):
            if hasattr(component, field):  # Not every distribution has this field.
                setattr(component, field, value)
        return component

    def _state(self, arm: str) -> State:
        is_active = not (self._cell.is_resting(arm) or self._cell.state(arm).fault)
        number = State.PRIMARY_STATE_ACTIVE if is_active else State.PRIMARY_STATE_INACTIVE
        return State(id=number, label=_LABELS[number])

    def _taken(self, arm: str) -> Iterator[HardwareInterface]:
        """Yield the command interfaces of the joints. The active ones are claimed."""
        state = self._cell.state(arm)
        is_available = not (state.fault or self._cell.is_resting(arm))
        for joint in self._cell.descriptions[arm].joint_names:
            for kind in self._commands[arm]:
                is_claimed = bool(state.owner) and kind == state.interface
                yield _interface(f"{joint}/{kind}", is_available, is_claimed)

    def _measured(self, arm: str) -> Iterator[HardwareInterface]:
        for joint in self._cell.descriptions[arm].joint_names:
            for kind in STATE_INTERFACES:
                yield _interface(f"{joint}/{kind}", True, False)


def _interface(name: str, is_available: bool, is_claimed: bool) -> HardwareInterface:
    interface = HardwareInterface(name=name, is_available=is_available, is_claimed=is_claimed)
    if hasattr(interface, "data_type"):  # Not every distribution has this field.
        interface.data_type = "double"
    return interface
