# SPDX-License-Identifier: Apache-2.0
"""Commands of elastic elements and motors through a cell: every mode, refusals, holding."""

from __future__ import annotations

import copy
import math
import re

import numpy as np
import pytest
from springs_of_fr3 import springs
from world import compliant

from multipanda_py.exceptions import ConfigurationError, ParameterRejected, TargetRejected
from multipanda_py.realtime.events import Event
from multipanda_py.simulation.actuators import CompliantJoints, CompliantRobot, OperationMode
from multipanda_py.simulation.actuators.arm import CompliantGroups

pytestmark = [pytest.mark.sim, pytest.mark.inline]
LAW = "commands"
DAMPED = (20.0, 20.0, 15.0, 10.0, 1.5, 1.5, 0.8)
MODES = [mode.name.lower() for mode in OperationMode]
RIGHT = {"right": {"position": [0.0, -2.0, 0.0]}}
STEP = {"torque_command": 0.5, "link_command": 0.2, "reference_1": 0.05, "reference_2": 0.05,
        "equilibrium_position": 0.06, "stiffness_preset": 0.05, "motor_1_command": 0.4,
        "motor_2_command": -0.2}  # fmt: skip


def cell_of(make_cell, mode="configured", own="equilibrium_pid", damping=(0.0,) * 7, **law):
    """Return a cell whose left arm has elastic elements, commanded in a mode."""
    laws = {LAW: {"type": "actuator_commands", "arms": ["left"], "params": {"mode": mode}, **law},
            "springy": {"type": "joint_impedance", "arms": ["left"]}}  # fmt: skip
    return make_cell({"left": arm_on(springs(own), damping)}, laws, [LAW])


def arm_on(actuators, damping=(0.0,) * 7):
    damping, friction = list(damping), [0.0] * 7
    return {"actuators": actuators, "gripper": False, "joint_friction": friction,
            "joint_damping": damping}  # fmt: skip


def plain_robot(cell, mode):
    """Return the same arm without a cell, at rest, supported by its elastic elements."""
    groups = CompliantGroups([cell.config.arms["left"]])
    joints = CompliantJoints(groups.springs, 7, groups.motors, mode)
    robot = CompliantRobot(
        copy.copy(cell.simulation.model), cell.descriptions["left"].joint_names, joints
    )
    robot.data.qpos[:] = cell.simulation.data.qpos
    joints.reset(robot.q, robot.weight, groups.presets)
    return robot


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_moves_arm_as_without_cell(make_cell, mode):
    """The reference path to the same joints has no loop, controllets or shared memory."""
    cell = cell_of(make_cell, mode)
    robot = plain_robot(cell, mode)
    cell.step(20)
    start = cell.simulation.data.qpos[:7].copy()
    np.testing.assert_allclose(robot.q, start, atol=1e-8)
    steps = cell.loop.backends[0].steps
    desired = {
        name: robot.joints.commanded(name) + STEP[name]
        for name in OperationMode.from_value(mode).commands
    }
    cell.command_actuators("left", **desired)
    for name, values in desired.items():
        robot.joints.command(name, values)
    for _ in range(60):
        cell.step(1)
        for _ in range(steps):
            robot.step()
    moved = np.abs(robot.q - start).max()
    assert moved > 1e-3
    assert not cell.state("left").fault
    tolerance = 1e-6 if mode != "link_torque" else 0.02 * moved  # its weight is a cycle old
    np.testing.assert_allclose(cell.simulation.data.qpos[:7], robot.q, atol=tolerance)
    found = cell.actuators("left")
    assert found.modes == (OperationMode.from_value(mode),) * 7
    if OperationMode.from_value(mode).has_motors:
        np.testing.assert_allclose(found.position, robot.joints.theta, atol=1e-3)


def test_switch_and_mode_change_are_bumpless(make_cell):
    cell = cell_of(make_cell, "equilibrium_pid")
    data = cell.simulation.data
    order = ("equilibrium", "spring_references", "link_torque", "motor_pid", "motor_torque",
             "link_pid", "equilibrium_pid")  # fmt: skip
    start, speeds = data.qpos[:7].copy(), []
    for mode in order:
        cell.set_parameters(LAW, {"mode": mode})
        for _ in range(20):
            cell.step(1)
            speeds.append(np.abs(data.qvel[:7]).max())
    cell.switch(["springy"], strictness="force_auto")
    for _ in range(40):
        cell.step(1)
        speeds.append(np.abs(data.qvel[:7]).max())
    assert max(speeds) < 2e-3
    np.testing.assert_allclose(data.qpos[:7], start, atol=1e-4)
    assert not [event.text for event in cell.events() if event.event.is_fault]


