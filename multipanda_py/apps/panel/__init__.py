# SPDX-License-Identifier: Apache-2.0
"""Browser page that shows and moves a running cell; needs the extra ``panel``."""

from multipanda_py.registry import require

require("viser")

from multipanda_py.apps.panel.panel import CellPanel  # noqa: E402

__all__ = ["CellPanel"]
