# SPDX-License-Identifier: Apache-2.0
"""A log as identification takes it."""

from __future__ import annotations

from typing import Any

from multipanda_py.exceptions import IdentificationRefused
from multipanda_py.identification.motion import MeasuredMotion
from multipanda_py.logs.arm_log import ArmLog


def motion_of(log: ArmLog, name: str, gravity: Any = None) -> MeasuredMotion:
    """Return an arm's log as identification takes it.

    Raises:
        IdentificationRefused: If torques were not recorded, or are without what carries the arm.
    """
    if log.tau is None:
        got = ", ".join(log.names)
        raise IdentificationRefused(f"{name}: no measured torques, only {got}")
    if not log.gravity_in_tau:
        raise IdentificationRefused(
            f"{name}: the torques lack what carries the arm, allowed as sensors measure"
        )
    own = log.gravity_in_base if gravity is None else gravity
    return MeasuredMotion(
        name, log.time, log.q, log.tau, log.dq, own, log.joints, log.starts, log.rotors_in_tau
    )
