# SPDX-License-Identifier: Apache-2.0
"""Whether a motion shows the parameters that are asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from multipanda_py.exceptions import IdentificationRefused
from multipanda_py.identification.least_squares import Estimate

MOST_CONDITION = 1000.0
"""Of a stack with columns of length one; good motions have 100, random ones some hundred."""


def refuse_what_is_not_excited(
    estimate: Estimate, names: Sequence[str], most: float = MOST_CONDITION
) -> None:
    """Refuse data that leave a combination of parameters open.

    Args:
        estimate: Of the parameters.
        names: Of the parameters, (p,).
        most: Largest condition number.

    Raises:
        IdentificationRefused: Says which parameters cannot be told from one another.
    """
    if estimate.condition <= most:
        return
    share = np.abs(estimate.worst)
    order = np.argsort(-share)
    mixed = [names[i] for i in order[:4] if share[i] > 0.2 * share[order[0]]]
    if len(mixed) > 1:
        what = f"{', '.join(mixed[:-1])} and {mixed[-1]} cannot be told apart"
    else:
        what = f"{mixed[0]} cannot be told"
    raise IdentificationRefused(
        f"the motion does not show all parameters: {what}; condition number "
        f"{estimate.condition:.3g}, allowed {most:g}. Move all joints together, both ways, as "
        "`multipanda excite` does"
    )
