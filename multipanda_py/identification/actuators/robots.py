# SPDX-License-Identifier: Apache-2.0
"""Simulated robots with elastic joints, and their motion under commanded equilibrium angles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.actuator import Actuator
from multipanda_py.robots.inertial import STANDARD_GRAVITY
from multipanda_py.simulation.actuators import (
    CompliantJoints,
    CompliantRobot,
    Motors,
    OperationMode,
)
from multipanda_py.simulation.actuators.compliant_actuators import Qbmove
from multipanda_py.state import Matrix, Vector

GRAVITY_VECTOR = (0.0, 0.0, -STANDARD_GRAVITY)
"""Gravity in a world frame whose z axis points up [m/s^2]."""
GRAVITY_ALONG_AXES = (0.0, -STANDARD_GRAVITY, 0.0)
"""Gravity along the y axes of the joints, so that the links move in a horizontal plane [m/s^2]."""
TIP = "tip"
BOX = "box"
BOX_EDGE, BOX_MASS, BOX_FRICTION = 0.265, 2.0, 0.23
"""Edge length [m], mass [kg] and friction coefficient of the pushed box."""
IMPRATIO = 100.0
"""Ratio of MuJoCo's frictional to normal contact impedance. MuJoCo's friction creeps under load.
At 80 % of the holding force, a box creeps by 0.48 mm/s with a ratio of 1 and by 0.006 mm/s with
100."""


@dataclass(frozen=True)
class HangingLink:
    """Link that hangs from its joint along -z, in SI units.

    Attributes:
        mass: Mass of the link.
        centre: Distance from the joint to the centre of mass.
        inertia: Moment of inertia about the centre of mass, equal for all axes.
        length: Distance to the next joint or to the tip.
        axis: Axis of the joint.
        damping: Viscous damping of the joint.
        friction: Coulomb friction of the joint.
    """

    mass: float
    centre: float
    inertia: float
    length: float
    axis: str = "0 1 0"
    damping: float = 0.065
    friction: float = 0.025


PENDULUM = HangingLink(0.2, 0.04, 0.002, 0.08)
"""Pendulum of 0.2 kg at 0.04 m. The paper does not state its inertia, so that of the toolbox
template is used."""
TWO_LINKS = (HangingLink(0.45, 0.1, 0.00033, 0.1), HangingLink(0.2, 0.08, 0.00015, 0.12))
"""Links of ``config/compliant/two_joints.urdf``. The paper does not state their masses."""
FIVE_LINKS = tuple(
    HangingLink(0.25, 0.05, 0.000299, length, axis)
    for axis, length in zip(
        ("0 1 0", "1 0 0", "0 0 1", "0 1 0", "0 0 1"), (0.1, 0.1, 0.1, 0.1, 0.12)
    )
)
"""Links of ``config/compliant/five_joints.urdf``."""


def chain_model(
    links: Sequence[HangingLink],
    gravity: tuple[float, float, float] = GRAVITY_VECTOR,
    *,
    step: float = 1e-3,
    height: float = 1.0,
    tip_radius: float = 0.0,
    box_at: float | None = None,
) -> mujoco.MjModel:
    """Return a chain of links with joints ``j1`` to ``jn`` and a site ``tip`` at its end.

    Args:
        links: Links, starting at the base.
        gravity: Gravity in the world frame [m/s^2].
        step: Time step of the simulation [s].
        height: Height of the first joint above the ground [m].
        tip_radius: Radius of a collision sphere at the tip [m]. No sphere if zero.
        box_at: Position of the centre of a box on the ground along x [m]. No box by default.
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


SOFT_PRESET, STIFF_PRESET = 0.2, 0.6
"""Presets of a qbMove [rad]."""
PRESETS = {"soft": SOFT_PRESET, "stiff": STIFF_PRESET}
PAPER_PARAMETERS = {
    "a_1": (6.257, 3.383), "k_1": (0.01038, 0.1015),
    "a_2": (3.9, 7.011), "k_2": (0.08918, 0.05944),
}  # fmt: skip
"""Spring parameters of the paper's two joints. The paper prints them with k and a exchanged."""


