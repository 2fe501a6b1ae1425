# SPDX-License-Identifier: Apache-2.0
"""Warnings about unusual but valid cells: bases, delays, rates, springs and motor stops."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from springs_of_fr3 import springs

from multipanda_py.cell.checks import check_initial_contacts
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.checks import (
    check_latency,
    check_motor_ranges,
    check_overlapping_bases,
    check_rates,
    check_spring_torques,
)
from multipanda_py.config.describe import describe_arms
from multipanda_py.control.impedance.limit_scaling import TorqueHeadroom
from multipanda_py.exceptions import BackendError, ConfigurationError
from multipanda_py.realtime.events import Event

pytestmark = pytest.mark.inline


def cell(**right):
    placement = [0.0, 0.3, 0.0]
    return CellConfig.from_dict({"arms": {"left": {"position": placement}, "right": right}})


def test_two_arms_at_one_base_pose_had_no_warning():
    """Both arms faulted at the first cycle without a reason."""
    (sentence,) = check_overlapping_bases(cell(position=[0.0, 0.3, 0.0]))
    assert re.match(r"left and right\b.*\b0\.000 m\b", sentence)
    assert "arms.right.position" in sentence
    assert check_overlapping_bases(cell(position=[0.05, 0.3, 0.0], rpy=[0.0, 0.0, 1.0]))


def test_adjacent_or_opposite_arms_have_no_warning():
    assert not check_overlapping_bases(cell(position=[0.0, -0.3, 0.0]))
    assert not check_overlapping_bases(cell(position=[0.0, 0.3, -0.02], rpy=[math.pi, 0.0, 0.0]))


BODY = """<inertial><origin xyz="0 0 0.2"/><mass value="3"/><inertia ixx="0.05" iyy="0.05"
 izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial><collision><origin xyz="0 0 0.2"/><geometry>
 <cylinder radius="0.05" length="0.3"/></geometry></collision>"""
EXTRA = """
capsules:
  torso: [[[0, 0, -0.3], [0, 0, 0.3], 0.2]]
  SIDE_1: [[[0, 0, 0.05], [0, 0, 0.3], 0.05]]
  SIDE_2: [[[0, 0, 0.05], [0, 0, 0.3], 0.05]]
