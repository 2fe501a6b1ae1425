# SPDX-License-Identifier: Apache-2.0
"""Arms under test, as pinocchio and as MuJoCo models."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.robots import ARMATURE, ArmDescription, Tool
from multipanda_py.robots.urdf import arm_urdf
from multipanda_py.simulation.scene_mjcf import build_scene

TOOL = Tool(
    mass=0.8,
    com_in_flange=np.array([0.01, -0.02, 0.06]),
    inertia=np.array([[3e-3, 1e-4, 0.0], [1e-4, 2.5e-3, -2e-4], [0.0, -2e-4, 1.5e-3]]),
    pose_tcp_in_flange=np.array(pin.SE3(pin.rpy.rpyToMatrix(0.3, -0.2, 0.5), np.full(3, 0.1))),
)


@dataclass
class Pair:
    """Models of one arm in both libraries."""

    arm: ArmDescription
    pinocchio: pin.Model
    mujoco: mujoco.MjModel


@pytest.fixture(
    scope="session",
    params=[
        (model, hand, tool)
        for model in ("fr3", "fer")
        for hand, tool in ((True, None), (False, None), (True, TOOL), (False, TOOL))
    ],
    ids=lambda p: f"{p[0]}{'-hand' if p[1] else ''}{'-tool' if p[2] else ''}",
)
def pair(request):
    """Arm at a random base pose."""
    model, hand, tool = request.param
    seed = 2 * len(model) + hand
    base = pin.SE3(
        pin.Quaternion(np.random.default_rng(seed).normal(size=4)).normalized(),
        np.random.default_rng(seed).uniform(-1.0, 1.0, 3),
    )
    arm = ArmDescription("left", model, base.translation, base.rotation, hand=hand, tool=tool)
    full = pin.buildModelFromXML(arm_urdf(arm))
    configuration = pin.neutral(full)
    fingers = [full.getJointId(name) for name in arm.finger_joint_names]
    for joint in fingers:
        configuration[full.joints[joint].idx_q] = arm.finger_opening
    reduced = pin.buildReducedModel(full, fingers, configuration)
    reduced.armature = ARMATURE.copy()
    return Pair(arm, reduced, build_scene([arm]).compile())
