# SPDX-License-Identifier: Apache-2.0
"""Settings of robots in the loop: who waits for whom, and what is left as it was."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.config.backend_section import changed
from multipanda_py.exceptions import LoopTimeout, SettingsRejected, SwitchRejected
from multipanda_py.hardware.franka.settings import FrankaSettings
from multipanda_py.parameters import record_width
from multipanda_py.realtime.events import Event

pytestmark = pytest.mark.inline


class Slow:
    """Let the backend of an inline cell be away for a while, as a real arm is."""

    def __init__(self, cell):
        self.backend = cell.loop.backends[0]
        self._configure = self.backend.configure
        self._told = []
        self.backend.configure = lambda arm, options: self._told.append((arm, options))
        self.backend.settings_answers = lambda: ()
        self.backend.is_ready = lambda arm: arm not in [index for index, _ in self._told]

    def answer(self, reason=""):
        arm, options = self._told.pop()
        self._configure(arm, options)
        self.backend.settings_answers = lambda: [(arm, reason)]


def ask(cell, **values):
    with pytest.raises(LoopTimeout, match=r"arm left .*\bsettings\b"):
        cell.set_robot_settings("left", timeout=0.02, **values)


def test_no_law_gets_an_arm_that_is_away(make_cell):
    cell = make_cell()
    cell.step(5)
    slow = Slow(cell)
    ask(cell, load_mass=0.5)
    with pytest.raises(SwitchRejected, match=r"\bleft .*\bsettings\b"):
        cell.switch(["left/joint_impedance_controller"], strictness="force_auto")
    cell.switch(["right/joint_impedance_controller"])
    with pytest.raises(SettingsRejected, match=r"\bleft .*\bsettings\b"):
        cell.set_robot_settings("left", load_mass=0.6)
    slow.answer()
    cell.step(2)
    assert cell.robot_settings("left").load_mass == 0.5  # though nobody waited for it
    assert "right/joint_impedance_controller" in cell.active
    cell.switch(["left/joint_impedance_controller"])


@pytest.mark.parametrize("fault", [Event.NONE, Event.CONTROLLET_ERROR])
def test_an_arm_that_was_away_holds_where_it_is_now(make_cell, fault):
    """Also if it has a fault with which hold goes on, which stays latched."""
    cell = make_cell(arms={"left": {"backend": "mock"}})
    cell.step(5)
    cell.loop.arms[0].fault = fault
    slow = Slow(cell)
    ask(cell, load_mass=0.5)
    slow.backend.q[0][:] += 0.05  # what happened meanwhile
    slow.answer()
    cell.step(1)
    here = cell.state("left").q
    cell.step(500)
    assert np.abs(cell.state("left").q - here).max() < 1e-6
    assert cell.state("left").fault == ("" if fault is Event.NONE else "controllet_error")


def test_what_a_backend_raises_is_an_answer(make_cell):
    cell = make_cell()
    cell.step(5)
    backend = cell.loop.backends[0]

    def fail(*_):
        raise RuntimeError("no way")

    backend.settings_answers = fail
    with pytest.raises(SettingsRejected, match=r"RuntimeError: no way"):
        cell.set_robot_settings("left", load_mass=0.5)
    backend.configure = fail
    with pytest.raises(SettingsRejected, match=r"left: RuntimeError: no way"):
        cell.set_robot_settings("left", load_mass=0.5)
    assert cell.robot_settings("left").load_mass == 0.0
    cell.switch(["left/joint_impedance_controller"])
    assert not any(event.event.is_fault for event in cell.events())


@pytest.mark.parametrize("backend", ["mock", "mujoco"])
def test_laws_compute_with_the_load(make_cell, backend):
    """From the cell file at the start, and from then on as told."""
    load = {"load_mass": 1.5, "load_com": [0.05, 0.0, 0.1]}
    arms = {
        "left": {"backend": backend},
        "right": {"backend": backend, "franka": load, "position": [0.0, 1.0, 0.0]},
    }
    cell = make_cell(arms)
    cell.step(1)
    left, right = (arm.state for arm in cell.loop.arms)
    assert np.abs(left.mass - right.mass).max() > 0.05
    cell.set_robot_settings("left", **load)
    cell.step(2)
    assert np.allclose(left.mass, right.mass, rtol=0.0, atol=1e-4)
    cell.set_robot_settings("right", load_mass=0.0)
    cell.step(2)
    assert np.abs(left.mass - right.mass).max() > 0.05


def test_only_what_was_asked_for_changes(make_cell):
    cell = make_cell(arms={"left": {"franka": {"load_com": [0.0, 0.0, 0.2], "priority": 7}}})
    cell.step(1)
    cell.set_robot_settings("left", load_mass=0.5)
    cell.set_robot_settings("left", joint_impedance=np.full(7, 900.0))
    now = cell.robot_settings("left")
    assert now.load_mass == 0.5
    assert now.load_com == [0.0, 0.0, 0.2]
    assert now.joint_impedance == [900.0] * 7
    assert now.priority == 7
    assert now.given == {"load_mass", "load_com", "joint_impedance", "priority"}
    assert [event.event for event in cell.events()] == [Event.SETTINGS_APPLIED] * 2


def test_a_record_carries_what_was_given():
    options = FrankaSettings(priority=3, upper_force_thresholds=[5.0] * 6)
    given = {"load_mass": 1, "stiffness_rpy": (0.1, 0.2, 0.3)}
    options = changed(options, given, "left", "franka")
    record = options.encode()
    assert record.shape == (record_width(FrankaSettings),)
    back = FrankaSettings(priority=3).decode(record)
    assert back == options
    assert back.given == options.given
    assert "upper_torque_thresholds" not in back.given
