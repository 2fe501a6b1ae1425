# SPDX-License-Identifier: Apache-2.0
"""Whether masses and inertias can be those of the geometry around them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from multipanda_py.importing.cloud import Cloud
from multipanda_py.robots.load import Load


def doubts(name: str, body: Load, around: Cloud) -> Iterator[str]:
    r"""Say what no body inside a link's geometry can have.

    With the points :math:`p_i` of the geometry, centre of mass :math:`c` and mass :math:`m`,

    .. math::
        c \in \mathrm{conv}\{p_i\}, \qquad
        \operatorname{tr} I / 2 \le m \max_i \lVert p_i - c \rVert^2

    The first is looked at in many directions. Both are warnings only: geometry may be simpler
    than the link is.

    Args:
        name: Of the link.
        body: In its frame.
        around: Its geometry in the same frame.
    """
    com = body.com
    if (out := around.distance_outside(com)) > 0.0:
        yield f"link {name}: its centre of mass is {1e3 * out:.0f} mm outside of its geometry"
    away = float((np.linalg.norm(around.points - com, axis=1) + around.radii).max())
    gyration = float(np.sqrt(np.trace(body.inertia) / 2.0 / body.mass))
    if gyration > away:
        yield (
            f"link {name}: its inertia is that of a mass at {1e3 * gyration:.0f} mm from its "
            f"centre, but its geometry ends at {1e3 * away:.0f} mm"
        )
