# SPDX-License-Identifier: Apache-2.0
"""Faults between a robot and its client, as seen by the client."""

from __future__ import annotations

import pytest
from processes import wait_until

from multipanda_py.exceptions import BackendError
from multipanda_py.robots import READY_CONFIGURATION
from multipanda_py.simulation.fci.wire import ERRORS

pytestmark = pytest.mark.clock

REFLEXES = [
    ("joint_reflex", {"command": "push", "tau": [0, 0, 0, 25, 0, 0, 0]}, 0.0),
    ("cartesian_reflex", {"command": "push", "wrench": [0, 0, 25, 0, 0, 0]}, 0.0),
    ("controller_torque_discontinuity", None, 5.0),
    ("tau_j_range_violation", None, 12.5),
    ("instability_detected", {"command": "fault", "errors": ["instability_detected"]}, 0.0),
]


@pytest.mark.parametrize(("error", "provoke", "tau"), REFLEXES, ids=[r[0] for r in REFLEXES])
def test_reflex_is_reported_and_recovered(sim, client, address, error, provoke, tau):
    found = client("reflex", address=address, provoke=provoke, tau=tau)
    assert found["raised"]["type"] == "ControlException"
    assert error in found["raised"]["text"].lower()  # libfranka writes tau_J_range_violation
    assert found["mode"] == "Reflex"
    assert error in found["current"].lower()
    assert error in found["last"].lower()
    assert found["start"]["type"] == "CommandException"
    assert found["recovered"] == "Idle"
    assert found["after"] == ["[]", found["last"]]


def test_external_torques_have_sign_of_robot(sim, client, address):
    """A push in +z reads as -z, the force of the robot on its environment."""
    provoke = {"command": "push", "wrench": [0, 0, 25, 0, 0, 0]}
    found = client("reflex", address=address, provoke=provoke)
    assert found["wrench"] == pytest.approx([0, 0, -25, 0, 0, 0], abs=0.1)


@pytest.mark.parametrize(
    ("start", "error"),
    [(0.0, "joint_velocity_violation"), (2.7, "joint_position_limits_violation")],
    ids=["speed", "position"],
)
def test_limits_of_measured_motion_raise_errors(sim, client, address, start, error):
    configuration = [start, *READY_CONFIGURATION[1:].tolist()]
    raised = client("runaway", address=address, start=configuration)["raised"]
    assert raised["type"] == "ControlException"
    assert error in raised["text"]


def test_every_error_has_its_bit(sim, client, address):
    found = client("error_names", address=address, names=ERRORS)
    assert found["seen"] == [[name] for name in ERRORS]
    for name, text in zip(ERRORS, found["texts"], strict=True):
        assert name in text.lower()  # Texts differ slightly: tau_J_..., ..._invalid_frame_flag.


def test_twenty_lost_commands_end_motion(sim, client, address):
    found = client("gap", address=address, lost={"commands": 20})
    assert "communication_constraints_violation" in found["raised"]["text"]
    assert found["mode"] == "Reflex"
    counted = sim.admin(address, "stats")
    assert (counted["lost"], counted["longest_run"]) == (20, 20)


@pytest.mark.parametrize("lost", [{"commands": 19}, {"states": 19}], ids=lambda x: next(iter(x)))
def test_nineteen_lost_packets_do_not_end_motion(sim, client, address, lost):
    found = client("gap", address=address, lost=lost)
    assert found["raised"] is None
    assert found["rate"] == pytest.approx(0.81)
    assert sim.admin(address, "stats")["longest_run"] == 19


def test_pause_of_client_ends_motion_in_clock_mode(make_sim, client, new_address):
    address = new_address()
    make_sim(address, lockstep=False)
    found = client("gap", address=address, pause=True)
    assert "communication_constraints_violation" in found["raised"]["text"]


def test_missing_commands_end_motion_in_lockstep(sim, client, address):
    found = client("gap", address=address, pause=True)
    assert "communication_constraints_violation" in found["raised"]["text"]


