# SPDX-License-Identifier: Apache-2.0
"""Non-finite torques of hold: decay of the torque and a single report."""

from __future__ import annotations

import re

import numpy as np
import pytest

from multipanda_py.exceptions import LoopError
from multipanda_py.realtime.arm import SOUND_CYCLES
from multipanda_py.realtime.events import Event

pytestmark = pytest.mark.inline


def backend_of(cell):
    return cell.loop.backends[0]


def break_measurements(cell):
    """Make measurements of the left arm NaN; return a function that restores them."""
    measuring = backend_of(cell).drives[0].measuring
    measuring.append(lambda state: state.q.__setitem__(2, np.nan))
    return measuring.pop


@pytest.mark.parametrize("active", [[], ["left/cart"]])
def test_non_finite_hold_filled_log(make_cell, active):
    laws = {"cart": {"type": "cartesian_impedance"}}
    cell = make_cell(controllets=laws, active=active)
    cell.step(20)
    restore = break_measurements(cell)
    events = []
    for _ in range(60):
        cell.step(10)
        events += cell.events()
    # The controllet and hold report at most one event each.
    assert 1 <= len(events) <= 2, [str(event) for event in events[:5]]
    assert {event.arm for event in events} == {"left"}
    assert all(event.event.is_fault for event in events)
    _, rows = cell.records()
    assert np.isfinite(rows["arms"]["tau"]).all()
    assert np.abs(rows["arms"]["tau"][-1, 0]).max() < 1e-6  # decayed
    assert cell.state("right").fault == ""
    restore()
    cell.step(10)
    cell.recover(["left"])
    cell.step(10)
    assert [event.event for event in cell.events()] == [Event.RECOVERED]
    break_measurements(cell)
    cell.step(50)
    assert 1 <= len(cell.events()) <= 2  # another fault is reported again


def test_pose_of_arm_with_nan_measurement_raises_error(make_cell):
    cell = make_cell(active=[])
    cell.step(1)
    break_measurements(cell)
    cell.step(1)
    with pytest.raises(LoopError, match=r"^left: .*\bpose\b.*\[.*nan"):
        cell.pose("left")
    cell.pose("right")


@pytest.mark.parametrize("field", ["q", "dq"])
def test_single_nan_state_made_arm_accelerate(make_cell, field):
    cell = make_cell(controllets={"rate": {"type": "joint_velocity"}}, active=["left/rate"])
    for _ in range(8):
        cell.set_target("left", dq=[0.6] * 7)
        cell.step(50)
    cell.events()
    measuring = backend_of(cell).drives[0].measuring
    for _ in range(3):  # a repeated NaN is not another fault
        measuring.append(lambda state: getattr(state, field).__setitem__(2, np.nan))
        cell.step(1)
        measuring.pop()
        cell.step(20)
    before = cell.state("left").q.copy()
    cell.step(1200)
    assert np.abs(cell.state("left").dq).max() < 0.05
    assert np.abs(cell.state("left").q - before).max() < 0.15
    assert cell.state("left").fault == "non_finite_torque"
    assert 1 <= len(cell.events()) <= 2
    _, rows = cell.records()
    assert np.isfinite(rows["arms"]["tau"]).all()
    assert np.abs(np.diff(rows["arms"]["tau"][:, 0], axis=0)).max() <= 1.0 + 1e-9
    cell.recover(["left"])
    cell.step(300)
    assert not cell.state("left").fault
    assert np.abs(cell.state("left").dq).max() < 0.02


def test_decaying_torque_ignored_rate_limit(make_cell):
    """The decay changed the value that the rate limit used as the previous torque."""
    arm = {"torque_rate": 100.0, "perturbation": {"payload": 2.0}}
    cell = make_cell(arms={"left": arm}, active=[])
    cell.step(500)
    assert np.abs(cell.state("left").tau).max() > 5.0
    break_measurements(cell)
    cell.step(300)
    _, rows = cell.records()
    tau = rows["arms"]["tau"][:, 0]
    assert np.abs(np.diff(tau, axis=0)).max() <= 0.1 + 1e-9
    assert np.abs(tau[-1]).max() < 0.1


def test_sound_state_count_before_reset_changed_braking_of_hold(make_cell):
    cell = make_cell(active=[])
    cell.step(20)
    restore = break_measurements(cell)
    cell.step(5)
    saved, runs = cell.simulation.save(), []
    restore()
    for before in (2, 5, 0):
        cell.simulation.reset(saved)
        runs.append([])
        for _ in range(12):
            cell.step(1)
            runs[-1].append(cell.loop.arms[0].released)
        cell.simulation.reset(saved)
        cell.step(before)
    assert runs[1] == runs[0] == runs[2]
    assert runs[0].count(True) == SOUND_CYCLES - 1


def test_diverged_simulation_wrote_file_and_line_per_cycle(
    make_cell, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    cell = make_cell()
    cell.step(10)
    backend = backend_of(cell)
    for _ in range(50):
        backend.data.qvel[0] = np.nan
        cell.step(1)
    events = [event for event in cell.events() if event.event is Event.BACKEND_ERROR]
    assert events
    assert len(events) <= 2  # one per arm
    assert re.search(r"\breset\b.*\bNan, Inf\b", events[0].text)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""
