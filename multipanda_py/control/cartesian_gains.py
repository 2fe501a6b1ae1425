# SPDX-License-Identifier: Apache-2.0
"""Gains that laws with a spring at the tool have in common."""

from __future__ import annotations

from dataclasses import dataclass

from multipanda_py.control.modal_damping import LEAST_RATIO
from multipanda_py.parameters import choice, number, vector
from multipanda_py.state import Vector

MAX_STIFFNESS = (5000.0,) * 3 + (300.0,) * 3
"""Stiffest that a tool may be along any axis, and about it [N/m, Nm/rad]."""


@dataclass(frozen=True, eq=False)
class CartesianGains:
    """A spring at the tool: how stiff, how damped, how bounded, along which axes."""

    stiffness: Vector = vector(
        400, 400, 400, 20, 20, 20, unit="N/m, Nm/rad", low=0, high=MAX_STIFFNESS,
        doc="translational then rotational stiffness along the axes of gain_frame",
    )  # fmt: skip
    damping_ratio: Vector = vector(
        *[1.0] * 6, low=LEAST_RATIO, high=5, doc="1 is critically damped in every posture"
    )
    gain_frame: str = choice(
        "base", options=("base", "tool"), doc="whose axes the gains are given along"
    )
    error_clip: Vector = vector(
        0.15, 0.15, 0.15, 0.8, 0.8, 0.8, unit="m, rad", low=1e-4, high=10,
        doc="largest error per axis that is acted on; bounds what the spring asks for",
    )  # fmt: skip
    gain_time: float = number(
        0.1, unit="s", low=0, high=10, doc="over which a change of stiffness is spread"
    )
