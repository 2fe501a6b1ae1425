# SPDX-License-Identifier: Apache-2.0
"""Connection, configuration and motion of simulated robots with unmodified libfranka."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.exceptions import BackendError
from multipanda_py.robots import (
    ARMATURE,
    READY_CONFIGURATION,
    ArmDescription,
    Tool,
)
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio
from multipanda_py.robots.inertial import Load, combined
from multipanda_py.robots.models import FRANKA_HAND as HAND
from multipanda_py.simulation.fci import FciSim

LOAD = (0.5, [0.01, -0.02, 0.15], [2e-3, 0, 0, 0, 3e-3, 0, 0, 0, 1e-3])
CONFIGURATIONS = [
    READY_CONFIGURATION.tolist(),
    [0.4, 0.3, -0.5, -1.8, 0.9, 2.1, -0.6],
    [-1.2, -0.9, 1.1, -2.5, -1.4, 1.2, 2.0],
]


@pytest.mark.clock
def test_states_arrive(sim, client, address):
    found = client("connect_and_read", address=address)
    assert found["mode"] == "Idle"
    assert found["errors"] == "[]"
    np.testing.assert_allclose(found["q"], READY_CONFIGURATION, atol=1e-6)
    assert found["passed"] == pytest.approx(0.001)
    assert found["m_ee"] == pytest.approx(HAND.load.mass)


@pytest.mark.clock
def test_settings_reach_state(sim, client, address):
    found = client("settings", address=address)
    assert found["m_load"] == pytest.approx(0.5)
    assert found["m_total"] == pytest.approx(0.5 + HAND.load.mass)
    np.testing.assert_allclose(found["F_x_Cload"], (0.0, 0.01, 0.05), atol=1e-7)
    expected = HAND.pose_tcp_in_flange
    expected[2, 3] += 0.1
    np.testing.assert_allclose(found["F_T_EE"], expected.ravel(order="F"), atol=1e-6)
    assert found["EE_T_K"][14] == pytest.approx(0.1)
    assert found["O_T_EE"][14] == pytest.approx(0.487 - 0.1, abs=1e-3)
    for refusal in ("bad_load", "bad_impedance", "while_moving"):
        assert found[refusal]["type"] == "CommandException", refusal


@pytest.mark.clock
@pytest.mark.parametrize("load", [None, LOAD], ids=["gripper", "gripper-and-load"])
def test_dynamics_of_client_equal_those_of_package(sim, client, address, load):
    """The libfranka model of URDF and states equals that of the package without rotors."""
    found = client("model", address=address, configurations=CONFIGURATIONS, load=load)
    parts = [HAND.load]
    if load is not None:
        parts.append(Load(load[0], np.array(load[1]), np.reshape(load[2], (3, 3))))
    total = combined(parts)
    arm = ArmDescription(
        "arm", hand=False, tool=Tool(total.mass, total.com, total.inertia, HAND.pose_tcp_in_flange)
    )
    ours = build_pinocchio(arm)
    data, frame = ours.createData(), ours.getFrameId(arm.ee_frame)
    for configuration, state in zip(CONFIGURATIONS, found["resting"], strict=True):
        q = np.array(state["q"])
        np.testing.assert_allclose(q, configuration, atol=1e-6)
        mass = np.triu(pin.crba(ours, data, q)) - np.diag(ARMATURE)
        mass += np.triu(mass, 1).T
        np.testing.assert_allclose(np.reshape(state["mass"], (7, 7)), mass, atol=1e-6)
        gravity = pin.computeGeneralizedGravity(ours, data, q)
        np.testing.assert_allclose(state["gravity"], gravity, atol=2e-5)
        np.testing.assert_allclose(state["tau_J"], gravity, atol=2e-5)
        jacobian = pin.computeFrameJacobian(ours, data, q, frame, pin.LOCAL_WORLD_ALIGNED)
        np.testing.assert_allclose(
            np.reshape(state["jacobian"], (6, 7), order="F"), jacobian, atol=1e-6
        )
        pin.framesForwardKinematics(ours, data, q)
        pose = np.array(data.oMf[frame].homogeneous)
        np.testing.assert_allclose(np.reshape(state["O_T_EE"], (4, 4), order="F"), pose, atol=1e-6)
    q, dq = np.array(found["moving"]["q"]), np.array(found["moving"]["dq"])
    assert np.abs(dq).max() > 0.1
    ours.gravity = pin.Motion.Zero()
    coriolis = pin.nonLinearEffects(ours, data, q, dq)
    np.testing.assert_allclose(found["moving"]["coriolis"], coriolis, atol=1e-5)


def test_dynamics_with_open_gripper_equal_those_of_cell():
    """The rigid gripper of the simulation equals the gripper of an arm of a cell."""
    bare = build_pinocchio(ArmDescription("arm"))
    total = HAND.load
    tool = Tool(total.mass, total.com, total.inertia, HAND.pose_tcp_in_flange)
    lumped = build_pinocchio(ArmDescription("arm", hand=False, tool=tool))
    q = np.array(CONFIGURATIONS[1])
    expected = pin.crba(bare, bare.createData(), q)
    np.testing.assert_allclose(pin.crba(lumped, lumped.createData(), q), expected, atol=1e-9)


@pytest.mark.slow
@pytest.mark.clock
@pytest.mark.parametrize("robots", [1, 2])
def test_lockstep_loses_nothing(make_sim, client, new_address, robots):
    addresses = [new_address() for _ in range(robots)]
    sim = make_sim(*addresses)
    found = client("torque_control", addresses=addresses, cycles=5000)
    assert found["modes"] == ["Idle"] * robots
    assert found["success"] == [1.0] * robots
    for address, q in zip(addresses, found["q"], strict=True):
        counted = sim.admin(address, "stats")
        assert counted["active_cycles"] == 5000
        assert counted["lost"] == 0
        assert 0.0 < counted["torque_rate_max"] <= 1000.0
        assert np.abs(np.array(q) - READY_CONFIGURATION).max() > 0.02
        assert len(sim.admin(address, "log")["commands"]) == 100


@pytest.mark.clock
def test_log_keeps_every_command_with_its_times(make_sim, client, new_address):
    """The log is read in parts; its times agree with the latency statistics."""
    address = new_address()
    sim = make_sim(address)
    sim.admin(address, "keep", commands=800)
    client("torque_control", addresses=[address], cycles=1000)
    parts = [sim.admin(address, "log", skip=at, max_count=300)["commands"] for at in (0, 300, 600)]
    assert [len(part) for part in parts] == [300, 300, 200]
    log = [command for part in parts for command in part]
    numbers = np.array([command["message_id"] for command in log])
    assert (np.diff(numbers) == 1).all()
    sent, arrived = (np.array([c[name] for c in log]) for name in ("sent_ns", "arrived_ns"))
    assert (np.diff(sent) > 0).all()
    took = np.percentile((arrived - sent) * 1e-3, [0, 100])
    assert took[0] >= 0.0
    assert took[1] <= sim.admin(address, "stats")["latency_us"]["100"] + 0.1


@pytest.mark.long
@pytest.mark.clock
def test_lockstep_is_deterministic(make_sim, client, new_address):
    """Two runs give the same states to the last bit."""
    digests = []
    for _ in range(2):
        addresses = [new_address(), new_address()]
        make_sim(*addresses)
        digests.append(
            client("torque_control", addresses=addresses, cycles=600, motions=1)["digests"]
        )
    assert digests[0] == digests[1]


@pytest.mark.clock
def test_clock_serves_two_robots(make_sim, client, new_address):
    """In clock mode, lost packets are counted; robot time is 1 ms per state."""
    addresses = [new_address(), new_address()]
    sim = make_sim(*addresses, lockstep=False, phases=[0.0, 0.5], ppm=[0.0, 100.0])
    found = client("torque_control", addresses=addresses, cycles=500)
    assert found["seconds"] > 0.45
    for address in addresses:
        counted = sim.admin(address, "stats")
        assert counted["active_cycles"] >= 490
        assert counted["lateness_us"]["50"] < 2000.0


@pytest.mark.clock
def test_joint_and_cartesian_motions_reach_goals(sim, client, address):
    found = client("joint_motion", address=address)
    assert found["mode"] == "Idle"
    np.testing.assert_allclose(found["moved"], [0, 0, 0, 0, 0, 0.04, 0], atol=2e-3)
    found = client("cartesian_motion", address=address)
    assert found["mode"] == "Idle"
    moved = np.zeros(16)
    moved[14] = 0.02
    np.testing.assert_allclose(found["moved"], moved, atol=2e-3)


@pytest.mark.clock
def test_asynchronous_motion_reaches_goal(sim, client, address):
    found = client("asynchronous_motion", address=address)
    assert not any(found["errors"])
    assert (found["status"], found["mode"]) == ("kTargetReached", "Idle")
    assert found["missing"] == pytest.approx(0.0, abs=2e-3)


@pytest.mark.clock
def test_coupled_robots_wait_for_each_other(make_sim, client, new_address):
    addresses = [new_address(), new_address()]
    make_sim(*addresses, together=True)
    rounds = client("together", addresses=addresses)["rounds"]
    # Increments after the answers to either robot. A busy machine may exceed the timeout of 0.1 s,
    # so one equal round suffices; without waiting, every round differs.
    grown = [(then[0] - now[0], then[1] - now[1]) for now, then in rounds]
    assert any(first == second for first, second in grown), grown


@pytest.mark.clock
def test_address_in_use_is_reported(sim, address):
    with pytest.raises(BackendError, match=rf"{address}.*\b1337\b"):
        FciSim([address]).start()