class SpringMotion(NamedTuple):
    """Motion of a robot with elastic joints.

    Attributes:
        time: Times, (k,) [s].
        q: Joint angles, (k, n) [rad].
        equilibrium: Equilibrium angles at the actual motor positions, (k, n) [rad].
        commanded: Commanded equilibrium angles, (k, n) [rad].
    """

    time: Vector
    q: Matrix
    equilibrium: Matrix
    commanded: Matrix


def identified(n_joints: int, joint: int | None = None, scale: float = 1.0) -> Qbmove:
    """Return qbMove actuators with the spring parameters that Mengacci et al. (2021) identified.

    Args:
        n_joints: Number of joints.
        joint: Index of the joint in their paper (0 or 1) whose springs all joints get. None: joint
            k of up to two gets the springs of joint k.
        scale: Scale factor of the spring constants.
    """
    params = {
        name: np.array(values[:n_joints] if joint is None else [values[joint]] * n_joints)
        * (scale if name.startswith("k") else 1.0)
        for name, values in PAPER_PARAMETERS.items()
    }
    return Qbmove(n_joints, params)


def robot_of(
    model: mujoco.MjModel,
    springs: Actuator[Any],
    preset: ArrayLike,
    mode: OperationMode = OperationMode.EQUILIBRIUM_PID,
) -> CompliantRobot:
    """Return a robot with elastic joints ``j1`` to ``jn``, initially at zero angles.

    Args:
        model: MuJoCo model with these joints.
        springs: Springs of the n joints.
        preset: Stiffness presets, one number or (n,).
        mode: Operation mode of all joints.
    """
    n = springs.n_joints
    groups = [(springs, range(n))]
    motors = Motors.of(groups) if mode.has_motors else None
    joints = CompliantJoints(groups, n, motors, mode)
    robot = CompliantRobot(model, [f"j{k + 1}" for k in range(n)], joints)
    if springs.preset_unit:
        joints.reset(np.zeros(n), preset=np.broadcast_to(preset, (n,)))
    return robot


def offset(springs: Actuator[Any], preset: float) -> Vector:
    """Return the equilibrium angles at which unloaded joints rest at zero, (n,) [rad].

    Args:
        springs: Springs of the n joints.
        preset: Stiffness preset of all joints, in the unit of the actuator type.
    """
    return springs.equilibrium_for(0.0, 0.0, preset)


def follow(
    robot: CompliantRobot,
    command: Callable[[float], ArrayLike],
    seconds: float,
    settle: float = 0.0,
    rest_offset: Vector | float = 0.0,
) -> SpringMotion:
    """Command equilibrium angles over time and record the motion.

    Args:
        robot: Robot in its initial state.
        command: Equilibrium angles as a function of time, a number or (n,) [rad].
        seconds: Duration [s].
        settle: Duration for which the first command is held before the recording [s].
        rest_offset: Result of :func:`offset`, a number or (n,) [rad], added to commands. The
            recording does not contain it.
    """
    joints, step = robot.joints, robot.model.opt.timestep
    joints.command("equilibrium_position", np.asarray(command(0.0)) + rest_offset)
    for _ in range(round(settle / step)):
        robot.step()
    n, count = joints.n_joints, round(seconds / step)
    time = step * np.arange(1, count + 1)
    q, stood, commanded = (np.empty((count, n)) for _ in range(3))
    for k in range(count):
        commanded[k] = command(time[k])
        joints.command("equilibrium_position", commanded[k] + rest_offset)
        robot.step()
        q[k], stood[k] = robot.q, joints.equilibrium - rest_offset
    return SpringMotion(time, q, stood, commanded)
