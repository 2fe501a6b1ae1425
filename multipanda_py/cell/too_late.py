# SPDX-License-Identifier: Apache-2.0
"""Which simulated arms are later than hold is known to stand, in sentences."""

from __future__ import annotations

from multipanda_py.config.cell_file import CellConfig

STANDS = 0.007
"""Delay and lag, with that of compliant actuators' motors, with which hold stops an arm in any
state of motion, also with 0.8 of its inertia: see doc/faults.md. With 10 ms it failed in 1 of 8,
with 14 ms in all [s]."""
LATE = ("delay", "command_delay", "torque_lag")


def too_late(config: CellConfig) -> list[str]:
    """Say which arms have so much delay that nothing may stop them."""
    found = []
    for name, arm in config.arms.items():
        late = sum(getattr(arm.perturbation, key) for key in LATE) + arm.motor_lag
        if late > STANDS + 1e-9:
            found.append(
                f"arms.{name}.perturbation: got {1e3 * late:.3g} ms of {', '.join(LATE)} "
                f"{'and motors ' if arm.motor_lag else ''}together, expected "
                f"{1e3 * STANDS:g} ms at most: hold may swing instead of stopping the arm"
            )
    return found
