# SPDX-License-Identifier: Apache-2.0
"""What an arm has if nobody says: figures that follow from its limits and inertia."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multipanda_py.limits import ArmLimits
from multipanda_py.robots.chain import Chain
from multipanda_py.robots.chain_motion import jacobian, link_poses
from multipanda_py.robots.shapes import Capsule

Vector = NDArray[np.float64]

FULL_SPEED_IN = 0.25
"""Time in which a joint comes to its full speed [s]."""
JERK_PER_ACCELERATION = 500.0
"""As the limits of Franka arms have it [1/s]."""
TORQUE_RATE, FULL_TORQUE_RATE = 1000.0, 12.0
"""Least rate, of Franka arms, and rate over torque limit, of their large joints [Nm/s, 1/s]."""
ROTOR = 2.5e-3
"""Rotor inertia over torque limit: a Franka arm under torque control has 2.8e-3 in its large
joints and 5e-3 in its wrist [kg m^2/Nm]."""
LACKING = 5.0 / 87.0
"""Fraction of the torque limits that a posture spring exerts: 5 of 87 Nm of an FR3."""
LACKING_IN_WRIST = 5.0 / 12.0
"""Largest such fraction of any joint: 5 of 12 Nm of its wrist."""
STRONG = 1.0 / 3.0
"""A joint carries the arm if it has this share of the largest torque; the others are its wrist."""
ROD = 0.04
"""Radius of the rods that stand for links that nobody has described [m]."""
POSTURES, INNER = 60, 0.5
"""Postures that are tried for the one to start from, within this share of the joints' ranges."""


def default_limits(velocity: Vector, torque: Vector) -> dict[str, Vector]:
    r"""Return acceleration, jerk, torque rate and armature B, (n,) each.

    .. math::
        \ddot q = \dot q_{max} / 0.25 s, \quad \dddot q = 500 s^{-1} \ddot q, \\
        \dot\tau = \max(1000 Nm/s, 12 s^{-1} \tau_{max}), \\
        B = 2.5 \cdot 10^{-3} s^2 \tau_{max}
    """
    acceleration = velocity / FULL_SPEED_IN
    return {
        "acceleration": acceleration,
        "jerk": JERK_PER_ACCELERATION * acceleration,
        "torque_rate": np.maximum(TORQUE_RATE, FULL_TORQUE_RATE * torque),
        "armature": ROTOR * torque,
    }


def default_figures(limits: ArmLimits, mobility: Vector) -> dict[str, tuple[float, ...]]:
    r"""Return the numbers per joint that laws begin with; see :data:`.FIGURES` for what they are.

    With the torque limit :math:`\tau` and the inertia m of a joint while the others are free to
    give way, :math:`m = 1 / (M^{-1})_{ii}` in the ready posture:

    - stiffness :math:`\min(7 \tau, 900 m, 0.6 s\, \dot\tau)`, at most half as much again: its
      critical damper brakes at 60 1/s, the whole torque belongs to a seventh of a radian, and a
      joint at 1.7 rad/s does not ask for more than the torque rate.
    - contact_torque :math:`\tau / 6`, at least 10 Nm and at most :math:`\tau`; barrier_torque
      :math:`0.4 \tau`.
    - leader_damping 2 Nm s/rad, a wrist 0.5, at most 10 m; most_leader_damping 40 m, or that.
    - tare_torque 4 Nm, a wrist 1.5; unmeasured_torque 8 and 4; at most 0.15 and 0.3 of the torque.
    - lacking_torque :math:`\max(0.0575 \tau, 5 Nm)`, at most :math:`0.42 \tau` and 50 Nm, which is
      5 Nm for all joints of an FR3; posture_stiffness :math:`0.115 \tau / rad`, from 10 to
      100 Nm/rad.
    - lag, slow, growth and settling as those of a Franka's arm and wrist; no friction.

    A joint that slides has what such an arm has at its end, some 0.2 to 0.4 m away: its whole
    force belongs to 50 mm, contact is 40 N or more, and 20 N s/m, 20 N, 40 N and 3 mm stand for
    the rest.

    Args:
        limits: Of the joints, n.
        mobility: :math:`(M^{-1})_{ii}`, (n,) [1/(kg m^2), 1/kg].
    """
    mass, torque, slides, n = 1.0 / mobility, limits.torque, limits.slides, limits.n_joints
    strong = slides | (torque >= STRONG * np.where(slides, 0.0, torque).max())

    def each(arm: float, wrist: float, slide: float) -> Vector:
        return np.where(slides, slide, np.where(strong, arm, wrist))

    within = np.minimum(each(7.0, 7.0, 20.0) * torque, 0.6 * limits.torque_rate)
    stiffness = np.minimum(within, 900.0 * mass)
    damping = np.minimum(each(2.0, 0.5, 20.0), 10.0 * mass)
    most_lacking = np.minimum(LACKING_IN_WRIST * torque, 50.0)
    figures = {
        "stiffness": stiffness,
        "most_stiffness": 1.5 * stiffness,
        "lacking_torque": np.minimum(np.maximum(LACKING * torque, 5.0), most_lacking),
        "posture_stiffness": np.clip(2.0 * LACKING * torque, 10.0, 100.0),
        "lag": each(0.0065, 0.01, 0.003),
        "contact_torque": np.minimum(torque, np.maximum(torque / 6.0, each(10.0, 10.0, 40.0))),
        "barrier_torque": 0.4 * torque,
        "leader_damping": damping,
        "most_leader_damping": np.maximum(40.0 * mass, damping),
        "tare_torque": np.minimum(each(4.0, 1.5, 20.0), 0.15 * torque),
        "unmeasured_torque": np.minimum(each(8.0, 4.0, 40.0), 0.3 * torque),
        "slow": each(0.6, 0.35, 0.6),
        "growth": each(0.5, 0.0, 0.5),
        "settling": each(1.0, 1.6, 1.0),
        "friction_phi_1": np.zeros(n),
        "friction_phi_2": np.ones(n),
        "friction_phi_3": np.zeros(n),
    }
    return {name: tuple(values.tolist()) for name, values in figures.items()}


