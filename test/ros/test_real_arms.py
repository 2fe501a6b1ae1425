# SPDX-License-Identifier: Apache-2.0
"""Real arms through the node, as users start it, on two simulated robots.

Every fault occurs on ``left`` while ``right`` moves. The robots run in lockstep, so that machine
load has no effect. A stopped process stays stopped until a robot times out by its own clock.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import time
from argparse import Namespace

import mujoco
import numpy as np
import pytest
import rclpy
from cell_names import ARMS, CARTESIAN, IMPEDANCE
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped, WrenchStamped
from long_form import long_form
from processes import descendants, is_running, shared_memory
from real_rig import STEP, Rig
from repository import ROOT
from robots import unused_address, within_bounds

from multipanda_py.apps.cli import main
from multipanda_py.simulation.fci import FciSim

pytestmark = [pytest.mark.slow, pytest.mark.sim, pytest.mark.clock, pytest.mark.node]


@pytest.fixture(scope="module")
def start_node(tmp_path_factory, node_process):
    """A function that starts nodes, which end with the module."""
    if importlib.util.find_spec("pylibfranka") is None:
        pytest.skip("pylibfranka is not installed: pip install pylibfranka")
    started = []

    def start(*overrides, **options):
        started.append(node_process(tmp_path_factory.mktemp("real"), *overrides, **options))
        return started[-1]

    yield start
    for node in started:
        node.end()


@pytest.mark.long
def test_kills_leave_no_processes_or_shared_memory(start_node, client, dual_real):
    """Kill of the ROS process, then stop and kill of the loop of a second one."""
    memory = shared_memory()
    addresses = [unused_address(), unused_address()]
    with FciSim(addresses, together=True) as sim:
        rig = Rig(sim, addresses, start_node, client, dual_real)
        pids = descendants(rig.node.process.pid)
        assert rig.node.end(signal.SIGKILL) == -signal.SIGKILL
        rig.ends_without_a_trace(pids, memory)
        rig.node.wait_for("its owner has ended; arms at rest")

        rig = Rig(sim, addresses, start_node, client, dual_real, budget=0.2)
        os.kill(rig.loop, signal.SIGSTOP)
        try:
            rig.until(lambda: not any(map(rig.moves, ARMS)), "end of the motions")
            rig.node.wait_for("the drivers of left, right have brought their torques to zero")
            refused = rig.recover()
            assert not refused.success
            assert re.search(r"\b\d+\.\d\d s\b", refused.message)
        finally:
            os.kill(rig.loop, signal.SIGCONT)
        for arm in ARMS:
            rig.node.wait_for(f"arm_stopped ({arm}, {arm}/{CARTESIAN}): loop_silent")
            assert rig.stats(arm)["errors"] == []
            within_bounds(rig.stats(arm))
            assert rig.recover(arm).success
        rig.until(lambda: all(map(rig.moves, ARMS)), "torque control")
        rig.switch(*IMPEDANCE)
        rig.reaches("left", rig.here("left") + STEP)

        pids = descendants(rig.node.process.pid)
        os.kill(rig.loop, signal.SIGKILL)
        assert rig.node.process.wait(15.0) == 1
        assert "was killed by SIGKILL" in rig.node.log
        assert "Traceback" not in rig.node.log
        rig.ends_without_a_trace(pids, memory)


@pytest.fixture(scope="module")
def shared_rig(start_node, client, dual_real):
    addresses, nodes = [unused_address(), unused_address()], []

    def start(*overrides, **options):
        nodes.append(start_node(*overrides, **options))
        return nodes[-1]

    with FciSim(addresses, together=True) as sim:
        try:
            rig = Rig(sim, addresses, start, client, dual_real)
        except BaseException:  # a remaining node would block the next attempt
            for node in nodes:
                node.end()
            raise
        yield rig
        left = descendants(rig.node.process.pid)
        assert rig.node.end() == 0, rig.node.log
        assert "Traceback" not in rig.node.log
        assert not any(map(is_running, left))


@pytest.fixture
def rig(shared_rig):
    """Both arms under Cartesian impedance with counters reset."""
    shared_rig.recover()  # clears faults of a failed test
    shared_rig.until(lambda: all(map(shared_rig.moves, ARMS)), "torque control")
    shared_rig.switch(*IMPEDANCE)
    shared_rig.reset()
    return shared_rig


@pytest.mark.long
def test_switch_under_load(rig):
    load = rig.client.listen(WrenchStamped, f"{rig.space}/left/external_wrench")
    rig.admin("left", "push", wrench=[0.0, 0.0, -10.0, 0.0, 0.0, 0.0])
    rig.until(lambda: load() and abs(abs(load().wrench.force.z) - 10.0) < 1.0, "load")
    before = rig.here("left")
    with rig.path("left") as path:
        rig.switch("left/joint_impedance_controller")
        done = rig.stats("left")["active_cycles"]
        rig.until(lambda: rig.stats("left")["active_cycles"] > done + 500, "more cycles")
    assert path
    assert np.linalg.norm(np.array(path) - before, axis=1).max() < 0.03
    rig.admin("left", "push")
    within_bounds(rig.stats("left"), longest_run=0)


@pytest.mark.long
def test_dual_arm_controllets_move_both_arms(rig):
    rig.switch("dual_cartesian_impedance_controller")
    before = {arm: rig.here(arm) for arm in ARMS}
    for arm in ARMS:
        rig.reaches(arm, before[arm] + STEP)
    rig.switch("coupled_impedance_controller")
    _, values = rig.client.diagnosis(f"{rig.node.name}/coupled_impedance_controller")
    goal = PoseStamped()
    goal.header.frame_id = "world"
    goal.pose.orientation.w = 1.0
    centre = np.array([float(values[f"object_{axis} [m]"]) for axis in "xyz"])
    goal.pose.position.x, goal.pose.position.y, goal.pose.position.z = map(float, centre - STEP)
    rig.client.stream(
        f"{rig.space}/coupled_impedance_controller/target_pose", goal,
        lambda: all(np.linalg.norm(rig.here(arm) - before[arm]) < 0.005 for arm in ARMS),
        "both arms back",
    )  # fmt: skip
    for arm in ARMS:
        within_bounds(rig.stats(arm), longest_run=0)


def controllet_fault(how):
    def strike(rig):
        rig.switch("left/odd")
        rig.misbehave(how)

    return strike


def stop_the_driver(rig):
    """Stop the driver until the robot reports a reflex."""
    driver = rig.driver_of_left()
    os.kill(driver, signal.SIGSTOP)
    try:
        rig.until(lambda: rig.stats("left")["mode"] == "reflex", "reflex of the robot")
    finally:
        os.kill(driver, signal.SIGCONT)


FAULTS = {
    "reflex": (lambda r: r.admin("left", "reflex"), "joint_reflex"),
    "user_stop": (lambda r: r.admin("left", "user_stop"), "the user stop is pressed"),
    "lost_packets": (
        lambda r: r.admin("left", "drop", commands=20),
        "communication_constraints_violation (20 ",
    ),
    "dead_tcp": (lambda r: r.admin("left", "kill_tcp"), "the link is broken"),
    "dead_udp": (lambda r: r.admin("left", "kill_udp"), "the link is broken"),
    "driver_killed": (lambda r: os.kill(r.driver_of_left(), signal.SIGKILL), "killed by SIGKILL"),
    "driver_stopped": (stop_the_driver, "communication_constraints_violation"),
    "nan": (controllet_fault("nan"), "non_finite_torque"),
    "exception": (controllet_fault("raise"), "this law broke"),
}


@pytest.mark.parametrize("name", long_form(FAULTS, keep=("user_stop", "dead_tcp")))
def test_fault_of_one_arm_does_not_affect_other_arm(rig, name):
    strike, word = FAULTS[name]
    start, goal = rig.here("right"), rig.other_end("right")
    reported = len(rig.node.log)
    with rig.path("right") as path:
        rig.client.publish(f"{rig.space}/right/target_pose", rig.target("right", goal))
        strike(rig)
        rig.reaches("right", goal)
    rig.until(lambda: word in rig.node.log[reported:], f"{word!r} in the log")
    rig.until(
        lambda: (why := rig.reason("left")) and why in rig.node.log[reported:], "diagnostics"
    )
    assert rig.active("left") == {"left/hold"}
    refused = rig.ask_to_switch(f"left/{CARTESIAN}")
    assert not refused.ok
    assert "call left/error_recovery first" in refused.message

    along = (goal - start) / np.linalg.norm(goal - start)
    aside = np.array(path) - start
    aside -= np.outer(aside @ along, along)
    assert np.linalg.norm(aside, axis=1).max() < 0.01
    assert rig.active("right") == {f"right/{CARTESIAN}"}
    assert rig.stats("right")["mode"] == "move"
    within_bounds(rig.stats("right"))
    within_bounds(rig.stats("left"), longest_run=20)  # lost commands at which the robot aborts

    if name == "user_stop":
        answer = rig.recover("left")
        assert not answer.success
        assert word in answer.message
        rig.admin("left", "release")
    if name == "dead_udp":
        rig.admin("left", "heal")
    if name in ("nan", "exception"):
        rig.misbehave("none")
    answer = rig.recover("left")
    assert answer.success, answer.message
    assert "left: " in answer.message
    assert "cleared: the arm holds" in answer.message
    assert rig.active("left") == {"left/hold"}, "no controllet resumes automatically"
    rig.until(lambda: rig.moves("left"), "torque control")
    rig.switch(f"left/{CARTESIAN}")
    rig.reaches("left", rig.other_end("left"))


def test_partner_arm_of_coupled_controllet_holds(rig):
    rig.switch("coupled_impedance_controller")
    rig.admin("left", "reflex", error="cartesian_reflex")
    rig.until(lambda: rig.active("right") == {"right/hold"}, "hold")
    assert rig.status("right").level == DiagnosticStatus.OK
    assert rig.moves("right")
    assert rig.recover().message.startswith("left: arm_stopped ")


def robot_state(rig):
    """Return a getter of the newest state of the left arm under franka_ros2's name."""
    messages = pytest.importorskip("franka_msgs.msg", reason="franka_msgs is not installed")
    topic = f"{rig.space}/left/franka_robot_state_broadcaster/robot_state"
    return rig.client.listen(messages.FrankaRobotState, topic)