def test_delay_loses_nothing_in_lockstep(sim, client, address):
    sim.admin(address, "delay", milliseconds=0.5)
    assert client("gap", address=address)["raised"] is None
    counted = sim.admin(address, "stats")
    assert counted["lost"] == 0
    assert counted["latency_us"]["50"] > 1000.0


def test_random_loss_is_counted(sim, client, address):
    sim.admin(address, "drop", probability=0.05)
    client("torque_control", addresses=[address], cycles=500)
    counted = sim.admin(address, "stats")
    assert 20 < counted["lost"] < 120


def test_preempted_motion_raises_error(sim, client, address):
    found = client("preemption", address=address)
    assert found["stopped"]["type"] == "ControlException"
    assert "preempted" in found["stopped"]["text"]
    assert (found["mode"], found["dropped"], found["end"]) == ("Idle", "Idle", "Idle")
    assert found["second"]["type"] == "InvalidOperationException"


def test_user_stop_and_guiding_change_mode(sim, client, address):
    found = client("user_stop", address=address)
    assert found["raised"]["type"] == "ControlException"
    assert found["mode"] == "UserStopped"
    assert found["recovery"]["type"] == found["start"]["type"] == "CommandException"
    assert (found["released"], found["guided"]) == ("Idle", "Guiding")


@pytest.mark.parametrize("command", ["kill_udp", "kill_tcp", "reboot"])
def test_dead_link_raises_within_two_seconds(sim, client, address, command):
    raised = client("broken_link", address=address, command=command)["raised"]
    assert raised["type"] == "NetworkException", raised
    assert raised["after"] < 2.0


def test_killed_client_leaves_reflex(sim, client, address):
    client(
        "broken_link", address=address, command="stats"
    )  # The client exits without a disconnect.
    wait_until(
        lambda: sim.admin(address, "stats")["errors"]
    )  # The robot counts twenty cycles first.
    assert sim.admin(address, "stats")["errors"] == ["communication_constraints_violation"]
    assert (
        client("settings", address=address)["m_load"] > 0.0
    )  # The client recovers and continues.


def test_planned_fault_occurs_in_its_cycle(sim, client, address):
    found = client("fault_at", address=address, at=123)
    assert "joint_reflex" in found["raised"]["text"]
    assert found["done"] == 124  # The robot ignores the last command.
    assert sim.admin(address, "stats")["active_cycles"] == 123


def test_rebooted_robot_accepts_connection(sim, client, address):
    sim.admin(address, "fault", errors=["joint_reflex"])
    sim.admin(address, "reboot", seconds=0.1)
    wait_until(lambda: sim.admin(address, "stats")["running"])
    assert client("connect_and_read", address=address)["mode"] == "Idle"


def test_other_protocol_version_is_rejected(sim, client, address):
    sim.admin(address, "version", robot=9, gripper=2)
    raised = client("refused", address=address)["raised"]
    assert raised["type"] == "FrankaException"
    assert "server version: 9" in raised["text"]
    raised = client("wrong_gripper", address=address)["raised"]
    assert "server version: 2" in raised["text"]


def test_second_client_is_rejected(sim, client, address):
    found = client("in_use", address=address)
    assert found["raised"]["type"] == "NetworkException"
    assert found["first"] == "Idle"
    assert sim.admin(address, "stats")["refused"] == 1


def test_missing_robot_raises_network_error(client, new_address):
    raised = client("refused", address=new_address())["raised"]
    assert raised["type"] == "NetworkException"


def test_admin_port_rejects_invalid_requests_with_message(sim, address):
    for command, arguments, words in (
        ("nonsense", {}, "'nonsense'.*stats"),
        ("fault", {"errors": ["nonsense"]}, "'nonsense'"),
        ("push", {"tau": [1.0]}, r"\b7\b"),
        ("object", {"width": 1.0}, r"width.*\b1\.0\b"),
        ("delay", {}, "milliseconds"),
        ("delay", {"at": 3}, "milliseconds"),
    ):
        with pytest.raises(BackendError, match=words):
            sim.admin(address, command, **arguments)
