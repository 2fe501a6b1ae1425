# SPDX-License-Identifier: Apache-2.0
"""Many rotations at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def quaternions(rotations: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return unit quaternions of rotation matrices, w first nowhere: x y z w, (n, 4).

    Of the four ways to begin, each rotation takes the one with the largest number under the root,
    so that none is close to zero: with :math:`t = \operatorname{tr} R`, the squares of x, y, z and
    w are :math:`(1 + 2 R_{kk} - t) / 4` and :math:`(1 + t) / 4` (S. W. Shepperd, 1978).

    Args:
        rotations: (n, 3, 3).
    """
    R = np.asarray(rotations, dtype=np.float64)
    x, y, z = (R[:, k, k] for k in range(3))
    trace = x + y + z
    products = np.empty((len(R), 4, 4))  # 4 times the products of two components
    for k, diagonal in enumerate((x, y, z)):
        products[:, k, k] = 1.0 + 2.0 * diagonal - trace
    products[:, 3, 3] = 1.0 + trace
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        products[:, i, j] = products[:, j, i] = R[:, j, i] + R[:, i, j]
        products[:, k, 3] = products[:, 3, k] = R[:, j, i] - R[:, i, j]
    largest = np.argmax(products[:, range(4), range(4)], axis=1)
    found = products[np.arange(len(R)), largest]
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True))
