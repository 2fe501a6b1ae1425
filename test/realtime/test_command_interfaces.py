# SPDX-License-Identifier: Apache-2.0
"""Arms with position or velocity commands: switches, bounds, faults and hold."""

from __future__ import annotations

import re

import numpy as np
import pytest

from multipanda_py.apps.cli import main
from multipanda_py.control.reference.trajectory_monitor import STATE, MotionState
from multipanda_py.exceptions import ConfigurationError, SwitchRejected
from multipanda_py.robots import MODELS
from multipanda_py.testing import simple_cell

T = 1e-3
pytestmark = pytest.mark.inline
LAWS = {
    "impedance": {"type": "joint_impedance", "features": ["coriolis"]},
    "position": {"type": "joint_position", "features": [""]},
    "unsteady": {"type": "unsteady_position"},
    "rates": {"type": "unsteady_velocity"},
}
FAULTS = {"nan": "non_finite_command", "jump": "command_jump", "raise": "controllet_error",
          "list": "controllet_error"}  # fmt: skip


def cell_of(*names, **arm):
    laws = {name: LAWS[name] for name in names}
    return simple_cell(arms={"left": {"gripper": False, **arm}}, controllets=laws)


def switch(cell, name):
    return cell.switch([f"left/{name}"], strictness="FORCE_AUTO")


def rows(cell, cycles, arm=0):
    """Run and return the rows of an arm from now on, (cycles + 1,)."""
    found = [np.copy(cell.latest_record()["arms"][arm])]
    for _ in range(cycles):
        cell.step(1)
        found.append(np.copy(cell.latest_record()["arms"][arm]))
    return np.array(found)


def within_limits(commands, limits):
    """Check the differences of commanded positions, as a robot does."""
    q = np.vstack([commands[:1]] * 3 + [commands])
    for maximum in (limits.velocity, limits.acceleration, limits.jerk):
        q = np.diff(q, axis=0) / T
        assert (np.abs(q) <= maximum * (1.0 + 1e-3)).all(), (np.abs(q) / maximum).max()


def test_switches_between_positions_and_torques_cause_no_motion():
    with cell_of("impedance", "position") as cell:
        switch(cell, "impedance")
        cell.step(200)
        before = cell.state("left").q
        for name, interface in (("position", "position"), ("impedance", "effort")) * 2:
            switch(cell, name)
            found = rows(cell, 300)
            assert cell.state("left").interface == interface
            assert np.abs(found["dq"]).max() < 1e-6
        assert np.abs(cell.state("left").q - before).max() < 1e-6


def test_torque_of_position_servo_is_transferred():
    """Without the transfer an undeclared payload of 3 kg sags at first."""
    with cell_of("impedance", "position", perturbation={"payload": 3.0}) as cell:
        switch(cell, "position")
        cell.step(1000)
        before = rows(cell, 0)
        assert np.abs(before["tau"]).max() > 10.0
        answer = switch(cell, "impedance")
        assert answer.handed_over
        found = rows(cell, 500)
        assert np.abs(found["dq"]).max() < 0.02
        assert np.abs(found["q"][-1] - before["q"][0]).max() < 2e-3


def test_joint_target_is_reached_and_commands_keep_limits():
    with cell_of("position") as cell:
        switch(cell, "position")
        goal = cell.state("left").q + np.array([0.5, 0.3, -0.4, 0.3, 0.5, 0.4, -0.6])
        cell.set_parameters("left/position", {"velocity_scaling": 1.0})
        cell.set_target("left", q=goal)
        found = rows(cell, 1500)
        assert np.abs(cell.state("left").q - goal).max() < 1e-4
        within_limits(found["joint_command"][:, 0], MODELS["fr3"].limits)
        # The lag of the servo.
        assert np.abs(found["joint_command"][:, 0] - found["q"]).max() < 0.03


@pytest.mark.parametrize("law", ["unsteady", "rates"])
def test_velocity_steps_are_bounded_in_commands(law):
    with cell_of(law) as cell:
        switch(cell, law)
        found = [rows(cell, 1)]
        for rate in (0.5, -0.5, 0.3, 0.0):
            cell.set_parameters(f"left/{law}", {"rate": rate})
            found.append(rows(cell, 150)[1:])
        commands = np.concatenate(found)
        assert not commands["fault"].any()
        assert np.abs(commands["joint_command"][:, 1]).max() > 0.45
        within_limits(commands["joint_command"][:, 0], MODELS["fr3"].limits)


