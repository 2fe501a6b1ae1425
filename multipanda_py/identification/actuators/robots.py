# SPDX-License-Identifier: Apache-2.0
"""Robots on springs, and runs of them under commanded equilibria."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.actuator import Actuator
from multipanda_py.simulation.actuators import (
    CompliantJoints,
    CompliantRobot,
    Motors,
    OperationMode,
)
from multipanda_py.simulation.actuators.qbmove import Qbmove
from multipanda_py.state import Matrix, Vector

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


SOFT, STIFF = 0.2, 0.6
"""Presets of a qbMove [rad]."""
PRESETS = {"soft": SOFT, "stiff": STIFF}
IDENTIFIED = {
    "a_1": (6.257, 3.383), "k_1": (0.01038, 0.1015),
    "a_2": (3.9, 7.011), "k_2": (0.08918, 0.05944),
}  # fmt: skip
"""Springs of the paper's two joints, which it prints with the names of k and a exchanged."""


class SpringMotion(NamedTuple):
    """What a robot did, from the first step on.

    Attributes:
        time: (k,) [s].
        q: Angles of joints, (k, n) [rad].
        equilibrium: At which motors stood, (k, n) [rad].
        commanded: Equilibria, (k, n) [rad].
    """

    time: Vector
    q: Matrix
    equilibrium: Matrix
    commanded: Matrix


def identified(n_joints: int, joint: int | None = None, scale: float = 1.0) -> Qbmove:
    """Return qbMoves with the springs that the paper identified.

    Args:
        n_joints: How many.
        joint: Which of its two joints they are all like, from 0; by default each its own.
        scale: By which all springs are stronger.
    """
    params = {
        name: np.array(values[:n_joints] if joint is None else [values[joint]] * n_joints)
        * (scale if name.startswith("k") else 1.0)
        for name, values in IDENTIFIED.items()
    }
    return Qbmove(n_joints, params)


def robot_of(
    model: mujoco.MjModel,
    springs: Actuator[Any],
    preset: ArrayLike,
    mode: OperationMode = OperationMode.EQUILIBRIUM_PID,
) -> CompliantRobot:
    """Return a robot whose joints ``j1`` to ``jn`` have springs, at rest where it hangs."""
    n = springs.n_joints
    groups = [(springs, range(n))]
    motors = Motors.of(groups) if mode.has_motors else None
    joints = CompliantJoints(groups, n, motors, mode)
    robot = CompliantRobot(model, [f"j{k + 1}" for k in range(n)], joints)
    if springs.preset_unit:
        joints.reset(np.zeros(n), preset=np.broadcast_to(preset, (n,)))
    return robot


def offset(springs: Actuator[Any], preset: float) -> Vector:
    """Return how far unequal springs rest beside their equilibrium without a load, (n,) [rad]."""
    return springs.equilibrium_for(0.0, 0.0, preset)


def follow(
    robot: CompliantRobot,
    command: Callable[[float], ArrayLike],
    seconds: float,
    settle: float = 0.0,
    beside: Vector | float = 0.0,
) -> SpringMotion:
    """Command equilibria over time.

    Args:
        robot: Where it stands.
        command: Equilibrium of the joints, one number or (n,), by time [rad].
        seconds: How long.
        settle: How long the first command is held before that [s].
        beside: What motors get on top of it, and is taken from what is told of them, one number
            or (n,) [rad]; see :func:`offset`.
    """
    joints, step = robot.joints, robot.model.opt.timestep
    joints.command("equilibrium_position", np.asarray(command(0.0)) + beside)
    for _ in range(round(settle / step)):
        robot.step()
    n, count = joints.n_joints, round(seconds / step)
    time = step * np.arange(1, count + 1)
    q, stood, commanded = (np.empty((count, n)) for _ in range(3))
    for k in range(count):
        commanded[k] = command(time[k])
        joints.command("equilibrium_position", commanded[k] + beside)
        robot.step()
        q[k], stood[k] = robot.q, joints.equilibrium - beside
    return SpringMotion(time, q, stood, commanded)
