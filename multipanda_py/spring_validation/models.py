# SPDX-License-Identifier: Apache-2.0
"""The robots of the experiments: a pendulum, two links in a plane, and an arm before a box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco

GRAVITY = 9.81
DOWN = (0.0, 0.0, -GRAVITY)
ALONG_THE_AXES = (0.0, -GRAVITY, 0.0)
"""Of joints about y: links that so move in a horizontal plane."""
TIP = "tip"
BOX = "box"
BOX_EDGE, BOX_MASS, BOX_FRICTION = 0.265, 2.0, 0.23
IMPRATIO = 100.0
"""How much harder MuJoCo's friction is than its contacts. Friction gives way like a damper: a box
that is pushed with four fifths of what holds it crept by 0.48 mm/s at 1, by 0.006 mm/s at 100."""


@dataclass(frozen=True)
class HangingLink:
    """A link that hangs from its joint along -z, in SI units.

    Attributes:
        mass: Of it.
        centre: From the joint to its centre.
        inertia: About its centre, the same around all axes.
        length: To the next joint, or to the tip.
        axis: Of its joint.
        damping: Of its joint.
        friction: Of its joint, Coulomb's.
    """

    mass: float
    centre: float
    inertia: float
    length: float
    axis: str = "0 1 0"
    damping: float = 0.065
    friction: float = 0.025


PENDULUM = HangingLink(0.2, 0.04, 0.002, 0.08)
"""0.2 kg at 0.04 m; the paper does not state its inertia, this is its template's."""
TWO_LINKS = (HangingLink(0.45, 0.1, 0.00033, 0.1), HangingLink(0.2, 0.08, 0.00015, 0.12))
"""Those of ``config/compliant/two_joints.urdf``; the paper does not state masses."""
FIVE_LINKS = tuple(
    HangingLink(0.25, 0.05, 0.000299, length, axis)
    for axis, length in zip(
        ("0 1 0", "1 0 0", "0 0 1", "0 1 0", "0 0 1"), (0.1, 0.1, 0.1, 0.1, 0.12)
    )
)
"""Those of ``config/compliant/five_joints.urdf``."""


def chain_model(
    links: Sequence[HangingLink],
    gravity: tuple[float, float, float] = DOWN,
    *,
    step: float = 1e-3,
    height: float = 1.0,
    tip_radius: float = 0.0,
    box_at: float | None = None,
) -> mujoco.MjModel:
    """Return links in a row; joints are ``j1`` to ``jn``, and the site at the end is ``tip``.

    Args:
        links: From the base on.
        gravity: In the world [m/s^2].
        step: Of the world [s].
        height: Of the first joint above the ground [m].
        tip_radius: Of a ball at the tip that touches things [m]; none if zero.
        box_at: Place along x of the middle of a box on the ground [m]; none by default.
    """
    parts, above = [], height
    for k, link in enumerate(links):
        at = f"0 0 {above:g}"
        parts.append(
            f'<body name="link{k + 1}" pos="{at}"><joint name="j{k + 1}" axis="{link.axis}" '
            f'damping="{link.damping}" frictionloss="{link.friction}"/><inertial '
            f'pos="0 0 {-link.centre:g}" mass="{link.mass}" '
            f'diaginertia="{link.inertia} {link.inertia} {link.inertia}"/>'
        )
        above = -link.length
    tip = f'<site name="{TIP}" pos="0 0 {above:g}"/>'
    if tip_radius:
        tip += f'<geom type="sphere" size="{tip_radius}" pos="0 0 {above:g}" mass="0"/>'
    world = ""
    if box_at is not None:
        half = 0.5 * BOX_EDGE
        world = (
            f'<geom type="plane" size="2 2 0.1" friction="{BOX_FRICTION}"/>'
            f'<body name="{BOX}" pos="{box_at:g} 0 {half:g}"><freejoint/><geom type="box" '
            f'size="{half:g} {half:g} {half:g}" mass="{BOX_MASS}" friction="{BOX_FRICTION}" '
            'priority="1"/></body>'
        )
    return mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{step}" integrator="implicitfast" cone="elliptic" '
        f'impratio="{IMPRATIO:g}" gravity="{gravity[0]} {gravity[1]} {gravity[2]}"/>'
        f"<worldbody>{world}{''.join(parts)}{tip}{'</body>' * len(links)}</worldbody></mujoco>"
    )
