# SPDX-License-Identifier: Apache-2.0
"""Requests to arms: robot settings, and tares of the external torques."""

from __future__ import annotations

import re

import mujoco
import numpy as np
import pytest

from multipanda_py.config.backend_section import changed
from multipanda_py.exceptions import (
    LoopTimeout,
    SettingsRejected,
    SwitchRejected,
    TareRejected,
    UnknownName,
)
from multipanda_py.hardware.franka.settings import FrankaSettings
from multipanda_py.parameters import record_width
from multipanda_py.pose import Pose
from multipanda_py.realtime.events import Event

pytestmark = pytest.mark.inline


class Slow:
    """Delay the backend of an inline cell, as a real arm delays settings."""

    def __init__(self, cell):
        self.backend = cell.loop.backends[0]
        self._configure = self.backend.configure
        self._commanded = []
        self.backend.configure = lambda arm, options: self._commanded.append((arm, options))
        self.backend.settings_responses = lambda: ()
        self.backend.is_ready = lambda arm: arm not in [index for index, _ in self._commanded]

    def answer(self, reason=""):
        arm, options = self._commanded.pop()
        self._configure(arm, options)
        self.backend.settings_responses = lambda: [(arm, reason)]


def request_settings(cell, **values):
    with pytest.raises(LoopTimeout, match=r"arm left .*\bsettings\b"):
        cell.set_robot_settings("left", timeout=0.02, **values)


def test_unavailable_arm_is_refused_to_controllets(make_cell):
    cell = make_cell()
    cell.step(5)
    slow = Slow(cell)
    request_settings(cell, load_mass=0.5)
    with pytest.raises(SwitchRejected, match=r"\bleft .*\bsettings\b"):
        cell.switch(["left/joint_impedance_controller"], strictness="force_auto")
    cell.switch(["right/joint_impedance_controller"])
    with pytest.raises(SettingsRejected, match=r"\bleft .*\bsettings\b"):
        cell.set_robot_settings("left", load_mass=0.6)
    slow.answer()
    cell.step(2)
    assert cell.robot_settings("left").load_mass == 0.5  # although the client had stopped waiting
    assert "right/joint_impedance_controller" in cell.active
    cell.switch(["left/joint_impedance_controller"])


@pytest.mark.parametrize("fault", [Event.NONE, Event.CONTROLLET_ERROR])
def test_arm_holds_current_position_after_settings(make_cell, fault):
    """A fault that does not end hold stays latched."""
    cell = make_cell(arms={"left": {"backend": "mock"}})
    cell.step(5)
    cell.loop.arms[0].fault = fault
    slow = Slow(cell)
    request_settings(cell, load_mass=0.5)
    slow.backend.q[0][:] += 0.05  # motion while the arm was unavailable
    slow.answer()
    cell.step(1)
    here = cell.state("left").q
    cell.step(500)
    assert np.abs(cell.state("left").q - here).max() < 1e-6
    assert cell.state("left").fault == ("" if fault is Event.NONE else "controllet_error")


def test_exception_of_backend_is_reported_to_client(make_cell):
    cell = make_cell()
    cell.step(5)
    backend = cell.loop.backends[0]

    def fail(*_):
        raise RuntimeError("no way")

    backend.settings_responses = fail
    with pytest.raises(SettingsRejected, match=r"RuntimeError: no way"):
        cell.set_robot_settings("left", load_mass=0.5)
    backend.configure = fail
    with pytest.raises(SettingsRejected, match=r"left: RuntimeError: no way"):
        cell.set_robot_settings("left", load_mass=0.5)
    assert cell.robot_settings("left").load_mass == 0.0
    cell.switch(["left/joint_impedance_controller"])
    assert not any(event.event.is_fault for event in cell.events())


