# SPDX-License-Identifier: Apache-2.0
"""The controller manager's services: list, switch, load, configure and unload controllets."""

from __future__ import annotations

from typing import Any

from controller_manager_msgs.msg import ControllerState
from controller_manager_msgs.srv import (
    ConfigureController,
    ListControllers,
    LoadController,
    SwitchController,
    UnloadController,
)

from multipanda_py import registry
from multipanda_py.cell import Cell
from multipanda_py.cell.switch_planning import Strictness
from multipanda_py.cell.switcher import ControlletInfo
from multipanda_py.exceptions import MultipandaError, SwitchRejected, shortened
from multipanda_py.ros.deferred_responses import Work
from multipanda_py.ros.guard import GuardedNode

DEFAULT_TIMEOUT = 1.0
"""How long the loop may take over a switch when the request does not say [s]."""
MAX_TIMEOUT = 10.0
"""How long the loop may take at most, whatever the request says [s]."""


class ControllerManager:
    """``controller_manager/...`` of the whole cell, or of one arm.

    In the cell's namespace every instance goes by its full name
    (``left/cartesian_impedance_controller``). In an arm's namespace only what belongs to this
    arm alone is there, by its short name, so that a client of one arm needs not know of the
    others; FORCE_AUTO may still end a law that shares this arm with another one.

    Args:
        node: Offers the services.
        cell: The cell.
        arm: The arm, or an empty string for the whole cell.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell, arm: str = "") -> None:
        self._cell, self._arm, self._logger = cell, arm, node.get_logger()
        self._prefix = f"{arm}/" if arm else ""
        self._joints = {name: arm.joint_names for name, arm in cell.descriptions.items()}
        manager = f"{self._prefix}controller_manager"
        node.serve(SwitchController, f"{manager}/switch_controller", self._switch)
        for kind, name, answer in (
            (ListControllers, "list_controllers", self._list),
            (LoadController, "load_controller", self._load),
            (ConfigureController, "configure_controller", self._configure),
            (UnloadController, "unload_controller", self._unload),
        ):
            node.create_service(kind, f"{manager}/{name}", answer)

    def _switch(self, request: Any, response: Any) -> Work:
        wait = request.timeout.sec + request.timeout.nanosec * 1e-9
        try:
            pending = self._cell.ask_switch(
                [self._prefix + name for name in request.activate_controllers],
                [self._prefix + name for name in request.deactivate_controllers],
                request.strictness or Strictness.BEST_EFFORT,
                min(wait, MAX_TIMEOUT) if wait > 0 else DEFAULT_TIMEOUT,
            )
            while (result := pending.look()) is None:
                yield
            # As ros2_control: best effort that left out what was to be active has failed.
            response.ok, message = not result.missing, result.message
            if result.missing:
                self._logger.warning(f"switched in part: {shortened(message)}")
            else:
                self._logger.info(f"switched: {shortened(message)}")
        except MultipandaError as error:
            response.ok, message = False, str(error)
            self._logger.warning(f"switch refused: {message}")
        if hasattr(response, "message"):  # not in every distribution
            response.message = shortened(message)

    def _list(self, request: Any, response: Any) -> Any:
        response.controller = [
            self._state_of(info)
            for info in self._cell.controllets()
            if info.state != "unloaded" and self._is_here(info)
        ]
        return response

    def _load(self, request: Any, response: Any) -> Any:
        return self._change(request.name, ("unloaded",), "unconfigured", response)

    def _configure(self, request: Any, response: Any) -> Any:
        return self._change(request.name, ("unconfigured", "inactive"), "inactive", response)

    def _unload(self, request: Any, response: Any) -> Any:
        return self._change(request.name, ("unconfigured", "inactive"), "unloaded", response)

    def _change(self, name: str, allowed: tuple[str, ...], state: str, response: Any) -> Any:
        """Move an instance to another lifecycle state; these responses carry no reason."""
        try:
            full = self._prefix + name
            known = {info.name: info for info in self._cell.controllets() if self._is_here(info)}
            now = known[full].state if full in known else "unknown here"
            if now not in allowed:
                raise SwitchRejected(f"{full}: is {now}, allowed {' or '.join(allowed)}")
            self._cell.set_lifecycle(full, state)
            response.ok = True
        except MultipandaError as error:
            self._logger.warning(f"refused to make a controllet {state}: {error}")
            response.ok = False
        return response

    def _is_here(self, info: ControlletInfo) -> bool:
        return not self._arm or (info.per_arm and info.arms == (self._arm,))

    def _state_of(self, info: ControlletInfo) -> ControllerState:
        kind = registry.find("controllets", info.type).command_interface
        claims = [f"{joint}/{kind}" for arm in info.arms for joint in self._joints[arm]]
        return ControllerState(
            name=info.short_name if self._arm else info.name,
            state=info.state,
            type=info.type,
            is_async=False,
            update_rate=round(self._cell.config.cell.rate),
            claimed_interfaces=claims if info.state == "active" else [],
            required_command_interfaces=claims,
        )
