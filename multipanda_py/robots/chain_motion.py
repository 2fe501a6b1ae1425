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
    for joint, origin, angle in zip(chain.joints, chain.origins, q):
        x, y, z = joint.axis
        cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        turn = np.eye(4)
        turn[:3, :3] += np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross
        poses.append(poses[-1] @ origin @ turn)
    return poses


def mass_matrix(chain: Chain, armature: Vector, q: Vector) -> Vector:
    r"""Return :math:`M = \sum_j m_j J_j^T J_j + J_{\omega j}^T I_j J_{\omega j} + B`, (n, n)."""
    poses = link_poses(chain, q)
    axes = np.array([p[:3, :3] @ j.axis for p, j in zip(poses[1:], chain.joints)])
    places = np.array([pose[:3, 3] for pose in poses[1:]])
    mass = np.diag(armature)
    for number, (body, pose) in enumerate(zip(chain.bodies, poses)):
        if number == 0:
            continue
        com = pose[:3, :3] @ body.com + pose[:3, 3]
        inertia = pose[:3, :3] @ body.inertia @ pose[:3, :3].T
        linear, angular = np.cross(axes, com - places), axes.copy()
        linear[number:] = angular[number:] = 0.0
        mass = mass + body.mass * linear @ linear.T + angular @ inertia @ angular.T
    return mass
