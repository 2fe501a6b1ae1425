# SPDX-License-Identifier: Apache-2.0
"""Which simulated arms start inside of something, in sentences."""

from __future__ import annotations

from multipanda_py.config.backend_section import find_backend
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms, describe_objects


def starts_inside(config: CellConfig) -> list[str]:
    """Say which simulated arms are inside the floor, a thing or another arm at their start.

    The simulation throws them out of it, mostly with a fault, before anybody has asked for
    anything. Where real arms are is not known before they are there.

    Returns:
        A sentence for each pair of an arm and what it is in, with the deepest link.
    """
    simulated = [
        name for name, arm in config.arms.items() if find_backend(arm.backend).measures_objects
    ]
    if not simulated:
        return []
    import mujoco  # takes half a second

    from multipanda_py.simulation.mjcf import build_scene
    from multipanda_py.simulation.start_contacts import start_contacts

    arms = [arm for arm in describe_arms(config) if arm.name in simulated]
    model = build_scene(arms, describe_objects(config)).compile()
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    for arm in arms:
        at = [int(model.joint(name).qposadr[0]) for name in arm.joint_names]
        data.qpos[at] = config.arms[arm.name].q_start
    mujoco.mj_forward(model, data)
    return start_contacts(model, data, {name: f"{name}_" for name in simulated})
