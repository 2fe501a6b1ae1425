# SPDX-License-Identifier: Apache-2.0
"""Check for simulated arms that start inside the floor, an object or an arm."""

from __future__ import annotations

from collections.abc import Mapping

from multipanda_py.registry import extras_named
from multipanda_py.simulation.object_activation import TOUCH_DEPTH

with extras_named():
    import mujoco

FLOOR = "the floor"


def start_contacts(
    model: mujoco.MjModel, data: mujoco.MjData, prefixes: Mapping[str, str]
) -> list[str]:
    """Return a warning for each arm that starts inside another body, with the deepest link.

    The simulation pushes such bodies apart with large forces. The arm is pushed away abruptly, or
    a joint that cannot move away jams.

    Args:
        model: Model of the scene.
        data: State with contacts, after ``mj_forward`` at the start.
        prefixes: Prefix of the body names of each arm, by arm name.
    """
    owner = {
        body: name
        # Longer prefixes override shorter ones, as a_b_ overrides a_.
        for name in sorted(prefixes, key=len)
        for body in range(model.nbody)
        if model.body(body).name.startswith(prefixes[name])
    }
    deepest: dict[tuple[str, str], tuple[float, str]] = {}
    for contact in data.contact:
        one, other = (int(model.geom_bodyid[geom]) for geom in contact.geom)
        if one not in owner:
            one, other = other, one
        if one not in owner or contact.dist > -TOUCH_DEPTH:
            continue
        other_name = owner.get(other) or (FLOOR if other == 0 else model.body(other).name)
        pair = (owner[one], "itself" if other_name == owner[one] else other_name)
        deepest[pair] = min(deepest.get(pair, (0.0, "")), (contact.dist, model.body(one).name))
    return [
        f"{arm} starts inside {description}: {body} is {-1e3 * dist:.0f} mm deep, which pushes "
        f"the arm "
        f"away or jams a joint. Change arms.{arm}.q_start"
        for (arm, description), (dist, body) in deepest.items()
    ]