@pytest.mark.parametrize("backend", ["mock", "mujoco"])
def test_controllets_use_load_of_settings(make_cell, backend):
    """The load of the cell file applies at the start, later settings replace it."""
    load = {"load_mass": 1.5, "load_com": [0.05, 0.0, 0.1]}
    arms = {
        "left": {"backend": backend},
        "right": {"backend": backend, "franka": load, "position": [0.0, 1.0, 0.0]},
    }
    cell = make_cell(arms)
    cell.step(1)
    left, right = (arm.state for arm in cell.loop.arms)
    assert np.abs(left.mass_matrix - right.mass_matrix).max() > 0.05
    cell.set_robot_settings("left", **load)
    cell.step(2)
    assert np.allclose(left.mass_matrix, right.mass_matrix, rtol=0.0, atol=1e-4)
    cell.set_robot_settings("right", load_mass=0.0)
    cell.step(2)
    assert np.abs(left.mass_matrix - right.mass_matrix).max() > 0.05


def test_only_requested_settings_change(make_cell):
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


def test_settings_survive_encoding_with_given_fields():
    options = FrankaSettings(priority=3, upper_force_thresholds=[5.0] * 6)
    given = {"load_mass": 1, "stiffness_rpy": (0.1, 0.2, 0.3)}
    options = changed(options, given, "left", "franka")
    record = options.encode()
    assert record.shape == (record_width(FrankaSettings),)
    back = FrankaSettings(priority=3).decode(record)
    assert back == options
    assert back.given == options.given
    assert "upper_torque_thresholds" not in back.given


BIAS = [0.5, -1.4, 0.3, 1.2, 0.3, -0.4, 0.15]
NOISY = {"q": 1e-5, "dq": 2e-3, "tau": 0.1, "tau_bias": BIAS, "tau_drift": [0.01] * 7}
LAWS = {
    "admit": {
        "type": "admittance",
        "params": {"tare_time": 0.0, "force_deadband": 0.0, "torque_deadband": 0.0},
    },
    "cart": {"type": "cartesian_impedance"},
    "joint": {"type": "joint_impedance"},
}
OTHER = {"right": {"position": [0.0, -0.8, 0.0]}}


def arms(**left):
    return {"left": left, **OTHER}


def push(cell, torques, first=0):
    """Apply joint torques to the left arm, from outside."""
    sim = cell.simulation
    dof = int(sim.model.joint("left_fr3_joint1").dofadr[0]) + first
    sim.data.qfrc_applied[dof : dof + len(torques)] = torques


def mean_estimated(cell, cycles=400):
    count = cell.records()[0]
    cell.step(cycles)
    rows = cell.records(count)[1]["arms"][:, 0]
    return rows["tau_ext"].mean(axis=0), rows["wrench_ext_in_base"].mean(axis=0)


def kinds(cell):
    return [event.event for event in cell.events() if event.arm == "left"]


@pytest.mark.sim
def test_tare_removes_bias_and_keeps_external_torque(make_cell):
    cell = make_cell(arms(noise=NOISY))
    cell.step(10)
    assert not cell.tare_offset("left").any()
    offset = cell.tare("left")
    np.testing.assert_allclose(offset, BIAS, atol=0.03)
    np.testing.assert_array_equal(cell.tare_offset("left"), offset)
    assert not cell.tare_offset("right").any()
    torques, wrench = mean_estimated(cell)
    assert np.abs(torques).max() < 0.04
    assert np.abs(wrench[:3]).max() < 0.3
    push(cell, [0.0, 3.0, 0.0, -2.0])
    cell.step(500)
    torques, _ = mean_estimated(cell)
    np.testing.assert_allclose(torques, [0.0, 3.0, 0.0, -2.0, 0.0, 0.0, 0.0], atol=0.05)
    assert kinds(cell) == [Event.TARED]


