# SPDX-License-Identifier: Apache-2.0
"""Visual geometry of the Franka links, made of solids of revolution and blocks.

Sizes were measured on the robot's published collision meshes; the shapes are our own.
"""

from __future__ import annotations

from multipanda_py.robots.franka import FINGER_BLOCKS, FLANGE_HEIGHT
from multipanda_py.robots.geometry import Block, Point, SolidOfRevolution

RGBA = tuple[float, float, float, float]
COLORS: dict[str, RGBA] = {
    "shell": (0.93, 0.94, 0.95, 1.0),
    "seam": (0.16, 0.17, 0.19, 1.0),
    "cap": (0.72, 0.74, 0.77, 1.0),
    "dark": (0.20, 0.21, 0.23, 1.0),
    "metal": (0.62, 0.64, 0.67, 1.0),
    "rubber": (0.10, 0.10, 0.11, 1.0),
    "silver": (0.76, 0.77, 0.79, 1.0),
    "blue": (0.33, 0.58, 0.76, 1.0),
    "orange": (0.93, 0.42, 0.10, 1.0),
    "tool": (0.55, 0.57, 0.60, 1.0),
}
R = 0.055  # Radius of the large joints [m].


def _tube(start: Point, end: Point, radius: float = R, color: str = "shell") -> SolidOfRevolution:
    return SolidOfRevolution(start, end, radius, radius, color=color)


def _limb(start: Point, end: Point, radius_start: float, radius_end: float) -> SolidOfRevolution:
    """Return a tapered limb with round ends, so that limbs meet smoothly in a bend."""
    return SolidOfRevolution(start, end, radius_start, radius_end, radius_start, radius_end)


def _joint(
    base: Point, top: Point, radius: float = R, dome: float = 0.022
) -> tuple[SolidOfRevolution, ...]:
    """Return one half of a joint: seam at the base, drum, domed cap with a grey rim."""
    axis = tuple(t - b for b, t in zip(base, top, strict=True))
    length = sum(a * a for a in axis) ** 0.5
    unit = tuple(a / length for a in axis)

    def at(height: float) -> Point:
        """Return the point on the joint's axis at a height above the base."""
        x, y, z = (b + height * u for b, u in zip(base, unit, strict=True))
        return x, y, z

    return (
        _tube(base, at(0.003), radius - 0.0015, "seam"),
        _tube(at(0.003), at(length - 0.006)),
        _tube(at(length - 0.006), at(length - 0.003), radius - 0.0015, "seam"),
        SolidOfRevolution(at(length - 0.003), top, radius, radius, 0.0, dome, "cap"),
    )


LINK_VISUALS: tuple[tuple[SolidOfRevolution | Block, ...], ...] = (
    (
        Block((-0.040, 0.0, 0.006), (0.108, 0.090, 0.006), color="metal"),
        SolidOfRevolution((0.0, 0.0, 0.012), (0.0, 0.0, 0.110), 0.070, 0.057),
        SolidOfRevolution((-0.095, 0.0, 0.030), (0.0, 0.0, 0.075), 0.045, 0.055, 0.045, 0.055),
        Block((-0.128, 0.0, 0.032), (0.014, 0.045, 0.022), color="dark"),
        _tube((0.0, 0.0, 0.110), (0.0, 0.0, 0.137), 0.057),
    ),
    (
        _tube((0.0, 0.0, -0.196), (0.0, 0.0, -0.190), R - 0.0015, "seam"),
        _tube((0.0, 0.0, -0.190), (0.0, 0.0, -0.110)),
        _limb((0.0, 0.0, -0.110), (0.0, -0.062, -0.006), R, R - 0.001),
        *_joint((0.0, 0.0, 0.0), (0.0, -0.107, 0.0)),
    ),
    (
        *_joint((0.0, 0.0, 0.0), (0.0, 0.0, 0.107)),
        _limb((0.0, -0.006, 0.062), (0.0, -0.115, 0.0), R - 0.001, R),
        _tube((0.0, -0.115, 0.0), (0.0, -0.192, 0.0)),
    ),
    (
        _tube((0.0, 0.0, -0.124), (0.0, 0.0, -0.118), R - 0.0015, "seam"),
        _tube((0.0, 0.0, -0.118), (0.0, 0.0, -0.070)),
        _limb((0.0, 0.0, -0.070), (0.078, 0.050, -0.004), R, R - 0.001),
        *_joint((0.0825, 0.0, 0.0), (0.0825, 0.090, 0.0)),
    ),
    (
        *_joint((0.0, 0.0, 0.0), (0.0, 0.0, 0.090)),
        _limb((-0.004, 0.004, 0.050), (-0.0825, 0.070, 0.0), R - 0.001, R),
        _tube((-0.0825, 0.070, 0.0), (-0.0825, 0.122, 0.0)),
    ),
    (
        _tube((0.0, 0.0, -0.262), (0.0, 0.0, -0.256), R - 0.0015, "seam"),
        _tube((0.0, 0.0, -0.256), (0.0, 0.0, -0.205)),
        _limb((0.0, 0.0, -0.205), (0.0, 0.064, -0.090), R, 0.036),
        _limb((0.0, 0.064, -0.090), (0.0, 0.078, -0.004), 0.036, 0.048),
        *_joint((0.0, 0.047, 0.0), (0.0, 0.112, 0.0), 0.051),
    ),
    (
        *_joint((0.0, 0.0, -0.045), (0.0, 0.0, 0.040), 0.048, 0.016),
        _limb((0.010, 0.0, 0.0), (0.088, 0.010, 0.0), 0.044, 0.046),
        *_joint((0.088, -0.050, 0.0), (0.088, 0.062, 0.0), 0.047, 0.018),
    ),
    (
        _tube((0.0, 0.0, 0.049), (0.0, 0.0, 0.053), 0.043, "seam"),
        SolidOfRevolution((0.0, 0.0, 0.053), (0.0, 0.0, 0.098), 0.044, 0.044),
        SolidOfRevolution((0.020, 0.020, 0.076), (0.045, 0.045, 0.076), 0.024, 0.022, 0.0, 0.015),
        SolidOfRevolution((0.045, 0.045, 0.090), (0.045, 0.045, 0.100), 0.012, 0.010, color="cap"),
        _tube((0.0, 0.0, 0.098), (0.0, 0.0, FLANGE_HEIGHT), 0.032, "metal"),
    ),
)
HAND_VISUALS: tuple[SolidOfRevolution | Block, ...] = (
    SolidOfRevolution((0.0, 0.0, 0.0), (0.0, 0.0, 0.020), 0.034, 0.032, color="dark"),
    SolidOfRevolution(
        (0.0, -0.072, 0.034), (0.0, 0.072, 0.034), 0.028, 0.028, 0.026, 0.026, "dark"
    ),
    Block((0.0, 0.0, 0.048), (0.026, 0.098, 0.016)),
    Block((0.0, 0.0, 0.065), (0.012, 0.090, 0.001), color="metal"),
)
FINGER_VISUALS: tuple[SolidOfRevolution | Block, ...] = tuple(
    Block(block.center, block.half_size, block.roll, color)
    for block, color in zip(FINGER_BLOCKS, ("dark", "metal", "dark", "rubber"), strict=True)
)
