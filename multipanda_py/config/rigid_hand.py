# SPDX-License-Identifier: Apache-2.0
"""An arm whose hand is a tool: what holds nothing and only presses."""

from __future__ import annotations

from multipanda_py.config.describe import describe_arm
from multipanda_py.config.sections import ArmConfig, ToolConfig
from multipanda_py.robots.load import Load, combined, moments_of
from multipanda_py.robots.rotations import rpy_from_rotation


def with_rigid_hand(arm: ArmConfig) -> ArmConfig:
    """Return an arm with one tool instead of its hand, or of hand and tool.

    Mass, inertia and working point are those of what it replaces, with open fingers; its shape is
    a rod. The same arm where it has no hand.
    """
    described = describe_arm("arm", arm)
    gripper, tool = described.gripper, described.tool
    if gripper is None:
        return arm
    load, tip = gripper.load, gripper.pose_tcp_in_flange
    if tool is not None:
        load = combined([load, Load(tool.mass, tool.com_in_flange, tool.inertia)])
        tip = tool.pose_tcp_in_flange
    rigid = ToolConfig(
        mass=float(load.mass),
        com=load.com.tolist(),
        inertia=list(moments_of(load.inertia)),
        position=tip[:3, 3].tolist(),
        rpy=list(rpy_from_rotation(tip[:3, :3])),
        friction=tool.friction if tool is not None else 0.0,
    )
    return arm.model_copy(update={"hand": False, "tool": rigid})
