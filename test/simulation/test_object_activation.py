# SPDX-License-Identifier: Apache-2.0
"""Which bodies are an arm's, where names begin with one another."""

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


def test_links_are_not_those_of_an_arm_whose_name_begins_with_another_ones_prefix():
    """The second arm's links were the first one's, too: it grew heavy with it."""
    model = mujoco.MjModel.from_xml_string(SCENE)
    data, before = mujoco.MjData(model), model.body_inertia.copy()
    world = World(model, data, ObjectActivation(model, data, [], np.zeros(0, np.int64), ARMS))
    world.scale_inertia("a", 2.0)
    np.testing.assert_allclose(model.body_inertia, before * np.array([[1.0], [2.0], [1.0]]))