@pytest.mark.parametrize("mode", ["link_torque", "link_pid", "motor_torque"])
def test_uncommanded_joints_are_held(make_cell, mode):
    """A default torque would let an arm fall; a joint changes mode when it is commanded."""
    cell = cell_of(make_cell, mode)
    cell.simulation.apply_wrench("left_fr3_link6", [0.0, 0.0, -15.0])
    start = cell.state("left").q.copy()
    cell.step(60)
    assert 1e-3 < np.abs(cell.state("left").q - start).max() < 0.1
    cell.simulation.apply_wrench("left_fr3_link6")
    cell.step(300)
    np.testing.assert_allclose(cell.state("left").q, start, atol=2e-3)
    assert set(cell.actuators("left").modes) == {OperationMode.MOTOR_PID}
    name = OperationMode.from_value(mode).commands[0]
    cell.command_actuators("left", **{name: {"joint7": 0.0}})
    cell.step(5)
    modes = cell.actuators("left").modes
    assert modes[6] == OperationMode.from_value(mode)
    assert set(modes[:6]) == {OperationMode.MOTOR_PID}


def test_static_load_follows_spring_equation(make_cell):
    cell = cell_of(make_cell, "equilibrium", damping=DAMPED)
    cell.command_actuators("left", stiffness_preset=0.3)
    cell.command_actuators("left", equilibrium_position={"joint4": -2.25, "joint7": 0.7})
    cell.step(1100)
    found, data = cell.actuators("left"), cell.simulation.data
    assert np.abs(data.qvel[:7]).max() < 3e-3
    k, weight = np.array([7.8] * 4 + [1.4] * 3), data.qfrc_bias[:7]
    lead = np.arcsinh(weight / (2.0 * k * math.cosh(5.0 * 0.3))) / 5.0
    np.testing.assert_allclose(found.equilibrium - data.qpos[:7], lead, atol=2e-3)
    assert found.equilibrium[[3, 6]].tolist() == pytest.approx([-2.25, 0.7], abs=1e-12)
    np.testing.assert_allclose(found.preset, 0.3, atol=1e-12)
    stiffness = 10.0 * k * math.cosh(1.5) * np.cosh(5.0 * lead)
    np.testing.assert_allclose(found.stiffness, stiffness, rtol=1e-2)
    np.testing.assert_allclose(found.torque, weight, atol=0.05)
    np.testing.assert_allclose(found.load.sum(axis=0), found.torque, atol=0.05)


def test_commands_of_single_joints_in_one_cycle_all_count(make_cell):
    """A record written before the loop has read the previous one has to repeat it."""
    cell = cell_of(make_cell, "equilibrium")
    before = cell.actuators("left").equilibrium
    for joint in range(1, 8):
        cell.set_channel(
            "left", "equilibrium_position", {f"joint{joint}": before[joint - 1] + 0.01 * joint}
        )
    cell.step(2)
    expected = before + 0.01 * np.arange(1, 8)
    np.testing.assert_allclose(cell.actuators("left").equilibrium, expected, atol=1e-12)


def test_previous_command_does_not_return_with_its_mode(make_cell):
    cell = cell_of(make_cell, "equilibrium")
    before = cell.actuators("left").equilibrium
    cell.command_actuators("left", equilibrium_position={"joint7": before[6] + 0.2})
    cell.step(300)
    for mode in ("spring_references", "equilibrium"):
        cell.set_parameters(LAW, {"mode": mode})
        cell.command_actuators(
            "left", **{OperationMode.from_value(mode).commands[0]: {"joint5": before[4]}}
        )
        if mode == "spring_references":
            cell.command_actuators(
                "left", reference_1={"joint7": before[6]}, reference_2={"joint7": before[6]}
            )
        cell.step(5)
    assert cell.actuators("left").equilibrium[6] == pytest.approx(before[6], abs=1e-9)


