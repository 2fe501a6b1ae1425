# SPDX-License-Identifier: Apache-2.0
"""A page in the browser that shows a running cell and moves it; needs the extra ``panel``."""

from multipanda_py.registry import require

require("viser")

from multipanda_py.apps.panel.panel import CellPanel  # noqa: E402

__all__ = ["CellPanel"]
