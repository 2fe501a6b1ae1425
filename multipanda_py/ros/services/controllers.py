# SPDX-License-Identifier: Apache-2.0
"""Controller-manager nodes, with controllets as controllers and arms as hardware components."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import controller_manager_msgs.srv
from controller_manager_msgs.msg import ControllerState, HardwareComponentState, HardwareInterface
from controller_manager_msgs.srv import (
    ConfigureController,
    ListControllers,
    ListControllerTypes,
    ListHardwareComponents,
    ListHardwareInterfaces,
    LoadController,
    ReloadControllerLibraries,
    SetHardwareComponentState,
    SwitchController,
    UnloadController,
)
from lifecycle_msgs.msg import State
from rcl_interfaces.msg import ParameterDescriptor

from multipanda_py import registry
from multipanda_py.cell import Cell
from multipanda_py.cell.switch_planning import Strictness
from multipanda_py.cell.switcher import ControlletInfo
from multipanda_py.config.part_rules import interfaces_of
from multipanda_py.exceptions import (
    MultipandaError,
    SwitchRejected,
    UnknownName,
    shortened,
)
from multipanda_py.ros.node.deferred_responses import Work
from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.node.parameters import (
    NODE_ARGUMENTS,
    PARAMS_FILE,
    TYPE,
    apply_requested,
    clear_requested,
    plain_node,
)
from multipanda_py.targets import TRAJECTORY_CONTROLLETS

MANAGER_NAME = "controller_manager"
"""Name of the controller-manager nodes."""
_LOADED_WITH = {
    PARAMS_FILE: "Parameter files that are applied when the controllet is loaded.",
    NODE_ARGUMENTS: "Arguments of the node, applied when the controllet is loaded: "
    "-p NAME:=VALUE, --params-file FILE.",
}
BROADCASTER = "joint_state_broadcaster"
"""Controller that clients spawn to get joint states, which are always published."""
GRIPPER = "gripper"
"""Name of an arm's gripper controller. MoveIt expects its action ``gripper/gripper_cmd``."""
GRIPPER_TYPE = "position_controllers/GripperActionController"
REPORTED_TYPES = dict.fromkeys(
    TRAJECTORY_CONTROLLETS, "joint_trajectory_controller/JointTrajectoryController"
)
"""Controllets that are listed with the type of the ros2_control controller with the same action.
MoveIt finds the action of a controller by this type (moveit_ros_control_interface)."""
BUILTIN_REASONS = {
    BROADCASTER: "joint states are always published",
    GRIPPER: "the gripper is always controlled",
}
DEFAULT_SWITCH_TIMEOUT = 1.0
"""Timeout of a switch if the request has none [s]."""
MAX_SWITCH_TIMEOUT = 10.0
"""Maximum timeout of a switch [s]; longer ones are shortened."""
STATE_INTERFACES = ("position", "velocity", "effort")
ACTIVATION_TIMEOUT = 0.8
"""Maximum time that an activation waits for a recovery [s]. A longer recovery continues
afterwards."""
_LABELS = {
    State.PRIMARY_STATE_UNCONFIGURED: "unconfigured",
    State.PRIMARY_STATE_INACTIVE: "inactive",
    State.PRIMARY_STATE_ACTIVE: "active",
    State.PRIMARY_STATE_FINALIZED: "finalized",
}


def manager_node(
    main: GuardedNode, cell: Cell, laws: Mapping[str, GuardedNode], arm: str = ""
) -> GuardedNode:
    """Return the node of a controller manager, with its services and parameters.

    The parameters are ``update_rate``, the rate of the loop [Hz], and for each controllet
    ``NAME.type``, ``NAME.params_file`` and ``NAME.node_options_args``.

    Args:
        main: Main node of the cell, which determines the namespace.
        cell: Cell of the node.
        laws: Nodes of the controllets, by full name.
        arm: Name of the arm, or an empty string for the whole cell.

    Thread: executor.
    """
    node = plain_node(MANAGER_NAME, main, arm)
    prefix = f"{arm}/{MANAGER_NAME}/" if arm else f"{MANAGER_NAME}/"
    node.logs_rejections = True  # The spawner and ros2 control show no reason of a rejection.
    manager = ControllerManager(node, main, cell, laws, arm, prefix)
    HardwareServices(node, main, cell, [arm] if arm else cell.arms, prefix)
    _fixed(node, "update_rate", round(cell.config.cell.rate), "Rate of the control loop [Hz].")
    for info in manager.listed():
        name = manager.listed_name(info)
        _fixed(node, f"{name}.{TYPE}", info.type, "Type of the controllet.")
        node.same_values[f"{name}.{TYPE}"] = (reported_type(info.type),)
        for leaf, text in _LOADED_WITH.items() if info.name in laws else ():
            node.declare_parameter(f"{name}.{leaf}", [""], ParameterDescriptor(description=text))
    return node


