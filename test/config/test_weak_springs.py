# SPDX-License-Identifier: Apache-2.0
"""Springs that exert less than an arm's limits: laws are told of that, and so is who checks."""

from __future__ import annotations

import re

import numpy as np
import pytest
from springs_of_fr3 import springs

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.checks import check_spring_torques
from multipanda_py.config.describe import describe_arms
from multipanda_py.control.impedance.limit_scaling import TorqueHeadroom
from multipanda_py.exceptions import BackendError, ConfigurationError
from multipanda_py.realtime.events import Event

pytestmark = pytest.mark.inline

STRENGTH = 2.0 * 1.4 * np.sinh(5.0 * 0.8)
"""Of the shoulder with the springs of the wrist [Nm]."""


def soft(mode="equilibrium_pid", **motor):
    """The springs of the wrist at the shoulder, too."""
    groups = springs(mode)
    groups["shoulder"]["params"] |= {"k_1": 1.4, "k_2": 1.4}
    groups["shoulder"]["motor"] |= motor
    return groups


def configured(actuators, **arm):
    return CellConfig.from_dict({"arms": {"left": {"actuators": actuators, **arm}}})


def test_strong_springs_leave_laws_all_torques_and_are_no_news():
    config = configured(springs())
    (arm,) = describe_arms(config)
    np.testing.assert_array_equal(arm.limits.torque, config.arms["left"].rigid_robot.limits.torque)
    assert not check_spring_torques(config)
    assert not check_spring_torques(CellConfig.from_dict({"arms": {"left": {}}}))
    rigid = configured(soft("link_torque")).arms["left"]
    assert rigid.robot.limits is rigid.rigid_robot.limits


@pytest.mark.parametrize("mode", ["equilibrium", "equilibrium_pid"])
def test_weak_springs_are_limits_of_the_arm(mode):
    """Laws were told of 87 Nm where springs exert 76."""
    config = configured(soft(mode))
    (arm,) = describe_arms(config)
    np.testing.assert_allclose(arm.limits.torque[:4], STRENGTH)
    np.testing.assert_allclose(arm.limits.torque[4:], 12.0)
    (said,) = check_spring_torques(config)
    assert said.startswith("arms.left.actuators: ")
    assert re.search(r"joint2 76\.4 Nm .*\b87 Nm", said)
    assert "joint5" not in said


def test_motors_that_cannot_hold_the_springs_are_limits_too():
    (arm,) = describe_arms(configured(soft(max_torque=20.2, friction=0.2)))
    assert (arm.limits.torque[:4] < 40.0).all()
    with pytest.raises(ConfigurationError, match=r"shoulder.motor.max_torque:"):
        configured(soft(max_torque=1.0))


def test_an_arm_that_its_motors_cannot_carry_is_refused_at_the_start(make_cell):
    with pytest.raises(BackendError, match=r"left_fr3_joint\d: .*\d"):
        make_cell({"left": {"actuators": soft(max_torque=12.0)}})


def test_an_arm_whose_motors_would_stand_beyond_their_stops_is_refused_and_not_flung(make_cell):
    with pytest.raises(BackendError, match=r"left_fr3_joint\d: .*\b1 .*\b2\b"):
        make_cell({"left": {"actuators": soft(min_position=1.0, max_position=2.0)}})


def test_what_carries_the_arm_is_no_room_for_laws(make_cell):
    cell = make_cell({"left": {"actuators": soft("equilibrium")}})
    cell.step(2)
    arm = cell.loop.arms[0]
    weight = cell.simulation.data.qfrc_bias[:7]
    np.testing.assert_allclose(arm.state.weight, weight, atol=1e-6)
    room = TorqueHeadroom(arm.model.arm)
    assert room.is_reduced
    expected = np.minimum(arm.state.limits.torque[:4], STRENGTH - np.abs(weight[:4]))
    np.testing.assert_allclose(room.update(arm.state)[:4], expected, atol=1e-6)
    assert not arm.state.tau_gravity.any()  # the springs carry it, not the loop


def test_at_the_limit_springs_are_asked_for_no_more_and_it_is_said_once(make_cell):
    """Torques wound up beyond springs, and nobody was told that the arm gave way."""
    law = {"law": {"type": "joint_impedance"}}
    cell = make_cell({"left": {"actuators": soft("equilibrium")}}, law, ["left/law"])
    sim, state, asked = cell.simulation, cell.loop.arms[0].state, []
    sim.apply_wrench("left_fr3_link7", [0.0, 0.0, -110.0])
    for step in range(400):
        cell.step(1)
        if step == 200:
            middle = sim.save()
        asked.append(np.abs(state.tau + state.weight).max())
    assert max(asked) == pytest.approx(STRENGTH)
    said = [event for event in cell.events() if event.event is Event.NOTICE]
    (text,) = {event.text for event in said if "springs of joint" in event.text}
    assert re.search(r"\bjoint 4 .*\b76\.4 Nm", text)
    assert len(said) == 1
    sim.apply_wrench("left_fr3_link7", [0.0, 0.0, 0.0])
    cell.step(500)  # nothing was wound up
    assert not cell.state("left").fault
    assert np.abs(state.dq).max() < 0.2
    np.testing.assert_allclose(state.q, cell.config.arms["left"].q_start, atol=0.05)
    went = []
    for _ in range(2):  # also where a saved state was at the limit
        sim.reset(middle)
        cell.step(20)
        went.append(state.q.copy())
    np.testing.assert_array_equal(*went)
