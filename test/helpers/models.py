# SPDX-License-Identifier: Apache-2.0
"""Robot models for tests, other than the Franka arms of most tests."""

from __future__ import annotations

from long_form import LONG

from multipanda_py.robots import MODELS

OTHERS = tuple(name for name in MODELS if name not in ("fr3", "fer"))


def over_others(items):
    """Pair each item with the next robot model, or with all models by MULTIPANDA_LONG."""
    if LONG:
        return [(item, model) for item in items for model in OTHERS]
    return [(item, OTHERS[index % len(OTHERS)]) for index, item in enumerate(items)]


def pairs():
    """Return ordered pairs of an FR3 and another model; with all models by MULTIPANDA_LONG."""
    if LONG:
        return [pair for other in OTHERS for pair in (("fr3", other), (other, "fr3"))]
    return [("fr3", OTHERS[0]), (OTHERS[-1], "fr3")]
