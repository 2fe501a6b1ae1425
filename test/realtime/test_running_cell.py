# SPDX-License-Identifier: Apache-2.0
"""Followers of records: every row arrives once, in order and complete, or is counted."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from multipanda_py.exceptions import LoopError
from multipanda_py.realtime.cycle_record import ARM_FIELDS, CAPACITY, TRACED_CHANNELS
from multipanda_py.realtime.running_cell import RecordFollower
from multipanda_py.targets import built_in_channels
from multipanda_py.testing import simple_cell

PAGE = Path(__file__).parents[2] / "doc" / "rows.md"
REFERENCE = Path(__file__).parents[2] / "tools" / "record_reference.py"
FOLLOW = """
import json, sys, time
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.realtime.running_cell import RecordFollower
follower = RecordFollower(CellConfig.from_dict(json.loads(sys.argv[1])), sys.argv[2])
last, end = follower.position + int(sys.argv[3]), time.monotonic() + 40.0
print("ready", flush=True)
cycles, torn = [], 0
while follower.position < last and time.monotonic() < end:
    rows = follower.wait(1.0)
    cycles += rows["cycle"].tolist()
    torn += int((rows["cycle"] != rows["cycle_end"]).sum())
in_order = all(a < b for a, b in zip(cycles, cycles[1:]))
print(json.dumps([len(cycles), follower.dropped, torn, in_order, cycles[-1] - cycles[0] + 1]))
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("placement", "cycles"),
    [
        pytest.param("inline", 2000, marks=pytest.mark.inline),
        pytest.param("process", 2000, marks=pytest.mark.clock),
    ],
)
def test_another_process_reads_rows_for_seconds(placement, cycles):
    with simple_cell(placement=placement) as cell:
        cell.latest_record()
        arguments = [cell.config.model_dump_json(), cell.records_path, str(cycles)]
        process = subprocess.Popen(
            [sys.executable, "-c", FOLLOW, *arguments], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(cycles // 100 if placement == "inline" else 0):
            cell.step(100)
        answer, _ = process.communicate(timeout=60)
    count, dropped, torn, in_order, span = json.loads(answer)
    assert in_order
    assert not torn
    assert count + dropped >= cycles
    assert span <= count + dropped  # missing rows between the first and the last are counted
    if placement == "inline":
        assert (count, dropped) == (cycles, 0)


@pytest.mark.inline
def test_rows_during_pause_of_follower_are_counted():
    with simple_cell({"arm": {"backend": "mock"}}) as cell:
        follower = cell.follow_records()
        cell.step(CAPACITY + 1000)
        rows = follower.take()
        assert follower.dropped > 1000
        assert follower.dropped + len(rows) == CAPACITY + 1000 == rows["cycle"][-1]
        assert (np.diff(rows["cycle"]) == 1).all()
        assert len(follower.take()) == 0
        cell.step(10)
        assert follower.take(4)["cycle"].tolist() == list(range(CAPACITY + 1001, CAPACITY + 1005))


@pytest.mark.inline
def test_no_torn_row_is_returned_after_ring_overrun():
    with simple_cell() as cell:
        ring = cell.debug.mailbox.ring
        follower, row = cell.follow_records(), np.zeros(1, ring.rows.dtype)
        flat, stop = row.view(np.float64).reshape(-1), threading.Event()

        def write():
            while not stop.is_set():
                flat[:] = ring.count + 1
                ring.append(flat)

        thread = threading.Thread(target=write)
        thread.start()
        returned = 0
        while returned <= CAPACITY or ring.count < 3 * CAPACITY:
            rows = follower.take()
            if len(rows):
                flat_rows = rows.view(np.float64).reshape(len(rows), -1)
                assert (flat_rows == flat_rows[:, :1]).all()
                returned += len(rows)
        stop.set()
        thread.join()
        assert follower.position + follower.waiting == ring.count


@pytest.mark.inline
def test_follower_is_read_only_and_refuses_other_cells():
    with simple_cell() as cell, simple_cell({"arm": {}}) as other:
        follower = cell.follow_records()
        with pytest.raises(ValueError, match="read-only"):
            follower.ring.flat[0, 0] = 1.0
        with pytest.raises(LoopError, match=r"\b\d{5,} .*'test'.* \d{5,}"):
            RecordFollower(cell.config, other.records_path)
        with pytest.raises(LoopError, match=r"\bCell\.records_path"):
            RecordFollower(cell.config, "/proc/self/fd/987654")


@pytest.mark.inline
def test_rows_contain_current_reference_of_planned_motion():
    """During a trajectory the rows contained its final configuration."""
    with simple_cell({"arm": {}}, {"law": {"type": "joint_trajectory"}}, ["arm/law"]) as cell:
        cell.step(10)
        start, slope = cell.state("arm").q.copy(), np.full(7, 0.2)
        points = [np.concatenate([[k], start + k * slope, slope * (k == 1), np.zeros(7)])
                  for k in range(3)]  # fmt: skip
        cell.follow_trajectory("arm", np.array(points))
        cell.step(1000)
        record = cell.latest_record()["arms"][0]
        assert int(record["target_channels"]) & 1 << TRACED_CHANNELS.index("joint")
        q, dq = record["target_joint"]
        np.testing.assert_allclose(q, start + slope, atol=2e-3)
        np.testing.assert_allclose(dq, slope, atol=1e-2)
        np.testing.assert_allclose(record["q"], q, atol=2e-2)


@pytest.mark.inline
def test_rows_have_references_and_consistent_torque_terms():
    law = "left/cartesian_impedance_controller"
    with simple_cell(active=[law]) as cell:
        follower = cell.follow_records()
        cell.step(10)
        row = cell.latest_record()
        assert not follower.terms(row, "left")
        bits = int(row["arms"]["target_channels"][0])
        assert bits & 1 << TRACED_CHANNELS.index("pose")
        assert not bits & 1 << TRACED_CHANNELS.index("object")
        pose = cell.pose("left")
        np.testing.assert_allclose(row["arms"]["target_pose"][0, :3], pose.position, atol=1e-2)
        cell.trace_torques()
        cell.step(10)
        row = cell.latest_record()
        for arm, index in (("left", 0), ("right", 1)):
            terms = follower.terms(row, arm)
            assert terms["law"].any()
            np.testing.assert_allclose(sum(terms.values()), row["arms"]["tau"][index], atol=1e-12)
        assert set(cell.spec(law).features) < set(follower.terms(row, "left"))
        cell.hold()
        cell.step(2)
        assert not int(cell.latest_record()["arms"]["target_channels"][0]) & 1
        cell.trace_torques(False)
        cell.step(1)
        assert not follower.terms(cell.latest_record(), "left")


@pytest.mark.inline
def test_reference_fields_have_width_of_channels():
    shapes = {field.name: field.shape for field in ARM_FIELDS}
    for name in TRACED_CHANNELS:
        sizes = [7 if size == "joints" else size for size in shapes[f"target_{name}"]]
        assert np.prod(sizes) == built_in_channels()[name].size(7)


@pytest.mark.inline
@pytest.mark.skipif(not REFERENCE.exists(), reason="the tools folder is missing")
def test_record_documentation_is_up_to_date():
    assert PAGE.read_text() == runpy.run_path(str(REFERENCE))["markdown"](), "run `make docs`"
