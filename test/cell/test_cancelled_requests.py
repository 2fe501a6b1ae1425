# SPDX-License-Identifier: Apache-2.0
"""Requests that were given up before the loop took them happened when it went on."""

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
    """Return a cell whose left arm has a fault, and is told to do nothing about it."""
    cell = make_cell(controllets=CONTROLLETS)
    cell.switch(["left/odd"])
    cell.set_parameters("left/odd", {"fault": "nan"})
    cell.step(3)
    assert cell.state("left").fault
    return cell


def test_a_switch_that_was_given_up_happened_later(make_cell):
    cell = make_cell()
    pending = cell.request_switch([LEFT_JOINT], timeout=0.0)
    assert pending.poll() is None  # asked for; no cycle runs
    with pytest.raises(LoopTimeout, match="withdrawn"):
        pending.poll()
    cell.step(5)
    assert LEFT_JOINT not in cell.active
    assert cell.cancelled["switch"] == 1
    assert cell.switch([LEFT_JOINT]).activated == (LEFT_JOINT,)


def test_a_recovery_that_was_given_up_happened_later(make_cell):
    cell = faulted(make_cell)
    requested = cell.request_recovery(["left"])
    assert "will not happen" in requested.cancel()
    cell.step(5)
    assert cell.state("left").fault
    cell.recover(["left"])
    cell.step(5)
    assert not cell.state("left").fault


def test_settings_that_were_given_up_came_into_force_later(make_cell):
    cell = make_cell()
    requested = cell.request_robot_settings("left", load_mass=0.5)
    assert "will not happen" in cell.cancel_settings(requested)
    cell.step(5)
    assert cell.robot_settings("left").load_mass == 0.0
    cell.set_robot_settings("left", load_mass=0.5)
    assert cell.robot_settings("left").load_mass == 0.5


def test_a_tare_that_was_given_up_happened_later(make_cell):
    cell = make_cell()
    cell.step(5)
    requested = cell.request_tare("left")
    assert "will not happen" in cell.cancel_tare(requested)
    cell.step(1000)
    assert not cell.tare_offset("left").any()
    assert cell.tare_result(requested) is None


def test_what_has_begun_is_said_to_be_pending(make_cell):
    cell = make_cell()
    cell.step(5)
    requested = cell.request_tare("left")
    cell.step(1)
    assert "pending" in cell.cancel_tare(requested)
    cell.step(1000)
    assert np.isfinite(cell.tare_result(requested)).all()


def test_a_removal_that_was_given_up_was_counted_as_a_thing_that_comes(make_cell):
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


def test_a_stop_waited_for_another_switch(make_cell):
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


def test_a_fault_before_a_stop_made_it_outdated(make_cell):
    """A stop fits whatever is active; nobody may be there to plan it anew."""
    cell = make_cell()
    cell.switch([LEFT_JOINT, "right/joint_impedance_controller"])
    cell.request_hold().poll()
    loop = cell.loop
    loop.recoveries.stopped(0, "as a reflex would", 0)
    cell.step(1)
    assert set(cell.active) == {"left/hold", "right/hold"}


def test_a_switch_that_nobody_looks_at_kept_others_out(make_cell):
    """As a notebook leaves one behind that is interrupted while it waits."""
    cell = make_cell()
    cell.request_switch([LEFT_JOINT]).poll()
    cell.step(1)  # done, but nobody has asked
    assert cell.switch(["right/joint_impedance_controller"]).activated
    assert LEFT_JOINT in cell.active