def default_ready(chain: Chain, tip_in_last: Vector, lower: Vector, upper: Vector) -> Vector:
    """Return a posture to start from, (n,) [rad, m]: far from singular ones, with the tool up.

    Of 60 postures in the inner half of the joints' ranges (within a quarter turn of zero for
    those that turn without end) it is the one whose Jacobian has the largest smallest singular
    value, with lengths in units of half the reach, and no joint below the base.
    """
    low, high = np.maximum(lower, -np.pi), np.minimum(upper, np.pi)
    low, high = np.where(low < high, low, lower), np.where(low < high, high, upper)
    middle, half = 0.5 * (low + high), 0.5 * INNER * (high - low)
    rng = np.random.default_rng(0)
    best, found = -np.inf, middle
    for q in np.vstack([middle, rng.uniform(middle - half, middle + half, (POSTURES, len(low)))]):
        poses = link_poses(chain, q)
        points = np.array([pose[:3, 3] for pose in poses])
        tip = poses[-1][:3, :3] @ tip_in_last + poses[-1][:3, 3]
        reach = np.linalg.norm(np.diff(np.vstack([points, tip]), axis=0), axis=1).sum()
        columns = jacobian(chain, poses, tip, len(q))
        columns[:3] /= 0.5 * reach or 1.0  # no length for one joint with its tool on the axis
        size = np.linalg.svd(columns, compute_uv=False)[-1]
        height = min(float(points[:, 2].min()), float(tip[2]))
        score = float(size) + min(0.0, height)
        if score > best:
            best, found = score, q
    return found


def default_sections(n_joints: int) -> tuple[tuple[int, ...], ...]:
    """Return the numbers of the links in three sections of about the same length."""
    parts = np.array_split(np.arange(n_joints + 1), min(3, n_joints + 1))
    return tuple(tuple(part.tolist()) for part in parts)


def default_capsules(chain: Chain, tip_in_last: Vector) -> dict[str, tuple[Capsule, ...]]:
    """Return a rod along every link, from its joint to the next one or the tip, by link."""
    ends = [*(origin[:3, 3] for origin in chain.origins), tip_in_last]
    found: dict[str, tuple[Capsule, ...]] = {}
    for link, end in zip(chain.links, ends):
        x, y, z = end.tolist()
        if np.linalg.norm(end) > ROD:
            found[link] = (Capsule((0.0, 0.0, 0.0), (x, y, z), ROD),)
    return found