def _fixed(node: GuardedNode, name: str, value: Any, text: str) -> None:
    node.declare_parameter(
        name,
        value,
        ParameterDescriptor(
            description=text, read_only=True, additional_constraints="set in the cell file"
        ),
    )


def reported_type(law: str) -> str:
    """Return the ros2_control type under which a type of controllet is listed."""
    return REPORTED_TYPES.get(law, law)


def builtin_reason(name: str) -> str:
    """Return why a built-in controller cannot be deactivated; empty for other names."""
    return BUILTIN_REASONS.get(name.rpartition("/")[2], "")


def builtin_controllers(
    cell: Cell, arms: Sequence[str], with_prefix: bool
) -> list[ControllerState]:
    """Return list entries of the joint state broadcaster and the arms' gripper controllers."""
    rate, laws = round(cell.config.cell.rate), [info.name for info in cell.controllets()]
    entries = [
        ControllerState(
            name=BROADCASTER, state="active", type=f"{BROADCASTER}/JointStateBroadcaster",
            update_rate=rate,
        )
    ]  # fmt: skip
    for arm in arms:
        fingers = cell.descriptions[arm].finger_joint_names
        full = f"{arm}/{GRIPPER}"
        if fingers and full not in laws:
            entries.append(
                ControllerState(
                    name=full if with_prefix else GRIPPER,
                    state="active",
                    type=GRIPPER_TYPE,
                    update_rate=rate,
                    # The second finger mimics the first one.
                    required_command_interfaces=[f"{fingers[0]}/position"],
                )
            )
    return entries


