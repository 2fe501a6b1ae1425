# SPDX-License-Identifier: Apache-2.0
"""Assignment of bodies to arms with overlapping name prefixes."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from multipanda_py.simulation.object_activation import ObjectActivation
from multipanda_py.simulation.world import World

pytestmark = pytest.mark.inline

SCENE = """<mujoco><worldbody>
  <body name="a_fr3_link0"><freejoint/><geom size="0.1"/></body>
  <body name="a_fr3_b_fr3_link0" pos="0 1 0"><freejoint/><geom size="0.1"/></body>
</worldbody></mujoco>"""
ARMS = {"a": "a_fr3_", "a_fr3_b": "a_fr3_b_fr3_"}


def test_prefix_of_arm_name_does_not_claim_other_links():
    """Links of the second arm also counted for the first, so both became heavier."""
    model = mujoco.MjModel.from_xml_string(SCENE)
    data, before = mujoco.MjData(model), model.body_inertia.copy()
    world = World(model, data, ObjectActivation(model, data, [], np.zeros(0, np.int64), ARMS))
    world.scale_inertia("a", 2.0)
    np.testing.assert_allclose(model.body_inertia, before * np.array([[1.0], [2.0], [1.0]]))
