# SPDX-License-Identifier: Apache-2.0
"""Which motions are for training, validation and test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SPLITS = ("train", "validation", "test")
_SHARES = (0.80, 0.95)


def split_of(kinds: Sequence[str], seed: int) -> list[str]:
    """Return the split of each motion: 80, 15 and 5 % of every kind, whole motions, at random.

    Linear motions are all for test: nothing like them is trained on.
    """
    found = ["test"] * len(kinds)
    for kind in sorted(set(kinds) - {"linear"}):
        places = [place for place, other in enumerate(kinds) if other == kind]
        rng = np.random.default_rng([seed, 7, len(kind), *kind.encode()])
        first, second = (round(share * len(places)) for share in _SHARES)
        for rank, which in enumerate(rng.permutation(len(places))):
            found[places[which]] = SPLITS[(rank >= first) + (rank >= second)]
    return found
