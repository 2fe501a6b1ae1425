# SPDX-License-Identifier: Apache-2.0
"""Which rates of a cell file its node cannot have, in sentences."""

from __future__ import annotations

from multipanda_py.config.cell_file import CellConfig


def unmet_rates(config: CellConfig) -> list[str]:
    """Say which rates were asked for beyond that of the cycles or states that are sent at them.

    Rates that nobody has written into the file are as fast as they can be, without a word.
    """
    cell = config.cell
    name = "joint_state_rate" if cell.joint_state_rate < cell.rate else "rate"
    most = float(getattr(cell, name))
    return [
        f"cell.{one}: got {rate:g} Hz, is {most:g} Hz: no more than cell.{name}"
        for one in ("joint_state_rate", "tf_rate", "introspection_rate")
        if one in cell.model_fields_set and (rate := float(getattr(cell, one))) > most
    ]
