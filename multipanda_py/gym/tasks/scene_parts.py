# SPDX-License-Identifier: Apache-2.0
"""What several scenes are made of."""

from __future__ import annotations

import numpy as np

TOP = 0.2
"""Height of the table [m]."""
TABLE = {"shape": "box", "size": [0.25, 0.4, 0.1], "position": [0.5, 0.0, 0.1],
         "rgba": [0.72, 0.6, 0.45, 1.0]}  # fmt: skip
ROD = {"mass": 0.2, "com": [0.0, 0.0, 0.05], "position": [0.0, 0.0, 0.12],
       "inertia": [1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0]}  # fmt: skip
"""A rod on the flange, with a round tip."""
DOWN = np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]])
"""Of a tool that points down, its x as that of the world."""


def turned(yaw: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the rotation about the vertical, (3, 3)."""
    c, s = float(np.cos(yaw)), float(np.sin(yaw))
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