REFUSED = {
    "of another mode": ({"reference_1": 0.1}, r"^left: .*joint1 .*\bequilibrium_pid\b"),
    "beyond its presets": ({"stiffness_preset": 0.9}, r"joint1: .*\b0\.9\b.* 0 .* 0\.4 rad$"),
    "beyond all joints": (
        {"equilibrium_position": 1e308}, r"joint1: .*\b1e.308\b.* -1e.06 .* 1e.06 rad$"
    ),
    "not a number": ({"equilibrium_position": math.nan}, r"equilibrium_position: .*nan.*\b7\b"),
    "too few": ({"equilibrium_position": [0.1] * 6}, r"equilibrium_position: .*\b6\b.*\b7\b"),
    "of no joint": ({"equilibrium_position": {"joint9": 0.1}}, "equilibrium_position: .*'joint9'"),
    "too strong a push": ({"external_torque": 1e3}, r"external_torque: .*\b1000\b.* -87 .* 87 Nm"),
    "one bad of two": (
        {"equilibrium_position": {"joint1": 0.0}, "stiffness_preset": 7.0}, r"_preset: .*\b7\b"
    ),
    "none": ({}, "^left: .*command"),
    "unknown": ({"references": 0.0}, r"\btorque_command, .*\breferences\b"),
}  # fmt: skip


def test_refused_commands_are_reported_counted_and_change_nothing(make_cell):
    cell = cell_of(make_cell)
    cell.step(3)
    start = cell.state("left").q.copy()
    for count, (commands, reason) in enumerate(REFUSED.values(), 1):
        with pytest.raises(TargetRejected, match=reason):
            cell.command_actuators("left", **commands)
        cell.step(3)
        assert cell.rejected["left target"] == count
    np.testing.assert_allclose(cell.state("left").q, start, atol=1e-8)


def test_motor_modes_without_motor_parameters_are_refused(make_cell):
    own = springs("equilibrium")
    own["wrist"]["motor"] = None
    arms = {"left": {"actuators": own}}
    laws = {LAW: {"type": "actuator_commands", "arms": ["left"]}}
    cell = make_cell(arms, laws, [LAW])
    with pytest.raises(ParameterRejected, match=r"mode: .*\bmotor_pid\b.*\bjoint5\b.*\bleft\b"):
        cell.set_parameters(LAW, {"mode": "motor_pid"})
    cell.step(5)
    assert set(cell.actuators("left").modes) == {OperationMode.EQUILIBRIUM}
    laws[LAW]["params"] = {"mode": "motor_torque"}
    with pytest.raises(ConfigurationError, match=r"commands\.params\.mode: .*\bmotor_torque\b"):
        make_cell(arms, laws)


def test_controllet_refuses_arm_without_elastic_elements(make_cell):
    laws = {LAW: {"type": "actuator_commands"}}
    with pytest.raises(ConfigurationError, match=r"\.commands\.type: .*\bright\b"):
        make_cell({"left": {"actuators": springs()}, **RIGHT}, laws)


def test_external_torque_reaches_joint_and_ends_with_controllet(make_cell):
    cell = cell_of(make_cell, "equilibrium", damping=DAMPED)
    start = cell.state("left").q.copy()
    cell.command_actuators("left", external_torque={"joint1": 4.0})
    cell.step(900)
    stiffness = cell.actuators("left").stiffness[0]
    assert cell.state("left").q[0] - start[0] == pytest.approx(4.0 / stiffness, rel=0.03)
    assert cell.state("left").tau_ext[0] == pytest.approx(4.0, abs=0.05)
    assert cell.simulation.data.qfrc_applied[0] == 4.0
    cell.hold()
    cell.step(2)
    assert not cell.simulation.data.qfrc_applied.any()


@pytest.mark.parametrize("mode", ["link_pid", "equilibrium_pid"])
def test_hold_continued_to_balance_torque_that_had_ended(make_cell, mode):
    """The balancing torque moved the arm by 0.05 rad, lighter arms at 2 rad/s."""
    cell = cell_of(make_cell, mode, damping=DAMPED)
    cell.step(20)
    cell.command_actuators("left", external_torque={"joint1": 20.0})
    cell.step(800)
    q = cell.state("left").q.copy()
    assert np.abs(cell.state("left").dq).max() < 0.01
    cell.hold()
    fastest = 0.0
    for _ in range(30):
        cell.step(10)
        fastest = max(fastest, float(np.abs(cell.state("left").dq).max()))
    assert fastest < 0.3
    np.testing.assert_allclose(cell.state("left").q, q, atol=5e-3)


