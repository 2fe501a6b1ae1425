# SPDX-License-Identifier: Apache-2.0
"""Libraries that identification uses and running a cell does not."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from multipanda_py.exceptions import IdentificationRefused


def needed(module: str) -> Any:
    """Return a module of the extra ``identify``.

    Raises:
        IdentificationRefused: If it is not installed; says what installs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise IdentificationRefused(
            f"no {module.partition('.')[0]}: pip install 'multipanda_py[identify]' ({error})"
        ) from None
