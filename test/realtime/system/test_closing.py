# SPDX-License-Identifier: Apache-2.0
"""Closing of resources at the end of their `with` block."""

from __future__ import annotations

import pytest

from multipanda_py.cell import Cell
from multipanda_py.exceptions import LoopError, SwitchRejected
from multipanda_py.realtime.system.child_process import Closeable
from multipanda_py.simulation.fci import FciSim
from multipanda_py.simulation.rendering import Renderer, VideoWriter
from multipanda_py.testing import simple_cell

pytestmark = pytest.mark.inline


@pytest.mark.parametrize("kind", [Cell, FciSim, Renderer, VideoWriter])
def test_resource_classes_are_closeable(kind):
    assert issubclass(kind, Closeable)
    assert "__exit__" not in vars(kind)


def test_exception_in_block_closes_cell():
    with pytest.raises(SwitchRejected), simple_cell() as cell:
        cell.switch(["nobody"])
    with pytest.raises(LoopError, match="not started"):
        cell.step()