@pytest.mark.parametrize("mode", ["spring_references", "motor_pid"])
def test_reference_beyond_stop_was_bounded_without_notice(make_cell, mode):
    own = springs()
    own["wrist"]["motor"] |= {"min_position": -6.0, "max_position": [6.0, 6.0, 1.0]}
    laws = {LAW: {"type": "actuator_commands", "arms": ["left"], "params": {"mode": mode}}}
    cell = make_cell({"left": arm_on(own, DAMPED)}, laws, [LAW])
    cell.step(2)
    for reference in (1.03, 1.05, 0.95):
        cell.command_actuators("left", reference_1={"joint7": reference})
        cell.step(60)
        assert cell.actuators("left").position[0, 6] <= 1.0
    reported = [event.text for event in cell.events() if event.event is Event.NOTICE]
    (text,) = reported
    assert re.search(r"\bleft: left_fr3_joint7: motor 1: .*\b1\.03\b.* -6 .* 1 rad$", text)


def test_load_compensation_beyond_stop_is_no_command(make_cell):
    """At its stiffest preset the controller of a pivot aims beyond its stop to hold it there."""
    group = {
        "type": "awas2",
        "joints": ["joint5", "joint7"],
        "preset": 0.04,
        "mode": "equilibrium_pid",
        "motor": {"max_torque": 40.0, "inertia": 0.01},
    }
    laws = {LAW: {"type": "actuator_commands", "arms": ["left"]}}
    cell = make_cell({"left": arm_on({"wrist": group}, DAMPED)}, laws, [LAW])
    cell.simulation.apply_wrench("left_fr3_link7", [4.0, 4.0, 0.0])
    cell.step(20)
    equilibrium = cell.actuators("left").equilibrium
    for k in range(3):
        cell.command_actuators("left", equilibrium_position=equilibrium + 0.01 * k)
        cell.step(20)
    assert [event.text for event in cell.events()] == []


def test_stale_torque_stream_ends_at_current_position(make_cell):
    cell = cell_of(make_cell, "motor_torque", target_timeout=0.05)
    cell.step(1)
    cell.command_actuators(
        "left", motor_1_command={"joint7": 3.0}, motor_2_command={"joint7": 3.0}
    )
    cell.step(20)
    assert cell.actuators("left").modes[6] == OperationMode.MOTOR_TORQUE
    assert cell.state("left").dq[6] > 1e-3
    cell.step(300)
    assert [event.event for event in cell.events()] == [Event.TARGET_STALE]
    assert set(cell.actuators("left").modes) == {OperationMode.MOTOR_PID}
    assert np.abs(cell.state("left").dq).max() < 0.05


def test_stale_equilibrium_stream_stops_motors(make_cell):
    cell = cell_of(make_cell, "equilibrium_pid", target_timeout=0.01)
    cell.step(1)
    goal = cell.actuators("left").equilibrium[6] + 0.39
    cell.command_actuators("left", equilibrium_position={"joint7": goal})
    cell.step(300)
    found = cell.actuators("left")
    assert set(found.modes) == {OperationMode.EQUILIBRIUM_PID}
    assert found.equilibrium[6] < goal - 0.1


def test_link_torque_is_bounded_in_value_and_rate(make_cell):
    cell = cell_of(make_cell, "link_torque")
    cell.command_actuators("left", torque_command={"joint7": 11.0})
    taus = []
    for _ in range(30):
        cell.step(1)
        taus.append(cell.simulation.data.ctrl[6])
    assert np.abs(np.diff(taus)).max() < 1.0 + 1e-6
    assert max(taus) == pytest.approx(11.0, abs=0.1)


def test_saved_state_continues_with_its_commands(make_cell):
    cell = cell_of(make_cell, "equilibrium_pid")
    sim = cell.simulation
    equilibrium = cell.actuators("left").equilibrium
    cell.command_actuators("left", equilibrium_position=equilibrium + 0.05, external_torque=0.5)
    cell.step(100)
    saved = sim.save()

    def run():
        rows = []
        for _ in range(60):
            cell.step(1)
            rows.append(np.concatenate([sim.data.qpos[:7], compliant(cell).joints.theta[0]]))
        return np.array(rows)

    sim.reset(saved)
    first = run()
    cell.step(17)
    sim.reset(saved)
    np.testing.assert_array_equal(run(), first)


def test_rigid_joint_is_held_beside_elastic_joints(make_cell):
    group = {"type": "sea", "joints": ["joint2", "joint7"], "params": {"stiffness": [500.0, 50.0]}}
    laws = {LAW: {"type": "actuator_commands", "arms": ["left"]}}
    cell = make_cell({"left": arm_on({"some": group}, DAMPED)}, laws, [LAW])
    start = cell.state("left").q.copy()
    cell.command_actuators("left", equilibrium_position={"joint7": start[6] + 0.1})
    cell.step(900)
    found = cell.actuators("left")
    assert found.joints == ("joint2", "joint7")
    moved = cell.state("left").q - start
    assert moved[6] == pytest.approx(0.1, abs=2e-3)
    assert np.abs(moved[[0, 2, 3, 4, 5]]).max() < 5e-3


