# SPDX-License-Identifier: Apache-2.0
"""Ask ruckig for a plan, and get an answer whatever it does."""

from __future__ import annotations

from ruckig import InputParameter, Ruckig, RuckigError, Trajectory


def has_plan(ruckig: Ruckig, wanted: InputParameter, plan: Trajectory) -> bool:
    """Return whether ruckig has a plan for what is wanted, and write it to ``plan``.

    Some of what it cannot plan it answers with a negative number, some it raises: what is against
    its rules, and ways of 1e-12 rad, of which it does not find how to be in time with all joints.

    Thread: control.
    """
    try:
        return bool(ruckig.calculate(wanted, plan) >= 0)
    except (RuckigError, ValueError, RuntimeError):
        return False
