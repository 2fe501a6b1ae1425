# SPDX-License-Identifier: Apache-2.0
"""Contact forces on objects, from the simulation."""

from __future__ import annotations

import mujoco
import numpy as np


def forces_on(cell, scene_object):
    """Return the normal force of every body in contact with an object, by name [N]."""
    model, data = cell.simulation.model, cell.simulation.data
    geom, force, found = model.geom(f"{scene_object}_geom").id, np.zeros(6), {}
    for number in range(data.ncon):
        contact = data.contact[number]
        if geom in (contact.geom1, contact.geom2):
            other = contact.geom1 if contact.geom2 == geom else contact.geom2
            body = model.body(model.geom_bodyid[other]).name
            mujoco.mj_contactForce(model, data, number, force)
            found[body] = found.get(body, 0.0) + force[0]
    return found