def test_mode_that_elastic_elements_cannot_support_ends_in_reported_hold(make_cell):
    weak = springs("link_torque")
    weak["shoulder"]["params"] |= {"k_1": 0.35, "k_2": 0.35}  # up to 29 Nm
    laws = {LAW: {"type": "actuator_commands", "arms": ["left"]}}
    cell = make_cell({"left": arm_on(weak)}, laws, [LAW])
    cell.command_actuators("left", torque_command={"joint1": 40.0})
    cell.step(45)
    cell.set_parameters(LAW, {"mode": "equilibrium"})
    cell.step(3)
    assert cell.state("left").fault == "arm_stopped"
    assert any("actuators of left" in event.text for event in cell.events())
    cell.step(500)
    assert set(cell.actuators("left").modes) == {OperationMode.LINK_TORQUE}
    assert np.abs(cell.state("left").dq).max() < 0.05


def test_pivot_range_is_metric_and_single_motor_has_no_second_reference(make_cell):
    groups = {
        "pivots": {"type": "awas2", "joints": ["joint5", "joint7"], "preset": 0.03},
        "springs": {"type": "sea", "joints": ["joint6"], "params": {"stiffness": 200.0}},
    }
    laws = {LAW: {"type": "actuator_commands", "arms": ["left"]}}
    params = {LAW: {**laws[LAW], "params": {"mode": "spring_references"}}}
    cell = make_cell({"left": arm_on(groups)}, params, [LAW])
    with pytest.raises(TargetRejected, match=r"reference_2: joint5:.*0\.5.*\b0\b.*0\.04"):
        cell.command_actuators("left", reference_2=0.5)
    before = cell.actuators("left")
    cell.command_actuators("left", reference_2={"joint5": 0.02, "joint6": 0.5})
    cell.step(5)
    found = cell.actuators("left")
    np.testing.assert_allclose(found.position[1], [0.02, 0.0, 0.03], atol=1e-12)
    np.testing.assert_allclose(found.position[0], before.position[0], atol=1e-12)
    assert found.stiffness[0] < before.stiffness[0]


def test_one_controllet_commands_arms_of_different_joint_counts(make_cell):
    arms = {
        f"{name}_arm": {
            "model": {"extra": f"config/compliant/{name}_extra.yaml", "name": name},
            "gripper": False,
            "position": [0.0, base_y, 0.0],
            "actuators": {"all": {"type": "qbmove", "preset": 0.6}},
        }
        for name, base_y in (("one_joint", 1.0), ("two_joints", -1.0))
    }
    laws = {LAW: {"type": "actuator_commands", "arms": list(arms)}}
    cell = make_cell(arms, laws, [LAW])
    cell.command_actuators("one_joint_arm", equilibrium_position=0.1)
    cell.command_actuators("two_joints_arm", equilibrium_position=[0.2, -0.3])
    cell.step(3)
    found = [cell.actuators(arm).equilibrium.tolist() for arm in arms]
    assert found == [pytest.approx([0.1], abs=1e-9), pytest.approx([0.2, -0.3], abs=1e-9)]
    cell.set_parameters(LAW, {"mode": "link_torque"})
    cell.command_actuators("two_joints_arm", torque_command={"joint_2": 0.01})
    cell.step(3)
    assert [int(mode) for mode in cell.actuators("two_joints_arm").modes] == [2, 0]


def test_excessive_stiffness_for_step_time_is_reported_once(make_cell):
    stiff = springs("equilibrium")
    for group in stiff.values():
        group["params"] |= {"preset_high": 2.4, "max_deflection": 3.0}
    laws = {LAW: {"type": "actuator_commands", "arms": ["left"]}}
    cell = make_cell({"left": arm_on(stiff)}, laws, [LAW])
    cell.step(3)
    assert not cell.events()
    cell.command_actuators("left", stiffness_preset=2.4)
    cell.step(3)
    (reported,) = [event.text for event in cell.events() if event.event is Event.NOTICE]
    assert re.search(r"\(left\): .*\d Hz", reported)
    for mode in ("spring_references", "equilibrium"):
        cell.set_parameters(LAW, {"mode": mode})
        cell.step(3)
    assert not [event.text for event in cell.events() if event.event is Event.NOTICE]
