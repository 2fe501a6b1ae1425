# SPDX-License-Identifier: Apache-2.0
"""What all tests share: the test laws' distribution, and cells that always close."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from multipanda_py.cell import Cell
from multipanda_py.testing import simple_cell

HERE = Path(__file__).parent
PLUGINS = str(HERE / "plugins")
sys.path.append(str(HERE / "helpers"))  # modules that tests in several folders import
if PLUGINS not in sys.path:
    sys.path.append(PLUGINS)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [os.environ.get("PYTHONPATH", ""), PLUGINS])
    )


@pytest.fixture
def make_cell() -> Iterator[Callable[..., Cell]]:
    """Start cells that are closed at the end of the test."""
    cells: list[Cell] = []

    def make(*args: Any, **settings: Any) -> Cell:
        cell = simple_cell(*args, **settings)
        cells.append(cell)
        cell.start()
        return cell

    yield make
    for cell in cells:
        cell.close()


@pytest.fixture
def episodes() -> Callable[[int, int], int]:
    """Return how many random episodes to run: few by default, many by ``make robustness``."""
    return lambda short, long: long if os.environ.get("MULTIPANDA_LONG") else short