def wrench_of(message):
    parts = message.wrench.force, message.wrench.torque
    return np.array([getattr(part, axis) for part in parts for axis in "xyz"])


def pose_of(message):
    """Return a pose as libfranka has it, (4, 4), column by column."""
    p, q = message.pose.position, message.pose.orientation
    pose = np.eye(4)
    mujoco.mju_quat2Mat(rotation := np.zeros(9), np.array([q.w, q.x, q.y, q.z]))
    pose[:3, :3], pose[:3, 3] = rotation.reshape(3, 3), (p.x, p.y, p.z)
    return pose.ravel(order="F")


def inertia_of(message):
    i = message.inertia
    moments = [[i.ixx, i.ixy, i.ixz], [i.ixy, i.iyy, i.iyz], [i.ixz, i.iyz, i.izz]]
    return np.hstack([i.m, i.com.x, i.com.y, i.com.z, np.ravel(moments, order="F")])


def test_franka_external_wrench_had_opposite_sign_of_libfranka(rig):
    """Each published field equals the value that the robot sends to libfranka."""
    state = robot_state(rig)
    load = rig.client.listen(WrenchStamped, f"{rig.space}/left/external_wrench")
    pushed = [3.0, -2.0, -15.0, 0.5, 0.0, 0.0]
    rig.admin("left", "push", wrench=pushed)

    def is_still():
        admin_state = rig.admin("left", "state")
        found = state() and wrench_of(state().o_f_ext_hat_k)
        return (
            found is not None
            and np.abs(admin_state["dq"]).max() < 1e-3
            and np.allclose(found, admin_state["O_F_ext_hat_K"], atol=0.2)
            and abs(found[2] - 15.0) < 1.0
        )

    rig.until(is_still, "a pushed arm at rest, with the same wrench on both sides")
    admin_state, found = rig.admin("left", "state"), state()
    assert np.allclose(wrench_of(load())[:3], pushed[:3], atol=1.0), "the project's own topic"
    assert np.allclose(wrench_of(found.o_f_ext_hat_k)[:3], [-3.0, 2.0, 15.0], atol=1.0)
    assert np.allclose(wrench_of(found.k_f_ext_hat_k), admin_state["K_F_ext_hat_K"], atol=0.2)
    for part, fields in (
        (found.measured_joint_state, ("q", "dq", "tau_J")),
        (found.desired_joint_state, (None, None, "tau_J_d")),
        (found.tau_ext_hat_filtered, (None, None, "tau_ext_hat_filtered")),
    ):
        for values, field in zip((part.position, part.velocity, part.effort), fields):
            if field is not None:
                assert np.allclose(values, admin_state[field], atol=0.2), field
    for part, field in (
        (found.o_t_ee, "O_T_EE"), (found.f_t_ee, "F_T_EE"), (found.ee_t_k, "EE_T_K"),
    ):  # fmt: skip
        assert np.allclose(pose_of(part), admin_state[field], atol=2e-3), field
    flags = found.collision_indicators
    assert np.array_equal(flags.is_joint_contact, admin_state["joint_contact"])
    contact = flags.is_cartesian_linear_contact
    assert (
        [contact.x, contact.y, contact.z]
        == admin_state["cartesian_contact"][:3]
        == [0.0, 0.0, 1.0]
    )
    assert not np.any(flags.is_joint_collision)
    assert np.allclose(found.elbow.position, admin_state["elbow"], atol=1e-3)
    assert found.elbow.position[1] == -1.0
    load = inertia_of(found.inertia_load)
    assert load[0] == pytest.approx(admin_state["m_load"][0], abs=1e-6)
    assert inertia_of(found.inertia_ee)[0] > 0.5, "a Franka Hand"
    assert inertia_of(found.inertia_total)[0] == pytest.approx(
        load[0] + inertia_of(found.inertia_ee)[0]
    )
    assert found.robot_mode == admin_state["robot_mode"][0] + 0 == found.ROBOT_MODE_MOVE
    for unknown in (
        found.ddq_d, found.dtau_j, found.measured_joint_motor_state.position,
        found.control_command_success_rate, found.o_ddp_ee_c.accel.linear.x,
    ):  # fmt: skip
        assert np.isnan(unknown).all()
    assert len(found.measured_joint_motor_state.velocity) == 7
    rig.admin("left", "push")


