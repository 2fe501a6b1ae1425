# SPDX-License-Identifier: Apache-2.0
"""Solver, floor, sky, light and cameras of a MuJoCo scene."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.arm import ArmDescription
from multipanda_py.robots.rotations import look_at

AZIMUTH, ELEVATION = 145.0, -18.0  # of both cameras [deg]
OVERVIEW_FIELD_OF_VIEW = 40.0  # vertical [deg]
MIDDLE_OF_ARM = (0.25, 0.0, 0.37)  # of an arm in its ready posture, in its base [m]
RADIUS_OF_ARM = 0.62  # of a ball around that point that holds the arm [m]
ZFAR = 60.0  # how far one sees, in sizes of the scene
TILE = 2.0  # of the floor's pattern: two squares [m]

# One floor as far as one sees: MuJoCo draws an endless one as thousands of tiles, which without a
# GPU took half of a small picture's time. For contacts every plane is endless.
#
# XML and not calls: the bindings of MuJoCo 3.2 cannot set nested options such as visual/global.
# impratio above 1 makes friction stiffer. The noslip iterations remove the remaining creep of a
# grasped object: 0.3 mm/s with 0.8 kg between two rods that press with 50 N.
_WORLD = """
<mujoco model="cell">
  <compiler angle="radian" autolimits="true"/>
  <option timestep="{timestep}" integrator="implicitfast" solver="Newton" cone="elliptic"
          impratio="10" noslip_iterations="3"/>
  <statistic center="{center}" extent="{extent}"/>
  <visual>
    <global azimuth="{azimuth}" elevation="{elevation}" fovy="{fovy}"
            offwidth="1920" offheight="1200"/>
    <quality shadowsize="4096" offsamples="8"/>
    <map znear="0.01" zfar="{zfar:g}" shadowclip="2" shadowscale="0.6"/>
    <headlight ambient="0.36 0.36 0.36" diffuse="0.32 0.32 0.32" specular="0 0 0"/>
    <rgba haze="0.86 0.89 0.93 1"/>
  </visual>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" width="256" height="1536"
             rgb1="0.96 0.97 0.98" rgb2="0.62 0.70 0.80"/>
    <texture name="floor" type="2d" builtin="checker" width="512" height="512" mark="edge"
             rgb1="0.80 0.82 0.84" rgb2="0.76 0.78 0.805" markrgb="0.84 0.86 0.88"/>
    <material name="floor" texture="floor" texuniform="true" texrepeat="1 1"/>
  </asset>
  <worldbody>
    <geom name="floor" type="plane" size="{far} {far} {far}" pos="0 0 {floor}" material="floor"/>
    <light directional="true" castshadow="true" pos="{key}" dir="-1.2 1.6 -3"
           diffuse="0.55 0.55 0.55" specular="0.25 0.25 0.25" ambient="0 0 0"/>
    <light directional="true" castshadow="false" pos="{fill}" dir="-1 -2 -1.5"
           diffuse="0.18 0.18 0.18" specular="0.25 0.25 0.25" ambient="0 0 0"/>
    <camera name="overview" pos="{camera}" xyaxes="{xyaxes}" fovy="{fovy}"/>
  </worldbody>
</mujoco>
"""


def _bounds(arms: Sequence[ArmDescription]) -> tuple[NDArray[np.float64], float]:
    """Return centre (3,) [m] and radius [m] of a ball around what the arms usually fill."""
    bases = [(a.position_base_in_world, a.rotation_base_in_world) for a in arms]
    bases = bases or [(np.zeros(3), np.eye(3))]
    middles = np.array([position + rotation @ MIDDLE_OF_ARM for position, rotation in bases])
    center = (middles.min(axis=0) + middles.max(axis=0)) / 2.0
    return center, RADIUS_OF_ARM + float(np.linalg.norm(middles - center, axis=1).max())


def _text(values: Sequence[float] | NDArray[np.float64]) -> str:
    """Return numbers as an XML attribute."""
    return " ".join(f"{value:.9g}" for value in values)


def world_xml(arms: Sequence[ArmDescription], timestep: float) -> str:
    """Return a scene without arms, whose free and fixed camera will see all of them.

    The floor is at height 0, or at the lowest base below it.

    Args:
        arms: The arms that will be added.
        timestep: Length of a simulation step [s].

    Returns:
        MJCF.
    """
    center, radius = _bounds(arms)
    azimuth, elevation = np.radians((AZIMUTH, ELEVATION))
    direction = np.array([np.cos(azimuth), np.sin(azimuth), np.tan(elevation)])
    direction /= np.linalg.norm(direction)
    distance = 0.75 * radius / np.sin(np.radians(OVERVIEW_FIELD_OF_VIEW) / 2.0)
    rotation, extent = look_at(direction), 1.1 * radius
    return _WORLD.format(
        timestep=repr(float(timestep)),
        center=_text(center),
        extent=_text([extent]),
        zfar=ZFAR,
        far=_text([TILE * np.ceil(ZFAR * extent / TILE)]),
        azimuth=AZIMUTH,
        elevation=ELEVATION,
        fovy=OVERVIEW_FIELD_OF_VIEW,
        floor=_text([min([0.0, *(float(a.position_base_in_world[2]) for a in arms)])]),
        key=_text(center + (1.0 + radius) * np.array([1.2, -1.6, 3.0])),
        fill=_text(center + (1.0 + radius) * np.array([1.0, 2.0, 1.5])),
        camera=_text(center - distance * direction),
        xyaxes=_text([*rotation[:, 0], *rotation[:, 1]]),
    )
