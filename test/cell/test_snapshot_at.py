# SPDX-License-Identifier: Apache-2.0
"""Snapshots of past instants equal the records."""

import numpy as np
import pytest

from multipanda_py.cell.cell import Cell
from multipanda_py.config.cell_file import CellConfig

pytestmark = [pytest.mark.sim, pytest.mark.inline]


def test_snapshot_is_nearest_recorded_cycle():
    config = CellConfig.from_dict(
        {"cell": {"name": "moment", "placement": "inline"}, "arms": {"arm": {"gripper": False}}}
    )
    with Cell(config) as cell:
        cell.step(20)
        begin, then = cell.time, cell.state("arm").q.copy()
        cell.step(200)
        moment = cell.snapshot_at(begin)
        assert moment.time == begin
        assert np.array_equal(moment.state("arm").q, then)
        _, rows = cell.records()
        for ago in (0.0, 0.0316, 0.15):
            expected = rows["time"][np.abs(rows["time"] - (cell.time - ago)).argmin()]
            assert cell.snapshot_at(cell.time - ago).time == expected
        assert cell.snapshot_at(cell.time + 5.0).time == cell.time, (
            "future instants give the newest record"
        )
        assert cell.snapshot_at(-5.0).time == rows["time"][0]
        assert cell.snapshot_at(cell.time).pose("arm").position == pytest.approx(
            cell.pose("arm").position
        )