@pytest.mark.long
def test_user_stop_was_reported_as_reflex_under_franka_names(rig):
    state = robot_state(rig)

    def has(mode, *errors, of="current_errors"):
        found = state()
        if not found or found.robot_mode != getattr(found, f"ROBOT_MODE_{mode}"):
            return False
        part = getattr(found, of)
        set_ones = {name for name in part.get_fields_and_field_types() if getattr(part, name)}
        return set_ones == set(errors)

    rig.until(lambda: has("MOVE"), "move")
    rig.admin("left", "user_stop")
    rig.until(lambda: has("USER_STOPPED"), "user stop")
    rig.admin("left", "release")
    rig.until(lambda: has("IDLE"), "idle")
    assert rig.recover("left").success
    rig.until(lambda: has("MOVE"), "move")
    rig.admin("left", "guiding")
    rig.until(lambda: has("GUIDING"), "guiding")
    rig.admin("left", "release")
    rig.until(lambda: has("IDLE"), "idle")
    assert rig.recover("left").success
    rig.admin("left", "reflex", error="cartesian_reflex")
    rig.until(lambda: has("REFLEX", "cartesian_reflex"), "reflex")
    assert np.isnan(state().collision_indicators.is_joint_collision).all(), "its axis is unknown"
    assert rig.recover("left").success
    rig.until(lambda: has("MOVE", "cartesian_reflex", of="last_motion_errors"), "last error")