ready: [0.5, 0.5]
"""


def arm_of_torso(folder, side, sign):
    parts = [f'<link name="torso">{BODY}</link>']
    for name, y in (("left", 0.18), ("right", -0.18)):
        turn = -1.3 if y > 0 else 1.3
        parts += [f'<link name="{name}_{n}">{BODY}</link>' for n in (1, 2)]
        for n, before, placement in ((1, "torso", f'xyz="0 {y} 0.2" rpy="{turn} 0 0"'),
                                 (2, f"{name}_1", 'xyz="0 0 0.4"')):  # fmt: skip
            parts.append(
                f'<joint name="{name}_j{n}" type="revolute"><parent link="{before}"/>'
                f'<child link="{name}_{n}"/><origin {placement}/><axis xyz="1 0 0"/>'
                '<limit lower="-2" upper="2" velocity="2" effort="80"/></joint>'
            )
    (folder / "two.urdf").write_text(f'<robot name="two">{"".join(parts)}</robot>')
    (folder / f"{side}.yaml").write_text(EXTRA.replace("SIDE", side))
    model = {"urdf": str(folder / "two.urdf"), "extra": str(folder / f"{side}.yaml"),
             "base": "torso", "tip": f"{side}_2"}  # fmt: skip
    return {"model": model, "position": [0.0, 0.0, 1.0], "q_start": [0.2 * sign, 0.2 * sign]}


@pytest.mark.sim
def test_arms_of_one_torso_were_pushed_apart(make_cell, tmp_path):
    arms = {
        "left": arm_of_torso(tmp_path, "left", -1),
        "right": arm_of_torso(tmp_path, "right", 1),
    }
    law = {"type": "joint_impedance", "features": ["collision_avoidance"]}
    cell = make_cell(arms, {"law": law}, ["left/law", "right/law"])
    assert check_overlapping_bases(cell.config) == check_initial_contacts(cell.config) == []
    start = {side: cell.state(side).q for side in arms}
    cell.step(500)
    for side, q in start.items():
        state = cell.state(side)
        assert not state.fault
        np.testing.assert_allclose(state.q, q, atol=1e-3)
        assert np.abs(state.tau_ext).max() < 0.1


def latency_of(**perturbation):
    return check_latency(CellConfig.from_dict({"arms": {"left": {"perturbation": perturbation}}}))


@pytest.mark.parametrize(
    "late",
    [
        {"state_delay": 0.012},
        {"state_delay": 0.004, "command_delay": 0.004, "torque_lag": 0.004},
        {"command_delay": 0.012},
    ],
)
def test_excessive_delay_had_no_warning(late):
    (sentence,) = latency_of(**late)
    assert re.match(r"arms\.left\.perturbation: .*\b12 ms\b.*\b7 ms\b", sentence)


def test_delay_within_limit_of_hold_has_no_warning():
    assert not latency_of()
    assert not latency_of(state_delay=0.005, torque_lag=0.002)
    assert not latency_of(state_delay=0.003, command_delay=0.002, torque_lag=0.002)


def test_slow_motors_behind_springs_add_delay():
    motor = {"inertia": 0.05, "damping": 0.0, "d": 10.0}  # 5 ms
    springs = {"all": {"type": "sea", "mode": "motor_pid", "motor": motor}}
    for delay, count in ((0.001, 0), (0.003, 1)):
        arm = {"actuators": springs, "perturbation": {"state_delay": delay}}
        assert len(check_latency(CellConfig.from_dict({"arms": {"left": arm}}))) == count


def rates(**cell):
    return check_rates(CellConfig.from_dict({"arms": {"left": {}}, "cell": cell}))


def test_tf_rate_above_joint_state_rate_had_no_warning():
    (sentence,) = rates(tf_rate=200.0)
    assert re.match(r"cell\.tf_rate: .*\b200 Hz.*\b100 Hz.*\bjoint_state_rate", sentence)
    assert not rates(tf_rate=200.0, joint_state_rate=200.0)
    assert not rates(joint_state_rate=20.0)


def test_rates_above_loop_rate_have_warning():
    reported = rates(rate=100.0, joint_state_rate=500.0, introspection_rate=500.0)
    for name, sentence in zip(("joint_state_rate", "introspection_rate"), reported, strict=True):
        assert re.match(rf"cell\.{name}: .*\b500 Hz.*\b100 Hz.*\bcell\.rate", sentence)


STRENGTH = 2.0 * 1.4 * np.sinh(5.0 * 0.8)
"""Maximum torque of the shoulder with the springs of the wrist [Nm]."""


def soft(mode="equilibrium_pid", **motor):
    """Return actuators whose shoulder has the soft springs of the wrist."""
    groups = springs(mode)
    groups["shoulder"]["params"] |= {"k_1": 1.4, "k_2": 1.4}
    groups["shoulder"]["motor"] |= motor
    return groups


def configured(actuators, **arm):
    return CellConfig.from_dict({"arms": {"left": {"actuators": actuators, **arm}}})


def test_strong_springs_keep_torque_limits_without_warning():
    config = configured(springs())
    (arm,) = describe_arms(config)
    np.testing.assert_array_equal(arm.limits.torque, config.arms["left"].rigid_robot.limits.torque)
    assert not check_spring_torques(config)
    assert not check_spring_torques(CellConfig.from_dict({"arms": {"left": {}}}))
    rigid = configured(soft("link_torque")).arms["left"]
    assert rigid.robot.limits is rigid.rigid_robot.limits


@pytest.mark.parametrize("mode", ["equilibrium", "equilibrium_pid"])
def test_weak_springs_limit_torque_of_arm(mode):
    """Controllets used a limit of 87 Nm although the springs exert 76 Nm."""
    config = configured(soft(mode))
    (arm,) = describe_arms(config)
    np.testing.assert_allclose(arm.limits.torque[:4], STRENGTH)
    np.testing.assert_allclose(arm.limits.torque[4:], 12.0)
    (reported,) = check_spring_torques(config)
    assert reported.startswith("arms.left.actuators: ")
    assert re.search(r"joint2 76\.4 Nm .*\b87 Nm", reported)
    assert "joint5" not in reported


def test_motors_too_weak_for_springs_limit_torque():
    (arm,) = describe_arms(configured(soft(max_torque=20.2, friction=0.2)))
    assert (arm.limits.torque[:4] < 40.0).all()
    with pytest.raises(ConfigurationError, match=r"shoulder.motor.max_torque:"):
        configured(soft(max_torque=1.0))


def test_arm_too_heavy_for_its_motors_is_refused(make_cell):
    with pytest.raises(BackendError, match=r"left_fr3_joint\d: .*\d"):
        make_cell({"left": {"actuators": soft(max_torque=12.0)}})


def test_start_beyond_motor_stops_is_refused(make_cell):
    with pytest.raises(BackendError, match=r"left_fr3_joint\d: .*\b1 .*\b2\b"):
        make_cell({"left": {"actuators": soft(min_position=1.0, max_position=2.0)}})


def test_weight_of_arm_reduces_torque_headroom(make_cell):
    cell = make_cell({"left": {"actuators": soft("equilibrium")}})
    cell.step(2)
    arm = cell.loop.arms[0]
    weight = cell.simulation.data.qfrc_bias[:7]
    np.testing.assert_allclose(arm.state.tau_weight, weight, atol=1e-6)
    room = TorqueHeadroom(arm.model.arm)
    assert room.is_reduced
    expected = np.minimum(arm.state.limits.torque[:4], STRENGTH - np.abs(weight[:4]))
    np.testing.assert_allclose(room.update(arm.state)[:4], expected, atol=1e-6)
    assert not arm.state.tau_gravity.any()  # the springs support the weight, not the loop


def test_saturated_springs_are_bounded_and_reported_once(make_cell):
    """Torques wound up beyond the springs' maximum, without a notice."""
    law = {"law": {"type": "joint_impedance"}}
    cell = make_cell({"left": {"actuators": soft("equilibrium")}}, law, ["left/law"])
    sim, state, requested = cell.simulation, cell.loop.arms[0].state, []
    sim.apply_wrench("left_fr3_link7", [0.0, 0.0, -110.0])
    for step in range(400):
        cell.step(1)
        if step == 200:
            middle = sim.save()
        requested.append(np.abs(state.tau + state.tau_weight).max())
    assert max(requested) == pytest.approx(STRENGTH)
    reported = [event for event in cell.events() if event.event is Event.NOTICE]
    (text,) = {event.text for event in reported if "springs of joint" in event.text}
    assert re.search(r"\bjoint 4 .*\b76\.4 Nm", text)
    assert len(reported) == 1
    sim.apply_wrench("left_fr3_link7", [0.0, 0.0, 0.0])
    cell.step(500)  # no windup
    assert not cell.state("left").fault
    assert np.abs(state.dq).max() < 0.2
    np.testing.assert_allclose(state.q, cell.config.arms["left"].q_start, atol=0.05)
    final = []
    for _ in range(2):  # also after the reset to a saturated state
        sim.reset(middle)
        cell.step(20)
        final.append(state.q.copy())
    np.testing.assert_array_equal(*final)


def checked(**wrist):
    groups = springs("equilibrium_pid")
    groups["wrist"]["motor"] |= wrist
    return check_motor_ranges(CellConfig.from_dict({"arms": {"left": {"actuators": groups}}}))


def test_stops_beyond_joint_range_have_no_warning():
    assert checked() == []
    assert checked(min_position=-6.0, max_position=6.0) == []
    assert check_motor_ranges(CellConfig.from_dict({"arms": {"left": {}}})) == []


def test_joint_range_beyond_motor_range_is_reported():
    (reported,) = checked(min_position=[-6.0, -6.0, -1.0], max_position=6.0)
    assert reported.startswith("arms.left.actuators: ")
    assert "joint5" not in reported
    # Motors of a qbmove stand at plus and minus the preset: one meets its stop later.
    preset = springs()["wrist"]["preset"]
    assert re.search(f"joint7 .*{-1.0 + preset:.3g} .*{6.0 - preset:.3g} rad", reported)
    assert "starts at" not in reported


def test_start_beyond_motor_stop_is_reported():
    (reported,) = checked(min_position=[-6.0, -6.0, 2.0], max_position=6.0)
    assert reported.endswith("starts at 0.785 rad")