@pytest.mark.parametrize("law", ["unsteady", "rates"])
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_brakes_within_limits_in_same_cycle(law, fault):
    """At 1 rad/s in all joints the shortest stop takes 0.11 s; no faulty command is sent."""
    with cell_of(law) as cell:
        switch(cell, law)
        cell.set_parameters(f"left/{law}", {"rate": 1.0})
        first = rows(cell, 500)
        assert first["joint_command"][-1, 1].max() == pytest.approx(1.0, abs=1e-6)
        cell.set_parameters(f"left/{law}", {"fault": fault})
        found = rows(cell, 300)
        assert cell.state("left").fault == FAULTS[fault]
        assert cell.state("left").owner == "left/hold"
        commands = np.concatenate([first, found[1:]])["joint_command"]
        assert np.isfinite(commands).all()
        within_limits(commands[:, 0], MODELS["fr3"].limits)
        resting = np.flatnonzero(~found["joint_command"][:, 1].any(axis=1))
        assert resting[0] <= 116
        assert np.abs(found["dq"][-1]).max() < 0.02
        cell.set_parameters(f"left/{law}", {"fault": "none", "rate": 0.0})
        with pytest.raises(SwitchRejected, match="latched fault"):
            switch(cell, law)
        assert cell.recover(["left"]) == ("left",)
        cell.step(1)
        switch(cell, law)
        assert np.abs(rows(cell, 100)["dq"]).max() < 0.02


def test_assigned_position_items_were_ignored():
    with cell_of("unsteady") as cell:
        switch(cell, "unsteady")
        before = cell.state("left").q.copy()
        cell.set_parameters("left/unsteady", {"fault": "item", "rate": 0.2})
        cell.step(1000)
        assert cell.state("left").owner == "left/unsteady"
        assert (cell.state("left").q - before).max() > 0.15


def test_change_of_interface_in_motion_is_refused():
    with cell_of("impedance", "unsteady") as cell:
        switch(cell, "unsteady")
        cell.set_parameters("left/unsteady", {"rate": 0.5})
        cell.step(200)
        with pytest.raises(SwitchRejected, match=r"0\.\d+ rad/s.*joint \d.*\b0\.02 rad/s"):
            cell.switch(["left/impedance"], ["left/unsteady"])
        assert cell.state("left").owner == "left/unsteady"
        cell.hold()
        cell.step(500)
        switch(cell, "impedance")
        assert cell.state("left").interface == "effort"


def test_arm_without_torque_interface_holds_from_start():
    with cell_of_positions() as cell:
        found = rows(cell, 200)
        assert cell.state("left").interface == "position"
        assert np.abs(found["dq"]).max() < 1e-6
        switch(cell, "position")
        goal = cell.state("left").q + 0.1
        cell.set_target("left", q=goal)
        cell.step(1500)
        assert np.abs(cell.state("left").q - goal).max() < 1e-4


def cell_of_positions():
    return cell_of("position", model="ur5e", interfaces=["position"])


def test_unsuitable_controllet_is_refused_with_cell_file():
    with pytest.raises(ConfigurationError) as refused:
        simple_cell(
            arms={"left": {"interfaces": ["position"]}, "right": {}, "mock": {"backend": "mock"}},
            controllets={"law": {"type": "joint_impedance"}, "moves": {"type": "joint_position"}},
        )
    text = str(refused.value)
    assert re.search(r"joint_impedance .*\beffort\b.*\bleft\b", text)
    assert re.search(r"joint_position .*\bposition\b.*\bmock\b", text)
    assert "arm right" not in text


def test_unsupported_interface_is_refused():
    with pytest.raises(ConfigurationError, match=r"arms\.left\.interfaces: .*velocity"):
        simple_cell(arms={"left": {"backend": "mock", "interfaces": ["velocity"]}})