@pytest.fixture(scope="module")
def talk(client):
    """Example 05 as a module."""
    path = ROOT / "examples" / "05_talk_to_the_node.py"
    spec = importlib.util.spec_from_file_location("talk", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_readme_walk_through(rig, shared_node, talk, capsys):
    """Motion, reflex, diagnosis, recovery and motion, next to a node with the same name."""
    node = rclpy.create_node("walk_through", namespace=rig.space)

    def do(function, **options):
        done = function(node, Namespace(**options))
        return done, capsys.readouterr().out

    law = "dual_cartesian_impedance_controller"
    assert do(talk.switch, names=[law])[0]
    for arm in ARMS:
        done, reported = do(talk.move, arm=arm, dx=0.0, dy=0.0, dz=0.02)
        assert done, reported
    assert main(["inject", rig.address["left"], "reflex"]) == 0
    rig.until(lambda: "joint_reflex" in rig.reason("left"), "diagnostics")
    _, reported = do(talk.show_faults)
    assert f"{rig.node.name}/left: latched fault: arm_stopped " in reported
    assert f"{rig.node.name}/right: follows right/hold" in reported
    begin = time.monotonic()
    done, reported = do(talk.move, arm="left", dx=0.0, dy=0.0, dz=0.02)
    assert not done
    assert "left: latched fault: arm_stopped " in reported  # at once; it took 20 s before
    assert "recover left" in reported
    assert time.monotonic() - begin < 0.5 * talk.TIMEOUT
    done, reported = do(talk.switch, names=[law])
    assert not done
    assert "call left/error_recovery first" in reported
    done, reported = do(talk.recover, arm="left")
    assert done, reported
    assert do(talk.switch, names=[law])[0]
    assert do(talk.move, arm="left", dx=0.0, dy=0.0, dz=-0.02)[0]
    done, reported = do(talk.show_list)
    assert f"active       cartesian_impedance        {law}" in reported
    node.destroy_node()
