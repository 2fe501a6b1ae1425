# SPDX-License-Identifier: Apache-2.0
"""Cancelled requests that the loop has not received take no effect later."""

from __future__ import annotations

import numpy as np
import pytest
from cell_names import LEFT_JOINT

from multipanda_py.exceptions import LoopTimeout, SwitchRejected

pytestmark = pytest.mark.inline

CONTROLLETS = {
    "joint_impedance_controller": {"type": "joint_impedance"},
    "odd": {"type": "misbehaving"},
}


def faulted(make_cell):
    """Return a cell whose left arm has a fault."""
    cell = make_cell(controllets=CONTROLLETS)
    cell.switch(["left/odd"])
    cell.set_parameters("left/odd", {"fault": "nan"})
    cell.step(3)
    assert cell.state("left").fault
    return cell


def test_cancelled_switch_happened_later(make_cell):
    cell = make_cell()
    pending = cell.request_switch([LEFT_JOINT], timeout=0.0)
    assert pending.poll() is None  # requested without a cycle of the loop
    with pytest.raises(LoopTimeout, match="withdrawn"):
        pending.poll()
    cell.step(5)
    assert LEFT_JOINT not in cell.active
    assert cell.cancelled["switch"] == 1
    assert cell.switch([LEFT_JOINT]).activated == (LEFT_JOINT,)


def test_cancelled_recovery_happened_later(make_cell):
    cell = faulted(make_cell)
    requested = cell.request_recovery(["left"])
    assert "will not happen" in requested.cancel()
    cell.step(5)
    assert cell.state("left").fault
    cell.recover(["left"])
    cell.step(5)
    assert not cell.state("left").fault


def test_cancelled_settings_were_applied_later(make_cell):
    cell = make_cell()
    requested = cell.request_robot_settings("left", load_mass=0.5)
    assert "will not happen" in cell.cancel_settings(requested)
    cell.step(5)
    assert cell.robot_settings("left").load_mass == 0.0
    cell.set_robot_settings("left", load_mass=0.5)
    assert cell.robot_settings("left").load_mass == 0.5


def test_cancelled_tare_happened_later(make_cell):
    cell = make_cell()
    cell.step(5)
    requested = cell.request_tare("left")
    assert "will not happen" in cell.cancel_tare(requested)
    cell.step(1000)
    assert not cell.tare_offset("left").any()
    assert cell.tare_result(requested) is None


def test_started_request_is_reported_as_pending(make_cell):
    cell = make_cell()
    cell.step(5)
    requested = cell.request_tare("left")
    cell.step(1)
    assert "pending" in cell.cancel_tare(requested)
    cell.step(1000)
    assert np.isfinite(cell.tare_result(requested)).all()


def test_cancelled_delete_was_counted_as_spawn(make_cell):
    brick = {"shape": "box", "size": [0.03] * 3, "position": [0.5, 0.3, 0.03], "mass": 0.2}
    scene_objects = {
        "here": brick,
        "away": {**brick, "position": [0.5, -0.3, 0.03], "present": False},
    }
    cell = make_cell(objects=scene_objects)
    cell.step(5)
    for requested in (cell.request_delete("here"), cell.request_spawn("away")):
        assert "will not happen" in cell.cancel_scene_change(requested)
    cell.step(5)
    assert (tuple(cell.objects()), cell.spawnable) == (("here",), ("away",))
    assert cell.cancelled == {"remove": 1, "spawn": 1}


def test_stop_waited_for_another_switch(make_cell):
    cell = make_cell()
    cell.switch([LEFT_JOINT])
    pending = cell.request_switch(["right/joint_impedance_controller"], timeout=5.0)
    assert pending.poll() is None
    stopped = cell.hold()
    assert stopped.deactivated == (LEFT_JOINT,)
    with pytest.raises(SwitchRejected, match="a stop came first"):
        pending.poll()
    cell.step(5)
    assert set(cell.active) == {"left/hold", "right/hold"}


def test_fault_before_stop_made_stop_outdated(make_cell):
    """A stop applies to any active set; a new plan may never come."""
    cell = make_cell()
    cell.switch([LEFT_JOINT, "right/joint_impedance_controller"])
    cell.request_hold().poll()
    loop = cell.loop
    loop.recoveries.stopped(0, "as a reflex would", 0)
    cell.step(1)
    assert set(cell.active) == {"left/hold", "right/hold"}


def test_abandoned_switch_blocked_others(make_cell):
    """An interrupted notebook leaves such a switch."""
    cell = make_cell()
    cell.request_switch([LEFT_JOINT]).poll()
    cell.step(1)  # finished without a poll of the client
    assert cell.switch(["right/joint_impedance_controller"]).activated
    assert LEFT_JOINT in cell.active
