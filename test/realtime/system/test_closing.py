# SPDX-License-Identifier: Apache-2.0
"""Things are closed at the end of their block."""

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
def test_what_holds_processes_contexts_or_files_is_closed_by_its_block(kind):
    assert issubclass(kind, Closeable)
    assert "__exit__" not in vars(kind)


def test_a_block_that_raises_closes_its_cell_and_raises():
    with pytest.raises(SwitchRejected), simple_cell() as cell:
        cell.switch(["nobody"])
    with pytest.raises(LoopError, match="not started"):
        cell.step()
