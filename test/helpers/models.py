# SPDX-License-Identifier: Apache-2.0
"""The kinds of arms that tests run over, besides the Franka arms that most are written for."""

from __future__ import annotations

from long_form import LONG

from multipanda_py.robots import MODELS

OTHERS = tuple(name for name in MODELS if name not in ("fr3", "fer"))


def over_others(items):
    """Pair items with kinds of arms: each with the next kind, or with all by MULTIPANDA_LONG."""
    if LONG:
        return [(item, model) for item in items for model in OTHERS]
    return [(item, OTHERS[place % len(OTHERS)]) for place, item in enumerate(items)]


def pairs():
    """Return an FR3 before another kind of arm and behind one; with all by MULTIPANDA_LONG."""
    if LONG:
        return [pair for other in OTHERS for pair in (("fr3", other), (other, "fr3"))]
    return [("fr3", OTHERS[0]), (OTHERS[-1], "fr3")]