class ControllerManager:
    """Services ``controller_manager/...`` of the whole cell, or of one arm.

    For the cell, controllets have full names (``left/cartesian_impedance_controller``). For an
    arm, only controllets that use no other arm are listed, by their short names.

    Args:
        laws: Nodes of the controllets, by full name; the controllet hold has none.
        arm: Name of the arm, or an empty string for the whole cell.
        prefix: Prefix of the service names.

    Thread: executor.
    """

    def __init__(
        self,
        node: GuardedNode,
        main: GuardedNode,
        cell: Cell,
        laws: Mapping[str, GuardedNode],
        arm: str,
        prefix: str,
    ) -> None:
        self._cell, self._arm, self._logger = cell, arm, main.get_logger()
        self._node, self._laws = node, laws
        self._prefix = f"{arm}/" if arm else ""
        self._builtin = builtin_controllers(cell, [arm] if arm else cell.arms, not arm)
        self._joints = {name: arm.joint_names for name, arm in cell.descriptions.items()}
        switch = main.resolve_service_name(f"{prefix}switch_controller")
        self._by = f"service {switch}"
        node.serve(SwitchController, switch, self._switch)
        load = main.resolve_service_name(f"{prefix}load_controller")
        node.serve(LoadController, load, self._load)
        services = [
            (ListControllers, "list_controllers", self._list),
            (ListControllerTypes, "list_controller_types", self._list_types),
            (ConfigureController, "configure_controller", self._configure),
            (UnloadController, "unload_controller", self._unload),
            (ReloadControllerLibraries, "reload_controller_libraries", self._reload),
        ]
        if cleanup := getattr(controller_manager_msgs.srv, "CleanupController", None):
            # ROS 2 has this service since Kilted.
            services.append((cleanup, "cleanup_controller", self._cleanup))
        for kind, name, answer in services:
            node.create_service(kind, main.resolve_service_name(prefix + name), answer)

    def listed(self) -> list[ControlletInfo]:
        """Return the controllets that this controller manager lists."""
        return [info for info in self._cell.controllets() if self._is_listed(info)]

    def listed_name(self, info: ControlletInfo) -> str:
        """Return the name under which this controller manager lists a controllet."""
        return info.short_name if self._arm else info.name

    def _switch(self, request: Any, response: Any) -> Work:
        wait = request.timeout.sec + request.timeout.nanosec * 1e-9
        try:
            rule = request.strictness or Strictness.BEST_EFFORT
            selected = [
                f"{name}: {builtin_reason(name)}"
                for name in filter(self._is_builtin, request.deactivate_controllers)
            ]
            if selected and rule != Strictness.BEST_EFFORT:
                raise SwitchRejected("; ".join(selected))
            pending = self._cell.request_switch(
                self._full(request.activate_controllers),
                self._full(request.deactivate_controllers),
                rule,
                min(wait, MAX_SWITCH_TIMEOUT) if wait > 0 else DEFAULT_SWITCH_TIMEOUT,
                by=self._by,
            )
            while (result := pending.poll()) is None:
                yield
            response.ok, message = True, "; ".join([result.message, *selected])
            if result.missing:
                self._logger.warning(f"switched partially: {shortened(message)}")
            else:
                self._logger.info(f"switched: {shortened(message)}")
        except MultipandaError as error:
            response.ok, message = False, str(error)
            self._logger.warning(f"switch rejected: {message}")
        if hasattr(response, "message"):  # Not every ROS distribution has this field.
            response.message = shortened(message)

    def _list(self, request: Any, response: Any) -> Any:
        loaded = [self._state_of(info) for info in self.listed() if info.state != "unloaded"]
        response.controller = [*loaded, *self._builtin]
        return response

    def _list_types(self, request: Any, response: Any) -> Any:
        response.types = [*registry.names("controllets"), *sorted(set(REPORTED_TYPES.values()))]
        response.base_classes = ["multipanda_py.controllet.Controllet"] * len(response.types)
        return response

    def _reload(self, request: Any, response: Any) -> Any:
        self._logger.warning(
            "cannot reload controllets: they are loaded when the cell starts. Restart the node"
        )
        response.ok = False
        return response

    def _load(self, request: Any, response: Any) -> Work:
        response.ok = self._is_builtin(request.name)
        if response.ok:
            return
        try:
            full = self._full_name_in_state(request.name, ("unloaded",))
            overrides = yield from apply_requested(self._node, request.name, self._laws[full])
            self._cell.set_lifecycle(full, "unconfigured")
            response.ok = True
            if overrides:
                self._logger.info(f"{full}: loaded with {shortened(', '.join(overrides))}")
        except MultipandaError as error:
            # Otherwise the next load would fail with the same load parameters.
            clear_requested(self._node, request.name)
            self._logger.warning(f"cannot load {request.name:.200}: {shortened(str(error))}")

    def _configure(self, request: Any, response: Any) -> Any:
        if self._is_builtin(request.name):
            return self._accept(response)
        return self._change(request.name, ("unconfigured", "inactive"), "inactive", response)

    def _cleanup(self, request: Any, response: Any) -> Any:
        return self._change(request.name, ("unconfigured", "inactive"), "unconfigured", response)

    def _unload(self, request: Any, response: Any) -> Any:
        return self._change(request.name, ("unconfigured", "inactive"), "unloaded", response)

    def _accept(self, response: Any) -> Any:
        response.ok = True
        return response

    def _change(self, name: str, allowed: tuple[str, ...], state: str, response: Any) -> Any:
        try:
            self._cell.set_lifecycle(self._full_name_in_state(name, allowed), state)
            response.ok = True
        except MultipandaError as error:
            self._logger.warning(f"cannot set {name} to {state}: {error}")
            response.ok = False
        return response

    def _full_name_in_state(self, name: str, allowed: tuple[str, ...]) -> str:
        """Return a controllet's full name; raise if its lifecycle state is not allowed."""
        full = self._prefix + name
        states = {info.name: info.state for info in self.listed()}
        states.update({self._prefix + one.name: "always active" for one in self._builtin})
        if full not in states:
            raise UnknownName("controllet", full, list(states))
        if states[full] not in allowed:
            raise SwitchRejected(f"{full}: is {states[full]}, allowed {' or '.join(allowed)}")
        return full

    def _full(self, names: Sequence[str]) -> list[str]:
        return [self._prefix + name for name in names if not self._is_builtin(name)]

    def _is_builtin(self, name: str) -> bool:
        return any(one.name == name for one in self._builtin)

    def _is_listed(self, info: ControlletInfo) -> bool:
        return not self._arm or (info.per_arm and info.arms == (self._arm,))

    def _state_of(self, info: ControlletInfo) -> ControllerState:
        kind = registry.find("controllets", info.type).command_interface
        claims = [f"{joint}/{kind}" for arm in info.arms for joint in self._joints[arm]]
        return ControllerState(
            name=self.listed_name(info),
            state=info.state,
            type=reported_type(info.type),
            is_async=False,
            update_rate=round(self._cell.config.cell.rate),
            claimed_interfaces=claims if info.state == "active" else [],
            required_command_interfaces=claims,
        )


