# SPDX-License-Identifier: Apache-2.0
"""The stop has a participant and a thread of its own."""

from __future__ import annotations

from std_srvs.srv import Trigger

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.ros.guard import GuardedNode
from multipanda_py.ros.stop import Stop
from multipanda_py.testing import simple_cell


def test_a_stop_waited_behind_everything_else_that_the_node_was_asked_for(ros, client):
    """Nobody turns the executor of the node here: it is busy for ever."""
    config = simple_cell().config.model_dump()
    config["cell"] |= {"placement": "thread", "name": "busy_node"}
    main = GuardedNode("busy_node", namespace="/busy")
    try:
        with Cell(CellConfig.from_dict(config)) as cell:
            assert cell.active
            stop = Stop(main, cell, [])
            try:
                answer = client.call(Trigger, "/busy/stop")
                again = client.call(Trigger, "/busy/stop")
            finally:
                stop.close()
            assert answer.success
            assert "every arm holds; deactivated:" in answer.message
            assert again.message == "every arm holds; deactivated: nothing was active"
            assert all(name.endswith("hold") for name in cell.active)
    finally:
        main.destroy_node()