@pytest.mark.sim
def test_repeated_tare_and_untare(make_cell):
    cell = make_cell(arms(noise={"tau_bias": BIAS}))
    cell.step(2)
    for _ in range(2):  # the second tare measures the raw torque, not the residual of the first
        np.testing.assert_allclose(cell.tare("left"), BIAS, atol=1e-9)
        cell.step(3)
        np.testing.assert_allclose(cell.state("left").tau_ext, 0.0, atol=1e-9)
    cell.untare("left")
    cell.step(1)
    np.testing.assert_allclose(cell.state("left").tau_ext, BIAS, atol=1e-9)
    assert not cell.tare_offset("left").any()
    assert kinds(cell) == [Event.TARED] * 3


@pytest.mark.sim
@pytest.mark.slow
def test_tare_stops_drift_of_admittance_from_bias(make_cell):
    """The tare persists over two switches."""
    drifts = []
    for tared in (False, True):
        cell = make_cell(arms(noise=NOISY), LAWS)
        cell.step(10)
        if tared:
            cell.tare("left")
        cell.switch(["left/cart"])
        cell.step(100)
        cell.switch(["left/admit"], strictness="force_auto")
        before = cell.pose("left").position
        cell.step(1500)
        drifts.append(float(np.linalg.norm(cell.pose("left").position - before)))
    assert drifts[0] > 0.01
    assert drifts[1] < 0.1 * drifts[0]


@pytest.mark.sim
@pytest.mark.slow
def test_tare_of_undeclared_payload_holds_only_at_its_configuration(make_cell):
    mass, centre = 0.4, [0.0, 0.0, 0.08]
    cell = make_cell(arms(perturbation={"payload": mass, "payload_com": centre}), LAWS)
    model, data = (getattr(cell.simulation, name) for name in ("model", "data"))
    body = model.body("left_fr3_payload").id

    def weight():
        jacobian = np.zeros((3, model.nv))
        mujoco.mj_jac(model, data, jacobian, None, data.xipos[body], body)
        return jacobian[:, :7].T @ (mass * model.opt.gravity)

    cell.step(1500)
    here = weight()
    np.testing.assert_allclose(cell.tare("left"), here, atol=5e-3)
    estimated, _ = mean_estimated(cell, 50)
    np.testing.assert_allclose(estimated, 0.0, atol=5e-3)
    cell.switch(["left/cart"])
    pose = cell.pose("left")
    cell.set_target("left", Pose(pose.position + [0.1, 0.0, -0.1], pose.rotation))
    cell.step(3000)
    estimated, _ = mean_estimated(cell, 20)
    np.testing.assert_allclose(estimated, weight() - here, atol=0.02)
    assert np.abs(estimated).max() > 0.2


def refused(cell, reason):
    before = cell.tare_offset("left")
    with pytest.raises(TareRejected, match=reason):
        cell.tare("left")
    np.testing.assert_array_equal(cell.tare_offset("left"), before)
    assert kinds(cell)[-1] is Event.TARE_REFUSED


@pytest.mark.sim
def test_contact_is_not_tared(make_cell):
    cell = make_cell(arms(noise=NOISY))
    cell.step(10)
    push(cell, [0.0, 7.0])
    cell.step(800)
    refused(cell, r"5\.\d\d Nm .*joint 2\b.* 4 Nm.*load_mass")


@pytest.mark.sim
def test_moving_arm_is_not_tared(make_cell):
    cell = make_cell(arms(noise=NOISY))
    cell.step(10)
    cell.simulation.data.qvel[:7] = [0.0, 0.0, 0.0, 0.3, 0.0, 0.0, 0.0]
    refused(cell, r"joint \d .* 0\.05 rad/s .* 2 mrad")


@pytest.mark.sim
def test_externally_moved_arm_is_not_tared(make_cell):
    cell = make_cell(arms(noise=NOISY))
    cell.step(10)
    request = cell.request_tare("left")
    for cycle in range(600):
        push(cell, [0.0, 0.9 * np.sin(2.0 * np.pi * cycle / 500.0)])
        cell.step(1)
    with pytest.raises(TareRejected, match=r"\bleft\b.*\bjoint 2 .*\b0\.\d+ Nm"):
        cell.tare_result(request)


