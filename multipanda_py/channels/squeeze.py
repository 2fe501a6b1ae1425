# SPDX-License-Identifier: Apache-2.0
"""How firmly the arms are to press what they hold."""

from __future__ import annotations

import numpy as np

from multipanda_py.channel import Asked, Channel
from multipanda_py.exceptions import TargetRejected
from multipanda_py.limits import GateLimits
from multipanda_py.state import Vector


def check_squeeze(force: float, name: str, gate: GateLimits) -> Vector:
    """Return the record of channel ``squeeze``.

    Raises:
        TargetRejected: If it is negative, not finite or too large.
    """
    if not (np.isfinite(force) and 0.0 <= force <= gate.force):
        raise TargetRejected(f"{name}: squeeze: got {force} N, allowed [0, {gate.force:g}] N")
    return np.array([float(force)])


def _squeeze_record(force: float, asked: Asked) -> Vector:
    return check_squeeze(force, asked.who, asked.gate)


SQUEEZE = Channel(
    "squeeze",
    1,
    "force with which the arms press the object between them",
    unit="N",
    shared=True,
    check=_squeeze_record,
    message="std_msgs/msg/Float64",
    method="set_object_target(name, squeeze=...)",
)
"""Force with which the arms press the object between them [N]."""
