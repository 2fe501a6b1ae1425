# SPDX-License-Identifier: Apache-2.0
"""Features of a controllet instance, and their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from multipanda_py import registry
from multipanda_py.controllet import Controllet
from multipanda_py.parameters import Robots, Spec, flag, specs_of

AUTOMATIC_FEATURES = ("governor",)
"""Features added to every controllet that they suit, without an entry in the cell file."""


@dataclass(frozen=True)
class Switch:
    """Parameter ``enabled``, which every feature has in addition to its own."""

    enabled: bool = flag(True, doc="enables the feature, which fades in and out")


def feature_specs(name: str, params: type, robots: Robots | None = None) -> tuple[Spec, ...]:
    """Return the parameter specs of a feature: its switch, then its own parameters."""
    return (*specs_of(Switch, f"{name}."), *specs_of(params, f"{name}.", robots))


def feature_names(
    law: type[Controllet[Any, Any]], chosen: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the features of an instance, then the suitable :data:`AUTOMATIC_FEATURES`.

    Args:
        law: Controllet class.
        chosen: Features in the cell file; None for the default features of the class.
    """
    names = law.default_features if chosen is None else chosen
    standing = (n for n in AUTOMATIC_FEATURES if registry.find("features", n).stands_before(law))
    return tuple(dict.fromkeys((*names, *standing)))
