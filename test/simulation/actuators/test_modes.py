# SPDX-License-Identifier: Apache-2.0
"""Modes of joints behind springs: effects, changes and rejected commands."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from spring_links import GRAVITY, LENGTH, MASS, chain, motors_at, pendulum, qbmove, run

from multipanda_py.exceptions import ActuatorRejected
from multipanda_py.simulation.actuators import (  # fmt: skip
    COMMANDS,
    CompliantJoints,
    LinkPid,
    Motors,
    OperationMode,
)
from multipanda_py.simulation.actuators.compliant_actuators import Awas2, Bavs, Qbmove, Sea

pytestmark = [pytest.mark.sim, pytest.mark.inline]
KINDS = {"sea": (Sea, {"stiffness": 4.0}), "qbmove": (Qbmove, {}), "bavs": (Bavs, {}),
         "awas2": (Awas2, {})}  # fmt: skip


def joints_of(kind, params=None, n=1, mode=3, **options):
    groups = [(kind(n, params), range(n))]
    return CompliantJoints(groups, n, Motors.of(groups), mode, **options)


def moving(name, mode, n=2):
    """Return links during a motion."""
    kind, params = KINDS[name]
    groups = [(kind(n, params), range(n))]
    robot = pendulum(kind, params, mode=mode, motors=Motors.of(groups), n=n)
    joints = robot.joints
    middle = joints.springs.preset_low + 0.5 * (
        joints.springs.preset_high - joints.springs.preset_low
    )
    joints.reset(robot.q, 0.0, middle)
    start = {"torque_command": 0.05, "link_command": 0.3, "reference_1": 0.5,
             "equilibrium_position": 0.3, "motor_1_command": 0.4}  # fmt: skip
    for command in OperationMode(mode).commands:
        if command in start:
            joints.command(command, start[command])
    run(robot, 60)
    assert np.abs(robot.dq).max() > 0.01
    return robot


@pytest.mark.parametrize("before", range(7))
@pytest.mark.parametrize("name", KINDS)
def test_mode_change_keeps_link_torque(name, before):
    robot = moving(name, before)
    saved = robot.joints.save()
    for after in range(7):
        robot.joints.restore(saved)
        torque = robot.link_torque
        robot.joints.set_mode(after)
        assert robot.joints.modes == (OperationMode(after),) * 2
        assert robot.link_torque == pytest.approx(torque, abs=1e-9), (before, after)
        if before >= 2 and after >= 4:
            assert robot.joints.theta == pytest.approx(
                np.array(saved.state[2:6]).reshape(2, 2), abs=1e-12
            )


@pytest.mark.parametrize("name", KINDS)
def test_joints_at_rest_stay_through_all_modes(name):
    """In twelve changes under gravity, each new command carries the same load."""
    kind, params = KINDS[name]
    groups = [(kind(1, params), range(1))]
    robot = pendulum(kind, params, motors=Motors.of(groups), damping=0.3)
    middle = 0.5 * (robot.joints.springs.preset_low + robot.joints.springs.preset_high)
    robot.joints.reset(0.5, MASS * GRAVITY * LENGTH * np.sin(0.5), middle)
    robot.data.qpos[0] = 0.5
    for mode in (6, 2, 0, 5, 3, 4, 1, 6, 3, 1, 0, 3):
        robot.joints.set_mode(mode)
        assert run(robot, 40)[:, 0] == pytest.approx(0.5, abs=2e-4)


def test_damper_torque_survives_mode_change():
    groups = [(Sea(1, {"stiffness": 4.0, "damping": 0.05}), range(1))]
    robot = pendulum(Sea, {"stiffness": 4.0, "damping": 0.05}, 6, Motors.of(groups))
    robot.joints.command("equilibrium_position", 0.8)
    run(robot, 50)
    torque = robot.link_torque
    spring = robot.joints.elastic.link
    assert abs(torque[0] - spring[0]) > 2e-3
    robot.joints.set_mode(3)
    assert robot.link_torque == pytest.approx(torque, abs=1e-9)


def test_torque_mode_equals_plain_robot():
    robot, plain = pendulum(Sea, mode=0, n=2), chain(2)
    data = mujoco.MjData(plain)
    robot.joints.command("torque_command", [0.05, -0.02])
    for _ in range(50):
        robot.step()
        data.qfrc_applied[:] = [0.05, -0.02]
        mujoco.mj_step(plain, data)
    assert robot.q == pytest.approx(data.qpos, abs=1e-14)
    assert robot.link_torque.tolist() == [0.05, -0.02]
    assert not robot.data.qfrc_applied.any()


def test_link_controller_holds_angle_of_its_gains():
    n_pid = LinkPid.from_config(1, p=2.0, d=0.2)
    joints = CompliantJoints([(Sea(1), [0])], 1, mode=1, link_pid=n_pid)
    robot = pendulum(Sea)
    robot = type(robot)(robot.model, ["j1"], joints)
    joints.command("link_command", 0.5)
    q = run(robot, 1500)[-1, 0]
    assert 2.0 * (0.5 - q) == pytest.approx(MASS * GRAVITY * LENGTH * np.sin(q), rel=1e-4)


def test_joints_may_have_different_modes():
    robot = pendulum(Qbmove, mode=[3, 0, 6], motors=Motors.of([(Qbmove(3), range(3))]), n=3)
    joints = robot.joints
    joints.command("equilibrium_position", 0.2, joints=[0, 2])
    joints.command("torque_command", 0.01, joints=[1])
    run(robot, 30)
    joints.set_mode(3, joints=[2])
    assert [int(mode) for mode in joints.modes] == [3, 0, 3]
    with pytest.raises(ActuatorRejected, match=r"equilibrium_position: joint 2 .*\b0\b"):
        joints.command("equilibrium_position", 0.2)


@pytest.mark.parametrize("name", KINDS)
def test_presets_and_references_are_equivalent(name):
    kind, params = KINDS[name]
    one, other = joints_of(kind, params), joints_of(kind, params, mode=2)
    preset = 0.0 if kind is Sea else 0.5 * one.springs.preset_high[0]
    if kind is not Sea:
        one.command("stiffness_preset", preset)
    one.command("equilibrium_position", 0.1)
    first, second = motors_at(kind, 0.1, preset)
    other.command("reference_1", first)
    other.command("reference_2", second)
    assert one.theta[:, 0].tolist() == pytest.approx([first, second])
    assert other.theta == pytest.approx(one.theta)
    assert other.elastic.link == pytest.approx(one.elastic.link)
    assert one.equilibrium[0] == pytest.approx(0.1)
    assert one.preset[0] == pytest.approx(preset)


def test_reported_values_agree_with_equations():
    joints = joints_of(Qbmove)
    joints.command("stiffness_preset", 0.3)
    joints.command("equilibrium_position", 0.5)
    joints.set_link_state(np.array([0.2]), np.array([0.0]))
    assert joints.link_torque[0] == pytest.approx(qbmove(0.2, 0.8, 0.2), rel=1e-12)
    up, down = (qbmove(0.2 + d, 0.8, 0.2) for d in (1e-5, -1e-5))
    assert joints.link_stiffness[0] == pytest.approx((down - up) / 2e-5, rel=1e-6)
    assert joints.elastic.motor_1[0] + joints.elastic.motor_2[0] == joints.elastic.link[0]
    assert not joints.motor_torque.any()


@pytest.mark.parametrize(
    ("name", "value", "reported"),
    [
        ("equilibrium_position", float("nan"), r"joint 1: .*\bnan\b"),
        ("equilibrium_position", [0.1, 0.2, 0.3], r"equilibrium_position: .*\b3\b.*\b2\b"),
        ("equilibrium_position", "high", "equilibrium_position: .*'high'"),
        ("equilibrium_position", "1", "equilibrium_position: .*'1'"),
        ("equilibrium_position", True, "equilibrium_position: .*True"),
        ("equilibrium_position", [[0.1], [0.1, 0.2]], r"equilibrium_position: .*0\.2\]\]"),
        ("equilibrium_position", 10**400, r"equilibrium_position: .*\b10{50}"),
        ("equilibrium_position", [0.0, 1e308], "joint 2:.*1e.308.*-1e.06.*1e.06"),
        ("equilibrium_position", float("inf"), r"joint 1: .*\binf\b"),
        ("stiffness_preset", 0.7, r"joint 1:.*0.7.*\b0\b.*0.6 rad"),
        ("stiffness_preset", [0.1, -0.1], "joint 2:.*-0.1"),
        ("motor_1_command", 1.0, r"mode 3 .*\bequilibrium_position\b"),
        ("reference_1", 1.0, "mode 3"),
        ("reference_3", 1.0, "'reference_3'.*torque_command"),
        (["reference_1"], 1.0, ".'reference_1'..*torque_command"),
    ],
)
def test_invalid_command_is_rejected_counted_and_changes_nothing(name, value, reported):
    joints = joints_of(Qbmove, n=2)
    joints.command("stiffness_preset", 0.2)
    joints.command("equilibrium_position", 0.4)
    before = joints.save()
    with pytest.raises(ActuatorRejected, match=reported):
        joints.command(name, value)
    assert joints.rejected == 1
    after = joints.save()
    assert after.state.tolist() == before.state.tolist()
    assert all((after.commands[key] == before.commands[key]).all() for key in COMMANDS)


def test_pivot_command_beyond_lever_is_rejected():
    """At 5 cm the stiffness is infinite."""
    joints = joints_of(Awas2)
    with pytest.raises(ActuatorRejected, match=r"preset.*joint 1:.*0.05.*\b0\b.*0.04 m$"):
        joints.command("stiffness_preset", 0.05)
    joints.set_mode(2)
    with pytest.raises(ActuatorRejected, match=r"^reference_2 .*joint 1\b"):
        joints.command("reference_2", 0.05)
    assert joints.rejected == 2


@pytest.mark.parametrize(
    ("joints", "reported"),
    [
        ([0.5], r"\[0\.5\].* 0 .* 1\b"),
        (["a"], r"\['a'\]"),
        ("a", "'a'"),
        (True, "True"),
        ([[0], [1]], r"\[\[0\], \[1\]\]"),
        ([[0], [0, 1]], r"\[\[0\], \[0, 1\]\]"),
        ([2], r"\b2\b.* 0 .* 1\b"),
        ([-1], "-1"),
        ([2**70], f"{2**70}"),
    ],
)
def test_fractional_or_invalid_joint_index_was_accepted_or_uncounted(joints, reported):
    """0.5 was truncated to 0; "a" raised an error of numpy."""
    of = joints_of(Qbmove, n=2)
    for refuse in (lambda: of.command("equilibrium_position", 0.3, joints),
                   lambda: of.set_mode(2, joints)):  # fmt: skip
        with pytest.raises(ActuatorRejected, match=f"^joints: .*{reported}"):
            refuse()
    assert of.rejected == 2
    assert not of.commanded("equilibrium_position").any()
    assert set(of.modes) == {OperationMode.EQUILIBRIUM}
    of.command("equilibrium_position", 0.3, np.array([1], dtype=np.uint8))
    assert of.commanded("equilibrium_position").tolist() == [0.0, 0.3]


def test_rejected_mode_change_is_counted():
    joints = CompliantJoints([(Sea(1), [0])], 1)
    for mode in (5, 9, "soft"):
        with pytest.raises(ActuatorRejected):
            joints.set_mode(mode)
    assert joints.rejected == 3


@pytest.mark.parametrize("mode", [4, 5, 6])
def test_mode_without_motor_parameters_is_rejected(mode):
    with pytest.raises(ActuatorRejected, match="no motor parameters"):
        CompliantJoints([(Sea(1), [0])], 1, mode=mode)
    joints = CompliantJoints([(Sea(1), [0])], 1)
    joints.command("equilibrium_position", 0.3)
    with pytest.raises(ActuatorRejected, match="allowed 0 to 3"):
        joints.set_mode(mode)
    assert joints.modes == (OperationMode.EQUILIBRIUM,)
    assert joints.theta[0, 0] == 0.3


def test_mode_is_rejected_if_springs_cannot_carry_link():
    joints = joints_of(Qbmove, mode=0)
    joints.command("torque_command", 1e3)
    with pytest.raises(ActuatorRejected, match=r"torque.*joint 1:.*1000 Nm"):
        joints.set_mode(3)
    assert joints.modes == (OperationMode.LINK_TORQUE,)
    assert joints.commanded("torque_command")[0] == 1e3
    assert joints.link_torque[0] == 1e3


def test_link_controller_without_gain_is_rejected_under_load():
    joints = CompliantJoints([(Sea(1), [0])], 1, mode=0, link_pid=LinkPid.from_config(1, p=0.0))
    joints.command("torque_command", 1.0)
    with pytest.raises(ActuatorRejected, match="p = 0"):
        joints.set_mode(1)
    assert joints.link_torque[0] == 1.0


@pytest.mark.parametrize("mode", [7, -1, 2.5, "soft", None, True])
def test_unknown_mode_is_rejected_with_known_modes(mode):
    with pytest.raises(ActuatorRejected, match="0 link_torque, 1 link_pid"):
        OperationMode.from_value(mode)


def test_modes_have_numbers_and_names():
    assert OperationMode.from_value(6) is OperationMode.from_value("equilibrium_pid")
    assert OperationMode.from_value(np.int64(3)) is OperationMode.EQUILIBRIUM


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("mode", [0, 2, 3, 4, 5, 6])
def test_springs_are_inverted_to_exert_torque(name, mode):
    kind, params = KINDS[name]
    joints = joints_of(kind, params, n=2, mode=mode)
    middle = 0.5 * (joints.springs.preset_low + joints.springs.preset_high)
    q = np.array([0.1, -0.3])
    joints.reset(q, 0.0, middle)
    expected = np.array([0.05, -0.1])
    joints.command_link_torque(expected, middle)
    theta = joints.references_for(expected, middle, q)
    if mode <= 3:
        assert joints.link_torque == pytest.approx(expected, abs=1e-9)
    if mode >= 5:  # Motors hold these angles under the load of the springs.
        load = np.array(joints.springs.torque(q, theta)[1:])
        references = np.array([joints.commanded("reference_1"), joints.commanded("reference_2")])
        gain = Motors.of([(kind(2, params), range(2))]).p
        assert gain * (references - theta) == pytest.approx(load, abs=1e-9)
    assert joints.springs.torque(q, theta).link == pytest.approx(expected, abs=1e-9)
    assert joints.n_limited == 0


def test_excessive_torque_is_limited_and_counted():
    joints = joints_of(Sea, {"stiffness": 10.0})
    joints.command_link_torque([100.0])
    assert joints.link_torque[0] == pytest.approx(8.0)
    assert joints.n_limited == 1
    with pytest.raises(ActuatorRejected, match="finite"):
        joints.command_link_torque([float("nan")])
    assert joints.link_torque[0] == pytest.approx(8.0)
    assert joints.rejected == 1


def test_reset_holds_torque_with_motors():
    robot = pendulum(Qbmove, mode=6, motors=Motors.of([(Qbmove(1), [0])]), damping=0.1)
    weight = MASS * GRAVITY * LENGTH * np.sin(0.5)
    robot.joints.reset(0.5, weight, 0.4)
    robot.data.qpos[0] = 0.5
    assert run(robot, 200)[:, 0] == pytest.approx(0.5, abs=1e-5)
    with pytest.raises(ActuatorRejected, match="torque of joint 1"):
        robot.joints.reset(0.5, 1e3)
    with pytest.raises(ActuatorRejected, match="stiffness_preset"):
        robot.joints.reset(0.5, 0.0, 2.0)


def test_restored_state_continues_to_last_bit():
    robot = moving("qbmove", 6)
    robot.joints.set_mode(4)
    robot.joints.command("torque_m1_command", 0.6)
    saved, q, dq = robot.joints.save(), robot.q, robot.dq
    rest, compliance = np.array([1.0, -2.0]), np.array([[900.0, -300.0], [-300.0, 800.0]])

    def continued():
        found = []
        for _ in range(5):
            push = robot.joints.advance(q, dq, rest, compliance, 1e-3)
            found += [*push.torque, *push.shift]
        return found

    first = continued()
    robot.joints.set_mode(3)
    robot.joints.restore(saved)
    assert continued() == first


def test_command_after_torque_controllet_met_read_only_array():
    joints = joints_of(Sea, n=2, mode=0)
    joints.command_link_torque(0.5)
    joints.command("torque_command", 0.25, joints=[1])
    assert joints.link_torque.tolist() == [0.5, 0.25]


def test_preset_of_joint_without_second_motor_is_ignored():
    joints = CompliantJoints([(Sea(1), [0]), (Qbmove(1), [1])], 2)
    joints.command("stiffness_preset", [0.3, 0.3])
    assert joints.theta[1].tolist() == [0.0, -0.3]
    assert joints.preset.tolist() == [0.0, 0.3]
