# SPDX-License-Identifier: Apache-2.0
"""Image of one arm: its visual geometry next to its collision capsules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from multipanda_py.registry import extras_named
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.importing.source import Shapes
from multipanda_py.robots.robot import Robot
from multipanda_py.robots.tree import Chain
from multipanda_py.simulation.mjcf import AZIMUTH, ELEVATION, OVERVIEW_FIELD_OF_VIEW, build_scene
from multipanda_py.simulation.mjcf_arm import add_shape
from multipanda_py.simulation.mjcf_elements import COLLISION_GROUP, VISUAL_GROUP
from multipanda_py.simulation.rendering import Renderer, write_png

with extras_named():
    import mujoco

HIDDEN_GROUP = 5
"""Group of geoms that is not rendered."""
WIDTH, HEIGHT = 640, 640
"""Size of each half of the image [pixels]."""
CAPSULE_COLOR = (0.95, 0.5, 0.1, 0.45)
"""Red, green, blue and opacity of collision capsules."""


def render_robot(path: Path, robot: Robot, chain: Chain, shapes: Shapes) -> None:
    """Write a PNG of an arm in its ready configuration, without and with its capsules.

    Args:
        path: Path of the PNG file.
        robot: Robot model of the arm.
        chain: Kinematic chain of the arm in its description.
        shapes: Geometry by link of the description, and by ``visual`` and ``collision``.

    Raises:
        RenderingUnavailable: If rendering is impossible; the message names what to install.
    """
    arm = ArmDescription("arm", replace(robot, source=None), hand=False)
    spec = build_scene([arm])
    shown: set[int] = set()
    for link, (number, pose) in chain.link_indices.items():
        kinds = shapes.get(link, {})
        body = spec.body(arm.prefix + chain.links[number])
        for shape in kinds.get("visual") or kinds.get("collision") or ():
            # Gray, so that the capsules stand out.
            add_shape(spec, body, replace(shape, rgba=None), pose)
            shown.add(number)
    own = {arm.prefix + link.name: number in shown for number, link in enumerate(robot.links)}
    model = spec.compile()
    capsules = model.geom_group == COLLISION_GROUP
    for geom in np.flatnonzero(model.geom_group == VISUAL_GROUP):
        body = model.body(int(model.geom_bodyid[geom])).name
        # This visual geometry repeats the capsules, which are shown below.
        if own.get(body) and model.geom_matid[geom] >= 0:
            model.geom_group[geom] = HIDDEN_GROUP
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    with Renderer(model, WIDTH, HEIGHT) as renderer:
        camera = _whole_view(model, data)
        bare = renderer.frame(data, camera)
        model.geom_group[capsules] = VISUAL_GROUP
        model.geom_rgba[capsules] = CAPSULE_COLOR
        write_png(path, np.hstack((bare, renderer.frame(data, camera))))


def _whole_view(model: mujoco.MjModel, data: mujoco.MjData) -> mujoco.MjvCamera:
    """Return a camera that shows the whole arm and little else."""
    capsules = np.flatnonzero(model.geom_group == COLLISION_GROUP)
    half = model.geom_size[capsules, 1:2] * data.geom_xmat[capsules].reshape(-1, 3, 3)[:, :, 2]
    middles, radii = data.geom_xpos[capsules], model.geom_size[capsules, :1]
    low = np.minimum(middles - half, middles + half) - radii
    high = np.maximum(middles - half, middles + half) + radii
    low, high = low.min(axis=0), high.max(axis=0)
    camera = mujoco.MjvCamera()
    camera.type = mujoco.mjtCamera.mjCAMERA_FREE
    camera.lookat[:] = (low + high) / 2.0
    camera.azimuth, camera.elevation = AZIMUTH, ELEVATION
    half_angle = np.radians(OVERVIEW_FIELD_OF_VIEW) / 2.0
    camera.distance = 0.9 * float(np.linalg.norm(high - low)) / 2.0 / np.sin(half_angle)
    return camera