class HardwareServices:
    """Arms as hardware components that can be listed and set inactive or active.

    An inactive arm holds, and accepts no controllet. An arm with a fault is inactive, and its
    activation is a recovery.

    Args:
        arms: Names of the arms that are listed as components.
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
        response.command_interfaces = [
            one for arm in self._arms for one in self._command_interfaces(arm)
        ]
        response.state_interfaces = [
            one for arm in self._arms for one in self._state_interfaces(arm)
        ]
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
                pending = self._cell.request_inactive(arm, by=self._name)
                while pending.poll() is None:
                    yield
            else:
                raise SwitchRejected(
                    f"{arm}: cannot become {desired:.60}, allowed inactive or active. Arms stay "
                    "configured while their cell runs"
                )
            response.ok = True
            self._logger.info(f"{arm}: hardware state is {desired}, as a client requested")
        except MultipandaError as error:
            response.ok = False
            self._logger.warning(f"change of hardware component rejected: {shortened(str(error))}")
        response.state = self._state(arm) if arm in self._arms else State()

    def _activate(self, arm: str) -> Work:
        self._cell.activate_arm(arm)
        pending, since = self._cell.request_recovery([arm]), time.monotonic()
        while pending.poll() is None:
            if time.monotonic() - since > ACTIVATION_TIMEOUT:
                raise SwitchRejected(
                    f"{arm}: the fault {pending.faults[arm]} is not cleared after "
                    f"{ACTIVATION_TIMEOUT:g} s; the recovery continues"
                )
            yield

    def _component(self, arm: str) -> HardwareComponentState:
        component = HardwareComponentState(
            name=arm,
            type="system",
            state=self._state(arm),
            command_interfaces=list(self._command_interfaces(arm)),
            state_interfaces=list(self._state_interfaces(arm)),
        )
        backend, rate = self._cell.config.arms[arm].backend, round(self._cell.config.cell.rate)
        for field, value in (("plugin_name", backend), ("class_type", backend), ("rw_rate", rate)):
            if hasattr(component, field):  # Not every ROS distribution has this field.
                setattr(component, field, value)
        return component

    def _state(self, arm: str) -> State:
        is_active = not (self._cell.is_inactive(arm) or self._cell.state(arm).fault)
        number = State.PRIMARY_STATE_ACTIVE if is_active else State.PRIMARY_STATE_INACTIVE
        return State(id=number, label=_LABELS[number])

    def _command_interfaces(self, arm: str) -> Iterator[HardwareInterface]:
        state = self._cell.state(arm)
        is_available = not (state.fault or self._cell.is_inactive(arm))
        for joint in self._cell.descriptions[arm].joint_names:
            for kind in self._commands[arm]:
                is_claimed = bool(state.owner) and kind == state.interface
                yield _interface(f"{joint}/{kind}", is_available, is_claimed)

    def _state_interfaces(self, arm: str) -> Iterator[HardwareInterface]:
        for joint in self._cell.descriptions[arm].joint_names:
            for kind in STATE_INTERFACES:
                yield _interface(f"{joint}/{kind}", True, False)


def _interface(name: str, is_available: bool, is_claimed: bool) -> HardwareInterface:
    interface = HardwareInterface(name=name, is_available=is_available, is_claimed=is_claimed)
    if hasattr(interface, "data_type"):  # Not every ROS distribution has this field.
        interface.data_type = "double"
    return interface
