# SPDX-License-Identifier: Apache-2.0
"""Quaternions of rotation matrices, without memory that stays behind.

``pin.Quaternion(R)`` of eigenpy 3.13 leaves 80 bytes behind at every call, which is more than a
gigabyte a day for two arms that are published at 100 Hz.
"""

from __future__ import annotations

import math

from multipanda_py.state import Matrix


def quaternion_from_rotation(rotation: Matrix) -> tuple[float, float, float, float]:
    r"""Return the unit quaternion x, y, z, w of a rotation matrix.

    The component that is largest is found first, from the diagonal, and is positive; the others
    follow from it, so that nothing is ever divided by a small number:

    .. math::
        4 w^2 = 1 + tr R, \qquad
        4 w (x, y, z) = (R_{32} - R_{23}, R_{13} - R_{31}, R_{21} - R_{12})

    and likewise with x, y or z in the place of w (Shepperd, 1978).

    Args:
        rotation: Rotation matrix, (3, 3).

    Thread: any.
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = rotation.tolist()
    trace = xx + yy + zz
    if trace > 0.0:
        x, y, z, w = zy - yz, xz - zx, yx - xy, 1.0 + trace
    elif xx >= yy and xx >= zz:
        x, y, z, w = 1.0 + xx - yy - zz, xy + yx, xz + zx, zy - yz
    elif yy >= zz:
        x, y, z, w = xy + yx, 1.0 + yy - zz - xx, yz + zy, xz - zx
    else:
        x, y, z, w = xz + zx, yz + zy, 1.0 + zz - xx - yy, yx - xy
    norm = math.sqrt(x * x + y * y + z * z + w * w)
    return x / norm, y / norm, z / norm, w / norm
