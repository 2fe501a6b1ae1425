# SPDX-License-Identifier: Apache-2.0
"""Where the links of a chain are, and what they weigh there, before there is a robot."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.chain import Chain

Vector = NDArray[np.float64]


def link_poses(chain: Chain, q: Vector) -> list[Vector]:
    """Return the pose of every link in the base, (4, 4) each, by Rodrigues' formula."""
    poses = [np.eye(4)]
    for joint, origin, value, slides in zip(chain.joints, chain.origins, q, chain.slides):
        x, y, z = joint.axis
        cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        moved = np.eye(4)
        if slides:
            moved[:3, 3] = value * joint.axis
        else:
            moved[:3, :3] += np.sin(value) * cross + (1.0 - np.cos(value)) * cross @ cross
        poses.append(poses[-1] @ origin @ moved)
    return poses


def jacobian(chain: Chain, poses: list[Vector], point: Vector, behind: int) -> Vector:
    """Return the geometric Jacobian of a point (3,) of a link in the base, (6, n)."""
    axes = np.array([p[:3, :3] @ j.axis for p, j in zip(poses[1:], chain.joints)])
    places, slides = np.array([pose[:3, 3] for pose in poses[1:]]), chain.slides[:, None]
    linear = np.where(slides, axes, np.cross(axes, point - places))
    found = np.hstack([linear, np.where(slides, 0.0, axes)])
    found[behind:] = 0.0
    return np.asarray(found.T)


def mass_matrix(chain: Chain, armature: Vector, q: Vector) -> Vector:
    r"""Return :math:`M = \sum_j m_j J_j^T J_j + J_{\omega j}^T I_j J_{\omega j} + B`, (n, n)."""
    poses = link_poses(chain, q)
    mass = np.diag(armature)
    for number, (body, pose) in enumerate(zip(chain.bodies, poses)):
        inertia = pose[:3, :3] @ body.inertia @ pose[:3, :3].T
        own = jacobian(chain, poses, pose[:3, :3] @ body.com + pose[:3, 3], number)
        mass = mass + body.mass * own[:3].T @ own[:3] + own[3:].T @ inertia @ own[3:]
    return mass
