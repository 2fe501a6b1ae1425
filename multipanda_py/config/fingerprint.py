# SPDX-License-Identifier: Apache-2.0
"""What tells one cell from another."""

from __future__ import annotations

import hashlib

from multipanda_py.config.cell_file import CellConfig


def fingerprint(config: CellConfig) -> str:
    """Return a text that is another one where anything of a cell is, or what its files say."""
    text = config.model_dump_json() + "".join(
        repr(arm.robot_of_body) + repr(arm.robot_of_laws) for arm in config.arms.values()
    )
    return hashlib.sha256(text.encode()).hexdigest()
