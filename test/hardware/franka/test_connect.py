# SPDX-License-Identifier: Apache-2.0
"""Connection to robots: settings, model check, and reasons for failure."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import BackendError, ConfigurationError
from multipanda_py.realtime.cycle_record import record_dtype
from multipanda_py.robots import READY_CONFIGURATION
from multipanda_py.robots.dynamics.arm_dynamics import ArmModel
from multipanda_py.robots.franka import LIMITS
from multipanda_py.simulation.fci import FciSim
from multipanda_py.state import ArmState

TOOL = {"mass": 0.4, "com": [0.01, 0.0, 0.05], "position": [0.0, 0.02, 0.2],
        "rpy": [0.3, 0.1, 0.2], "inertia": [1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0]}  # fmt: skip

LOAD = {"load_mass": 0.7, "load_com": [0.02, -0.01, 0.12],
        "load_inertia": [2e-3, 3e-3, 4e-3, 1e-4, 0.0, -2e-4]}  # fmt: skip


@pytest.mark.clock
def test_states_arrive_without_commands(lockstep, make):
    _, addresses = lockstep
    cell = make(addresses)
    for state in cell.states:
        np.testing.assert_allclose(state.q, READY_CONFIGURATION, atol=1e-6)
        assert np.abs(state.tau_J).max() > 10.0
        assert not state.tau.any()
    assert not cell.ready()
    before = cell.backend.time
    for _ in range(20):
        cell.step(write=False)
    assert cell.backend.time > before
    assert not cell.ready()


@pytest.mark.clock
@pytest.mark.parametrize(
    ("tool", "load"),
    [(None, {}), (TOOL, {}), (None, LOAD), (TOOL, LOAD)],
    ids=["gripper", "gripper-and-tool", "gripper-and-load", "all"],
)
def test_pose_and_model_of_robot_agree_with_package(lockstep, make, tool, load):
    """Compare O_T_EE, mass, Coriolis, gravity and Jacobian for declared tools and loads."""
    _, addresses = lockstep
    found = {}
    cell = make(addresses[:1], tool=tool, franka={"answer_budget": 0.4, **load})
    link = cell.backend.real_arms[0].link
    cell.backend.real_arms[0].check = lambda model: found.update(model) or ""
    link.spawn()
    cell.run(lambda: not link.starting)
    arm = describe_arm("left", cell.config.arms["left"])
    row = np.zeros(1, record_dtype(1, 0, 0))
    state = ArmState("left", LIMITS["fr3"], row["arms"][0, 0:1].reshape(()))
    model = ArmModel(arm)
    model.attach(state)
    state.q[:] = found["q"]
    model.update(state)
    pose = np.reshape(found["O_T_EE"], (4, 4), order="F")
    np.testing.assert_allclose(pose[:3, 3], state.position_ee_in_base, atol=1e-5)
    np.testing.assert_allclose(pose[:3, :3], state.rotation_ee_in_base, atol=1e-5)
    for difference in cell.backend.real_arms[0].differences:
        assert abs(difference.ours - difference.theirs) < 2e-4, str(difference)
    assert cell.backend.warnings == [] or os.geteuid() != 0


@pytest.mark.clock
def test_wrong_load_is_reported(lockstep, make):
    _, addresses = lockstep
    tool = {**TOOL, "mass": 0.8}  # the robot does not know it because Desk lacks the tool
    wrong = {"tool_in_desk": True, "answer_budget": 0.4}
    with pytest.raises(BackendError) as refused:
        make(addresses[:1], tool=tool, franka={**wrong, "model_check": "refuse"})
    assert f"arm left: robot {addresses[0]}" in str(refused.value)
    assert "gravity at joint " in str(refused.value)
    assert "wrong tool or load" in str(refused.value)
    assert "jacobian" not in str(refused.value)
    warned = make(addresses[:1], tool=tool, franka={**wrong, "model_check": "warn"})
    assert "gravity at joint" in warned.backend.warnings[-1]
    warned.backend.close()
    ignored = make(addresses[:1], tool=tool, franka={**wrong, "model_check": "off"})
    assert not any("gravity" in text for text in ignored.backend.warnings)


@pytest.mark.clock
def test_wrong_load_is_reported_for_robot_that_connects_later(lockstep, make):
    sim, addresses = lockstep
    sim.admin(addresses[0], "user_stop", pressed=True)
    tool = {**TOOL, "mass": 0.8}
    cell = make(addresses[:1], tool=tool, franka={"tool_in_desk": True, "answer_budget": 0.4})
    assert cell.fault(0)[0] == "not_connected"
    cell.backend.warnings.clear()
    sim.admin(addresses[0], "user_stop", pressed=False)
    cell.recover(0)
    assert "gravity at joint" in cell.backend.warnings[-1]


@pytest.mark.clock
def test_settings_reach_robot(lockstep, make):
    """Compare settings with the robot state and with the behaviour of the robot."""
    sim, addresses = lockstep
    found = {}
    options = {"load_mass": 0.3, "load_com": [0.01, 0.02, 0.03],
               "stiffness_position": [0.0, 0.0, 0.1],
               "load_inertia": [1e-3, 2e-3, 3e-3, 1e-4, 0.0, 0.0], "answer_budget": 0.4,
               "upper_torque_thresholds": [3.0] * 7, "model_check": "off"}  # fmt: skip
    cell = make(addresses[:1], franka=options)
    link = cell.backend.real_arms[0].link
    cell.backend.real_arms[0].check = lambda model: found.update(model) or ""
    link.spawn()
    cell.run(cell.ready)
    assert found["m_load"] == pytest.approx(0.3)
    assert found["F_x_Cload"] == pytest.approx([0.01, 0.02, 0.03])
    assert found["EE_T_K"][14] == pytest.approx(0.1)
    sim.admin(addresses[0], "push", tau=[0, 0, 0, 4, 0, 0, 0])
    assert "joint_reflex" in cell.fault(0)[1]


@pytest.mark.clock
def test_setting_out_of_range_is_reported(lockstep, make):
    _, addresses = lockstep
    with pytest.raises(BackendError, match=r"left: .*cartesian_impedance: got .*5\.0"):
        make(addresses[:1], franka={"cartesian_impedance": [5.0] * 6})


@pytest.mark.clock
def test_every_unready_arm_is_reported_and_connects_later(lockstep, make, new_address):
    """A wrong version and an absent robot are reported and resolved without a restart."""
    sim, addresses = lockstep
    sim.admin(addresses[0], "version", robot=5)
    absent_address = new_address()
    cell = make([addresses[0], absent_address])
    kind, text = cell.fault(0)
    assert kind == "not_connected"
    assert "server version: 5, library version: 10" in text
    kind, text = cell.fault(1)
    assert kind == "not_connected"
    assert f"robot {absent_address} " in text
    assert "Desk" in text
    sim.admin(addresses[0], "version", robot=10)
    cell.recover(0)
    with FciSim([absent_address], lockstep=True):
        cell.recover(1)
        assert cell.ready()
        cell.backend.close()


@pytest.mark.clock
@pytest.mark.parametrize(
    ("command", "expected_text"),
    [("user_stop", "user stop is pressed; release it"), ("guiding", "guided by hand")],
)
def test_robot_not_ready_at_start_connects_later(lockstep, make, command, expected_text):
    sim, addresses = lockstep
    sim.admin(addresses[1], command, pressed=True)
    cell = make(addresses)
    kind, text = cell.fault(1)
    assert kind == "not_connected"
    assert addresses[1] in text
    assert expected_text in text
    cell.run(lambda: cell.backend.is_ready(0))
    # The arm has the configuration of the cell file.
    np.testing.assert_array_equal(cell.states[1].q, READY_CONFIGURATION)
    cell.backend.recover(1)
    cell.faults.clear()
    assert expected_text in cell.fault(1)[1], "still pressed"
    sim.admin(addresses[1], command, pressed=False)
    cell.recover(1)


@pytest.mark.clock
def test_robot_in_use_is_reported(lockstep, make):
    _, addresses = lockstep
    first = make(addresses[:1])
    second = make(addresses[:1])
    kind, text = second.fault(0)
    assert (kind, "in use" in text) == ("not_connected", True)
    first.backend.close()
    second.recover(0)


@pytest.mark.clock
def test_connection_to_non_robot_times_out(new_address, make, monkeypatch):
    """libfranka waits for an answer without a timeout; the loop has one."""
    monkeypatch.setattr("multipanda_py.hardware.driver.driver_process.START_TIMEOUT", 0.7)
    address = new_address()
    with contextlib.closing(socket.create_server((address, 1337))):
        text = make([address]).fault(0)[1]
    assert f"robot {address} " in text


@pytest.mark.clock
def test_only_communication_fault_is_recovered_at_start(lockstep, make):
    sim, addresses = lockstep
    sim.admin(addresses[0], "fault", errors=["communication_constraints_violation"])
    sim.admin(addresses[1], "fault", errors=["joint_reflex"])
    cell = make(addresses)
    kind, text = cell.fault(1)
    assert kind == "reflex"
    assert "joint_reflex" in text
    cell.run(lambda: cell.backend.is_ready(0))
    assert not cell.backend.is_ready(1)
    assert [index for index, _ in cell.faults] == [1]
    cell.recover(1)


def test_cell_file_is_checked():
    arm = {"backend": "franka"}
    with pytest.raises(ConfigurationError, match=r"arms\.left\.robot_ip: missing"):
        CellConfig.from_dict({"arms": {"left": arm}})
    arm["robot_ip"] = "172.16.0.2"
    with pytest.raises(ConfigurationError, match=r"arms\.right\.robot_ip: .*\bleft\b"):
        CellConfig.from_dict({"arms": {"left": arm, "right": arm}})
    with pytest.raises(ConfigurationError, match=r"arms\.left\.model: got 'fer'"):
        CellConfig.from_dict({"arms": {"left": {**arm, "model": "fer"}}})
    with pytest.raises(ConfigurationError, match=r"cell\.rate: got 500 Hz"):
        CellConfig.from_dict({"cell": {"rate": 500.0}, "arms": {"left": arm}})
    with pytest.raises(ConfigurationError, match=r"arms\.left\.franka\.nonsense: .*load_mass"):
        CellConfig.from_dict({"arms": {"left": {**arm, "franka": {"nonsense": 1}}}})


def test_driver_imports_neither_numpy_nor_mujoco(needs_pylibfranka):
    code = (
        "import sys, multipanda_py.hardware.franka.driver as d, pylibfranka; "
        "print([m for m in ('numpy', 'mujoco', 'rclpy', 'pinocchio', 'pydantic') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert done.stdout.strip() == "[]", done.stderr + done.stdout
