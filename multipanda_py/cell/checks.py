# SPDX-License-Identifier: Apache-2.0
"""Checks of a cell file for settings that are allowed, but probably not intended."""

from __future__ import annotations

from pathlib import Path

from multipanda_py.config.backend_section import find_backend
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.checks import (
    check_latency,
    check_motor_ranges,
    check_overlapping_bases,
    check_rates,
    check_robots,
    check_spring_torques,
)
from multipanda_py.config.describe import describe_arms, describe_objects
from multipanda_py.config.instance_spec import InstanceSpec, instance_specs
from multipanda_py.config.parameter_file import ParameterFile
from multipanda_py.controllets.features.collision_avoidance import avoided_bodies

_AVOIDANCE = "collision_avoidance"


def check_allowed_contacts(config: CellConfig) -> list[str]:
    """Return warnings on controllets that let arms touch fixed objects or the floor."""
    hands: dict[str, None] = {}
    arms: dict[str, None] = {}
    for spec in instance_specs(config):
        parts = "all" if spec.is_hold else _parts_avoiding_fixed_objects(spec)
        if parts != "all":
            (hands if parts == "without_gripper" else arms)[spec.config.short_name] = None
    result = []
    if hands:
        result.append(
            f"grippers may touch fixed objects and the floor while {', '.join(hands)} acts, as "
            f"needed for contact tasks. Set {_AVOIDANCE}.fixed_objects: all to prevent contact"
        )
    if arms:
        result.append(
            f"whole arms may touch fixed objects while {', '.join(arms)} acts, because "
            f"{_AVOIDANCE} is missing, disabled or ignores them"
        )
    return result


def _parts_avoiding_fixed_objects(spec: InstanceSpec) -> str:
    """Return ``all``, ``without_gripper`` or ``ignore`` (no part)."""
    values = spec.initial_values()
    if not values.get(f"{_AVOIDANCE}.enabled"):
        return "ignore"
    return avoided_bodies(
        values[f"{_AVOIDANCE}.fixed_objects"], spec.controllet_class.contact_classes
    )


def check_initial_contacts(config: CellConfig) -> list[str]:
    """Return warnings on simulated arms that penetrate floor, objects or other arms at the start.

    Real arms are not checked.
    """
    simulated = [
        name for name, arm in config.arms.items() if find_backend(arm.backend).measures_objects
    ]
    if not simulated:
        return []
    import mujoco  # MuJoCo takes half a second to load; cells with real arms do not need it.

    from multipanda_py.simulation.scene_mjcf import build_scene
    from multipanda_py.simulation.world import start_contacts

    arms = [arm for arm in describe_arms(config) if arm.name in simulated]
    model = build_scene(arms, describe_objects(config)).compile()
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    for arm in arms:
        at = [int(model.joint(name).qposadr[0]) for name in arm.joint_names]
        data.qpos[at] = config.arms[arm.name].q_start
    mujoco.mj_forward(model, data)
    return start_contacts(model, data, {name: f"{name}_" for name in simulated})


WARNING_CHECKS = (
    check_robots, check_overlapping_bases, check_initial_contacts, check_allowed_contacts,
    check_latency, check_rates, check_spring_torques, check_motor_ranges,
)  # fmt: skip
"""Checks of a cell file that return warnings. Every command and the node report them."""


def notes_of(config: CellConfig) -> list[str]:
    """Return the warnings of all checks on a cell file."""
    return [sentence for check in WARNING_CHECKS for sentence in check(config)]


def unread_sections(path: str | Path) -> list[str]:
    """Return a warning on every section of a YAML file whose name matches no node of the cell."""
    return [
        f"parameters of {name} have no effect, because the cell has no such node"
        for name in ParameterFile.read(path).unmatched_sections()
    ]