def test_stopped_robot_restarts_from_current_position():
    """The command tracks the measured position until the recovery and starts there."""
    thresholds = {"upper_force_thresholds": [5.0] * 6}
    with cell_of("position", franka=thresholds) as cell:
        switch(cell, "position")
        cell.set_target("left", q=cell.state("left").q + 0.3)
        cell.step(300)
        cell.simulation.apply_wrench("left_fr3_link7", force=[0.0, 30.0, 0.0])
        cell.step(50)
        assert cell.state("left").fault == "arm_stopped"
        cell.simulation.apply_wrench("left_fr3_link7", force=[0.0, 0.0, 0.0])
        found = rows(cell, 300)
        assert (found["joint_command"][-1, 0] == found["q"][-1]).all()
        assert cell.recover(["left"]) == ("left",)
        after = rows(cell, 300)
        assert np.abs(after["dq"]).max() < 0.05
        assert cell.state("left").fault == ""


def test_torque_controlled_arm_is_unaffected_by_position_arm():
    """The torques agree with and without motion of the position-controlled arm."""
    laws = {name: LAWS[name] for name in ("impedance", "position")}
    far = {name: {"position": [0.0, y, 0.0], "gripper": False}
           for name, y in (("left", 2.0), ("right", -2.0))}  # fmt: skip
    found = []
    for moves in (False, True):
        with simple_cell(arms=far, controllets=laws) as cell:
            other = "left/position" if moves else "left/impedance"
            cell.switch([other, "right/impedance"])
            cell.set_target("right", q=cell.state("right").q + 0.1)
            if moves:
                cell.set_target("left", q=cell.state("left").q + 0.2)
            found.append(rows(cell, 400, arm=1)["tau"])
    assert np.abs(found[0] - found[1]).max() < 1e-6


def test_arm_replayed_last_torque_while_another_changed_interface(monkeypatch):
    """A coupled controllet waits for an arm to leave position commands; its other arm holds.

    That arm repeated its last computed torque, of any age: 2 Nm accelerated it to 0.7 rad/s.
    """
    arms = {name: {"position": [0.0, y, 0.0], "gripper": False}
            for name, y in (("left", 1.0), ("right", -1.0))}  # fmt: skip
    both = {"type": "joint_impedance", "arms": ["left", "right"], "features": ["coriolis"]}
    with simple_cell(arms, {"position": LAWS["position"], "both": both}) as cell:
        cell.switch(["both"])
        cell.set_target("right", q=cell.state("right").q + 0.15)
        cell.step(30)
        assert np.abs(cell.state("right").tau).max() > 1.0
        cell.hold()
        cell.step(1000)
        cell.switch(["left/position"])
        cell.step(10)
        ready = []
        (backend,) = cell.loop.backends
        monkeypatch.setattr(backend, "is_ready", lambda arm: arm != 0 or bool(ready))
        for _ in range(2):  # the hold starts again in the second pass
            before = cell.state("right").q
            cell.switch(["both"], strictness="FORCE_AUTO")
            waiting = rows(cell, 200, arm=1)
            assert cell.state("right").owner == "both"
            assert np.abs(waiting["q"] - before).max() < 1e-4
            cell.simulation.apply_wrench("right_fr3_link7", force=[0.0, 20.0, 0.0])
            pushed = rows(cell, 200, arm=1)
            assert np.abs(pushed["tau"]).max() > 1.0  # the arm resists the push
            assert np.abs(pushed["q"] - before).max() < 0.05
            cell.simulation.apply_wrench("right_fr3_link7", force=[0.0, 0.0, 0.0])
            cell.step(500)
            ready.append(True)
            after = rows(cell, 500, arm=1)
            assert np.abs(np.diff(after["tau"], axis=0)).max() < 0.5
            assert np.abs(after["q"][-1] - before).max() < 2e-3
            ready.clear()
            cell.switch(["left/position"], strictness="FORCE_AUTO")
            ready.append(True)
            cell.step(10)
            ready.clear()
        assert not cell.state("left").fault
        assert not cell.state("right").fault


def test_moving_arm_cannot_wait_for_change_of_interface():
    arms = {name: {"position": [0.0, y, 0.0], "gripper": False}
            for name, y in (("left", 1.0), ("right", -1.0))}  # fmt: skip
    laws = {
        "position": LAWS["position"],
        "velocity": {"type": "joint_velocity"},
        "both": {"type": "joint_impedance", "arms": ["left", "right"]},
    }
    with simple_cell(arms, laws) as cell:
        cell.switch(["left/position", "right/velocity"])
        for _ in range(3):
            cell.set_target("right", dq=[0.3] + [0.0] * 6)
            cell.step(50)
        pattern = r"right moves at 0\.\d+ rad/s .* while arm left changes from position to effort"
        with pytest.raises(SwitchRejected, match=pattern):
            cell.switch(["both"], ["left/position", "right/velocity"])
        assert cell.state("right").owner == "right/velocity"