@pytest.mark.sim
def test_active_controllet_prevents_tare_and_switch_ends_it(make_cell):
    cell = make_cell(arms(noise=NOISY), LAWS, ["left/cart"])
    cell.step(10)
    refused(cell, r"\bleft .*\bleft/cart\b")
    cell.hold()
    cell.step(50)
    request = cell.request_tare("left")
    cell.step(100)
    assert cell.tare_result(request) is None
    cell.switch(["left/joint"])
    cell.step(1)
    with pytest.raises(TareRejected, match=r"\bleft\b.*\bleft/joint\b"):
        cell.tare_result(request)
    assert not cell.tare_offset("left").any()


@pytest.mark.sim
def test_faulted_arm_is_not_tared(make_cell):
    cell = make_cell(arms(noise=NOISY))
    cell.step(10)
    cell.loop.arms[0].fault = Event.ARM_STOPPED
    refused(cell, r"\bleft .*\barm_stopped\b")
    with pytest.raises(UnknownName):
        cell.tare("nobody")


@pytest.mark.sim
def test_nan_estimate_is_not_tared(make_cell):
    cell = make_cell()
    cell.step(10)
    push(cell, [0.0])
    drive = cell.loop.backends[0].drives[0]
    drive.measuring.append(lambda state: state.tau_ext.__setitem__(2, np.nan))
    refused(cell, "left")


@pytest.mark.sim
def test_changed_load_ends_tare_also_during_measurement(make_cell):
    cell = make_cell(arms(noise={"tau_bias": BIAS}))
    cell.step(5)
    cell.tare("left")
    cell.set_robot_settings("left", joint_impedance=[1000.0] * 7)
    assert cell.tare_offset("left").any()
    cell.set_robot_settings("left", load_mass=0.3, load_com=[0.0, 0.0, 0.05])
    cell.step(1)
    assert not cell.tare_offset("left").any()
    assert any(re.search("tared.*load", e.text)
               for e in cell.events())  # fmt: skip
    request = cell.request_tare("left")
    cell.step(100)
    cell.set_robot_settings("left", load_mass=0.4)
    with pytest.raises(TareRejected, match=r"\bload\b"):
        cell.tare_result(request)


@pytest.mark.sim
def test_stale_state_is_not_tared_twice(make_cell):
    cell = make_cell(arms(noise={"tau_bias": BIAS}))
    cell.step(5)
    cell.tare("left")
    push(cell, [0.0, 1.0])
    cell.step(50)
    state = cell.loop.arms[0].state
    estimated = state.tau_ext.copy()
    for cycle in range(20):  # as for a real arm with a late packet
        cell.loop.cycle(cycle, cycle, ())
    np.testing.assert_array_equal(state.tau_ext, estimated)


@pytest.mark.sim
def test_robot_thresholds_ignore_tare(make_cell):
    limits = {"upper_torque_thresholds": [3.0] * 7}
    cell = make_cell(arms(franka=limits))
    push(cell, [2.0])
    cell.step(800)
    cell.tare("left")
    push(cell, [3.5])
    cell.step(20)
    assert cell.state("left").fault == "arm_stopped"
    force = {"upper_force_thresholds": [40.0, 40.0, 40.0, 50.0, 50.0, 50.0]}
    cell = make_cell(arms(franka=force, noise={"tau_bias": [0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0]}))
    cell.step(5)
    cell.tare("left")
    cell.step(5)
    robot, state = cell.loop.backends[0].robots[0], cell.loop.arms[0].state
    raw = np.linalg.lstsq(state.jacobian.T, robot.tau_ext, rcond=None)[0]
    rotation_to_base = state.rotation_ee_in_base
    np.testing.assert_allclose(
        robot.wrench_in_stiffness_frame()[:3], rotation_to_base.T @ raw[:3], atol=1e-3
    )
    assert np.abs(state.wrench_ext_in_base).max() < 1e-6
