# SPDX-License-Identifier: Apache-2.0
"""Rules of a cell file that span several sections."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from multipanda_py import registry
from multipanda_py.config.arm_section import PER_AXIS, PER_JOINT
from multipanda_py.config.backend_section import find_backend
from multipanda_py.config.parameter_file import NODES
from multipanda_py.config.part_rules import (
    actuator_faults,
    camera_faults,
    channel_faults,
    command_faults,
    interface_faults,
    interface_mismatches,
    only_adds_torques,
    part_faults,
)
from multipanda_py.config.renamed_keys import FEATURES, check_parameters
from multipanda_py.exceptions import ConfigurationError, UnknownName
from multipanda_py.feature import feature_names, feature_specs
from multipanda_py.parameters import specs_of
from multipanda_py.robots.arm import SHAPE_SIZES
from multipanda_py.state import COMMAND_INTERFACES, JOINTS
from multipanda_py.targets import channel_table, report_titles

if TYPE_CHECKING:
    from multipanda_py.config.arm_section import ArmConfig
    from multipanda_py.config.sections import CellSections, ControlletConfig

Faults: TypeAlias = list[str]

FRICTION_COMPENSATION = ("friction", "residual")
"""Features that compensate friction. If they overcompensate it, they add energy to the arm."""


def check_cell(config: CellSections, faults: Faults) -> None:
    """Append error messages for rules that span several sections of a cell file to ``faults``.

    The values within each section must be valid.
    """
    for name, arm in config.arms.items():
        limits = arm.robot.limits
        q = np.array(arm.q_start)
        wrong = list(_list_length_faults(name, arm))
        faults.extend(wrong)
        faults.extend(actuator_faults(name, arm))
        if arm.gripper is True and not arm.robot.has_hand:
            faults.append(
                f"arms.{name}.gripper: got true, but the model {arm.robot.name} has no gripper. "
                "Use false, or the files of a gripper"
            )
        if wrong:
            continue
        for joint in np.flatnonzero((q < limits.lower) | (q > limits.upper)):
            got = f"{q[joint]:g} {limits.unit(joint)}"
            faults.append(
                f"arms.{name}.q_start: joint {joint + 1}: got {got}, allowed "
                f"[{limits.lower[joint]:g}, {limits.upper[joint]:g}]"
            )
    if not faults:
        faults.extend(part_faults(config))
    _check_backends(config, faults)
    with contextlib.suppress(ConfigurationError):  # _check_backends reports a missing backend.
        faults.extend(interface_faults(config))
    for name, obj in config.objects.items():
        if name in config.arms:
            faults.append(f"objects.{name}: an arm has this name. Choose another")
        faults.extend(_object_name_faults(config, name))
        if len(obj.size) != SHAPE_SIZES[obj.shape]:
            faults.append(
                f"objects.{name}.size: got {len(obj.size)} numbers, allowed "
                f"{SHAPE_SIZES[obj.shape]} for a {obj.shape}"
            )
        if not (obj.present or obj.mass):
            faults.append(
                f"objects.{name}.present: a fixed object (no mass) cannot be absent. Remove "
                "`present: false` or give it a mass"
            )
    faults.extend(camera_faults(config))
    _check_allowed_contacts(config, faults)
    for name, controllet in config.controllets.items():
        # The ROS nodes of robots are named after backend sections.
        if name in ("hold", *NODES, *_backend_section_names(config), *config.arms):
            faults.append(f"controllets.{name}: this name is reserved. Choose another")
        _check_controllet(config, f"controllets.{name}", controllet, faults)
    if not faults:
        faults.extend(channel_faults(config))
        for name, controllet in config.controllets.items():
            law = registry.find("controllets", controllet.type)
            path = f"controllets.{name}"
            for arms, values, section in _arms_with_equal_parameters(config, controllet):
                faults.extend(
                    command_faults(path, law, controllet.type, config, arms, values, section)
                )
    _check_active(config, faults)


def _arms_with_equal_parameters(
    config: CellSections, controllet: ControlletConfig
) -> Iterator[tuple[Sequence[str], dict[str, Any], str]]:
    common = [arm for arm in controllet.arms or config.arms if arm not in controllet.arm_params]
    if common:
        yield common, flatten(controllet.params), "params"
    for arm in controllet.arm_params:
        yield [arm], flatten(controllet.params_of(arm)), f"arm_params.{arm}"


def _object_name_faults(config: CellSections, object_name: str) -> Iterator[str]:
    path = f"objects.{object_name}"
    if object_name == "world":
        yield f"{path}: this name is reserved for the scene. Choose another"
    for arm, section in config.arms.items():
        prefix = f"{arm}_{section.robot.name}_"
        if object_name.startswith(prefix):
            yield (
                f"{path}: this name is reserved for the parts of arm {arm}. Choose one that does "
                f"not begin with {prefix}"
            )


def _list_length_faults(arm_name: str, arm: ArmConfig) -> Iterator[str]:
    n = arm.robot.n_joints
    per_joint = {"q_start": arm.q_start}
    for section, keys in PER_JOINT.items():
        part = getattr(arm, section) if section else arm
        per_joint |= {".".join(filter(None, (section, key))): getattr(part, key) for key in keys}
    for key, values in per_joint.items():
        if len(values) != n:
            yield (
                f"arms.{arm_name}.{key}: got {len(values)} numbers, allowed {n}, one per joint of "
                f"an {arm.robot.name}"
            )
    for key in PER_AXIS:
        if len(values := getattr(arm.perturbation, key)) != 3 * n:
            yield (
                f"arms.{arm_name}.perturbation.{key}: got {len(values)} numbers, allowed {3 * n}, "
                f"three per joint of an {arm.robot.name}"
            )


def _backend_section_names(config: CellSections) -> set[str]:
    sections = set()
    for arm in config.arms.values():
        # _check_backends reports an unknown backend.
        with contextlib.suppress(ConfigurationError):
            sections.add(arm.section)
    return sections


def _check_allowed_contacts(config: CellSections, faults: Faults) -> None:
    hands = [f"{name}/gripper" for name in config.arms]
    known = [*config.arms, *hands, *config.objects, "floor"]
    for index, pair in enumerate(config.collisions.pairs()):
        path = f"collisions.allowed_contacts[{index}]"
        for name in pair:
            if name not in known:
                _unknown(faults, path, name, known)
        if not set(pair) & {*config.arms, *hands}:
            faults.append(
                f"{path}: got '{' '.join(pair)}', allowed pairs with an arm or its gripper "
                "(ARM/gripper)"
            )


def _check_backends(config: CellSections, faults: Faults) -> None:
    arms_of: dict[str, list[str]] = {}
    for name, arm in config.arms.items():
        arms_of.setdefault(arm.backend, []).append(name)
    for backend, arms in arms_of.items():
        try:
            result = find_backend(backend).check_arms(config, arms)
            faults.extend([result] if isinstance(result, str) and result else result)
            rate = config.cell.clock_rate
            if rate and not find_backend(backend).provides_time:
                faults.append(
                    f"cell.clock_rate: got {rate:g} with arms.{arms[0]}.backend: "
                    f"{backend}, allowed 0, because only a simulation has its own clock"
                )
        except ConfigurationError as error:
            faults.extend(
                f"arms.{name}.backend: got {backend!r}, which does not exist; known: "
                f"{', '.join(registry.names('backends'))}"
                if isinstance(error, UnknownName)
                else f"arms.{name}.backend: {error}"
                for name in arms
            )
        except Exception as error:  # Code of a plug-in can raise anything.
            faults.append(
                f"arms.{arms[0]}.backend: the check of backend {backend!r} raises "
                f"{type(error).__name__}: {error}"
            )


def _check_controllet(
    config: CellSections, location: str, controllet: ControlletConfig, faults: Faults
) -> None:
    arms = controllet.arms
    for arm in arms or ():
        if arm not in config.arms:
            _unknown(faults, f"{location}.arms", arm, config.arms)
    if arms is not None and len(set(arms)) != len(arms):
        faults.append(f"{location}.arms: got {arms}, allowed each arm once")
    try:
        law = registry.find("controllets", controllet.type)
    except ConfigurationError as error:
        faults.append(f"{location}.type: {error}")
        return
    count = 1 if arms is None else len(arms)
    if count < law.min_arms or (law.max_arms is not None and count > law.max_arms):
        faults.append(
            f"{location}.arms: got {count}, allowed {law.min_arms} to {law.max_arms or 'all'} "
            f"for {controllet.type}"
        )
    if controllet.target_timeout and "trajectory" in law.Target.channels:
        faults.append(
            f"{location}.target_timeout: got {controllet.target_timeout:g} s, allowed 0 for "
            f"{controllet.type}, because a trajectory is a single message and no stream"
        )
    owned = [name for name in arms or config.arms if name in config.arms]
    if law.command_interface not in COMMAND_INTERFACES:
        faults.append(
            f"{location}.type: {controllet.type}: command_interface: got "
            f"{law.command_interface!r}, allowed {', '.join(COMMAND_INTERFACES)}"
        )
        return
    with contextlib.suppress(ConfigurationError):  # _check_backends reports a missing backend.
        faults.extend(interface_mismatches(location, law, controllet.type, config, owned))
    robots = {name: config.arms[name].robot for name in owned}
    sizes = tuple(robot.n_joints for robot in robots.values())
    mixed = arms is not None and len({*sizes}) > 1
    features = []
    try:
        chosen = feature_names(law, controllet.features)
        target = law.Target(count, n_joints=sizes if mixed else max(sizes, default=JOINTS))
        report_titles(law.report_names)
    except TypeError as error:
        if not mixed:
            raise
        faults.append(
            f"{location}.arms: got arms with {' and '.join(map(str, sizes))} joints. The "
            f"target of {controllet.type} needs arms with equal numbers of joints ({error})"
        )
        return
    except ConfigurationError as error:
        faults.extend(f"{location}.type: {controllet.type}: {fault}" for fault in error.faults)
        return
    faults.extend(
        f"{location}.features: {name}: renamed to {FEATURES[name]}"
        for name in chosen
        if name in FEATURES
    )
    for name in (FEATURES.get(name, name) for name in chosen):
        try:
            feature = registry.find("features", name)
        except ConfigurationError as error:
            faults.append(f"{location}.features: {error}")
            continue
        features.append((name, feature))
        if law.command_interface != COMMAND_INTERFACES[0] and only_adds_torques(feature):
            faults.append(
                f"{location}.features: {name} does not fit {controllet.type}: it adds torques, "
                f"but "
                f"the controllet commands {law.command_interface}"
            )
        faults.extend(
            f"{location}.features: {name} does not fit {controllet.type}, whose target lacks "
            f"{need}"
            for need in feature.requires
            if not hasattr(target, need)
        )
        faults.extend(
            f"{location}.features: {name} does not fit {controllet.type}: "
            f"the controllet takes {channel} targets itself"
            for channel in feature.channels
            if channel in law.Target.channels
        )
        try:
            channel_table((*law.Target.channels, *feature.channels))
        except ConfigurationError as error:
            faults.extend(f"{location}.features: {name}: {fault}" for fault in error.faults)
    compensating = [name for name in FRICTION_COMPENSATION if name in chosen]
    lacks_nullspace = "nullspace" in feature_names(law, None) and "nullspace" not in chosen
    if compensating and lacks_nullspace and max(sizes, default=0) > 6:
        faults.append(
            f"{location}.features: {compensating[0]} does not fit {controllet.type} without "
            "nullspace: overcompensated friction would drive the null-space motion, which has no "
            "damping. Add nullspace before it"
        )
    unique_faults: dict[str, None] = {}  # Equal faults of several instances are reported once.
    if arms is not None and controllet.arm_params:
        faults.append(
            f"{location}.arm_params: got {list(controllet.arm_params)}, not allowed together with "
            "arms. Use params"
        )
    for arm in controllet.arm_params:
        if arm not in config.arms:
            _unknown(faults, f"{location}.arm_params", arm, config.arms)
    each = {
        name if name in controllet.arm_params else id(robot): {name: robot}
        for name, robot in robots.items()
    }
    for own in each.values() if arms is None else [robots] if robots else []:
        path = f"{location}.type: {controllet.type}"
        try:
            specs = [*specs_of(law.Params, robots=own)]
            for name, feature in features:
                path = f"{location}.features: {name}"
                specs.extend(feature_specs(name, feature.Params, own))
        except ConfigurationError as error:
            unique_faults[f"{path}: {error}"] = None
            continue
        values = flatten(controllet.params)
        unique_faults |= dict.fromkeys(check_parameters(specs, values, f"{location}.params")[1])
        for name in own if arms is None else ():
            values = flatten(controllet.arm_params.get(name, {}))
            path = f"{location}.arm_params.{name}"
            unique_faults |= dict.fromkeys(check_parameters(specs, values, path)[1])
    faults.extend(unique_faults)


def _check_active(config: CellSections, faults: Faults) -> None:
    known = {instance.name: instance for instance in config.instances()}
    owner: dict[str, str] = {}
    for name in config.active:
        if name not in known:
            _unknown(faults, "active", name, known)
            continue
        for arm in known[name].arms:
            if arm in owner:
                faults.append(f"active: {name} and {owner[arm]} both claim arm {arm}. Remove one")
            owner[arm] = name


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested dictionaries; keys are joined by points, such as ``nullspace.stiffness``.

    ``prefix`` precedes every key.
    """
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _unknown(faults: Faults, path: str, got: str, known: Any) -> None:
    faults.append(f"{path}: got {got!r}, which does not exist; known: {', '.join(known)}")