def test_saved_state_includes_interface():
    with cell_of("impedance", "position") as cell:
        switch(cell, "position")
        cell.step(50)
        saved = cell.simulation.save()
        switch(cell, "impedance")
        cell.step(50)
        cell.simulation.reset(saved)
        assert cell.state("left").interface == "position"
        cell.set_target("left", q=cell.state("left").q + 0.05)
        cell.step(1000)
        assert cell.state("left").fault == ""


def test_torque_feature_is_refused_for_position_controllet():
    laws = {"law": {"type": "joint_position", "features": ["coriolis"]}}
    with pytest.raises(ConfigurationError, match=r"\bcoriolis .*\bjoint_position\b"):
        simple_cell(arms={"left": {}}, controllets=laws)


def test_delay_margin_of_position_controllet_is_refused(tmp_path, capsys):
    file = tmp_path / "cell.yaml"
    file.write_text(
        "/**:\n  ros__parameters:\n    arms: {left: {gripper: false}}\n"
        "    controllets: {moves: {type: joint_position}}\n"
    )
    assert main(["delay-margin", str(file), "--controllet", "left/moves"]) != 0
    assert re.search(r"\bleft/moves\b.*\btorques", capsys.readouterr().err)


def test_arm_with_invalid_encoders_is_stopped(monkeypatch):
    """The stop needs no measurement because it starts from the last command."""
    with cell_of("rates") as cell:
        switch(cell, "rates")
        cell.set_parameters("left/rates", {"rate": 1.0})
        first = rows(cell, 300)
        (backend,) = cell.loop.backends
        original = backend.read

        def broken(fresh):
            original(fresh)
            backend.states[0].q[2] = np.nan

        monkeypatch.setattr(backend, "read", broken)
        found = rows(cell, 300)
        assert cell.state("left").fault == "non_finite_state"
        commands = np.concatenate([first, found[1:]])["joint_command"]
        within_limits(commands[:, 0], MODELS["fr3"].limits)
        assert not commands[-1, 1].any()
        assert np.abs(cell.simulation.data.qvel[:7]).max() < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("rate", [250.0, 1000.0])
@pytest.mark.parametrize("fraction", [1.2, 1.9])
def test_path_beyond_acceleration_limit_ended_in_command_jump(make_cell, rate, fraction):
    """A path may request twice the limit; commands lagged until the loop refused the jump."""
    cell = make_cell(
        arms={"arm": {}}, controllets={"moves": {"type": "joint_position", "features": [""]}},
        active=["arm/moves"], rate=rate,
    )  # fmt: skip
    cell.step(round(0.1 * rate))
    begin, limits, time = cell.state("arm").q, MODELS["fr3"].limits, 0.42
    displacement = fraction * limits.acceleration[0] * time**2 / 5.78 * np.eye(7)[0]
    s = np.linspace(0.0, 1.0, 9)[:, None]
    parts = (
        s * time,
        begin + (10 * s**3 - 15 * s**4 + 6 * s**5) * displacement,
        (30 * s**2 - 60 * s**3 + 30 * s**4) * displacement / time,
        (60 * s - 180 * s**2 + 120 * s**3) * displacement / time**2,
    )
    cell.follow_trajectory("arm", np.hstack(parts))
    cell.step(round(1.2 * rate))
    assert not cell.state("arm").fault, [str(event) for event in cell.events()]
    assert np.abs(cell.state("arm").dq).max() < 1e-3
    ends = MotionState.DONE if fraction < 1.5 else MotionState.PATH_TOLERANCE_VIOLATED
    assert cell.report("arm/moves").value(STATE) == ends
    cell.set_target("arm", q=begin + displacement)  # the controllet accepts another target
    cell.step(round(3.0 * rate))
    np.testing.assert_allclose(cell.state("arm").q, begin + displacement, atol=2e-3)
