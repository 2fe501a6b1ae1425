# SPDX-License-Identifier: Apache-2.0
"""Settings of a backend whose arms can be told what they carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from multipanda_py.parameters import number, vector
from multipanda_py.robots.load import NO_LOAD, Load, inertia_matrix
from multipanda_py.settings import Settings


@dataclass(frozen=True)
class LoadSettings(Settings):
    """What an arm carries beyond its tool."""

    load_mass: float = number(
        0.0, unit="kg", low=0, high=20, doc="Mass of what the arm carries beyond its tool"
    )
    # A wrong load lifts or drops the arm; these bounds keep the worst of typing errors out.
    load_com: list[float] = vector(
        0, 0, 0, unit="m", low=-0.5, high=0.5,
        doc="Centre of mass of the load in the flange frame",
    )  # fmt: skip
    load_inertia: list[float] = vector(
        1e-4, 1e-4, 1e-4, 0, 0, 0, unit="kg m^2", low=-5, high=5,
        doc="Inertia of the load about its centre of mass, xx yy zz xy xz yz",
    )  # fmt: skip

    @property
    def load(self) -> Load:
        """What the arm carries beyond its tool."""
        if self.load_mass <= 0.0:
            return NO_LOAD
        return Load(self.load_mass, np.array(self.load_com), inertia_matrix(self.load_inertia))

    @classmethod
    def refusal(cls, name: str, value: Any) -> str:
        """Refuse an inertia that no rigid body has."""
        return _of_no_body(value) if name == "load_inertia" else ""


def _of_no_body(values: Sequence[float]) -> str:
    """Return what is wrong with an inertia; its moments obey the triangle inequality."""
    moments = np.linalg.eigvalsh(inertia_matrix(values))
    if moments[0] > 0.0 and moments[0] + moments[1] >= moments[2] - 1e-9:
        return ""
    return (
        f"no body has the principal moments {moments.round(9).tolist()} kg m^2; they are "
        "positive, and the sum of any two reaches the third"
    )
