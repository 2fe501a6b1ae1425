# SPDX-License-Identifier: Apache-2.0
"""Link transforms against pinocchio on the URDF of the same arm."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.robots import ArmDescription, Tool
from multipanda_py.robots.arm import MovingLinks, fixed_links
from multipanda_py.robots.geometry import rotation_from_rpy
from multipanda_py.robots.models import MODELS
from multipanda_py.robots.urdf import arm_urdf

pytestmark = pytest.mark.inline

TCP = np.eye(4)
TCP[:3, :3], TCP[:3, 3] = rotation_from_rpy(0.3, -0.2, 1.1), [0.02, -0.03, 0.2]
TOOL = Tool(mass=0.5, com_in_flange=np.zeros(3), inertia=1e-3 * np.eye(3), pose_tcp_in_flange=TCP)


def placements(arm, q, fingers):
    """Multiply the transforms from the world to every link."""
    found = {"world": pin.SE3.Identity()}
    links = MovingLinks(arm)
    local = {
        link.child: (link.parent, pin.XYZQUATToSE3(np.concatenate((p, xyzw))))
        for link, p, xyzw in zip(links.links, *links.forward_kinematics(q, fingers))
    }
    for link in fixed_links(arm):
        placement = pin.SE3(link.origin.rotation, np.array(link.origin.position))
        local[link.child] = (link.parent, placement)
    while local:
        for child in [c for c, (parent, _) in local.items() if parent in found]:
            parent, placement = local.pop(child)
            found[child] = found[parent] * placement
    return found


@pytest.mark.parametrize("model", sorted(MODELS))
def test_link_poses_agree_with_pinocchio(model):
    rng = np.random.default_rng(3)
    arm = ArmDescription(
        "arm", model, np.array([0.1, 0.3, -0.2]), rotation_from_rpy(0.4, -1.0, 2.0), tool=TOOL
    )
    model = pin.buildModelFromXML(arm_urdf(arm, plain=True))
    data = model.createData()
    for _ in range(3):
        q = rng.uniform(np.maximum(arm.limits.lower, -3.0), np.minimum(arm.limits.upper, 3.0))
        fingers = rng.uniform(0.0, 0.04, 2)
        values = dict(zip((*arm.joint_names, *arm.finger_joint_names), (*q, *fingers)))
        pin.framesForwardKinematics(
            model, data, np.array([values[name] for name in list(model.names)[1:]])
        )
        found = placements(arm, q, fingers)
        assert set(found) == {f.name for f in model.frames if f.type == pin.BODY}
        for name, placement in found.items():
            expected = data.oMf[model.getFrameId(name, pin.BODY)]
            assert np.abs(placement.homogeneous - expected.homogeneous).max() < 1e-12, name
