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
    from multipanda_py.simulation.presence import DEEP

    arms = [arm for arm in describe_arms(config) if arm.name in simulated]
    model = build_scene(arms, describe_objects(config)).compile()
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    for arm in arms:
        at = [int(model.joint(name).qposadr[0]) for name in arm.joint_names]
        data.qpos[at] = config.arms[arm.name].q_start
    mujoco.mj_forward(model, data)
    owner = {
        body: name
        for name in sorted(simulated, key=len)  # a_b's after those that begin with a's name, too
        for body in range(model.nbody)
        if model.body(body).name.startswith(f"{name}_")
    }
    deepest: dict[tuple[str, str], tuple[float, str]] = {}
    for contact in data.contact:
        one, other = (int(model.geom_bodyid[geom]) for geom in contact.geom)
        if one not in owner:
            one, other = other, one
        if one not in owner or contact.dist > -DEEP:
            continue
        what = owner.get(other) or ("the floor" if other == 0 else model.body(other).name)
        pair = (owner[one], "itself" if what == owner[one] else what)
        deepest[pair] = min(deepest.get(pair, (0.0, "")), (contact.dist, model.body(one).name))
    return [
        f"{arm} starts inside {what}: got {body} {-1e3 * dist:.0f} mm deep, which throws it; see "
        f"arms.{arm}.q_start"
        for (arm, what), (dist, body) in deepest.items()
    ]
