# SPDX-License-Identifier: Apache-2.0
"""Which features an instance of a law has, and their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from multipanda_py import registry
from multipanda_py.controllet import Controllet
from multipanda_py.parameters import Robots, Spec, flag, specs_of

STANDING = ("governor",)
"""Features that decide themselves which laws have them, whatever the cell file names."""


@dataclass(frozen=True)
class Switch:
    """The parameter that every feature has, beside its own."""

    enabled: bool = flag(True, doc="whether the feature takes part; it fades in and out")


def feature_specs(name: str, params: type, robots: Robots | None = None) -> tuple[Spec, ...]:
    """Return the specs of a feature on some arms: its switch, then its own."""
    return (*specs_of(Switch, f"{name}."), *specs_of(params, f"{name}.", robots))


def feature_names(
    law: type[Controllet[Any, Any]], chosen: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the features of an instance: ``chosen`` or the law's own, and the standing ones."""
    names = law.default_features if chosen is None else chosen
    standing = (n for n in STANDING if registry.find("features", n).stands_before(law))
    return tuple(dict.fromkeys((*names, *standing)))
