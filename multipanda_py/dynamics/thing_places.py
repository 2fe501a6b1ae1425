# SPDX-License-Identifier: Apache-2.0
"""Where movable things are, written into the data of a model that they do not move in."""

from __future__ import annotations

from typing import Any

import numpy as np

from multipanda_py.state import Matrix


def _rotation_of_products() -> Matrix:
    """Return the map from products of a quaternion's numbers w x y z to its rotation, (16, 9).

    The rotation comes column by column, as pinocchio has it.
    """
    w, x, y, z = range(4)
    terms = {
        (0, 0): ((w, w, 1), (x, x, 1), (y, y, -1), (z, z, -1)),
        (1, 1): ((w, w, 1), (x, x, -1), (y, y, 1), (z, z, -1)),
        (2, 2): ((w, w, 1), (x, x, -1), (y, y, -1), (z, z, 1)),
        (0, 1): ((x, y, 2), (w, z, -2)),
        (1, 0): ((x, y, 2), (w, z, 2)),
        (0, 2): ((x, z, 2), (w, y, 2)),
        (2, 0): ((x, z, 2), (w, y, -2)),
        (1, 2): ((y, z, 2), (w, x, -2)),
        (2, 1): ((y, z, 2), (w, x, 2)),
    }
    found = np.zeros((4, 4, 9))
    for (row, column), parts in terms.items():
        for one, other, factor in parts:
            found[one, other, 3 * column + row] = factor
    return found.reshape(16, 9)


_ROTATION = _rotation_of_products()


class ThingPlaces:
    """Put things where their poses say, each as a joint of a pinocchio model.

    A free joint per thing would do so as well. But pinocchio's data keep tensors of the third
    power of all degrees of freedom: 2.4 GiB for the laws of two arms beside 32 things. So a thing
    has a joint of one degree of freedom, which nobody asks for, and its placement is overwritten.

    Args:
        data: Of the model; to be kept as long as this.
        joints: Numbers of the things' joints, at the root of the model, n.
        poses: Live poses in the world, position and quaternion w x y z, (n, 7).

    Thread: control.
    """

    def __init__(self, data: Any, joints: range, poses: Matrix) -> None:
        self._poses, n = poses, len(joints)
        self._products, self._placed = np.zeros((n, 4, 4)), np.zeros((n, 12))
        self._flat = self._products.reshape(n, 16)
        # An SE3 is its rotation, column by column, then its translation.
        whole = [
            np.lib.stride_tricks.as_strided(data.oMi[joint].rotation, (12,), (8,))
            for joint in joints
        ]
        self._views = [(view.data, row.data) for view, row in zip(whole, self._placed)]

    def write(self) -> None:
        """Put all of them where they are now, after the model's own joints have been placed."""
        if not self._views:
            return
        quaternions = self._poses[:, 3:]
        np.multiply(quaternions[:, :, None], quaternions[:, None, :], self._products)
        self._placed[:, :9] = self._flat.dot(_ROTATION)
        self._placed[:, 9:] = self._poses[:, :3]
        for view, row in self._views:
            view[:] = row
