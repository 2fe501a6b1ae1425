# SPDX-License-Identifier: Apache-2.0
"""Complete inline loop: faults, switches, targets, recording, determinism."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.cell.switch_planning import plan_switch
from multipanda_py.exceptions import ParameterRejected, SwitchRejected, TargetRejected
from multipanda_py.hardware.mock import Mock
from multipanda_py.pose import Pose
from multipanda_py.realtime.cycle_checks import START_TIMEOUT
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.shared_memory import SharedFlag
from multipanda_py.robots.franka import FR3_LIMITS
from multipanda_py.simulation.backend import Mujoco

pytestmark = [pytest.mark.sim, pytest.mark.inline]

LAWS = {
    "cart": {"type": "cartesian_impedance"},
    "joint": {"type": "joint_impedance"},
    "odd": {"type": "misbehaving"},
    "odd_pair": {"type": "misbehaving", "arms": ["left", "right"]},
    "pair": {"type": "cartesian_impedance", "arms": ["left", "right"]},
}


def lift(cell, arm, height=0.1):
    pose = cell.pose(arm)
    cell.set_target(arm, Pose(pose.position + [0.0, 0.0, height], pose.rotation))


def torque_steps(rows, arm=0):
    return np.abs(np.diff(rows["arms"]["tau"][:, arm], axis=0)).max(axis=0)


@pytest.mark.parametrize(
    ("fault", "event"),
    [("nan", Event.NON_FINITE_TORQUE), ("inf", Event.NON_FINITE_TORQUE),
     ("raise", Event.CONTROLLET_ERROR)],
)  # fmt: skip
def test_failing_controllet_puts_arm_on_hold_in_same_cycle(make_cell, fault, event):
    cell = make_cell(controllets=LAWS, active=["left/odd", "right/cart"])
    cell.set_parameters("left/odd", {"torque": 0.5})
    cell.step(50)
    lift(cell, "right")
    start, _ = cell.records()
    cell.set_parameters("left/odd", {"fault": fault})
    cell.step(300)
    _, rows = cell.records(start)
    assert np.isfinite(rows["arms"]["tau"]).all()
    assert torque_steps(rows).max() <= 1.0 + 1e-9
    assert cell.state("left").owner == "left/hold"
    assert cell.state("left").fault == event.name.lower()
    (report,) = cell.events()
    assert (report.event, report.arm, report.controllet) == (event, "left", "left/odd")
    assert cell.state("right").owner == "right/cart"
    assert cell.state("right").fault == ""
    cell.step(1000)
    assert np.abs(cell.state("left").dq).max() < 1e-3
    assert cell.pose("right").position[2] > 0.55


def test_controllet_notices_are_reported_without_fault(make_cell):
    cell = make_cell(controllets=LAWS, active=["left/odd"])
    cell.set_parameters("left/odd", {"fault": "notify"})
    cell.step(1)
    cell.set_parameters("left/odd", {"fault": "none"})
    cell.step(5)
    found = cell.events()
    assert 1 <= len(found) <= 4  # repeated notices of a controllet do not fill the ring
    assert {(e.event, e.controllet) for e in found} == {(Event.NOTICE, "left/odd")}
    assert found[0].text == "this law is at its limit"
    assert cell.state("left").fault == ""
    assert cell.state("left").owner == "left/odd"


def test_partners_of_failed_coupled_controllet_hold(make_cell):
    cell = make_cell(controllets=LAWS, active=["odd_pair"])
    cell.step(5)
    cell.set_parameters("odd_pair", {"fault": "raise"})
    cell.step(5)
    assert cell.active == ("left/hold", "right/hold")
    assert {e.arm for e in cell.events()} == {"left", "right"}


def test_huge_torque_is_bounded_in_value_and_rate_(make_cell):
    cell = make_cell(controllets=LAWS, active=["left/odd"])
    cell.step(5)
    cell.set_parameters("left/odd", {"fault": "huge"})
    cell.step(100)
    _, rows = cell.records()
    tau = rows["arms"]["tau"][:, 0]
    assert (np.abs(tau) <= FR3_LIMITS.torque).all()
    assert torque_steps(rows).max() <= 1.0 + 1e-9


def test_too_fast_arm_is_stopped_and_joint_reported(make_cell):
    cell = make_cell(controllets=LAWS, active=["left/odd"])
    cell.set_parameters("left/odd", {"torque": 20.0})
    cell.wait(lambda: cell.state("left").fault != "", 2.0, "fault")
    assert cell.state("left").fault in ("velocity_limit", "position_limit")
    report = cell.events()[0]
    assert "of left" in report.text
    assert "is outside" in report.text
    assert cell.state("left").owner == "left/hold"
    cell.step(3000)
    assert np.abs(cell.state("left").dq).max() < 1e-2


def test_faulted_arm_holds_current_position_after_recovery(make_cell):
    cell = make_cell(controllets=LAWS, active=["left/odd"])
    cell.set_parameters("left/odd", {"fault": "raise"})
    cell.step(20)
    with pytest.raises(SwitchRejected, match="left/error_recovery"):
        cell.switch(["left/cart"])
    assert cell.recover() == ("left",)
    cell.step(2)
    assert cell.state("left").fault == ""
    assert cell.state("left").owner == "left/hold"
    cell.switch(["left/cart"])
    assert cell.state("left").owner == "left/cart"


def test_failed_activation_changes_nothing(make_cell):
    cell = make_cell(controllets=LAWS, active=["left/cart", "right/cart"])
    cell.set_parameters("left/odd", {"fault": "activate"})
    cell.step(5)
    before = cell.active
    with pytest.raises(SwitchRejected, match="does not start"):
        cell.switch(["left/odd", "right/joint"], strictness="force_auto")
    cell.step(5)
    assert cell.active == before


def test_failing_deactivation_does_not_block_switch(make_cell):
    cell = make_cell(controllets=LAWS, active=["left/odd"])
    cell.set_parameters("left/odd", {"fault": "deactivate"})
    cell.step(5)
    cell.switch(["left/cart"], ["left/odd"])
    cell.step(5)
    assert cell.state("left").owner == "left/cart"
    assert [e.event for e in cell.events()] == [Event.CONTROLLET_ERROR, Event.SWITCHED]


def test_switch_under_load_keeps_pose_and_torque_rate(make_cell):
    cell = make_cell(controllets=LAWS, active=["left/cart", "right/cart"])
    cell.simulation.apply_wrench("left_fr3_hand", [0.0, 0.0, -20.0])
    cell.step(3000)
    loaded = cell.pose("left")
    start, _ = cell.records()
    result = cell.switch(["left/joint"], ["left/cart"])
    assert result.activated == ("left/joint",)
    assert result.deactivated == ("left/cart",)
    cell.step(100)
    _, rows = cell.records(start - 1)
    assert torque_steps(rows).max() <= 1.0 + 1e-9
    assert cell.pose("left").distance(loaded)[0] < 0.02
    assert np.allclose(rows["arms"]["owner"][:, 1], rows["arms"]["owner"][0, 1])


def test_switch_restarts_only_changed_controllets(make_cell):
    """The C++ original restarts other arms, too, and drops their targets."""
    cell = make_cell(controllets=LAWS, active=["left/cart", "right/cart"])
    lift(cell, "right")
    cell.step(20)
    cell.switch(["left/joint"], ["left/cart"])
    cell.step(3000)
    assert cell.pose("right").position[2] == pytest.approx(0.4869 + 0.1, abs=2e-3)


def test_switch_of_pair_takes_one_cycle(make_cell):
    cell = make_cell(controllets=LAWS, active=["left/cart", "right/joint"])
    cell.step(5)
    start, _ = cell.records()
    cell.switch(["pair"], strictness="force_auto")
    cell.step(5)
    owners = cell.records(start)[1]["arms"]["owner"]
    index = cell.spec("pair").index
    assert (owners == index).all()
    assert cell.active == ("pair",)


def test_switch_planned_on_outdated_active_set_is_planned_again(make_cell, monkeypatch):
    cell = make_cell(controllets=LAWS, active=["left/odd", "right/cart"])
    cell.step(2)
    observed = []

    def plan(specs, active, *request):
        """Plan, then change the active set by a fault before the loop reads the plan."""
        found = plan_switch(specs, active, *request)
        observed.append(list(active))
        if len(observed) == 1:
            cell.set_parameters("left/odd", {"fault": "raise"})
            cell.step(2)
        return found

    monkeypatch.setattr("multipanda_py.cell.pending_switch.plan_switch", plan)
    result = cell.switch(["right/joint"], ["right/cart"])
    assert len(observed) == 2
    assert observed[0] != observed[1]
    assert result.activated == ("right/joint",)
    assert set(cell.active) == {"left/hold", "right/joint"}


def test_restart_initialises_target_at_current_pose(make_cell):
    cell = make_cell(controllets=LAWS, active=["left/cart"])
    lift(cell, "left")
    cell.step(60)
    cell.switch(["left/cart"], ["left/cart"])
    here = cell.pose("left").position[2]
    cell.step(3000)
    assert abs(cell.pose("left").position[2] - here) < 0.03


def test_target_sent_before_activation_is_not_applied(make_cell):
    """CRISP applies targets that arrived while the controller was inactive."""
    cell = make_cell(controllets=LAWS, active=["left/cart"])
    cell.step(10)
    slot = cell.debug.mailbox.targets[cell.spec("pair").index]["pose"][0]
    far = np.concatenate([[0.3, 0.0, 0.9], np.eye(3).ravel()])
    slot.write(far)
    cell.debug.mailbox.notify()
    before = cell.pose("left")
    cell.switch(["pair"], strictness="force_auto")
    cell.step(500)
    assert cell.pose("left").distance(before)[0] < 1e-4


def test_stale_target_stream_holds_pose(make_cell):
    laws = {"cart": {"type": "cartesian_impedance", "target_timeout": 0.1}}
    cell = make_cell(controllets=laws, active=["left/cart"])
    lift(cell, "left", 0.14)
    cell.step(150)
    assert [e.event for e in cell.events()] == [Event.TARGET_STALE]
    assert cell.pose("left").position[2] < 0.4869 + 0.14
    cell.step(3000)
    assert np.abs(cell.state("left").dq).max() < 1e-3


@pytest.mark.parametrize(
    ("pose", "frame", "reason"),
    [
        (Pose(np.array([0.3, 0.0, 1.2]), np.diag([1.0, -1, -1])), "", "gate.position"),
        (Pose(np.array([0.307, 0.0, 0.487]), np.eye(3)), "", "gate.rotation"),
        (Pose(np.array([0.307, 0.0, 0.487]), np.diag([1.0, -1, -1])), "map", "unknown; known"),
        (Pose(np.array([0.307, 0.0, 0.487]), np.diag([1.0, -1, -1])), "world", "gate.position"),
    ],
)
def test_invalid_targets_are_refused_counted_and_cause_no_motion(make_cell, pose, frame, reason):
    cell = make_cell(controllets=LAWS, active=["left/cart"])
    cell.step(10)
    before = cell.state("left").q
    with pytest.raises(TargetRejected, match=reason):
        cell.set_target("left", pose, frame=frame)
    cell.step(200)
    assert np.allclose(cell.state("left").q, before, atol=1e-9)
    assert cell.rejected["left target"] == 1


def test_target_in_world_frame_is_transformed_into_base(make_cell):
    arms = {"left": {"position": [0.2, 0.3, 0.1], "rpy": [0.0, 0.0, 1.2]}}
    cell = make_cell(arms=arms, controllets={"cart": {"type": "cartesian_impedance"}},
                     active=["left/cart"])  # fmt: skip
    base = Pose.from_rpy([0.2, 0.3, 0.1], [0.0, 0.0, 1.2])
    goal = base @ cell.pose("left")
    goal = Pose(goal.position + [0.08, 0.0, 0.0], goal.rotation)
    cell.set_target("left", goal, frame="world")
    cell.step(4000)
    assert (base @ cell.pose("left")).distance(goal)[0] < 1e-3


def test_refused_parameters_change_nothing(make_cell):
    cell = make_cell(controllets=LAWS, active=["left/cart"])
    before = cell.parameters("left/cart")
    with pytest.raises(ParameterRejected) as refusal:
        cell.set_parameters(
            "left/cart",
            {"stiffness": [1.0] * 5, "damping_ratio": [-1.0] * 6, "gain_frame": "moon", "x": 1},
        )
    assert len(str(refusal.value).splitlines()) == 4
    after = cell.parameters("left/cart")
    assert all(np.array_equal(before[k], after[k]) for k in before)


def test_two_runs_are_bitwise_equal(make_cell):
    def run():
        cell = make_cell(controllets=LAWS, active=["left/cart", "right/cart"])
        lift(cell, "left")
        cell.step(300)
        cell.switch(["pair"], strictness="force_auto")
        lift(cell, "right", -0.1)
        cell.step(700)
        return cell.records()[1]

    first, second = run(), run()
    for name in ("arms", "object_poses", "time", "cycle"):
        assert np.array_equal(first[name], second[name])


def test_rows_are_complete_and_consecutive(make_cell):
    cell = make_cell(controllets=LAWS, active=["left/cart"])
    cell.step(500)
    total, rows = cell.records()
    assert total == 500
    assert (np.diff(rows["cycle"]) == 1).all()
    assert np.allclose(np.diff(rows["time"]), 1e-3)
    stats = cell.statistics(400)
    assert stats.cycles == 400
    assert stats.missed == 0


@pytest.mark.long
def test_singular_reach_stays_bounded(make_cell):
    """Move the target far outside the workspace and back; the stretched arm stays slow."""
    cell = make_cell(
        {"left": {}}, {"cart": LAWS["cart"]}, ["left/cart"],
        gate={"position": 2.0, "rotation": 3.2},
    )  # fmt: skip
    pose = cell.pose("left")
    fastest = 0.0
    for reach in [*np.linspace(0.307, 1.1, 160), *np.linspace(1.1, 0.307, 160)]:
        cell.set_target("left", Pose(np.array([reach, 0.0, 0.5]), pose.rotation))
        cell.step(25)
        fastest = max(fastest, float(np.abs(cell.state("left").dq).max()))
    assert cell.events() == []
    # The nullspace does not prevent a stretched arm, therefore joint 4 moves fast.
    assert fastest < 2.0
    cell.step(2000)
    assert cell.pose("left").distance(Pose(np.array([0.307, 0.0, 0.5]), pose.rotation))[0] < 2e-3


def test_arms_that_await_command_are_written_before_physics(make_cell, monkeypatch):
    monkeypatch.setattr(Mock, "wake_fds", property(lambda mock: dict.fromkeys(mock.arms, 0)))
    written = []
    for kind in (Mujoco, Mock):

        def write(backend, fresh, kind=kind, write=kind.write):
            written.append(kind)
            write(backend, fresh)

        monkeypatch.setattr(kind, "write", write)
    arms = {"left": {"backend": "mujoco"}, "right": {"backend": "mock", "position": [0, 1, 0]}}
    make_cell(arms).step(2)
    assert written == [Mock, Mujoco] * 2


def test_owner_waiting_for_slow_start_was_taken_for_silent(make_cell):
    """An owner without heartbeat may take START_TIMEOUT, but not longer."""
    cell = make_cell()
    cell.loop.watchdog.timeout_ns = 1_000_000_000

    def cycles(count, begin):
        for now in range(begin, begin + count * 1_000_000, 1_000_000):
            cell.loop.cycle(now, now)
        return [e for e in cell.events() if e.event is Event.CLIENT_SILENT]

    late = round((START_TIMEOUT - 0.5) * 1e9)
    first = 5_001_000_000
    assert not cycles(1, first)
    assert not cycles(400, first + late)
    assert cycles(200, first + late + 400_000_000)
    cell.loop.mailbox.words[SharedFlag.CLIENT_HEARTBEAT] = begun = first + 30_000_000_000
    assert not cycles(900, begun)
    assert cycles(200, begun + 900_000_000)


def test_parameters_sent_before_target_apply_no_later(make_cell):
    cell = make_cell(controllets=LAWS, active=["left/cart"])
    mailbox, index = cell.loop.mailbox, cell.spec("left/cart").index
    for _ in range(3):
        cell.set_parameters("left/cart", {"damping_ratio": [0.9] * 6})
        lift(cell, "left", 0.01)
        cell.step()
        for slot in (mailbox.parameters[index], mailbox.targets[index]["pose"][0]):
            assert slot.taken == slot.written > 0
    lift(cell, "left", 0.02)
    cell.step()
    assert mailbox.targets[index]["pose"][0].taken == mailbox.targets[index]["pose"][0].written
