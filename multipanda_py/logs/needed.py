# SPDX-License-Identifier: Apache-2.0
"""Libraries that only logs need, imported when they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from multipanda_py.exceptions import LogError


def needed(module: str) -> Any:
    """Import a module of the extra ``logs``.

    Raises:
        LogError: If it is not installed; says what to install.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise LogError(
            f"this needs {package}, of the extra 'logs': pip install {package} ({error})"
        ) from error


def pandas() -> Any:
    """Return pandas, as :func:`needed`."""
    return needed("pandas")
