# SPDX-License-Identifier: Apache-2.0
"""Introspection values, read as by PlotJuggler."""

from __future__ import annotations

import numpy as np
import pytest
from pal_statistics_msgs.msg import StatisticsNames, StatisticsValues
from rclpy.qos import DurabilityPolicy, QoSProfile

pytestmark = [pytest.mark.clock, pytest.mark.node]

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
JOINTS = [f"joint{number}" for number in range(1, 8)]


def test_terms_sum_to_torque_and_names_follow_switch(cell, client):
    names = client.listen(StatisticsNames, "/introspection_data/names", LATCHED)
    values = client.listen(StatisticsValues, "/introspection_data/values")
    found = {}

    def read(part):
        """Return whether the values contain a torque term of the left arm."""
        if names() is None or values() is None:
            return False
        if names().names_version != values().names_version:
            return False
        found.clear()
        found.update(zip(names().names, values().values, strict=True))
        return f"left/{part}/joint7" in found

    def torque(part):
        return np.array([found[f"left/{part}/{joint}"] for joint in JOINTS])

    client.until(lambda: read("nullspace"), 20.0, "torques of the Cartesian controllet")
    parts = {name.split("/")[1] for name in found if name.startswith("left/") and "joint" in name}
    terms = parts - {"tau", "tau_ext", "cartesian_impedance_controller"}
    assert {"law", "nullspace", "blend", "bounds"} <= terms
    assert np.allclose(sum(torque(part) for part in terms), torque("tau"), atol=1e-9)
    assert 0.0 < found["loop/compute [us]"] < 1e6

    version = names().names_version
    assert client.switch(
        ["left/joint_impedance_controller"], ["left/cartesian_impedance_controller"]
    ).ok
    client.until(lambda: read("law") and names().names_version > version, 20.0, "new names")
    assert "left/nullspace/joint7" not in found
